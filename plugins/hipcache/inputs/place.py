"""Does what a pass makes depend on where its files stand, though no path is to be seen in it?

With HIPCACHE_BASEDIR the result of a pass is shared between checkouts unless the base directory's name is in it. But
`sizeof(__FILE__)`, a hash of it, or a part of `__PRETTY_FUNCTION__` leave no name behind. Whether a text computes with
such a name or prints it cannot be told without the compiler. So a pass is bound to its checkout if one of its files
uses such a name, and either stands below the base directory or lends it out in a macro: as HIP_CHECK in most
projects. Each further checkout then compiles for itself: not even a back end is shared, since bitcode names its source.

Who wants all of it shared says `-fmacro-prefix-map=<base directory>=.` (or `-ffile-prefix-map`), as for reproducible
builds: then the names hold no base directory. Clang 15 does not map `__PRETTY_FUNCTION__`, which names the place of a
lambda: that one binds in any case.

The headers of the compiler, of standard libraries and of HIP (`search.is_known`) lend such names out too (assert), for
messages only: these are seen in the output. Other libraries are none of these, in whatever directory they stand.
Known weakness: a function of a header outside of the base directory that computes, while it is compiled, with a
`source_location` or `__builtin_FILE()` which is the default of its parameter.

A macro of the command line whose value names the base directory is such a name, too (`sizeof(SOURCE_DIR)`): the pass is
bound if one of its files, but for those headers, or another macro may have the macro's name as a word.

Another question is whether it depends on how the paths are spelled (`clang.spelling`). Then nothing is to be seen in
the output that could be looked for, so no text may have such a name at all (`lexer.PATHS`). Headers of the compiler
and of libc have the same path in every command; those that define assert() and the like lend it out, though.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from hipcache.base.patterns import pattern
from hipcache.inputs import includes, lexer, preprocessed, token_pasting
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.scans import Scan
from hipcache.inputs.search import SearchPath

_NEVER_MAPPED = frozenset(["__PRETTY_FUNCTION__"])
# They define assert() of libc, and the checks and messages of libstdc++: for messages only.
_LENDERS = pattern(r".*/(usr/include/assert\.h|c\+\+/[0-9.]+/(\w+/)?(bits/c\+\+config\.h|pstl/pstl_config\.h))")


def binds(
    files: FileManager, *, read: Iterable[str], macros: Iterable[str], search: SearchPath, maps: Iterable[str]
) -> bool:
    """Does the pass belong to this checkout alone? `maps`: the values of -fmacro-prefix-map. Raises OSError."""
    basedir = files.basedir
    read, macros = list(read), list(macros)
    if _uses_macro_of_place(files, read, macros, search):
        return True
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
    if token_pasting.composed(words, token_pasting.PLACES):
        return True
    unmapped = not all(_is_mapped(path, list(maps), basedir) for path in below)
    return bool(used if unmapped else used & _NEVER_MAPPED)


def _uses_macro_of_place(files: FileManager, read: list[str], macros: list[str], search: SearchPath) -> bool:
    basedir = files.basedir
    defined = [(preprocessed.macro_of(macro), macro.partition("=")[2]) for macro in macros]
    names = {name for name, value in defined if basedir.portable(value) != value}
    if not names:
        return False
    if not all(name for name, _ in defined):
        return True
    values = (os.fsencode(value) for _, value in defined)
    texts = (Path(files.resolve(path)).read_bytes() for path in read if not search.is_own(path, basedir))
    return bool(token_pasting.named(chain(values, texts), names))


def _is_mapped(path: str, maps: list[str], basedir: Basedir) -> bool:
    """Does each prefix that may be replaced in the path take all of the base directory away?"""
    found = [(old, new) for old, _, new in (value.partition("=") for value in maps) if path.startswith(old)]
    return bool(found) and all(basedir.is_taken_away(path, old, new) for old, new in found)


def shows(scans: Mapping[str, Scan], defined: Iterable[tuple[str, str]], own: tuple[str, ...]) -> bool:
    """May the output hold a path, or something made from one, that is not the same in every spelling?

    `scans`: of all files that the pass read, by path; `defined`: ("-D" or "-U", value) in order; `own`: directories of
    the compiler's own headers and libc's, each with a slash at its end."""
    words: set[str] = set()
    asserts = True
    for option, macro in defined:
        name = preprocessed.macro_of(macro)
        if name == "NDEBUG":
            asserts = option == "-U"
        given = includes.scan_macro(macro)
        words |= given.pieces
        if given.shown or not name:
            return True
    found: list[tuple[bool, frozenset[str]]] = []
    for path, scan in scans.items():
        words |= scan.pieces
        fixed = path.startswith(own)
        if scan.shown and not (fixed and _LENDERS.fullmatch(path)):
            found.append((fixed, scan.shown))
    asserts = asserts or any(lexer.UNDEFINES_NDEBUG in names for _, names in found)
    return bool(token_pasting.composed(words, token_pasting.PLACES)) or any(
        _shows(*row, asserts=asserts) for row in found
    )


def _shows(fixed: bool, names: frozenset[str], *, asserts: bool) -> bool:
    if lexer.ANNOTATE in names or names & lexer.PATHS or (lexer.LIBSTDCXX in names and not fixed):
        return True
    return asserts and (lexer.ASSERT_IN_MACRO if fixed else lexer.ASSERT) in names
