"""HIP's runtime for what is no HIP: `env.HipRuntime()`, as `hip_dep` of the Meson subproject."""

from __future__ import annotations

from typing import Any


def root(env: Any) -> str:
    """HIPPATH, which may be a node, or None, as `os.environ.get("ROCM_PATH")` gives it."""
    return str(env.subst(str(env.get("HIPPATH") or "")))


def HipRuntime(env: Any) -> None:
    """Have C++ sources of `env` find HIP's headers, and its links HIP's runtime library: those of HIPPATH, else where
    the C++ compiler looks by itself. HIP sources need neither, and their commands stay as they are."""
    flags = ["-D__HIP_PLATFORM_AMD__=1"]
    path = root(env)
    if path not in ("", "/usr"):
        # As of the system: these headers warn, and stand behind the project's own.
        flags += ["-isystem", f"{path}/include"]
        env.Append(LIBPATH=[f"{path}/lib"])
    env.Append(CXXFLAGS=flags, LIBS=["amdhip64"])


def install(env: Any) -> None:
    env.AddMethod(HipRuntime)
