"""The lines that a pass's messages quote: what of its files' comments the user reads.

A message of clang gives a place, and the text of its line; clang 19 gives other lines of what is marked, too, each with
its number:

    k.hip:6:3: warning: ignoring return value of function declared with 'nodiscard' attribute [-Wunused-result]
        6 |   hipMalloc(&p, 4); // for all
          |   ^~~~~~~~~ ~~~~~

All else in a message comes from tokens and their places, which a text without comments has (`comments`). So messages
are the same after an edit of comments that leaves tokens where they were and those lines as they were. A line that
goes on in the next one counts with it: #warning says both. (A place at the end of a file has a line without text, so
that whatever comes after it changes that.) Messages with a line of another kind are not understood: each byte of the
files counts then. So it is with the options that make clang write in other formats (`clang.frontend`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hipcache.inputs.readset import Quote, ReadFile
from hipcache.patterns import pattern

_COLOURS = pattern(r"\x1b\[[0-9;]*[mK]")
_PLACE = pattern(r"(.+?):([0-9]+):([0-9]+): (?:fatal error|error|warning|remark|note): ")
_LIKE_A_PLACE = pattern(r":[0-9]+:[0-9]+: ")
_NUMBERED = pattern(r" *([0-9]+) \|(?: |$)")
_MARKED = pattern(r" +\|(?: |$)")
_CARET = pattern(r"[ ~]*\^[ ~^]*")
# Lines that quote nothing.
_MERE_WORDS = pattern(
    r"In file included from .+:[0-9]+:|note: \(skipping .*\)|warning: .* \[-W[^]]*\]"
    r"|[0-9]+ warnings? generated(?: when compiling for [^ ]+)?\."
)
# Texts that are no files: they come from options, from the compiler, from tokens.
NO_FILES = ("<built-in>", "<command line>", "<scratch space>")
# A text, a caret, a fix-it; before them the rest of a message that is broken into lines.
_MOST_UNNUMBERED = 3
_BROKEN = " " * 6


def lines_of(text: str) -> Mapping[str, frozenset[int]] | None:
    """The lines that messages quote or give as a place, by the names of files as clang spells them. None if the
    messages are not understood."""
    found: dict[str, set[int]] = {}
    name, unnumbered = "", list[str]()
    *lines, rest = _COLOURS.sub("", text).split("\n")
    for line in lines:
        place, numbered = _PLACE.match(line), _NUMBERED.match(line)
        if not (place or _MERE_WORDS.fullmatch(line) or (name and (numbered or _MARKED.match(line)))):
            unnumbered.append(line)
            continue
        if numbered and not place:
            found[name].add(int(numbered.group(1)))
        if not _is_snippet(unnumbered, name):
            return None
        unnumbered = []
        if place:
            name = place.group(1)
            found.setdefault(name, set()).add(int(place.group(2)))
    if rest or not _is_snippet(unnumbered, name):
        return None
    return {name: frozenset(lines) for name, lines in found.items() if name not in NO_FILES}


def _is_snippet(lines: list[str], name: str) -> bool:
    """Is it the text of the place before, or the rest of its message?"""
    while len(lines) > _MOST_UNNUMBERED and lines[0].startswith(_BROKEN):
        lines = lines[1:]
    if all(line.startswith(_BROKEN) for line in lines):
        return bool(name) or not lines
    return bool(name) and len(lines) <= _MOST_UNNUMBERED and any(map(_CARET.fullmatch, lines[1:]))


def quotes(
    text: str,
    files: Iterable[ReadFile],
    local: Callable[[str], str],
    bare: Callable[[str, str, tuple[int, ...]], str],
) -> tuple[Quote, ...] | None:
    """The quoted lines of the files that a pass read; None if each byte of them counts. `local`: a path as clang
    spells it; `bare`: see `Files`, whose errors are raised."""
    named = lines_of(text)
    if named is None:
        return None
    by_name: dict[str, list[ReadFile]] = {}
    for file in files:
        path = local(file.path)
        if _LIKE_A_PLACE.search(path):
            return None
        by_name.setdefault(plain(path), []).append(file)
    found: list[Quote] = []
    for name, lines in named.items():
        if plain(name) not in by_name:
            return None
        for file in by_name[plain(name)]:
            if file.bare:
                digest = bare(local(file.path), file.digest, tuple(sorted(lines)))
                found.append(Quote(file.path, tuple(sorted(lines)), digest))
    return tuple(sorted(found))


def plain(path: str) -> str:
    """Clang leaves the dot out of `./x.h` in dependency files, but not in messages."""
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path
