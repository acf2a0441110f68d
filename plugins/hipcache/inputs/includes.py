"""What a pass looked for and did not find: names that would change it if they appeared.

The dependency file names the headers that were read. A header that appears *earlier* in the search path, or a
file that `__has_include` asked for in vain, changes the output as well; ccache and sccache go stale
here. So each file that was read is scanned for the names in its `#include`, `__has_include` and `#embed`, and each
name is looked for along the search path: every place before the first one that has it is recorded as absent.

The scan reads more names than the pass used (those in `#if` branches that were not taken): a
file that appears there costs a needless run of the front end, never a stale object. An absent path is
recorded by its shortest missing part: where `/inc/rocprim` does not exist, one check
stands for all headers below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from hipcache.inputs import pasted
from hipcache.inputs.basedir import Basedir
from hipcache.planning.cc1 import Option, Role
from hipcache.values import dataclass

_DIRECTIVE = re.compile(
    rb"^[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:#|%:)[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:include|include_next|import|embed)\b"
    rb"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:\"([^\"\n]+)\"|<([^>\n]+)>|([^\n]*))",
    re.MULTILINE,
)
# A directive that may ask a question, or give one a name; a backslash at the end of its line continues it.
_QUESTION = re.compile(
    rb"^[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:#|%:)[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(if|elif|define)\b((?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
_DEFINE = re.compile(rb"^[ \t]*(?:#|%:)[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
_CONTINUED = re.compile(rb"\\\r?\n")
_COMMENT = re.compile(rb"/\*.*?(?:\*/|$)|//.*")
_ASKED = re.compile(rb"(?<!\w)__has_(?:include(_next)?|embed)(?!\w)(?:[ \t]*\([ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>))?")
# `defined(__has_include)` and `#define __has_include(x) 0` ask nothing.
_NAMED = re.compile(rb"(?<!\w)defined[ \t]*\(?[ \t]*$")
_EMBED = re.compile(rb"(?:#|%:)[ \t]*embed\b")
# Warnings about comments, switched on in the text (clang's documentation of `#pragma clang diagnostic`).
_COMMENTS_TALK = re.compile(
    rb"diagnostic[ \t]+(?:warning|error|fatal)[ \t]+\\?\"-W(?:documentation|everything|pedantic|newline-eof|comment)"
)
_TIME = re.compile(rb"__(DATE|TIME|TIMESTAMP)__")
_ASSEMBLER_FILES = re.compile(rb"incbin|\"[^\"\n]*\.include\b")


@dataclass(frozen=True)
class Scan:
    """What the text of one file says. `quoted`/`angled`: names of headers; `asks_computed`: it has a
    `__has_include` whose name only the preprocessor knows; `time_macros`: of DATE, TIME, TIMESTAMP;
    `assembler_files`: inline assembly that reads a file (`.incbin`); `embeds`: it has an #embed; `next`: names
    that `__has_include_next` asks for; `comments_talk`: it switches a warning about comments on; `pieces`: words that
    may be put together to names (`pasted`); `places`/`macro_places`: names that stand for the path of a file, all of
    them and those in macros. The last three are not looked for in the compiler's own headers."""

    quoted: frozenset[str]
    angled: frozenset[str]
    includes_computed: bool
    asks_computed: bool
    time_macros: frozenset[str]
    assembler_files: bool
    embeds: bool
    next: frozenset[str] = frozenset()
    comments_talk: bool = False
    pieces: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    macro_places: frozenset[str] = frozenset()


def scan(content: bytes, *, own: bool = False) -> Scan:
    """`own`: it is a header of the compiler's own, or of libc."""
    whole = pasted.joined(content)
    quoted: set[str] = set()
    angled: set[str] = set()
    following: set[str] = set()
    includes_computed = asks_computed = False
    for quote, angle, other in _DIRECTIVE.findall(content):
        if quote:
            quoted.add(os.fsdecode(quote))
        elif angle:
            angled.add(os.fsdecode(angle))
        else:
            includes_computed = includes_computed or bool(other.strip())
    if b"__has_" in whole:
        for next_one, quote, angle in _questions(whole):
            if next_one and (quote or angle):
                following.add(os.fsdecode(quote or angle))
            elif quote:
                quoted.add(os.fsdecode(quote))
            elif angle:
                angled.add(os.fsdecode(angle))
            else:
                # `#define X(name) __has_include(name)` and the like: the name is not in this text.
                asks_computed = True
    asks_time = b"__DATE__" in whole or b"__TIME" in whole
    times = frozenset(os.fsdecode(name) for name in _TIME.findall(whole)) if asks_time else frozenset()
    assembles = b"incbin" in whole or b".include" in whole
    places = frozenset() if own else pasted.places(whole)
    return Scan(
        frozenset(quoted),
        frozenset(angled),
        includes_computed,
        asks_computed,
        times,
        (assembles and _ASSEMBLER_FILES.search(whole) is not None) or pasted.assembles_in_pieces(whole),
        b"embed" in content and _EMBED.search(content) is not None,
        frozenset(following),
        b"diagnostic" in content and _COMMENTS_TALK.search(content) is not None,
        frozenset() if own else pasted.pieces(whole),
        places,
        pasted.places(b"\n".join(_DEFINE.findall(whole))) if places else frozenset(),
    )


def _questions(content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """("_next" or nothing, quoted name, angled name) of each `__has_include` and the like; both names are empty where
    it is computed."""
    for kind, line in _QUESTION.findall(content):
        if b"__has_" not in line:
            continue
        text = _COMMENT.sub(b" ", _CONTINUED.sub(b"", line))
        for asked in _ASKED.finditer(text):
            before = text[: asked.start()]
            if _NAMED.search(before) or (kind == b"define" and not before.strip()):
                continue
            yield asked.group(1) or b"", asked.group(2) or b"", asked.group(3) or b""


def scan_macro(value: str) -> Scan:
    """What a macro given on the command line may do where it is used."""
    raw = os.fsencode(value)
    times = frozenset(os.fsdecode(name) for name in _TIME.findall(raw))
    asks = b"__has_include" in raw or b"__has_embed" in raw
    assembles = _ASSEMBLER_FILES.search(raw) is not None
    places, words = pasted.places(raw), pasted.pieces(raw)
    return Scan(frozenset(), frozenset(), False, asks, times, assembles, False, pieces=words, places=places)


@dataclass(frozen=True)
class SearchPath:
    """The directories of a pass in the order in which clang looks (clang/lib/Lex/InitHeaderSearch.cpp). `system`: those
    of system headers, each with a slash at its end, `own` those of the compiler and libc. `users`: how many of `angled`
    are of -I."""

    quote: tuple[str, ...]
    angled: tuple[str, ...]
    system: tuple[str, ...] = ()
    users: int = 0
    own: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Iterable[Option]) -> SearchPath:
        groups: dict[str, list[str]] = {"quote": [], "angled": [], "system": [], "after": []}
        own: list[str] = []
        for option in options:
            if option.role is not Role.SEARCH:
                continue
            if option.name.startswith("-internal-") and option.value.startswith("/"):
                own.append(option.value.rstrip("/") + "/")
            group = {"-iquote": "quote", "-I": "angled", "-idirafter": "after"}.get(option.name, "system")
            groups[group].append(option.value)
        angled = groups["angled"] + groups["system"] + groups["after"]
        system = [place.rstrip("/") + "/" for place in groups["system"] + groups["after"] if place.startswith("/")]
        return cls(
            tuple(dict.fromkeys(groups["quote"])),
            tuple(angled),
            tuple(dict.fromkeys(system)),
            len(groups["angled"]),
            tuple(own),
        )

    def is_own(self, path: str, basedir: Basedir) -> bool:
        """Is it a header of the compiler's own, or of libc? None of a checkout is."""
        return path.startswith(self.own) and basedir.portable(path) == path

    def searched(self, directory: Directory) -> tuple[str, ...]:
        """`angled` as clang takes it: each directory once, and one of -I that is a system directory too only there."""
        identities = [directory.identity(place) for place in self.angled]
        system = set(identities[self.users :])
        kept: dict[object, str] = {}
        for number, (place, identity) in enumerate(zip(self.angled, identities, strict=True)):
            if number >= self.users or identity not in system:
                kept.setdefault(identity, place)
        return tuple(kept.values())


def identity(path: str) -> object:
    """The same for two names of one file or directory. `path` is absolute."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return found.st_dev, found.st_ino


class Directory:
    """Looks for files by listing each directory once. `resolve` makes a path absolute."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve
        self._listings: dict[str, frozenset[str] | None] = {}

    def missing_part(self, directory: str, name: str) -> str | None:
        """None if `directory`/`name` exists, else the shortest leading part of it that does not."""
        path = directory
        if not path and name.startswith("/"):
            path, name = "/", name.lstrip("/")
        elif self._list(path) is None:
            return path
        for part in name.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                path = os.path.join(path, part)
                if self._list(path) is None:
                    return path
                continue
            listing = self._list(path)
            path = os.path.join(path, part)
            if listing is None or part not in listing:
                return path
        return None

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._resolve(path))

    def identity(self, path: str) -> object:
        return identity(self._resolve(path))

    def _list(self, path: str) -> frozenset[str] | None:
        if path not in self._listings:
            try:
                self._listings[path] = frozenset(os.listdir(self._resolve(path)))
            except OSError:
                self._listings[path] = None
        return self._listings[path]


@dataclass(frozen=True)
class Probes:
    """`absent`: paths that must not exist; `present`: paths that must, though no pass read them. A directory among
    those, which clang passed over, ends in a slash."""

    absent: frozenset[str]
    present: frozenset[str]


def probes(
    scans: dict[str, Scan], first: Iterable[str], search: SearchPath, directory: Directory, *, keep: Iterable[str] = ()
) -> Probes:
    """What to look for besides the files that were read.

    `scans`: path of each file that was read (as clang spells it) -> its scan. `first`: names of `-include`.
    `keep`: further paths that a probe may name without being "not read" (the read files themselves).
    """
    absent: set[str] = set()
    present: set[str] = set()
    done: set[tuple[str, str]] = set()
    explained: set[str] = set()
    read = set(scans) | set(keep)
    angled = search.searched(directory)

    def look(name: str, places: Iterable[str]) -> None:
        for place in places:
            missing = directory.missing_part(place, name)
            if missing is None:
                found = os.path.join(place, name) if place else name
                if found not in read:
                    if directory.is_directory(found):
                        present.add(found + "/")
                        continue  # as clang does: a directory is no header
                    present.add(found)
                explained.add(_plain(found))
                return
            absent.add(missing)

    for name in first:
        look(name, ("", *search.quote, *angled))
    for path, found in scans.items():
        here = os.path.dirname(path)
        for name in found.quoted:
            if (here, name) not in done:
                done.add((here, name))
                look(name, ("",) if name.startswith("/") else (here, *search.quote, *angled))
        for name in found.angled:
            if ("<", name) not in done:
                done.add(("<", name))
                look(name, ("",) if name.startswith("/") else angled)
        for name in found.next:
            for place in (here, *search.quote, *angled):
                look(name, (place,))  # which one is the next depends on where this file was found
    _computed(scans, (*search.quote, *angled), directory, explained, absent)
    return Probes(frozenset(absent), frozenset(present))


def _computed(
    scans: dict[str, Scan], places: tuple[str, ...], directory: Directory, explained: set[str], absent: set[str]
) -> None:
    """Files that no name in the text explains (`#include MACRO`, a directive behind a comment of several lines): where
    else they could have been."""
    here = {os.path.dirname(path) for path in scans}
    for path in list(scans)[1:]:  # the source itself was not looked for
        if _plain(path) in explained:
            continue
        for i, place in enumerate(places):
            if path.startswith(place.rstrip("/") + "/"):
                name = path[len(place.rstrip("/")) + 1 :]
                for earlier in (*here, *places[:i]):
                    missing = directory.missing_part(earlier, name)
                    if missing is not None:
                        absent.add(missing)


def _plain(path: str) -> str:
    return os.path.normpath(path)
