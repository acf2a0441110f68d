"""Which headers are standard ones: the compiler's own, those of the standard libraries of C and C++, and HIP's.

Nobody can know what a header of a user or of another library comes to in a precompiled header; these are known, and the
same everywhere.
"""

from __future__ import annotations

import os

from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Files

_LIBRARIES = ("/clang/", "/c++/")
# Below a system directory: of glibc and Linux, and of HIP.
_DIRECTORIES = ("bits/", "sys/", "gnu/", "asm/", "asm-generic/", "linux/")
_HIP = "hip/"
_OF_HIP = "hip/hip_runtime.h"
# Of the C standard and POSIX, and what glibc's own of these include.
_NAMES = frozenset(
    (
        *("alloca", "assert", "byteswap", "complex", "ctype", "dirent", "dlfcn", "endian", "errno", "execinfo"),
        *("fcntl", "features", "features-time64", "fenv", "float", "getopt", "inttypes", "iso646", "langinfo"),
        *("libgen", "libintl", "limits", "link", "locale", "malloc", "math", "memory", "nl_types", "poll", "pthread"),
        *("pwd", "regex", "sched", "semaphore", "setjmp", "signal", "spawn", "stdalign", "stdarg", "stdatomic"),
        *("stdbool", "stdc-predef", "stddef", "stdint", "stdio", "stdlib", "string", "strings", "syscall", "tgmath"),
        *("threads", "time", "uchar", "ucontext", "unistd", "wchar", "wctype"),
    )
)


def is_standard(path: str, search: SearchPath, files: Files) -> bool:
    """Is the header at that path, which clang has found, one of them?"""
    places = [place for place in search.own if path.startswith(place)]
    if not places or not search.is_own(path, files.basedir):
        return False
    place = max(places, key=len)
    name = path[len(place) :]
    if any(part in place for part in _LIBRARIES) or name.startswith(_DIRECTORIES):
        return True
    if name.startswith(_HIP):
        return files.is_there(place + _OF_HIP)
    return name.endswith(".h") and name[:-2] in _NAMES


def is_named(name: str, search: SearchPath, files: Files) -> bool:
    """Does an include of that name, in angles or quotes, find one? (Those that it includes may be none.)"""
    if not name.startswith("<"):
        return False
    paths = (os.path.join(place, name[1:-1]) for place in search.angled)
    found = next((path for path in paths if files.is_there(path)), "")
    return is_standard(found, search, files)
