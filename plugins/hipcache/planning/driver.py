"""Asks the compiler driver for its plan; one that was given before is taken where it still holds (`answers`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough
from hipcache.planning import answers, assembler, auxiliary, link_plan, plan, program_plan, tools, wrapper_plan
from hipcache.planning.answers import Answer
from hipcache.planning.assembler import AssemblerJob
from hipcache.planning.cc1 import COMMAND_LINES
from hipcache.planning.command import Command, is_relocatable, messages_file
from hipcache.planning.driver_options import SERIALIZE, why_left, why_left_in_link, why_left_in_program
from hipcache.planning.jobs import split
from hipcache.planning.link_plan import LinkPlan
from hipcache.planning.plan import Plan
from hipcache.planning.program_plan import ProgramPlan
from hipcache.planning.responses import expand, tokenize
from hipcache.planning.wrapper_plan import WrapperPlan
from hipcache.processes.observe import Observation
from hipcache.processes.runner import Runner
from hipcache.values import dataclass, replace

# What a job is called that is the driver itself.
DRIVER = "the driver"
# Where no file is, nor can one be made.
_NOWHERE = "/proc/hipcache-messages"
# The value of an option (-march=native, --offload-arch=gfx906,native), and no part of a path.
_NATIVE = re.compile(r"(?:^|[=,;])native(?![\w/.-])")


@dataclass(frozen=True)
class Asked:
    """The plan, the path of the driver, and all that it looked at for it (nothing where that is not known)."""

    plan: Plan
    program: str
    looked: tuple[Observation, ...]


@dataclass(frozen=True)
class AskedToAssemble:
    """The same of a source of a GPU's assembler."""

    job: AssemblerJob
    program: str
    looked: tuple[Observation, ...]


def ask(
    command: Command, cuid: str, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Asked:
    """The plan for `command`. `cuid` is empty where the user has chosen one; `columns`: the width of the terminal
    that messages go to, None if they do not go to one; `scratch` gives a directory for what the driver leaves behind
    (clang 15 makes directories for its temporary files even when it only plans). Raises PassThrough, and JobFailed
    where the driver refuses the command."""
    command, messages = _without_messages_file(command)
    words = _words(command, [f"-cuid={cuid}"] if cuid else [], engine, columns)
    program, found = answer(words, command.arguments, command.cwd, engine, runner, scratch)
    looked = found.looked
    if cuid and f"unused during compilation: '-cuid={cuid}'" in found.text:
        # The new offload driver, up to clang 19, has no CUIDs.
        words = _words(command, [], engine, columns)
        program, found = answer(words, command.arguments, command.cwd, engine, runner, scratch)
        looked = (*looked, *found.looked) if looked and found.looked else ()
    _check(found.text, engine.environ, lambda word: "side_output" if word in SERIALIZE else why_left(word))
    text = as_typed(found.text, words, command)
    text = text.replace(f'"{_NOWHERE}"', _quoted(messages)) if messages else text
    parsed = plan.parse(text, command.side)
    auxiliary.check(parsed, command.path)
    return Asked(parsed, program, looked)


def _without_messages_file(command: Command) -> tuple[Command, str]:
    """The command with another file for messages, and the name of that one (see `SERIALIZE`)."""
    _, name = messages_file(command.argv)
    if messages_file(("", *command.arguments))[1] != name:
        raise PassThrough("side_output", f"{SERIALIZE[0]} in a response file")
    return replace(command, argv=to_plan(command.argv)), name


def to_plan(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with messages to nowhere: the driver removes the file that they would go to, even when it plans."""
    at, _ = messages_file(argv)
    return (*argv[:at], _NOWHERE, *argv[at + 1 :]) if at else argv


def as_typed(text: str, words: Sequence[str], command: Command) -> str:
    """The plan without our options (of `words`, the command that was asked for it) in those texts of it that repeat the
    command: -grecord-command-line and -frecord-command-line put it into the object. The driver gives the words back as
    they are, blanks and backslashes escaped; ours have neither. Where a text is not as that, ours stay, and `cc1`
    refuses it."""
    ours = " ".join(words[1 : len(words) - len(command.argv) + 1])
    if not any(f'"{name}"' in text for name in COMMAND_LINES):
        return text
    return re.sub(
        rf'("(?:{"|".join(COMMAND_LINES)})" "[^"]*?) {re.escape(ours)}(?= )',
        r"\1",
        text,
    )


def _quoted(word: str) -> str:
    return '"' + re.sub(r'([\\"$])', r"\\\1", word) + '"'


def answer(
    argv: list[str],
    arguments: Sequence[str],
    cwd: str,
    engine: Engine,
    runner: Runner,
    scratch: Callable[[], Path],
) -> tuple[str, Answer]:
    """The path of the driver, and what it says to `argv`, which has `-###` in it and `arguments` written out: as it
    was remembered, if that still holds. Raises PassThrough, JobFailed."""
    program = _program(argv[0], cwd, engine)
    question = answers.question("plan", program, argv, cwd, engine.environ)
    found = answers.recall(engine, question)
    if found is None:
        found = _run(program, argv, engine, runner, Path(cwd), scratch())
        # What `native` stands for is asked of the machine, by ways that are no paths.
        more = _more_options(found.text, engine.environ)
        if any(map(_NATIVE.search, arguments)) or any("native" in word for word in more):
            found = Answer(found.text, ())
        answers.remember(engine, question, found)
    return program, found


def count_jobs(argv: tuple[str, ...], cwd: str, engine: Engine) -> tuple[int, tuple[Observation, ...]]:
    """How many jobs the driver plans for a command of several sources, and all that it looked at for that (nothing
    where that is not known). Raises JobFailed, and PassThrough also where it has something to say: it says that once,
    for all sources."""
    if messages_file(argv)[0]:
        raise PassThrough("several_sources", SERIALIZE[0])
    words = [argv[0], "-###", *argv[1:]]
    with engine.store.workdir() as scratch:
        _, found = answer(words, argv, cwd, engine, engine.runner, lambda: scratch)
    _check_messages(found.text)
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("several_sources", f"the driver said: {messages.strip()[:200]}")
    return len(jobs), found.looked


def ask_program(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> ProgramPlan:
    """The plan for a program that is compiled and linked at once, with the driver's own CUIDs. As `ask`; with
    relocatable device code as `ask_link`."""
    if is_relocatable(command.arguments):
        text = _ask_anew(command, engine, runner, columns, scratch(), why_left_in_program)
        return program_plan.parse_relocatable(text, command.side)
    words = _words(command, [], engine, columns)
    _, found = answer(words, command.arguments, command.cwd, engine, runner, scratch)
    _check(found.text, engine.environ, why_left_in_program)
    return program_plan.parse(as_typed(found.text, words, command), command.side)


def ask_assembler(command: Command, engine: Engine, runner: Runner, scratch: Callable[[], Path]) -> AskedToAssemble:
    """The plan for a source of a GPU's assembler. As `ask`; raises PassThrough also where the driver has something to
    say, which it would say in another look on a terminal."""
    if messages_file(("", *command.arguments))[0]:
        raise PassThrough("side_output", SERIALIZE[0])
    words = _words(command, [], engine, None)
    program, found = answer(words, command.arguments, command.cwd, engine, runner, scratch)
    _check(found.text, engine.environ, lambda word: "side_output" if word in SERIALIZE else why_left(word))
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("job_output", f"the driver said: {messages.strip()[:200]}")
    return AskedToAssemble(assembler.parse(jobs), program, found.looked)


def ask_link(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Path
) -> LinkPlan | WrapperPlan:
    """The plan for a link, whose temporary files lie below `scratch`. Raises PassThrough, JobFailed."""
    text = _ask_anew(command, engine, runner, columns, scratch, why_left_in_link)
    return wrapper_plan.parse(text) or link_plan.parse(text)


def _ask_anew(
    command: Command, engine: Engine, runner: Runner, columns: int | None, scratch: Path, why: Callable[[str], str]
) -> str:
    words = _words(command, [link_plan.DUMP_SCRIPT], engine, columns)
    program = _program(words[0], command.cwd, engine)
    text = _run(program, words, engine, runner, Path(command.cwd), scratch).text
    _check(text, engine.environ, why)
    return text


def _program(compiler: str, cwd: str, engine: Engine) -> str:
    program = tools.which(compiler, cwd, engine.environ)
    if not program:
        raise PassThrough("driver", f"no '{compiler}' on PATH")
    return program


def _words(command: Command, more: list[str], engine: Engine, columns: int | None) -> list[str]:
    # All of ours go first, so that the user's options win, and since a `--` may end the options.
    return [command.compiler, "-###", *look(engine.environ, columns), *more, *command.argv[1:]]


def look(environ: Mapping[str, str], columns: int | None) -> list[str]:
    """The options for messages as they would look without us. `columns`: see `ask`."""
    # The driver looks whether its own standard error is a terminal: ours is, its is not.
    colours = ["-fcolor-diagnostics"] if environ.get("TERM", "") not in ("", "dumb") else []
    return [] if columns is None else [*colours, f"-fmessage-length={columns}"]


def _check(text: str, environ: Mapping[str, str], why: Callable[[str], str]) -> None:
    """Raises PassThrough for an option that is not in the command, and that `why` gives a reason for; JobFailed."""
    for word in _more_options(text, environ):
        reason = why(word)
        if reason:
            raise PassThrough(reason, word)
    _check_messages(text)


def _check_messages(text: str) -> None:
    """clang 15 plans on after an error (an -Xarch_ option that cannot be forwarded) and ends with status 0."""
    if "error:" in text and "error:" in split(text)[1]:
        raise JobFailed(DRIVER, 1)


def _more_options(text: str, environ: Mapping[str, str]) -> list[str]:
    """Options that are not in the command: of the configuration files that the plan's banner names, and of
    CCC_OVERRIDE_OPTIONS, which marks them with + or ^."""
    words = [word.lstrip("+^") for word in environ.get("CCC_OVERRIDE_OPTIONS", "").split()]
    for name in re.findall(r"^Configuration file: (.*)$", text, re.MULTILINE):
        try:
            with open(name, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line for line in file if not line.lstrip().startswith("#")]
        except OSError as error:
            raise PassThrough("driver", f"'{name}': {error.strerror}") from error
        words += expand(tokenize("".join(lines)), os.path.dirname(name))
    return words


def _run(program: str, argv: list[str], engine: Engine, runner: Runner, cwd: Path, scratch: Path) -> Answer:
    env = {**engine.environ, "TMPDIR": str(scratch)}
    seen = runner.observe(program, argv, cwd=cwd, env=env, ignore=scratch)
    try:
        answer, looked = seen or (runner.run(argv, env=env, cwd=cwd), ())
    except OSError as error:
        raise PassThrough("driver", str(error)) from error
    if answer.status != 0:
        raise JobFailed(DRIVER, answer.status, b"" if answer.stdout else answer.stderr)
    if answer.stdout:
        raise PassThrough("driver", "-### wrote to standard output")
    return Answer(os.fsdecode(answer.stderr), looked)
