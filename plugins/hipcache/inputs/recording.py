"""Records what a pass has just read and looked for, so that its result can be kept.

A file that changed while the pass ran, or just before, may be another one than the pass read: then the result must not
be kept. Neither where it depends on more than files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

from hipcache.base import times
from hipcache.base.values import replace
from hipcache.inputs import includes, observing, outline, preprocessed, token_pasting
from hipcache.inputs.file_manager import FileManager, Unobserved, Untraceable
from hipcache.inputs.observing import Observed
from hipcache.inputs.readset import OtherFile, ReadFile, ReadSet, Status, absent, alike
from hipcache.inputs.scans import Scan
from hipcache.inputs.search import Probes, SearchPath, probes

# The status, digest and scan of each file, by its path.
_Looked = Mapping[str, tuple[Status, str, Scan]]


def record(
    files: FileManager,
    *,
    read: list[str],
    user: frozenset[str] | None,
    first: list[str],
    macros: list[str],
    search: SearchPath,
    started: float,
    dated: bool,
    observed: Observed | None = None,
    is_tools: Callable[[str], bool] = lambda _: False,
    preprocess: Callable[[frozenset[str]], bytes | None] = lambda _: None,
) -> ReadSet:
    """The read set of a pass that began at `started` (wall clock, seconds).

    `observed`: what it looked at; None if that is not known, and is guessed from its texts; `is_tools`: is a path
    known by a tool's identity?

    `read`: the files that it read, the source first; `user`: those that are no system headers (None: not
    known, all count as such); `first`: names of -include; `macros`: the values of -D and -U, after which no text can
    have the builtin macro of that name back; `dated`: the date is given by SOURCE_DATE_EPOCH; `preprocess`: gives the
    preprocessed text with marks for those macros (`execution.passes.recorded`).
    Raises Untraceable if the result must not be kept.
    """
    began = times.change_limit(started)
    looked = _read(files, read, search, began)
    scans = {path: scan for path, (_, _, scan) in looked.items()}
    shown = _refuse_texts(files, looked, macros, dated=dated, observed=observed is not None, preprocess=preprocess)
    found = list(_read_files(files, looked, macros, user, search))
    besides: list[OtherFile] = []
    if observed:
        looked_for = _observed(files, observed, scans, is_tools, began)
        opened = observed.opened.union(_short_maps(files, observed.there, search))
        besides = list(_besides(files, opened - set(scans), is_tools, began))
    else:
        with files.listings.up_to_date():
            looked_for = probes(scans, first, search, files.listings)
    _settled(files, scans, looked_for, besides, began)
    portable = files.basedir.portable
    missed = absent({portable(place): names for place, names in looked_for.absent.items()})
    present = tuple(sorted(map(portable, looked_for.present)))
    others = tuple(replace(other, path=portable(other.path)) for other in besides)
    links = tuple((portable(path), portable(files.link(path))) for path in sorted(observed.links)) if observed else ()
    return ReadSet(
        tuple(found),
        missed,
        present,
        alike(found, files.identity_of),
        others,
        links,
        epoch=files.epoch if shown else "",
        hides_marks=includes.may_hide_mark(scans.values()),
        expands_pragmas=any(scan.expands_pragmas for scan in scans.values()),
    )


def _refuse_texts(
    files: FileManager,
    looked: _Looked,
    macros: Sequence[str],
    *,
    dated: bool,
    observed: bool,
    preprocess: Callable[[frozenset[str]], bytes | None],
) -> bool:
    """Can one of the texts show the date that SOURCE_DATE_EPOCH gives? Raises Untraceable for a text that depends on
    more than files."""
    clocks = _left_builtin(macros)
    dates = clocks & {"__DATE__", "__TIME__"} if dated else frozenset()
    clocks -= dates
    given = {piece for macro in macros for piece in includes.scan_macro(macro).pieces}
    scans = [scan for _, _, scan in looked.values()]
    texts = {f"-D {macro}": includes.scan_macro(macro) for macro in macros}
    texts |= {path: scan for path, (_, _, scan) in looked.items()}
    dated_by = any(_clocks(scan) & clocks for scan in texts.values())
    dated_by = dated_by or bool(_put_together(scans, given, sorted(clocks)))
    assembles = any(scan.assembler_files for scan in texts.values())
    is_hidden = dated_by and includes.may_hide_mark(texts.values())
    marked = clocks if dated_by and not is_hidden else frozenset[str]()
    text = preprocess(marked) if marked or assembles else None
    if text is not None:
        if any(files.status(path) != status for path, (status, _, _) in looked.items()):
            raise Untraceable("its files changed while hipcache read them")
        clocks = clocks if is_hidden or preprocessed.is_expanded(text) else frozenset()
        assembles = assembles and includes.assembles(text)
    for path, scan in texts.items():
        _refuse(path, scan, clocks, observed=observed, assembles=assembles)
    questions = () if observed else token_pasting.QUESTIONS
    name = _put_together(scans, given, (*questions, *sorted(clocks)))
    if name:
        kind = Unobserved if name in token_pasting.QUESTIONS else Untraceable
        raise kind(f"its files may build {name} by token pasting")
    return bool(dates) and _shows(dates, scans, given, macros)


def _read_files(
    files: FileManager, looked: _Looked, macros: Iterable[str], user: frozenset[str] | None, search: SearchPath
) -> Iterator[ReadFile]:
    scans = [*(scan for _, _, scan in looked.values()), *map(includes.scan_macro, macros)]
    # A file of #embed is no C++.
    as_they_stand = any(scan.embeds or scan.comments_talk for scan in scans)
    as_they_stand = as_they_stand or bool(_put_together(scans, set(), (token_pasting.SWITCH,)))
    for path, (status, digest, _) in looked.items():
        system = user is not None and path not in user
        # A header of the system is not edited.
        try:
            is_fixed = as_they_stand or path.startswith(search.system)
            told = ("", "", ()) if is_fixed else outline.digests(files, path, digest)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read again: {error.strerror}") from error
        yield ReadFile(files.basedir.portable(path), digest, files.lasting(status), system, *told)


def _read(files: FileManager, paths: Sequence[str], search: SearchPath, began: float) -> _Looked:
    found: dict[str, tuple[Status, str, Scan]] = {}
    for path, now in zip(paths, files.statuses(paths), strict=True):
        try:
            found[path] = files.read(path, own=search.is_own(path, files.basedir), found=now)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read again: {error.strerror}") from error
        dated = found[path][0][4]  # the change time: nobody can set it back
        if times.latest(dated) >= began:
            raise Untraceable(times.why_changed(path, dated))
    return found


def _shows(dates: frozenset[str], scans: Collection[Scan], given: set[str], macros: Iterable[str]) -> bool:
    """May one of the texts show the date that SOURCE_DATE_EPOCH gives, by these names?"""
    named = [*scans, *map(includes.scan_macro, macros)]
    return any(_clocks(scan) & dates for scan in named) or bool(_put_together(scans, given, sorted(dates)))


def _settled(
    files: FileManager, scans: Mapping[str, Scan], looked_for: Probes, besides: Iterable[OtherFile], began: float
) -> None:
    """Raises Untraceable if something came while the compiler ran."""
    for path, found in zip(looked_for.present, files.statuses(looked_for.present), strict=True):
        if "\\" in path:
            # Clang's dependency file writes it with a slash, which may be the name of another file.
            raise Untraceable(f"'{path}' has a backslash in its name")
        if not found:
            raise Untraceable(f"'{path}' is gone, or cannot be looked at")
        if times.latest(found.status[4]) >= began and not path.endswith("/"):
            raise Untraceable(f"'{path}' appeared while the compiler ran or just before")
    looked_at = [*scans, *looked_for.present, *(other.path for other in besides)]
    moved = times.moved(map(files.resolve, looked_at), began)
    if moved:
        raise Untraceable(f"'{moved}' was moved there while the compiler ran or just before")


def _observed(
    files: FileManager, seen: Observed, read: Container[str], is_tools: Callable[[str], bool], began: float
) -> Probes:
    path, why = seen.unclear
    if path:
        raise Untraceable(f"'{path}' {why}")
    other = observing.changed(seen, files.resolve, began)
    if other:
        raise Untraceable(f"'{other}' was created or removed while the compiler ran")
    there = {path for path in seen.there if path not in read and not files.is_named(path)}
    directories = observing.unexplained(seen.directories, {*seen.opened, *seen.there})
    # The identity of the tools covers the search of the loader: their digest is that of the libraries it found.
    libraries = {os.path.basename(path) for path in seen.opened if is_tools(path)}
    asked = observing.without(seen.missed, libraries)
    present = frozenset(there.union(path + "/" for path in directories))
    return Probes(observing.shortest(asked, files.resolve), present)


def _short_maps(files: FileManager, there: Iterable[str], search: SearchPath) -> Iterator[str]:
    """The files that an option of the search path names: header maps (clang/lib/Lex/HeaderMap.cpp). Clang does not open
    one that is too short for a map, so what it is later depends on its content. (A `=` stands for the sysroot.)"""
    places = [observing.plain(place).lstrip("=").rstrip("/") for place in (*search.quote, *search.angled)]
    named = tuple(filter(None, places))
    yield from (path for path in there if path.endswith(named) and os.path.isfile(files.resolve(path)))


def _besides(
    files: FileManager, opened: Iterable[str], is_tools: Callable[[str], bool], began: float
) -> Iterator[OtherFile]:
    """The files that were opened and are no headers, with the digests of their contents: nobody knows what they were
    opened for."""
    for path in sorted(opened):
        if is_tools(path) or files.is_named(path):
            continue
        try:
            status, digest = files.digest(path)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read again: {error.strerror}") from error
        if times.latest(status[4]) >= began:
            raise Untraceable(times.why_changed(path, status[4]))
        yield OtherFile(path, digest, files.lasting(status))


def _left_builtin(macros: Collection[str]) -> frozenset[str]:
    """The macros of the date and the time that no option takes away."""
    names = frozenset(map(preprocessed.macro_of, macros))
    return frozenset(token_pasting.TIMES).difference(() if "" in names else names)


def _clocks(scan: Scan) -> set[str]:
    return {f"__{name}__" for name in scan.time_macros}


def _put_together(scans: Collection[Scan], given: set[str], names: Sequence[str]) -> str:
    """The first of the names that the words of a pass can be put together to; empty if there is none. `given`: words of
    -D."""
    return token_pasting.composed(given.union(*(scan.pieces for scan in scans)), names)


def _refuse(path: str, scan: Scan, clocks: frozenset[str], *, observed: bool, assembles: bool) -> None:
    times = _clocks(scan) & clocks
    if times:
        raise Untraceable(f"'{path}' uses {min(times)}")
    if scan.compares_times:
        raise Untraceable(f"'{path}' has a #pragma GCC dependency, which compares the times of files")
    if scan.asks_computed and not observed:
        raise Unobserved(f"'{path}' has a __has_include whose name is a macro")
    if scan.includes_computed and not observed:
        raise Unobserved(f"'{path}' has an #include whose name is a macro")
    if scan.unclear and not observed:
        raise Unobserved(f"'{path}' {scan.unclear}")
    if scan.assembler_files and assembles:
        raise Untraceable(f"'{path}' has inline assembly that reads a file")
