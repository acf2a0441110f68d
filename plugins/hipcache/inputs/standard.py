"""Which headers are known, and the same everywhere: by the name of their directory, and their own name in it.

A system directory holds headers of any library; a directory of the compiler's or of a library of C++ those alone. Such
a one is known by how its path ends: above that stands what a user has named.
"""

from __future__ import annotations

from functools import lru_cache

from hipcache.patterns import pattern

# `.../lib/clang/19/include/`; clang 15 also names the directory above.
_COMPILERS = pattern(r".*/lib\w*/clang/[0-9][\w.]*/(?:include/(?:\w+_wrappers/(?:bits/)?)?)?")
# `.../include/c++/12/`, `.../include/x86_64-linux-gnu/c++/12/`, `.../include/c++/12/backward/`, of libc++
# `.../include/c++/v1/`, Gentoo's `.../include/g++-v12/x86_64-pc-linux-gnu/`, and Guix's `.../include/c++/`.
_LIBRARYS = pattern(r".*/include/(?:[\w.-]+/)?(?:c\+\+/|(?:c\+\+/|g\+\+-)v?[0-9][0-9.]*/)(?:backward/|\w+(?:-\w+)+/)?")
_LIBCS = pattern(r".*/include/(?:\w+(?:-\w+)+/)?")
_USERS = "/local/include/"
# Below a system directory: of glibc and Linux.
_DIRECTORIES = ("bits/", "sys/", "gnu/", "asm/", "asm-generic/", "linux/")
# HIP's, and its libraries whose macros lend __FILE__ out, for messages only (HipcubDebug).
_OF_HIP = ("hip/", "hipcub/", "rocprim/", "thrust/")
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


def is_standard(place: str, name: str) -> bool:
    """Is the header of that name below `place`, a directory of the compiler's choice with a slash at its end, the
    compiler's own, or of a standard library of C or C++?"""
    whole, libcs = _holds(place)
    if whole:
        return True
    return libcs and (name.startswith(_DIRECTORIES) or (name.endswith(".h") and name[:-2] in _NAMES))


def is_known(place: str, name: str) -> bool:
    """Is it one of these, or of HIP's or its libraries'?"""
    return name.startswith(_OF_HIP) or is_standard(place, name)


@lru_cache(maxsize=1 << 10)
def _holds(place: str) -> tuple[bool, bool]:
    """(such headers alone, those of libc among others)"""
    whole = bool(_COMPILERS.fullmatch(place) or _LIBRARYS.fullmatch(place))
    return whole, bool(_LIBCS.fullmatch(place)) and not place.endswith(_USERS)
