"""An iree-compile command: one observed action that makes one module.

Its key has the words as typed (the module contains the name of the input), the compiler with its libraries, variables
and the processor. Everything else is in the trace: the input, bitcode, tuning specifications, parameter archives.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.keys import digest_bytes, make_key
from hipcache.base.paths import absolute, is_of_kernel
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.build import (
    Action,
    ActionId,
    ActionOutput,
    ActionResult,
    Bound,
    Cache,
    Delivery,
    Graph,
    Held,
    Inputs,
    Missing,
    Policy,
    Ran,
    Step,
    Trace,
    Unit,
)
from hipcache.build.context import Context
from hipcache.cache.content import ContentCache
from hipcache.clang import tool_answers, tools
from hipcache.execution import Planned
from hipcache.execution.local import said
from hipcache.execution.session import Session
from hipcache.inputs import observing, recording, variables
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import Unobserved, Untraceable
from hipcache.inputs.identity import Memos, is_script
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.inputs.variables import VOLATILE
from hipcache.iree.command import STANDARD_INPUT, positional, standard_input, target_of, without_output
from hipcache.processes import READ, observe
from hipcache.processes.observe import Observation
from hipcache.processes.runner import Runner, Traced

# The program that compiles if iree-compile is the script of IREE's package: that script's own answer.
#
# The script (`console_scripts` of iree-base-compiler) finds the program with `iree.compiler.tools.binaries.find_tool`,
# by IREE_TOOL_PATH or beside its package, and runs it with the same words. So its interpreter is asked for that, once:
# the answer is kept with all that it looked at (`tool_answers`). Any other script may do more than compile, and is left
# alone.
# As pip, distlib and uv write it: nothing but imports, its own name, and the call.
_SCRIPT = pattern(
    rb"#!(/\S+)\n(?:#.*\n)?(?:import (?:re|sys)\n)*"
    rb"from iree\.compiler\.tools\.scripts\.iree_compile\.__main__ import main\n+"
    rb"if __name__ == ['\"]__main__['\"]:\n"
    rb"(?: +(?:if|elif) sys\.argv\[0\]\.endswith\(.*\):\n| +sys\.argv\[0\] = .*\n)*"
    rb" +sys\.exit\(main\(\)\)\n*"
)
_MOST = 1 << 14
_ASK = """import sys
sys.path[0] = {place!r}
from iree.compiler.tools import binaries
print(binaries.find_tool("iree-compile"))"""


def find(context: Context, compiler: str, cwd: str, runner: Runner) -> str:
    """The absolute path of the program that compiles. Raises PassThrough."""
    program = tools.find(compiler, cwd, context.environ)
    if not is_script(program):
        return program
    with passing_through("tool", program), open(program, "rb") as file:
        known = _SCRIPT.fullmatch(file.read(_MOST))
    if not known:
        raise PassThrough("wrapper", f"'{program}' is a script, and none of IREE's package")
    question = tool_answers.question("iree", program, ("iree-compile",), cwd, context.environ)
    answer = tool_answers.recall(context, question)
    if answer is None:
        answer = _ask(context, os.fsdecode(known[1]), program, cwd, runner)
        tool_answers.remember(context, question, answer)
    return answer.text


def _ask(context: Context, python: str, program: str, cwd: str, runner: Runner) -> tool_answers.Answer:
    words = [python, "-c", _ASK.format(place=os.path.dirname(program))]
    environ = {**context.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    started = context.clock()
    with passing_through("wrapper", python):
        traced = runner.trace(words, cwd=Path(cwd), env=environ)
    found = os.path.normpath(os.fsdecode(traced.ended.stdout.rstrip(b"\n")))
    if traced.ended.status != 0 or not found.startswith("/") or is_script(found):
        raise PassThrough("wrapper", f"'{program}' does not say which program it runs")
    observations = (Observation(READ, program, observe.sign(READ, program)), *_observations(traced, cwd))
    known = traced.observed is not None and not observe.changed(observations, started)
    return tool_answers.Answer(found, observations if known else ())


def _observations(traced: Traced, cwd: str) -> list[Observation]:
    """More than `observe.observations` allows: Python asks how many processors there are, which does not decide where
    the program is."""
    found: dict[tuple[str, str], None] = {}
    for row in (traced.observed or b"").split(b"\0")[:-1]:
        how, path = observe.HOWS.get(row[:1]), absolute(os.fsdecode(row[2:]), cwd)
        if how and not is_of_kernel(path):
            found[how, path] = None
    return [Observation(how, path, observe.sign(how, path)) for how, path in found]


_NAME = "iree-compile"
_ID = ActionId(_NAME)
# The name that `hipcache verify` knows (`cache/records`).
_MODULE = "object"
# Their effects are seen otherwise: the observer sees programs that are looked for, the output names the directory.
_SEEN = frozenset(["PATH", "PWD"])
_CPUINFO = "/proc/cpuinfo"
_LINES = (b"model name", b"flags", b"Features", b"CPU part")


def plan(session: Session, columns: int | None) -> Planned:
    command = session.command
    path = command.path(command.output)
    if os.path.islink(path):
        raise PassThrough("linked_output", command.output)
    told = target_of(command.arguments)
    program = find(session.context, command.compiler, command.cwd, session.jobs.runner)
    words = without_output(command.arguments)

    given, digest = standard_input() if command.source == STANDARD_INPUT else (None, "")

    def compile(_: Inputs) -> Ran:
        made = session.jobs.scratch("module")
        stdin = session.jobs.scratch("input", given) if given is not None else None
        argv = [program, "-o", str(made), *words]
        return run(session, _NAME, argv, (_MODULE, made), _places(session), stdin)

    source = (("text of the source", digest),) if digest else ()
    compiler = session.tool(program)
    context = session.context
    surroundings = _surroundings(context.environ, session.identities.contents(), context.memos)
    action = Action(
        id=_ID,
        kind="iree module",
        label=_NAME,
        work=Step(compile),
        parts=(("compiler", compiler), *(("option", word) for word in words), *surroundings, *source),
        outputs=(_MODULE,),
        policy=Policy(Cache.OBSERVED),
        missing="nothing is stored for this command",
    )
    unit = Unit(_ID, told, (f"iree {told}",))
    graph = Graph((action,), (Delivery(path, ActionOutput(_ID, _MODULE), through_links=True),), (unit,), path)
    return PlannedModule(graph, tuple(positional(command.arguments)))


@dataclass(frozen=True)
class PlannedModule(Planned):
    """A module of IREE. `inputs`: the files that its command names."""

    inputs: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return self.inputs


def _places(session: Session) -> tuple[str, ...]:
    """The directories that a relative name may have become."""
    cwd = session.command.cwd
    source = os.path.dirname(os.path.normpath(session.command.path(session.command.source)))
    named = {cwd, os.path.realpath(cwd), session.context.environ.get("PWD", ""), session.files.basedir.path}
    if not session.command.source.startswith("/"):
        named |= {source, os.path.realpath(source)}
    return tuple(sorted(place for place in named if len(place) > 1))


def _surroundings(
    environ: Mapping[str, str], tools: Mapping[str, tuple[str, ...]], memos: Memos
) -> Iterator[tuple[str, str]]:
    """Parts of a key that are neither words of the command nor files: variables, if iree-compile can read them by name
    (`inputs/variables`), and the processor. It matters for `--iree-llvmcpu-target-cpu=host`, and for constants that are
    computed on it during compilation. `tools`: digest -> files. Raises PassThrough."""
    never = variables.never_asked(environ, tools, memos)
    for name in sorted(environ.keys() - never - VOLATILE - _SEEN):
        if not name.startswith("HIPCACHE_"):
            yield f"variable {name}", environ[name]
    yield "processor", _processor()


def _processor() -> str:
    """The description of the first processor; all of a machine are alike."""
    with passing_through("tool", _CPUINFO), open(_CPUINFO, "rb") as file:
        first = file.read().partition(b"\n\n")[0]
    return digest_bytes(b"\n".join(line for line in first.splitlines() if line.startswith(_LINES)))


# A process with undeclared inputs: run under observation, which gives its trace.
#
# The trace lists each file that it opened, by content, and each path that it looked for and did not find. The output is
# not stored if this list is incomplete: the process read something other than regular files, wrote a file beside the
# output, or a file changed meanwhile.


def run(
    session: Session,
    label: str,
    argv: list[str],
    output: tuple[str, Path],
    places: Sequence[str],
    stdin: Path | None = None,
) -> Ran:
    """`output`: its name and where the process writes it; `places`: directories whose names bind what was made to the
    working directory; `stdin`: a file for its standard input. Raises JobFailed, PassThrough."""
    with session.context.slots.hold(session.jobs.runner.check):
        started = session.context.clock()
        traced = session.jobs.trace(label, argv, environ=session.jobs.environ_here(), stdin=stdin)
        set_back = session.jobs.was_set_back(started, traced.ended)
    name, made = output
    text = said(session, traced.ended.stderr)
    trace, why_not = None, ""
    try:
        if set_back:
            raise Untraceable("the clock was set back while the compiler ran")
        reads = session.shelves.reads.keep(_reads(session, traced, started))
        content = made.read_bytes()
        is_named = any(Basedir(place).named_in(content) or place in text for place in places)
        trace = Trace(reads, session.command.cwd if is_named else "")
    except Untraceable as error:
        why_not = str(error)
        if isinstance(error, Unobserved):
            session.unobserved = True
    return Ran({name: Held(path=made)}, text, traced.ended.work, why_not, trace=trace)


def _reads(session: Session, traced: Traced, started: float) -> ReadSet:
    if traced.observed is None:
        raise Unobserved(f"hipcache cannot observe here what it reads: {traced.why}")
    seen = observing.parse(traced.observed, str(session.jobs.workdir))
    for path in sorted(seen.written):
        if not (path.startswith("/dev/") and is_of_kernel(path)):
            raise Untraceable(f"it also writes '{path}'")
    for path in sorted(seen.opened):
        try:
            regular = stat.S_ISREG(os.stat(session.files.resolve(path)).st_mode)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read: {error.strerror}") from error
        if not regular:
            raise Untraceable(f"'{path}' is not a regular file")
    return recording.record(
        session.files,
        read=[],
        user=None,
        first=[],
        macros=[],
        search=SearchPath((), ()),
        started=started,
        dated=False,
        observed=seen,
        is_tools=session.identities.knows,
    )


# One command may have so many versions of its files: several branches, and the state before an edit.
MOST_TRACES = 16


@dataclass(frozen=True)
class ObservedCache:
    """Results of actions with undeclared inputs: by key, and by the files that they were observed to read.

    The lookup has two steps. The action's key leads to a list of traces: JSON {"traces": [[hash of a read set,
    directory], ...]}, newest first. The first trace that holds gives the key of the result, an ordinary record
    (`cache/content`).

    Manifests of passes (`cache/manifest`) also store traces, but an entry there is the result itself, with properties
    that only clang passes have. hipcache knows nothing about how a tool like iree-compile uses its input, so a trace
    here holds only if every file has the same content, and the result has a key of its own.

    `differs` returns in words why a trace does not hold (empty: it holds).
    """

    content: ContentCache
    differs: Callable[[Trace], str]

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[ActionId, ActionResult | Missing]:
        missing: dict[ActionId, ActionResult | Missing] = {}
        holding = []
        traces = self._traces(wanted)
        for bound in wanted:
            why = ""
            for trace in traces.get(bound.key.digest, []):
                differs = self.differs(trace)
                if not differs:
                    holding.append(_result(bound, trace))
                    why = "the store no longer has its outputs"
                    break
                why = why or differs
            missing[bound.action.id] = Missing(why or bound.action.missing)
        return {**missing, **self.content.look_up(holding)}

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        if ran.trace is None:
            return self.content.publish(bound, ran)
        result = self.content.publish(_result(bound, ran.trace), ran)
        if not ran.why_not:
            found = self.content.shelf.actions.get([bound.key.digest]).get(bound.key.digest)
            old = _unpack(found) if found else []
            kept = [ran.trace, *(trace for trace in old if trace != ran.trace)][:MOST_TRACES]
            self.content.shelf.put(bound.key.digest, _pack(kept))
        return result

    def _traces(self, wanted: Sequence[Bound]) -> dict[str, list[Trace]]:
        records = self.content.shelf.records([bound.key.digest for bound in wanted]) if wanted else {}
        return {key: _unpack(record) for key, record in records.items()}


def result_cache(session: Session, content: ContentCache) -> ObservedCache:
    return ObservedCache(content, partial(_differs, session))


def _result(bound: Bound, trace: Trace) -> Bound:
    parts = (("action", bound.key.digest), ("read", trace.reads), ("directory", trace.directory))
    return Bound(bound.action, make_key(f"{bound.key.kind} that read", parts))


def _pack(traces: Sequence[Trace]) -> bytes:
    return json.dumps({"traces": [[trace.reads, trace.directory] for trace in traces]}, separators=(",", ":")).encode()


def _unpack(record: bytes) -> list[Trace]:
    try:
        return [Trace(str(reads), str(directory)) for reads, directory in json.loads(record)["traces"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _differs(session: Session, trace: Trace) -> str:
    """Why the trace no longer holds, in words; empty if it holds."""
    if trace.directory and trace.directory != session.command.cwd:
        return f"the output names the directory that it was made in, '{trace.directory}'"
    reads = session.shelves.reads.get(trace.reads)
    if reads is None:
        return "the store no longer has the list of files that it read"
    return session.files.differs(trace.reads, reads)
