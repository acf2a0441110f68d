"""A device unit: the code object of one offload arch, found in the store or compiled.

What a back end has to say (`-Wpass-failed`, remarks) it says without source lines when it reads bitcode. Such a unit
is compiled a second time in one step for its messages, which are kept with the front end's entry; one that has talked
before, or whose options say so (remarks, sanitizers), is compiled in one step alone.

By device LTO the pass itself ends in bitcode, and the linker is the back end.

A back end's object is kept, too, where it can serve another CUID (`bitcode`): only the linker runs for that.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.inflating import inflate
from hipcache.inputs.keys import digest_bytes
from hipcache.making import auxiliary, bitcode, elsewhere, passes, records
from hipcache.making.auxiliary import Written
from hipcache.making.bitcode import Bitcode
from hipcache.making.passes import Dependency, Found, Ran
from hipcache.making.records import BackRecord, FrontEntry, NeutralRecord
from hipcache.planning.cc1 import Role
from hipcache.planning.cuid import clangs_hash
from hipcache.planning.units import DeviceUnit
from hipcache.session import Session, decode
from hipcache.values import dataclass, replace

# All that a back end says where `-w` would silence it.
_ONLY_WARNINGS = re.compile(rb"(warning: .*\[-W[^]]*\]\n|[0-9]+ warnings? generated\.\n)+")


@dataclass(frozen=True)
class Product:
    """What a unit came to. `content` is None where the store holds it under `digest`. `front`/`back`: was it a hit
    (None: there is none, or it was not needed); `seconds`: compiler time, spent or saved; `reads`: the digest of
    its read set, empty where that was not kept; `back_key`: of the back end, where it has one; `beside`: what its pass
    wrote beside its output."""

    digest: str
    content: bytes | None
    text: str
    dependencies: tuple[Dependency, ...]
    front: bool
    back: bool | None
    seconds: float
    why: str = ""
    reads: str = ""
    back_key: str = ""
    beside: tuple[Written, ...] = ()

    @property
    def hit(self) -> bool:
        return self.content is None


@dataclass(frozen=True)
class Missing:
    """No product in the store: `why` in words; `talked`: the last one had messages from its back end; `front`: a front
    end whose bitcode another CUID's may stand for."""

    why: str
    talked: bool
    front: Found | None = None


def find(session: Session, unit: DeviceUnit) -> Product | Missing:
    found = passes.find(session, unit.front)
    entry = found.entry
    if entry is None:
        return Missing(found.why, found.talked)
    back_key = ""
    if entry.whole:
        code, seconds = entry.output, entry.seconds
    else:
        back_key = unit.back_key(entry.output).digest
        back = records.unpack_back(session.action(back_key))
        if back is None:
            return Missing("the store no longer has its code object", entry.talks, found if entry.neutral else None)
        if _is_heard(unit, back) and not entry.talks:
            return Missing("the store does not have its messages", True)
        code, seconds = back.code, entry.seconds + back.seconds
    if not session.engine.store.has_blob(code):
        return Missing("the store no longer has its code object", entry.talks)
    beside = auxiliary.kept(session, unit.front.job, entry)
    if beside is None:
        return Missing(auxiliary.LOST, entry.talks)
    dependencies, reads, back_hit = found.dependencies, entry.reads, True if unit.link else None
    return Product(
        code,
        None,
        entry.text,
        dependencies,
        True,
        back_hit,
        seconds,
        reads=reads,
        back_key=back_key,
        beside=beside,
    )


def make(session: Session, unit: DeviceUnit, missing: Missing) -> Product:
    """Run what is needed. Raises JobFailed, PassThrough, StoreError."""
    with session.alone(unit.front.key.digest) as waited:
        if waited:
            found = find(session, unit)
            if isinstance(found, Product):
                return found
            missing = found
        relinked = _relinked(session, unit, missing.front) if missing.front else None
        if relinked:
            return relinked
        if unit.by_lto:
            return _by_lto(session, unit, missing)
        if unit.in_one_step or missing.talked:
            return _in_one_step(session, unit, missing)
        return _in_two_steps(session, unit, missing)


def _in_two_steps(session: Session, unit: DeviceUnit, missing: Missing) -> Product:
    front = passes.run(session, unit.front, f"{unit.arch}-front", bitcode=True)
    written = front.output.read_bytes()
    module = bitcode.read(written, unit.front.job.value(Role.CUID))
    key, neutral = unit.back_key(module.digest).digest, unit.back_key(module.neutral or module.digest).digest
    with session.alone(neutral):
        found, content = _stored(session, key), None
        hit = found is not None
        if found:
            back, product = found
        else:
            renamed = _renamed(session, unit, front.output, module.mark, neutral) if module.mark else None
            hit = renamed is not None
            back, content = renamed or _back_end(session, unit, front, module, neutral)
            product = content
            session.keep_action(key, records.pack_back(back))
    text, seconds = front.text, front.seconds
    talks = _is_heard(unit, back)
    if talks:
        whole = passes.run(session, unit.front, f"{unit.arch}-whole", bitcode=False)
        text, seconds = whole.text, seconds + whole.seconds
        front = replace(front, reads=front.reads if whole.reads == front.reads else None, why_not="its files changed")
    entry = FrontEntry("", module.digest, text, "", False, talks, seconds, neutral=module.neutral)
    entry = passes.remember(session, unit.front, front, entry, product)
    elsewhere.keep(session, unit.front, front.reads, entry, written, module)
    seconds, reads = seconds + back.seconds, entry.reads
    return Product(back.code, content, text, front.dependencies, False, hit, seconds, missing.why, reads, key)


def _back_end(
    session: Session, unit: DeviceUnit, front: Ran, module: Bitcode, neutral: str
) -> tuple[BackRecord, bytes]:
    obj = front.output.with_suffix(".o")
    compiled = session.run(f"back end of {unit.arch}", unit.back_argv(front.output, obj))
    content, seconds = _link(session, unit, obj)
    talks, only_warns = bool(compiled.stderr), _ONLY_WARNINGS.fullmatch(compiled.stderr) is not None
    # Compressed debug information may have the mark where it is not seen.
    if module.mark and not unit.front.hides_paths and bitcode.names_only(made := obj.read_bytes(), module.mark):
        kept = NeutralRecord(
            session.keep(zlib.compress(made, 1)), module.mark.decode(), talks, compiled.seconds, only_warns
        )
        session.keep_action(neutral, records.pack_neutral(kept))
    return BackRecord(session.keep(content), talks, compiled.seconds + seconds, only_warns), content


def _relinked(session: Session, unit: DeviceUnit, front: Found) -> Product | None:
    """The code object for bitcode that differs from another one in its CUID alone, which no front end had to write."""
    entry, cuid = front.entry, unit.front.job.value(Role.CUID)
    assert entry
    neutral = unit.back_key(entry.neutral).digest
    stem = session.workdir / f"{unit.arch.replace(':', '_')}-renamed"
    with session.alone(neutral):
        made = _renamed(session, unit, stem, clangs_hash(cuid).encode(), neutral)
    if made is None or (_is_heard(unit, made[0]) and not entry.talks):
        return None
    back, content = made
    key = unit.back_key(entry.output).digest
    session.keep_action(key, records.pack_back(back))
    seconds, reads = entry.seconds + back.seconds, entry.reads
    return Product(back.code, content, entry.text, front.dependencies, True, True, seconds, reads=reads, back_key=key)


def _renamed(
    session: Session, unit: DeviceUnit, stem: Path, mark: bytes, neutral: str
) -> tuple[BackRecord, bytes] | None:
    """What another CUID's back end made, with this one's in its place; None where there is none."""
    kept = records.unpack_neutral(session.action(neutral))
    packed = session.engine.store.get_blob(kept.object) if kept else None
    if kept is None or packed is None:
        return None
    try:
        other = inflate(packed, 1 << 30)
    except zlib.error:
        return None
    if not bitcode.names_only(other, kept.mark.encode()) or mark in other:
        return None
    obj = session.write(stem.with_suffix(".o"), other.replace(kept.mark.encode(), mark))
    content, seconds = _link(session, unit, obj)
    return BackRecord(session.keep(content), kept.talks, kept.seconds + seconds, kept.only_warns), content


def _is_heard(unit: DeviceUnit, back: BackRecord) -> bool:
    """Does the user read what this back end has to say?"""
    return back.talks and not (unit.silent and back.only_warns)


def _in_one_step(session: Session, unit: DeviceUnit, missing: Missing) -> Product:
    whole = passes.run(session, unit.front, f"{unit.arch}-whole", bitcode=False)
    content, seconds = _link(session, unit, whole.output) if unit.link else (whole.output.read_bytes(), 0.0)
    seconds += whole.seconds
    code = session.keep(content)
    beside = auxiliary.keep(session, unit.front.job, whole.beside)
    digests = tuple(one.digest for one in beside)
    entry = FrontEntry("", code, whole.text, "", True, bool(whole.text), seconds, auxiliary=digests)
    reads = passes.remember(session, unit.front, whole, entry, content).reads
    back = False if unit.link else None
    why, dependencies = missing.why, whole.dependencies
    return Product(code, content, whole.text, dependencies, False, back, seconds, why, reads, beside=beside)


def _by_lto(session: Session, unit: DeviceUnit, missing: Missing) -> Product:
    """The pass is run as the plan has it, and says all that there is to say. Its bitcode counts byte for byte: the
    linker may look at more of it than a back end does."""
    front = passes.run(session, unit.front, f"{unit.arch}-front", bitcode=False)
    digest = digest_bytes(front.output.read_bytes())
    key = unit.back_key(digest).digest
    with session.alone(key):
        found, content = _stored(session, key), None
        if found:
            back, product = found
        else:
            content, seconds = _link(session, unit, front.output)
            product = content
            back = BackRecord(session.keep(content), False, seconds)
            session.keep_action(key, records.pack_back(back))
    entry = FrontEntry("", digest, front.text, "", False, False, front.seconds)
    reads = passes.remember(session, unit.front, front, entry, product).reads
    seconds = front.seconds + back.seconds
    hit = found is not None
    return Product(back.code, content, front.text, front.dependencies, False, hit, seconds, missing.why, reads, key)


def _stored(session: Session, key: str) -> tuple[BackRecord, bytes] | None:
    """What a back end or a link made under `key`. The code object is read now: raised later, damage would end what the
    other archs do."""
    back = records.unpack_back(session.action(key))
    code = session.engine.store.get_blob(back.code) if back else None
    return (back, code) if back and code is not None else None


def _link(session: Session, unit: DeviceUnit, obj: Path) -> tuple[bytes, float]:
    """The code object, and the seconds that its link took."""
    code = obj.with_suffix(".out")
    linked = session.run(f"device link of {unit.arch}", unit.link_argv(obj, code))
    if linked.stderr:
        raise PassThrough("job_output", f"the linker said: {decode(linked.stderr)[:200]}")
    return code.read_bytes(), linked.seconds
