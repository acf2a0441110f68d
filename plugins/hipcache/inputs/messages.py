"""The lines of files that a pass's messages name, and the same messages after an edit.

A message of clang gives a place, and the text of its line; clang 19 gives other lines of what is marked, too, each with
its number:

    k.hip:6:3: warning: ignoring return value of function declared with 'nodiscard' attribute [-Wunused-result]
        6 |   hipMalloc(&p, 4); // for all
          |   ^~~~~~~~~ ~~~~~

All else in a message comes from tokens and their places, which the text without comments has (`outline`). So messages
are the same after an edit of comments that leaves those lines as they were. A line that goes on in the next one counts
with it: #warning says both. Where an edit has moved lines, the line of the same rank among those with text has the new
number. Messages with a line of another kind are not understood: each byte of the files counts then. So it is with the
options that make clang write in other formats (`clang.frontend`). Numbers move only in messages without colours,
without a width, and without a place elsewhere in them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from hipcache.base.keys import digest_bytes
from hipcache.base.patterns import pattern
from hipcache.inputs import outline
from hipcache.inputs.observing import plain
from hipcache.inputs.readset import MessageLine, ReadFile

_COLOURS = pattern(r"\x1b\[[0-9;]*[mK]")
_PLACE = pattern(r"([^ ].*?):([0-9]+)(:[0-9]+: (?:fatal error|error|warning|remark|note): .*)")
_ANY_PLACE = pattern(r":[0-9]+:[0-9]+")
_NUMBERED = pattern(r"( *[0-9]+)( \|(?: .*)?)")
_MARKED = pattern(r" +\|(?: .*)?")
_PLACE_IN_TEXT = pattern(rb":[0-9]+:[0-9]+: *(?:fatal error|error|warning|remark|note):|\\n *[0-9]+ *\|")
_COMMENT = pattern(r"//|/\*")
_CARET = pattern(r"[ ~]*\^[ ~^]*")
_INCLUDED = pattern(r"(In file included from )(.+):([0-9]+):")
# Lines that quote nothing.
_MERE_WORDS = pattern(
    r"note: \(skipping .*\)|warning: .* \[-W[^]]*\]|[0-9]+ warnings? generated(?: when compiling for [^ ]+)?\."
)
# It has the place of the message before, so no text is shown.
_SAYS_NO_MORE = pattern(r":[0-9]+: note: initializer of '\w+' is not a constant expression")
# Texts that are no files: they come from options, from the compiler, from tokens.
_NO_FILES = ("<built-in>", "<command line>", "<scratch space>")
# A text, a caret, a fix-it; before them the rest of a message that is broken into lines.
_MOST_UNNUMBERED = 3
_BROKEN = " " * 6
_NO_RANK = -1
# Lines that clang quotes at most: what it marks farther away it does not quote.
_NEAR = 16
# Numbers of more digits have a wider column.
_MOST = 9000


class _Unknown(Exception):
    """It is not understood."""


def lines_of(text: str) -> Mapping[tuple[str, int], bool] | None:
    """The lines that messages name, by the names of files as clang spells them, and whether their text is shown. None
    if the messages are not understood."""
    found: dict[tuple[str, int], bool] = {}
    name, unnumbered, is_bare = "", list[str](), False
    # A comment in what quotes no line is of one that need not be shown, but for what #warning says.
    quotes = "[-W#warnings]" not in text
    *lines, rest = _COLOURS.sub("", text).split("\n")
    for line in lines:
        place, included, numbered = _PLACE.fullmatch(line), _INCLUDED.fullmatch(line), _NUMBERED.fullmatch(line)
        marked = _MARKED.fullmatch(line)
        if is_bare and (place or included):
            return None  # It may be the rest of a text with a line break.
        if quotes and _COMMENT.search(place[3] if place else line if marked else ""):
            return None
        # (also behind lines that look like the rest of a broken one)
        is_bare = is_bare and line.startswith(_BROKEN) and not (numbered or marked or _CARET.fullmatch(line))
        is_bare |= place is not None and place[1] not in _NO_FILES and not _SAYS_NO_MORE.fullmatch(place[3])
        in_snippet = name and (numbered or marked)
        if not (place or included or in_snippet or _MERE_WORDS.fullmatch(line)):
            unnumbered.append(line)
            continue
        if not _is_snippet(unnumbered, name, quotes=quotes):
            return None
        unnumbered = []
        if place:
            name = place[1]
            found[name, int(place[2])] = True
        elif included:
            found.setdefault((included[2], int(included[3])), False)
        elif numbered:
            found[name, int(numbered[1])] = True
    return None if rest or not _is_snippet(unnumbered, name, quotes=quotes) else found


def _has_comments(lines: list[str]) -> bool:
    """Beside what stands above a caret, which is quoted?"""
    return any(_COMMENT.search(line) and not _CARET.fullmatch(below) for line, below in pairwise([*lines, ""]))


def _is_snippet(lines: list[str], name: str, *, quotes: bool) -> bool:
    """Is it the text of the place before, or the rest of its message? `quotes`: may a comment be of another line?"""
    if quotes and _has_comments(lines):
        return False
    while len(lines) > _MOST_UNNUMBERED and lines[0].startswith(_BROKEN):
        lines = lines[1:]
    if all(line.startswith(_BROKEN) for line in lines):
        return bool(name) or not lines
    return bool(name) and len(lines) <= _MOST_UNNUMBERED and any(map(_CARET.fullmatch, lines[1:]))


def places(
    text: str,
    reads: Iterable[ReadFile],
    content: Callable[[ReadFile], bytes],
    local: Callable[[str], str] = str,
    is_system: Callable[[str], bool] = lambda _: False,
) -> tuple[MessageLine, ...] | None:
    """The lines that the messages name, of files that are not compared as they stand; None if the messages are not
    understood. `local`: a path of a read set as clang spells it; `is_system`: has the compiler chosen its directory?
    Raises what `content` does."""
    named = lines_of(text)
    by_name = {plain(local(file.path)): file for file in reads}
    if named is None or (named and any(map(_ANY_PLACE.search, by_name))):
        return None
    own = (file for file in by_name.values() if not is_system(local(file.path)))
    if named and any(_looks_like_places(file, content(file)) for file in own):
        return None
    found: list[MessageLine] = []
    lines: dict[str, outline.Lines | None] = {}
    for (name, number), is_shown in named.items():
        if name in _NO_FILES:
            continue
        file = by_name.get(plain(name))
        if file is None:
            return None
        if not file.bare:
            continue
        if file.path not in lines:
            lines[file.path] = outline.lines(content(file))
        known = lines[file.path]
        assert known
        digest = _digest(known, number) if is_shown else ""
        found.append(MessageLine(file.path, number, known.ranks.get(number - 1, _NO_RANK), digest))
    return tuple(sorted(found))


def renumbered(
    text: str, known: Iterable[MessageLine], contents: Mapping[str, bytes], moved: Iterable[str] = ()
) -> str | None:
    """The messages of files that have these `contents` now, by path, whose lines were `moved`; None if it is not known
    what they are."""
    lines = {path: outline.lines(content) for path, content in contents.items()}
    numbers: dict[tuple[str, int], int] = {}
    if moved and _has_places_in_words(text):
        return None
    for place in known:
        now, number = lines.get(place.path), place.line
        if not now:
            continue
        if place.path in moved:
            if not 0 <= place.rank < len(now.numbers):
                return None
            number = now.numbers[place.rank] + 1
        if place.digest and not _is_same(_digest(now, number), place.digest):
            return None
        numbers[plain(place.path), place.line] = number
    if all(number == line for (_, line), number in numbers.items()):
        return text
    left = set(numbers)

    def move(name: str, line: int) -> int:
        left.discard((plain(name), line))
        return numbers.get((plain(name), line), line)

    try:
        made = _rewritten(text, move)
    except _Unknown:
        return None
    return None if left else made


def _looks_like_places(file: ReadFile, content: bytes) -> bool:
    """May a message quote a place from the file that is none, or give places that another file has?"""
    return bool(_PLACE_IN_TEXT.search(content)) or (not file.bare and outline.renumbers_lines(content))


def _has_places_in_words(text: str) -> bool:
    """Is there a place but for those that lines begin with: of a type without a name, or of pasted tokens?"""
    for line in _COLOURS.sub("", text).split("\n"):
        found = _PLACE.fullmatch(line)
        if _ANY_PLACE.search(found[3], 1 + found[3].index(":", 1)) if found else _ANY_PLACE.search(line):
            return True
    return "<scratch space>:" in text


def _rewritten(text: str, number: Callable[[str, int], int]) -> str:
    """The messages, which are understood and have no place in their words, with each number of a line as the function
    gives it, which is told the file's name. Raises _Unknown."""
    if "\x1b" in text:
        raise _Unknown
    made, name = [], ""
    quoted_before: tuple[int, int] | None = None
    lines = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        place, included, numbered = _PLACE.fullmatch(line), _INCLUDED.fullmatch(line), _NUMBERED.fullmatch(line)
        if place:
            name, quoted_before = place[1], None
            made.append(f"{name}:{_moved(number, name, place[2])}{place[3]}")
        elif included:
            made.append(f"{included[1]}{included[2]}:{_moved(number, included[2], included[3])}:")
        elif numbered and name:
            if not (_NUMBERED.fullmatch(after) or _MARKED.fullmatch(after)):
                raise _Unknown  # Code, which clang 15 quotes without numbers.
            new = _moved(number, name, numbered[1])
            old = int(numbered[1])
            if quoted_before and int(new) - old != quoted_before[1] - quoted_before[0]:
                raise _Unknown  # A line between these would be quoted, too.
            quoted_before = old, int(new)
            made.append(new.rjust(len(numbered[1])) + numbered[2])
        else:
            made.append(line)
    return "\n".join(made)


def _moved(number: Callable[[str, int], int], name: str, old: str) -> str:
    new = number(name, int(old))
    if new != int(old) and max(new, int(old)) > _MOST:
        raise _Unknown
    return str(new)


def _digest(lines: outline.Lines, number: int) -> str:
    """Of what is shown of a line, counted from 1, and how many lines with text are near, before and after it."""
    shown = lines.spliced(number - 1) if 0 < number <= len(lines.texts) else b"none"
    here = bisect_left(lines.numbers, number - 1)
    before = here - bisect_left(lines.numbers, number - 1 - _NEAR)
    after = bisect_right(lines.numbers, number - 1 + _NEAR) - here
    return f"{digest_bytes(shown)[:16]}{before:02}{after:02}"


def _is_same(now: str, then: str) -> bool:
    """Is the same shown? Clang quotes the lines that it marks only if they are near: none may have come near."""
    return now[:16] == then[:16] and now[16:18] <= then[16:18] and now[18:] <= then[18:]
