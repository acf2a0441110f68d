"""Messages after an edit that has moved lines: the same with other numbers.

A message names its place, the places of the `#include` above it, and the numbers of the lines that it quotes (`quoted`
shows one). With each place its line is kept as the text of the file has it, and its rank among the lines with text
(`outline`): in the file as it is now, the line of this rank has the new number, and must be the same text.

Messages with colours, with a width, or with a place elsewhere in them are not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hipcache.inputs import comments, outline, quoted
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.readset import MessageLine, ReadFile
from hipcache.patterns import pattern

_PLACE = pattern(r"([^ ].*?):([0-9]+)(:[0-9]+: (?:fatal error|error|warning|remark|note): .*)")
_INCLUDED = pattern(r"(In file included from .+):([0-9]+)(:)")
_MARKED = pattern(r" +\|(?: .*)?")
_INCLUDED_FROM = "In file included from "
_NUMBERED = pattern(r"( *[0-9]+)( \|.*)")
_ANY_PLACE = pattern(r":[0-9]+:[0-9]+")
# Those of more digits have a wider column of numbers.
_MOST = 9000


class _Unknown(Exception):
    """It is not understood."""


def places(
    text: str, reads: Iterable[ReadFile], content: Callable[[ReadFile], bytes]
) -> tuple[MessageLine, ...] | None:
    """The lines that the messages name, of files that have an outline; None if the messages are not understood."""
    by_name = _by_name(reads)
    found: dict[tuple[str, int], MessageLine] = {}
    lines: dict[str, outline.Lines | None] = {}

    def note(name: str, line: int) -> int:
        file = _file(by_name, name)
        if file and file.code:
            if file.path not in lines:
                lines[file.path] = outline.lines(content(file))
            known = lines[file.path]
            if known is None or line - 1 not in known.ranks:
                raise _Unknown
            found[file.path, line] = MessageLine(file.path, line, known.ranks[line - 1], _digest(known, line))
        return line

    try:
        return tuple(sorted(found.values())) if _rewritten(text, note) == text else None
    except _Unknown:
        return None


def renumbered(
    text: str, known: Iterable[MessageLine], reads: Iterable[ReadFile], contents: Mapping[str, bytes]
) -> str | None:
    """The messages of files that have these `contents` now, by path; None if it is not known what they are."""
    by_name = _by_name(reads)
    by_line = {(place.path, place.line): place for place in known}
    lines = {path: outline.lines(content) for path, content in contents.items()}

    def move(name: str, line: int) -> int:
        file = _file(by_name, name)
        if not file or file.path not in contents:
            return line
        place, now = by_line.get((file.path, line)), lines[file.path]
        if not place or not now or place.rank >= len(now.numbers):
            raise _Unknown
        number = now.numbers[place.rank] + 1
        if _digest(now, number) != place.digest:
            raise _Unknown
        return number

    try:
        return _rewritten(text, move)
    except _Unknown:
        return None


def _rewritten(text: str, number: Callable[[str, int], int]) -> str:
    """The messages with each number of a line as the function gives it, which is told the file's name. Raises
    _Unknown."""
    if "\x1b" in text or quoted.lines_of(text) is None:
        raise _Unknown
    made, name = [], ""
    quoted_before: tuple[int, int] | None = None
    lines = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        place, included, numbered = _PLACE.fullmatch(line), _INCLUDED.fullmatch(line), _NUMBERED.fullmatch(line)
        if place and not _ANY_PLACE.search(place[3], 1 + place[3].index(":", 1)):
            name, quoted_before = place[1], None
            made.append(f"{name}:{_moved(number, name, place[2])}{place[3]}")
        elif included:
            made.append(f"{included[1]}:{_moved(number, included[1].removeprefix(_INCLUDED_FROM), included[2])}:")
        elif numbered and name:
            if not (_NUMBERED.fullmatch(after) or _MARKED.fullmatch(after)):
                raise _Unknown  # Code, which clang 15 quotes without numbers.
            new = _moved(number, name, numbered[1])
            old = int(numbered[1])
            if quoted_before and int(new) - old != quoted_before[1] - quoted_before[0]:
                raise _Unknown  # A line between these would be quoted, too.
            quoted_before = old, int(new)
            made.append(new.rjust(len(numbered[1])) + numbered[2])
        elif place or _ANY_PLACE.search(line):
            raise _Unknown
        else:
            made.append(line)
    return "\n".join(made)


def _moved(number: Callable[[str, int], int], name: str, old: str) -> str:
    new = number(name, int(old))
    if new != int(old) and max(new, int(old)) > _MOST:
        raise _Unknown
    return str(new)


def _by_name(reads: Iterable[ReadFile]) -> dict[str, ReadFile]:
    return {quoted.plain(file.path): file for file in reads}


def _file(by_name: Mapping[str, ReadFile], name: str) -> ReadFile | None:
    """None for what is no file. Raises _Unknown."""
    if name in quoted.NO_FILES:
        return None
    if quoted.plain(name) not in by_name:
        raise _Unknown
    return by_name[quoted.plain(name)]


def _digest(lines: outline.Lines, number: int) -> str:
    return digest_bytes(comments.spliced(lines.texts, number - 1))[:16]
