"""The CUID of an object: the same for any set of offload archs, and different for each object of a project.

Clang makes names of static device variables unique with the compilation unit ID, and from 18 on defines a
global symbol `__hip_cuid_<md5>`: two objects with one CUID do not link together. The driver's default hashes the
whole command line, the list of archs included, so that each set of archs would be another program.

hipcache's CUID hashes what distinguishes the objects of a project and is the same in every checkout: the
source's and the object's path below their root, and the macros. The root of a source is HIPCACHE_BASEDIR, else the
working copy (`.git` and the like); of an object the same, else the build tree (`CMakeCache.txt`, `build.ninja`).
Without a root the path is absolute: two directories of one project may both hold `util.hip`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING

from hipcache.inputs.keys import make_key

if TYPE_CHECKING:
    from hashlib import md5
else:
    try:
        from _md5 import md5  # `hashlib` loads OpenSSL, which takes 2 ms
    except ImportError:  # a Python that has OpenSSL's alone
        from hashlib import md5

_WORKING_COPY = (".git", ".hg", ".svn", ".jj", ".bzr", "_darcs", ".fslckout")
_BUILD_TREE = ("CMakeCache.txt", "build.ninja", ".sconsign.dblite", "meson-info")


def make_cuid(
    source: str,
    output: str,
    macros: Iterable[str],
    *,
    basedir: str = "",
    exists: Callable[[str], bool] = os.path.lexists,
) -> str:
    """16 hexadecimal digits, as clang's own. `source` and `output` are absolute; `macros` in order, as given; `exists`
    is asked of each path where a root could be marked."""
    source, output = os.path.normpath(source), os.path.normpath(output)
    source_root = _below(source, basedir) or _root(source, _WORKING_COPY, exists)
    output_root = _below(output, basedir) or _below(output, source_root)
    output_root = output_root or _root(output, _WORKING_COPY + _BUILD_TREE, exists)
    inputs = [
        ("source", os.path.relpath(source, source_root or "/")),
        ("output", os.path.relpath(output, output_root or "/")),
        # Distinguishes an object outside of its source's root from one inside of it.
        ("same root", str(source_root == output_root)),
        *(("macro", macro) for macro in macros),
    ]
    for number in count():
        cuid = make_key("cuid", inputs).digest[:16]
        if len(clangs_hash(cuid)) == 16:
            break
        inputs.append(("again", str(number)))
    return cuid


def clangs_hash(cuid: str) -> str:
    """The hash that clang 18 and newer put into a symbol's name. Those with all 16 digits can stand for each other
    (`bitcode`); clang leaves out leading zeros."""
    return f"{int.from_bytes(md5(cuid.encode(), usedforsecurity=False).digest()[:8], 'little'):x}"


def _below(path: str, root: str) -> str:
    root = os.path.normpath(root) if root else ""
    return root if root and path.startswith(root.rstrip("/") + "/") else ""


def _root(path: str, markers: tuple[str, ...], exists: Callable[[str], bool]) -> str:
    directory = os.path.dirname(path)
    while directory not in ("/", ""):
        if any(exists(os.path.join(directory, marker)) for marker in markers):
            return directory
        directory = os.path.dirname(directory)
    return ""
