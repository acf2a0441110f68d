"""A pass that another front ran, or that ran for another build directory: the same but for how it spells its paths.

Beside the entry under its own key, what a pass made is kept under a key for every spelling (`planning.spelling`), if no
path is in it, nor anything made from one. Where a command finds nothing under its own key, it looks there; what it
finds it translates into its own spelling, and keeps like the entry of a pass that it has run.

    read set   paths are absolute; relative again are only those of files, which the dependency file lists
    bitcode    the digest of what it says but for the CUID (`bitcode`), where it has that only in the variable's name
    CUID       what has it otherwise is another entry's for each CUID
"""

from __future__ import annotations

import os

from hipcache.inputs import place
from hipcache.inputs.keys import Key
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.making import bitcode, records, unnamed
from hipcache.making.bitcode import Bitcode
from hipcache.making.records import FrontEntry
from hipcache.planning import spelling
from hipcache.planning.cc1 import Role
from hipcache.planning.cuid import clangs_hash
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.spelling import Spelling
from hipcache.session import Session
from hipcache.values import replace


def find(session: Session, front: FrontEnd) -> FrontEntry | None:
    """The entry for this spelling, made from the newest one for every spelling whose files are as they were."""
    spelled = _spelling(session, front)
    if spelled is None:
        return None
    key, cuid = _key(session, front, spelled), front.job.value(Role.CUID)
    for entry in records.unpack_front(session.action(key.digest)):
        reads = session.read_set(entry.reads)
        if reads is None or entry.cuid not in ("", cuid) or entry.base not in ("", session.files.basedir.path):
            continue
        output = bitcode.digest_for(entry.neutral, cuid) if entry.neutral else entry.output
        here = _translated(session, entry.reads, reads, spelled) if output else None
        if here is None or session.files.differs(f"{entry.reads} {spelled}", here, exact=front.comments_matter):
            continue
        translated = replace(entry, reads=session.keep_read_set(here), output=output, look=front.look, cuid="")
        put(session, front.key, translated)
        return translated
    return None


def keep(
    session: Session,
    front: FrontEnd,
    reads: ReadSet | None,
    entry: FrontEntry,
    made: bytes,
    module: Bitcode | None = None,
) -> None:
    """Keep the entry for every spelling, if it may be. `reads`: of the entry; `made`: what the pass wrote, the host's
    object or bitcode, which `module` tells of."""
    spelled = None
    if reads is not None and entry.reads and not (entry.text or entry.talks or front.hides_paths):
        spelled = _spelling(session, front)
    if reads is None or spelled is None or (unnamed.in_bitcode(made) if module else unnamed.in_object(made)):
        return
    macros = tuple((option.name, option.value) for option in front.job.options if option.role is Role.MACRO)
    own = SearchPath.of(front.job.options).own
    # Most architectures read the same files.
    kind = entry.reads, spelled, macros, own
    if kind not in session.everywhere:
        everywhere = _everywhere(session, reads, spelled, macros, own)
        session.everywhere[kind] = session.keep_read_set(everywhere) if everywhere else ""
    whole = session.everywhere[kind]
    if not whole:
        return
    cuid = front.job.value(Role.CUID)
    neutral = module.neutral if module else ""
    has_cuid = not neutral and (clangs_hash(cuid).encode() in made or os.fsencode(cuid) in made)
    put(
        session,
        _key(session, front, spelled),
        replace(entry, reads=whole, look="", cuid=cuid if has_cuid else "", neutral=neutral),
    )


def put(session: Session, key: Key, entry: FrontEntry) -> None:
    """Put the entry before those that are kept under the key."""
    older = records.unpack_front(session.engine.store.get_action(key.digest))
    session.keep_action(key.digest, records.pack_front(records.with_newest(entry, older)))


def _key(session: Session, front: FrontEnd, spelled: Spelling) -> Key:
    return spelling.key(front.key, front.job, spelled, session.files.basedir.portable)


def _spelling(session: Session, front: FrontEnd) -> Spelling | None:
    cwd, resolve = session.command.cwd, session.files.resolve
    found = spelling.of(front.job, cwd)
    if found is None:
        return None
    if os.path.realpath(cwd) != cwd and any(not spelled.startswith("/") for _, spelled in found.directories):
        return None  # `..` does not lead where the name of the directory says
    # Clang takes a file in the place of a directory for a list of headers and their places.
    given = [
        one.value for one in front.job.options if one.role is Role.SEARCH and not one.name.startswith("-internal-")
    ]
    return None if any(os.path.isfile(resolve(name)) for name in given) else found


def _everywhere(
    session: Session, reads: ReadSet, spelled: Spelling, macros: tuple[tuple[str, str], ...], own: tuple[str, ...]
) -> ReadSet | None:
    """The read set with absolute paths; None where one of them is not clear, or may be in the output."""
    portable, local = session.files.basedir.portable, session.files.basedir.local
    scans = {local(file.path): session.files.scanned(local(file.path), file.digest) for file in reads.files}
    known = {path: scan for path, scan in scans.items() if scan is not None}
    if reads.besides or reads.links or reads.epoch or len(known) < len(scans) or place.shows(known, macros, own):
        return None
    named = {name for scan in known.values() for name in scan.quoted | scan.angled | scan.next} | set(spelled.bare)
    untold = any(one.embeds or one.includes_computed or one.asks_computed or one.unclear for one in known.values())
    if untold or not _are_relative(named, spelled):
        return None
    whole = spelled.absolute({path: scan.quoted | scan.next for path, scan in known.items()}, named)
    if [spelled.spelled(path) for path in whole.values()] != list(scans):
        return None
    # What -include names is looked for in the working directory, which may be another one elsewhere.
    bare = set(spelled.bare)
    absent = {path: spelled.places(local(path)) for path in reads.absent}
    present = {path: spelled.places(local(path).rstrip("/")) for path in reads.present}
    unclear = {path for path, places in (*absent.items(), *present.items()) if not places}
    if not bare <= set(absent) or unclear - bare:
        return None
    return ReadSet(
        tuple(replace(file, path=portable(whole[local(file.path)])) for file in reads.files),
        tuple(sorted({portable(place) for places in absent.values() for place in places})),
        tuple(
            sorted(portable(place) + "/" * path.endswith("/") for path, places in present.items() for place in places)
        ),
        tuple((portable(whole[local(path)]), portable(whole[local(first)])) for path, first in reads.alike),
    )


def _are_relative(named: set[str], spelled: Spelling) -> bool:
    """Do the names of headers go behind those of directories as they stand? Behind the working directory, which clang
    names by a dot, it leaves out another dot."""
    return not any(name.startswith("/") or (spelled.has_working_directory and name.startswith("./")) for name in named)


def _translated(session: Session, digest: str, reads: ReadSet, spelled: Spelling) -> ReadSet | None:
    """The read set (with that digest) of the same pass in this spelling; None where that is not clear."""
    if (digest, spelled) not in session.translated:
        portable, local = session.files.basedir.portable, session.files.basedir.local
        paths = [spelled.spelled(local(file.path)) for file in reads.files]
        files = tuple(replace(file, path=portable(path)) for file, path in zip(reads.files, paths, strict=True))
        clear = all(paths) and paths[0] == spelled.source[1]
        here = replace(reads, files=files, absent=(*reads.absent, *spelled.bare))
        session.translated[digest, spelled] = here if clear else None
    return session.translated[digest, spelled]
