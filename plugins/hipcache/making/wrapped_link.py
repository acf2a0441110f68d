"""A link by the new offload driver: its device links, and the program put together of them.

Each device link is run by clang-linker-wrapper, from inputs that hold that arch's images alone (`embedded`); the host
linker that it is given does nothing, and clang is told where to write the code object. Then the user's own command
runs, with the code objects: the wrapper bundles, registers and links them as it would have those of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence, Set
from itertools import combinations

from hipcache.errors import HostLinkFailed, PassThrough
from hipcache.inputs import embedded
from hipcache.inputs.embedded import HIP, Embedded, UnknownFile
from hipcache.inputs.keys import digest_bytes, make_key
from hipcache.making import device_link, holder, host_link
from hipcache.making.device_link import Linked, Unit
from hipcache.planning import driver, tools
from hipcache.planning.lld import known_link
from hipcache.planning.plan import ToolJob, split
from hipcache.planning.wrapper_plan import Input, WrapperPlan
from hipcache.session import Damaged, Session, decode
from hipcache.values import dataclass

_TRIPLE = "amdgcn-amd-amdhsa"
_FLIP = str.maketrans("+-", "-+")
_TARGET_ID = re.compile(r"gfx[0-9a-f]+(:(sramecc|xnack)[+-])*$")
# Begins the names of a device link's inputs. What is said of them names no file of the user's.
_INPUT = "hipcache-input-"


@dataclass(frozen=True)
class _File:
    """An input with device code."""

    path: str
    found: Embedded
    whole: bool

    @property
    def is_lazy(self) -> bool:
        return self.found.is_archive and not self.whole

    def of(self, arch: str) -> bytes:
        """An input like it for the wrapper, without the images of other archs; empty where it has none of this one."""
        images = [image for image in self.found.images if image.arch == arch]
        return embedded.archive(images) if images and self.is_lazy else b"".join(image.raw for image in images)


def units(session: Session, plan: WrapperPlan, sources: Mapping[str, str]) -> list[Unit]:
    """Key the device link of each arch with the images that go in. `sources`: of temporary objects. Raises
    PassThrough."""
    files = [file for file in (_open(session, plan, one) for one in plan.inputs) if file and file.found.images]
    for image in (image for file in files for image in file.found.images):
        if image.kind != HIP or image.triple != _TRIPLE or not image.is_bitcode:
            raise PassThrough("link", f"device code that is not HIP's bitcode, for '{image.triple}'")
        if not _TARGET_ID.match(image.arch):
            raise PassThrough("target_id", image.arch)
    _check_apart({image.arch for file in files for image in file.found.images})
    # In the order of the wrapper's links. What is in libraries alone is linked for no arch.
    archs = dict.fromkeys(image.arch for file in files if not file.is_lazy for image in file.found.images)
    if not archs:
        raise PassThrough("link", "of objects without device code to be linked")
    tools_of_all = _tools(session, plan, next(iter(archs)).partition(":")[0])
    return [_unit(session, plan, arch, files, sources, tools_of_all) for arch in archs]


def _check_apart(archs: Set[str]) -> None:
    """Images of one target ID that run on another one's devices, too, are linked for both (`areTargetsCompatible`,
    llvm/lib/Object/OffloadBinary.cpp): for all of one processor but those with other features."""
    for one, other in combinations(sorted(archs), 2):
        first, second = one.split(":"), other.split(":")
        flipped = {feature.translate(_FLIP) for feature in second[1:]}
        if first[0] == second[0] and not flipped & set(first[1:]):
            raise PassThrough("target_id", f"{one} and {other}, which are linked together")


def _open(session: Session, plan: WrapperPlan, one: Input) -> _File | None:
    """None where the wrapper finds no file there to look into."""
    name = _library(session, plan, one.name) if one.library else one.name
    path = session.files.resolve(name)
    if not os.path.exists(path) or os.path.isdir(path):
        return None
    if not os.path.isfile(path):
        raise PassThrough("named_file", f"'{name}' is no regular file")
    try:
        return _File(name, embedded.read(path), one.whole)
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
    except UnknownFile as error:
        raise PassThrough("object_layout", f"'{name}': {error}") from error


def _library(session: Session, plan: WrapperPlan, name: str) -> str:
    """Where the wrapper finds it (`searchLibrary`)."""
    if name.endswith(".lib"):
        raise PassThrough("linker_option", f"-l{name}")
    wanted = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
    for directory in plan.directories:
        for file in wanted:
            path = os.path.join(directory, file)
            if os.path.exists(session.files.resolve(path)):
                return path
    raise PassThrough("named_file", f"no library '-l{name}'")


def _tools(session: Session, plan: WrapperPlan, processor: str) -> list[tuple[str, str]]:
    """What each key has of the wrapper, of the clang that it runs, and of the lld that this runs. (What of that differs
    from arch to arch follows from the arch.)"""
    beside = os.path.dirname(os.path.realpath(session.files.resolve(plan.job.program)))
    clang = os.path.join(beside, "clang")
    level = next((word[len("--opt-level=") :] for word in plan.options if word.startswith("--opt-level=")), "O2")
    words = [clang, "-###", "--no-default-config", "-o", "code object", f"--target={_TRIPLE}", f"-mcpu={processor}"]
    words += [f"-{level}", "-Wl,--no-undefined", "/dev/null"]
    _, said = driver.answer(words, words, session.command.cwd, session.engine, session.runner, lambda: session.workdir)
    jobs, messages = split(said.text)
    if len(jobs) != 1:
        raise PassThrough("plan", f"clang links device code by {len(jobs)} jobs")
    program, *options = jobs[0]
    # It will say so in each device link: that some of its words, which variables choose, too, are of no use.
    inputs = [("compiler's message", messages)] if messages else []
    for name, path in (("linker wrapper", plan.job.program), ("compiler", clang), ("linker", program)):
        try:
            inputs.append((name, session.identities.digest(session.files.resolve(path))))
        except OSError as error:
            raise PassThrough("tool", f"'{path}': {error}") from error
    return inputs + [("linker option", word.replace(processor, "arch")) for word in known_link(tuple(options))]


def _unit(
    session: Session,
    plan: WrapperPlan,
    arch: str,
    files: list[_File],
    sources: Mapping[str, str],
    tools_of_all: list[tuple[str, str]],
) -> Unit:
    inputs = [*tools_of_all, *(("option", word) for word in plan.options), ("arch", arch)]
    place = session.workdir / arch
    place.mkdir(exist_ok=True)
    argv = [plan.job.program, *plan.options, f"--linker-path={_nothing(session)}", "--device-linker=-ocode"]
    argv += ["-o", os.path.basename(plan.output)]
    for number, file in enumerate(files):
        content = file.of(arch)
        if content:
            base = os.path.basename(sources.get(file.path, file.path))
            name = f"device code of library '{base}'" if file.is_lazy else f"device code of '{base}'"
            inputs.append((name, digest_bytes(content)))
            (place / f"{_INPUT}{number}").mkdir(exist_ok=True)
            session.write(place / f"{_INPUT}{number}" / base, content)
            argv.append(f"{_INPUT}{number}/{base}")
    environ = {**session.engine.environ, "TMPDIR": str(session.workdir)}
    return Unit(arch, make_key("device link", inputs), tuple(argv), place, environ, place / "code")


def _nothing(session: Session) -> str:
    """A program that does nothing."""
    found = tools.which("true", session.command.cwd, session.engine.environ)
    if not found:
        raise PassThrough("tool", "no 'true' on PATH")
    return found


def finish(session: Session, plan: WrapperPlan, codes: Sequence[Linked], messages: str, *, columns: int | None) -> str:
    """Have the user's command (where it does nothing but link), the wrapper, or the host's linker write the program;
    what was said on the way to it, `messages` first. Raises Damaged, HostLinkFailed, JobFailed, PassThrough."""
    if not device_link.restore(session, codes):
        raise Damaged
    if any(_INPUT in code.text for code in codes):
        raise PassThrough("job_output", "a device link said something about one of its inputs")
    units = [code.unit for code in codes]
    if any(":" in unit.arch for unit in units):
        return messages + _link_host(session, plan, units)
    images = [f"--override-image=hip={unit.code}" for unit in units]
    command = session.command
    if not command.links:
        job = ToolJob(plan.job.program, (*images, *plan.job.arguments))
        return host_link.run(session, job, messages, columns=columns)
    words = [command.compiler, *driver.look(session.engine.environ, columns)]
    for image in images:
        words += ["-Xlinker", image]
    # Without a slot: in the main thread a signal could lose it.
    done = session.attempt([*words, *command.argv[1:]])
    # The driver speaks before the device links, the host's linker after them.
    said = decode(done.stderr)
    text = messages + said.removeprefix(plan.messages)
    if done.status > 0 and not done.stdout:
        raise HostLinkFailed(done.status, text)
    session.ended_well("host link", done)
    return text


def _link_host(session: Session, plan: WrapperPlan, units: Sequence[Unit]) -> str:
    """Write the program with code objects for target IDs with features; what the linker said. Where it fails, the whole
    command is run again: what the driver says then is not known here."""
    made = holder.make(session, plan, units, _nothing(session))
    return device_link.said(session, session.run_now("host link", plan.host_link(str(made))).stderr)
