"""Does what a pass makes depend on where its files stand, though no path is to be seen in it?

With HIPCACHE_BASEDIR the result of a pass is shared between checkouts unless the base directory's name is in it. But
`sizeof(__FILE__)`, a hash of it, or a part of `__PRETTY_FUNCTION__` leave no name behind. Whether a text computes with
such a name or prints it cannot be told without the compiler. So a pass is bound to its checkout if one of its files
uses such a name, and either stands below the base directory or lends it out in a macro: as HIP_CHECK in most
projects. Each further checkout then compiles for itself: not even a back end is shared, since bitcode names its source.

Who wants all of it shared says `-fmacro-prefix-map=<base directory>=.` (or `-ffile-prefix-map`), as for reproducible
builds: then the names hold no base directory. Clang 15 does not map `__PRETTY_FUNCTION__`, which names the place of a
lambda: that one binds in any case.

The compiler's own headers and libc's lend such names out too (assert), for messages only: these are seen in the output.
Known weakness: a function of a header outside of the base directory that computes, while it is compiled, with a
`source_location` or `__builtin_FILE()` which is the default of its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable

from hipcache.inputs import includes, pasted
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Files

_NEVER_MAPPED = frozenset(["__PRETTY_FUNCTION__"])


def binds(files: Files, *, read: Iterable[str], macros: Iterable[str], search: SearchPath, maps: Iterable[str]) -> bool:
    """Does the pass belong to this checkout alone? `maps`: the values of -fmacro-prefix-map. Raises OSError."""
    basedir = files.basedir
    read = list(read)
    below = [path for path in read if basedir.portable(path) != path]
    if not below:
        return False
    used: set[str] = set()
    words: set[str] = set()
    for macro in macros:
        given = includes.scan_macro(macro)
        used |= given.places
        words |= given.pieces
    for path in read:
        scan = files.read(path, own=search.is_own(path, basedir))[2]
        lent = path.startswith("/") and basedir.portable(path) == path
        used |= scan.macro_places if lent else scan.places
        words |= scan.pieces
    if pasted.composed(words, pasted.PLACES):
        return True
    unmapped = not all(_is_mapped(path, list(maps), basedir) for path in below)
    return bool(used if unmapped else used & _NEVER_MAPPED)


def _is_mapped(path: str, maps: list[str], basedir: Basedir) -> bool:
    """Does each prefix that may be replaced in the path take all of the base directory away?"""
    found = [(old, new) for old, _, new in (one.partition("=") for one in maps) if path.startswith(old)]
    return bool(found) and all(
        (old + "/").startswith(basedir.path + "/") and basedir.path not in new for old, new in found
    )
