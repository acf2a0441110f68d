"""hipcache: a compile cache for AMD HIP that caches every GPU architecture on its own."""

__version__ = "1.0.0"

# Starts the process that holds the connections to a remote (remote/helper/process).
STORAGE_HELPER = "--storage-helper"

# The subcommands as they are listed, features' among them. A compile asks whether its first word is one, and loads
# nothing for that.
VERBS = (
    *("run", "stats", "explain", "report", "inspect", "doctor", "demo", "gc", "clear", "verify"),
    *("export", "import", "sync", "prefetch", "config", "iree-check"),
)
