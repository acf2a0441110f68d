"""hipcache: a compile cache for AMD HIP that caches every GPU architecture on its own."""

__version__ = "0.1.0"
