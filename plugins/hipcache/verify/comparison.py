"""What the store serves, compared with what the user's own compiler makes: with the CUID that hipcache gives it.

Stored compiles of a build are those that its compile_commands.json lists. Nothing is written into the build tree or the
store: the compiler writes into a directory of its own (`redirected`), and the store is only read. So a compile that
writes files beside its object, which the object names, is left out.

One compile in so many that was a hit (HIPCACHE_VERIFY) is done anew by the compiler, in its place, and compared. That
comes after the delivery, so whatever served the hit is checked: the launcher by the record of a whole compile, or the
engine by the records of units. The compiler writes where it always does, so paths in its output are the same. Which
compiles are checked is a random draw of its own for each: a build that runs a hundred times does not check the same
objects each time, and processes need no counter that they share. Where the outputs differ the compiler runs once more:
some programs it makes differently each time. Else the store was wrong. The compiler's output stays, the records that
led to the other one are replaced by such of compiles anew, and standard error has it.

A difference is kept for who looks into it:

    <HIPCACHE_DIR>/v2/reports/<time>-<random>/report.json    the command, sizes, digests (`Difference.as_json`)
                                              served, fresh  the two outputs, where both are not too large

At most MOST reports of together MOST_BYTES are kept, the newest.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache import __version__
from hipcache.app import front, kinds
from hipcache.base.errors import CompilerFails, HipcacheError, JobFailed, PassThrough, StoreError
from hipcache.base.files import write_whole
from hipcache.base.keys import digest_bytes
from hipcache.base.values import dataclass, replace
from hipcache.build import Bound, Inputs, Process, Ran, Step
from hipcache.build.context import Context
from hipcache.build.loop import Executor, build
from hipcache.clang import dry_run, plan, script
from hipcache.clang.cc1 import Role
from hipcache.clang.command import Command
from hipcache.clang.driver_options import SEPARATE, chooses_cuid
from hipcache.clang.frontend import Pass
from hipcache.clang.plan import Plan
from hipcache.config import Config
from hipcache.direct import record
from hipcache.execution import source
from hipcache.execution.object import ask
from hipcache.execution.session import Session
from hipcache.execution.world import world_of
from hipcache.report import statistics, telling
from hipcache.report.outcome import DIFFERENT, SAME, VARYING
from hipcache.store.confined import Confined
from hipcache.store.layout import random_name

_HERE = "reports"
MOST = 8
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Difference:
    """`output`: the path that a build writes; `archs`: what the command compiles for."""

    output: str
    command: tuple[str, ...]
    directory: str
    archs: tuple[str, ...]
    served: bytes
    fresh: bytes

    def summary(self) -> str:
        """The difference in one line, without the command."""
        archs = f" for {' '.join(self.archs)}" if self.archs else ""
        return (
            f"'{self.output}'{archs}: {len(self.served)} bytes from the store, {len(self.fresh)} from the compiler, "
            f"first difference at byte {first_difference(self.served, self.fresh)}"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "output": self.output,
            "directory": self.directory,
            "command": list(self.command),
            "archs": list(self.archs),
            "bytes": {"served": len(self.served), "fresh": len(self.fresh)},
            "digests": {"served": digest_bytes(self.served), "fresh": digest_bytes(self.fresh)},
            "first_difference": first_difference(self.served, self.fresh),
        }


def first_difference(one: bytes, other: bytes) -> int:
    """The offset of the first byte that differs: the end of the shorter one, where it begins the other."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # by halves: objects have some hundred megabytes
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def archs_of(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """As the command names them."""
    named = [word.partition("=")[2] for word in arguments if word.startswith(("--offload-arch=", "--cuda-gpu-arch="))]
    return tuple(dict.fromkeys(arch for word in named for arch in word.split(",")))


def keep(root: Path, difference: Difference, now: float) -> Path | None:
    """The directory of the report in the store at `root`; None if it cannot be written. `now`: seconds of the
    epoch."""
    store = Confined(root)
    report = f"{_HERE}/{int(now * 1e9):020d}-{random_name()}"
    told = {"version": __version__, "when": now, **difference.as_json()}
    small = len(difference.served) + len(difference.fresh) <= MOST_BYTES // 2
    outputs = {"served": difference.served, "fresh": difference.fresh} if small else {}
    try:
        store.make((_HERE,))
        store.make_private_directory(report)
        for name, content in {**outputs, "report.json": json.dumps(told, indent=2).encode()}.items():
            store.write(f"{report}/{name}", content)
        _bound(store)
    except OSError:
        store.remove(report)
        return None
    return Path(store.path(report))


def _bound(store: Confined) -> None:
    """Remove the oldest reports until the others are few and small enough."""
    held = 0
    for number, report in enumerate(sorted((name for name, _ in store.listing(_HERE)), reverse=True)):
        held += _bytes_in(store, f"{_HERE}/{report}")
        if number >= MOST or held > MOST_BYTES:
            store.remove(f"{_HERE}/{report}")


def _bytes_in(store: Confined, report: str) -> int:
    with suppress(OSError):
        return sum(status.st_size for _, status in store.listing(report))
    return 0


@dataclass(frozen=True)
class Fresh:
    """The way to compile `command` as hipcache's launcher would have it compiled. `words`: without the program;
    `outputs` and `rule` (the dependency file, or empty): absolute paths; `plan`: of a source of HIP."""

    command: Command
    words: tuple[str, ...]
    environ: Mapping[str, str]
    outputs: tuple[str, ...]
    rule: str
    plan: Plan | None

    def run(self, session: Session, words: Sequence[str] | None = None) -> int:
        """Its exit status; what it says is left out, since hipcache has said it. `words`: others than its own."""
        argv = [self.command.compiler, *(words if words is not None else self.words)]
        # The driver leaves empty directories in TMPDIR (clang 15 a dozen), and the user has not run it.
        env = {**self.environ, "TMPDIR": str(session.jobs.workdir)}
        with session.context.slots.hold(session.jobs.runner.check):
            return session.jobs.plain.run(argv, cwd=Path(self.command.cwd), env=env).status


def prepare(context: Context, command: Command) -> tuple[Fresh, Context, Command]:
    """And the context and the command behind a script that stands for the compiler. Raises PassThrough, JobFailed."""
    if kinds.of_program(command.compiler):
        if command.source == "-":
            raise PassThrough("standard_streams", "its source has been read")
        module = (command.path(command.output),)
        return Fresh(command, command.argv[1:], context.environ, module, "", None), context, command
    command, context = script.through_script(context, command)
    with Session(context, command) as session:
        if command.assembles:
            asked = dry_run.ask_assembler(command, context, session.jobs.runner, lambda: session.jobs.workdir)
            outputs: tuple[str, ...] = (asked.job.output,)
            cuid, rule, plan = "", "", None
        else:
            answer = ask(session, None)
            plan, own_cuid = answer.plan, command.own_cuid or any(map(chooses_cuid, answer.added))
            rule, outputs = plan.dependency_file, plan.outputs
            # The new offload driver, up to clang 19, has no CUIDs, and warns.
            cuid = "" if own_cuid else plan.first.value(Role.CUID)
    words = (*((f"-cuid={cuid}",) if cuid else ()), *command.argv[1:])
    paths = tuple(map(command.path, outputs))
    return Fresh(command, words, context.environ, paths, command.path(rule) if rule else "", plan), context, command


NOT_STORED, NOT_COMPARED = "not stored", "not compared"
ENDS = (SAME, DIFFERENT, VARYING, NOT_STORED, NOT_COMPARED)
_OUTPUT = ("-o", "--output")
_RULE = ("-MF",)


@dataclass(frozen=True)
class Compared:
    """`end`: of ENDS; `why`: in words, if it was not compared; `difference`: if there is one."""

    output: str
    end: str
    why: str = ""
    difference: Difference | None = None


def compare_stored(context: Context, command: Command, scratch: Path) -> Compared:
    """Compare what the store would serve for `command` with what the compiler makes. `scratch`: an empty directory;
    `context`: one whose store is only read."""
    name = command.path(command.output or command.source)
    if command.links or command.makes_program or command.assembles:
        return Compared(name, NOT_COMPARED, "it links, or is a source of the assembler")
    try:
        how, context, command = prepare(context, command)
        assert how.plan
        if len(how.outputs) != 1 or any(map(plan.side_outputs, how.plan.passes)):
            return Compared(name, NOT_COMPARED, "it writes several files")
        served = _served(context, command, how.plan, scratch / "served.o")
        if isinstance(served, str):
            return Compared(name, NOT_STORED, served)
        made = [_made(context, how, scratch / "1.o")]
        if made[0] != served:
            made.append(_made(context, how, scratch / "2.o"))
    except (PassThrough, JobFailed) as error:
        return Compared(name, NOT_COMPARED, str(error))
    if made[0] == served:
        return Compared(name, SAME)
    if made[1] != made[0]:
        return Compared(name, VARYING)
    words = (command.compiler, *how.words)
    found = Difference(how.outputs[0], words, command.cwd, archs_of(command.arguments), served, made[0])
    return Compared(name, DIFFERENT, "", found)


def _made(context: Context, how: Fresh, output: Path) -> bytes:
    """Raises JobFailed, PassThrough."""
    command = how.command
    cuid = how.words[: len(how.words) - len(command.argv) + 1]
    with Session(context, command) as session:
        status = how.run(session, [*cuid, *redirected(command.arguments, output)])
    if status != 0:
        raise JobFailed("the compiler", status)
    try:
        return output.read_bytes()
    except OSError as error:
        raise PassThrough("job_output", f"the compiler wrote no '{output}'") from error


def redirected(arguments: Sequence[str], output: Path) -> list[str]:
    """The words with another output, and the dependency file beside that."""
    rule = os.fspath(output.with_suffix(".d"))
    words = ["-o", os.fspath(output)]
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            return [*words, word, *rest]
        if word in _OUTPUT or word in _RULE:
            next(rest, None)
            words += ["-MF", rule] if word in _RULE else []
        elif word.startswith("-MF"):
            words += ["-MF", rule]
        elif word.startswith("--output=") or (word.startswith("-o") and not word.startswith(("-object", "-objc"))):
            continue
        else:
            words += [word, *([next(rest, "")] if word in SEPARATE or word.startswith("-Xarch_") else [])]
    return words


def _served(context: Context, command: Command, plan: Plan, path: Path) -> bytes | str:
    """The object that the store serves: the graph of its source, built only from stored results; or, in words, why it
    serves none."""
    with Session(context, command) as session:
        graph = source.graph(source.source_graph(session, plan))
        delivered = tuple(replace(delivery, path=str(path)) for delivery in graph.deliveries)
        world = world_of(session)
        nothing_new = _StoredOnly(world.executors)
        try:
            build(
                replace(graph, deliveries=delivered, rules=()),
                replace(world, executors=dict.fromkeys((Pass, Process, Step), nothing_new)),
            )
        except _NotStored as error:
            return str(error)
    return path.read_bytes()


class _NotStored(Exception):
    """The text says why the store does not serve it."""


@dataclass(frozen=True)
class _StoredOnly:
    """Puts together what is stored, and makes nothing of it anew."""

    executors: Mapping[type, Executor]

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        action = bound.action
        if action.policy.slot and isinstance(action.work, (Process, Pass)):
            raise _NotStored(bound.why)
        return self.executors[type(action.work)].run(bound, inputs)


def compare(context: Context, commands: Sequence[Command], argv: Sequence[str], cwd: str, config: Config) -> None:
    """Check all outputs of `commands`, which have been served; afterwards they are the compiler's, or as good.
    `argv` as the user typed it. Raises CompilerFails; and HipcacheError if the command cannot be compared, with
    nothing done."""
    for command in commands:
        if not (command.links or command.makes_program):
            _compare(context, command, argv, cwd, config)


def _compare(context: Context, typed: Command, argv: Sequence[str], cwd: str, config: Config) -> None:
    how, inner, command = prepare(context, typed)
    if not all(map(_is_file, how.outputs)):
        return
    served, rule = _contents(how.outputs), _contents([how.rule] if how.rule else [])
    with Session(inner, command) as session:
        made = _made_in_place(how, session)
        verdict = SAME if made == served else DIFFERENT
        if verdict == DIFFERENT and _made_in_place(how, session) != made:
            verdict = VARYING
    # The compiler's dependency file lacks what only a device's pass has read.
    _put_back(rule)
    if not config.readonly:
        statistics.record_verified(config.dir, verdict)
    if verdict == DIFFERENT:
        different = next(path for path in how.outputs if made[path] != served[path])
        told = Difference(
            different,
            (command.compiler, *how.words),
            cwd,
            archs_of(command.arguments),
            served[different],
            made[different],
        )
        _tell(told, context, config)
        if not config.readonly:
            _make_anew(context, typed, argv, cwd)
            _put_back({**made, **rule})


def _made_in_place(how: Fresh, session: Session) -> dict[str, bytes]:
    if how.run(session) != 0 or not all(map(_is_file, how.outputs)):
        raise CompilerFails
    return _contents(how.outputs)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _contents(paths: Sequence[str]) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in paths if _is_file(path)}


def _put_back(contents: dict[str, bytes]) -> None:
    """Raises StoreError."""
    for path, content in contents.items():
        try:
            if Path(path).read_bytes() != content:
                write_whole(Path(path), content)
        except OSError as error:
            raise StoreError(f"cannot write '{path}': {error.strerror}") from error


def _tell(found: Difference, context: Context, config: Config) -> None:
    kept = None if config.readonly else keep(config.dir, found, context.clock())
    where = f"; both are in '{kept}'" if kept else ""
    telling.say(
        "hipcache: THE STORE SERVED A WRONG OBJECT, which the compiler's has replaced\n"
        f"  {found.summary()}\n"
        f"  what led to it is removed from the store{where}: please report it\n"
    )
    telling.log(config, f"wrong object: {found.summary()}: {' '.join(found.command)}")


def _make_anew(context: Context, command: Command, argv: Sequence[str], cwd: str) -> None:
    """Replace what the store has for the command."""
    try:
        for terminal in (False, True):
            context.store.remove_action(record.key(argv, cwd, terminal=terminal))
        front.make_each(replace(context, recache=True, preambles=0), [command], None)
    except HipcacheError as error:
        print(f"hipcache: cannot replace it in the store: {error}", file=sys.stderr)
