"""Scripts that stand for clang: hipcc (which is a binary by now), and those that are named as the compiler.

hipcc (Perl, or newer a binary) adds options to a command and runs clang. Which options, it derives from its own
variables (HIPCC_COMPILE_FLAGS_APPEND, HIP_CLANG_PATH, ...), from files, and from what several runs of clang say about
themselves. Nothing of that is guessed: hipcc is run under watch once, up to the moment when clang is about to begin
to compile (`observe.until`). The command that clang would have got is kept with all that hipcc and its helpers looked
at, and is compiled as if the user had written it. While nothing of that changes, no hipcc is started.

Where no architecture is named, hipcc has `rocm_agent_enumerator` ask the kernel for the machine's GPUs: what that says
(`processes.GPUS`), and that a device is not there, is looked at again for each compile, too.

A hipcc that prints something (as that program does where there is no GPU), opens a GPU itself, writes a file, or has
more to do after clang is left alone: a command cannot stand for that. What it prints after clang is not seen: the
binary hipcc of 2023 ends each compile with an empty line, which is left out (the Perl one and the later binary do
not). A compile that fails is run by hipcc itself, and says all that hipcc says.

A script is looked at in the same way: it may do more after the compile (sign, strip, count), which would be left out
where clang's own jobs are run. One that becomes clang (`exec clang++ "$@"`) has nothing to do after it. If it hands the
command on as it is, it is the compiler, and is asked for the plan itself. It is run twice, since the watch does not see
process IDs and random numbers; nor does it see clocks, so that a script that asks for the time is left alone.

Format of what is kept (`tool_answers`): JSON {"argv": [...], "environ": {name: value or null, ...}}, the variables that
hipcc sets or removes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hipcache.base.errors import PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import replace
from hipcache.build.context import Context
from hipcache.clang import tool_answers, tools
from hipcache.clang.command import (
    COMPILES,
    Command,
    Unwrapped,
    compiles_and_links,
    links_device_code,
    parse,
    parse_each,
    preprocesses,
)
from hipcache.clang.driver_options import why_passed_through
from hipcache.inputs.identity import is_script
from hipcache.inputs.variables import VOLATILE
from hipcache.processes import READ
from hipcache.processes.observe import Reached
from hipcache.processes.runner import Runner

# Variables that the Perl hipcc sets, and that no compiler reads.
_NO_MATTER = frozenset(["HCC_EXTRA_LIBRARIES"])
_COMPILED = (".hip", ".cpp", ".cc", ".cxx", ".C", ".cu")  # as HIP, by hipcc
_SHELLS = ("sh", "dash", "bash")
# What system() and popen() put before a command: musl, and glibc up to 2.40; glibc from 2.41 on.
_SYSTEM = (("-c",), ("-c", "--"))
_SEVERAL = frozenset(";&|<>`(){}\n")  # without one of these a shell runs one command, whatever it expands
# Words of a shell before a command: another status, text after it, a shell that does not wait.
_BEFORE = frozenset(["!", "time", "coproc"])
# What these say may be the same twice, and another thing next time.
_CLOCKS = frozenset(["date", "hostname", "uptime"])
_CLOCKS_OF_SHELLS = pattern(
    rb"\$\{?(?:EPOCHSECONDS|EPOCHREALTIME|SECONDS)\b|\(\([^\n]*\b(?:EPOCHSECONDS|SECONDS)\b|%\([^)\n]*\)T"
)
# Variables that no key has, but for TMPDIR, by which the two runs would differ. `cd -` reads OLDPWD.
_VOLATILE = "|".join(sorted(VOLATILE - {"_", "TMPDIR"})).encode()
_VOLATILE_OF_SHELLS = pattern(rb"\$\{?[#!]?(?:" + _VOLATILE + rb")\b|\bcd[ \t]+-(?![\w-])")
_COMMENT = pattern(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_OTHERS = pattern(rb"#![^\n]*\b(?:python|perl|ruby|lua|tclsh|node)")
_LONGEST = 1 << 20  # bytes of a script
_NO_ARCH = "name the architectures (--offload-arch=, or HCC_AMDGPU_TARGET), so that it does not ask the GPU"


def check(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raises PassThrough for a command of hipcc that is no compile, or cannot be unwrapped."""
    words = argv[1:]
    if COMPILES.isdisjoint(words) and not {"--genco", "-fgpu-rdc"} & set(words):
        left = next(filter(None, map(why_passed_through, words)), "")
        if left or not any(word.endswith(_COMPILED) for word in words):
            raise PassThrough(left or "link")
    if preprocesses(words) and not any(word.startswith(("-o", "--output")) for word in words):
        raise PassThrough("preprocess")
    if any(word.startswith(("@", "-Wl,@")) for word in words):
        raise PassThrough("wrapper", "it writes its own response file")
    if environ.get("HIPCC_VERBOSE", "0") not in ("", "0"):
        raise PassThrough("wrapper", "HIPCC_VERBOSE makes it print more")
    if environ.get("HIP_PLATFORM", "amd") in ("nvidia", "nvcc"):
        raise PassThrough("nvidia", f"HIP_PLATFORM is '{environ['HIP_PLATFORM']}'")


def unwrap(
    context: Context, argv: tuple[str, ...], cwd: str, runner: Runner, typed: tuple[str, ...]
) -> tuple[tuple[Command, ...], Context]:
    """The compile that hipcc would run for `argv` (one for each source), and the context with the environment that it
    would run it in. `typed`: the whole command of the user. Raises PassThrough, StoreError."""
    program = tools.which(argv[0], cwd, context.environ)
    if not program:
        raise PassThrough("wrapper", f"no '{argv[0]}' on PATH")
    unwrapped, words, inner = _behind(context, program, argv, cwd, runner)
    commands = parse_each(words, cwd, inner.environ)
    return tuple(replace(command, typed=typed, unwrapped=(unwrapped,)) for command in commands), inner


def through_script(context: Context, command: Command) -> tuple[Command, Context]:
    """The command itself, or, if its compiler is a script, the compile that the script would run, and the context with
    the environment for it. Raises PassThrough, StoreError."""
    program = tools.which(command.compiler, command.cwd, context.environ)
    if not is_script(program):
        return command, context
    unwrapped, words, inner = _behind(context, program, command.argv, command.cwd, context.runner)
    found = command
    if words[1:] != command.argv[1:]:
        found = parse(words, command.cwd, inner.environ, typed=command.typed)
    return replace(found, unwrapped=(*command.unwrapped, unwrapped)), inner


def _behind(
    context: Context, program: str, argv: tuple[str, ...], cwd: str, runner: Runner
) -> tuple[Unwrapped, tuple[str, ...], Context]:
    """The command that `program` runs for `argv`, and the context with the environment of that command."""
    question = tool_answers.question("wrapper, run twice", program, argv, cwd, context.environ)
    answer = tool_answers.recall(context, question)
    if answer is None:
        started = list[str]()
        reached = _ask(context, program, argv, cwd, runner, started)
        if is_script(program):
            _check_texts(
                [program, *(observation.path for observation in reached.observations if observation.how == READ)],
                started,
            )
        text = _text(context, reached)
        twice = is_script(program) and not tools.is_hipcc(program)
        if twice and text != _text(context, _ask(context, program, argv, cwd, runner, [])):
            raise PassThrough("wrapper", "it makes another command each time")
        answer = tool_answers.Answer(text, reached.observations)
        tool_answers.remember(context, question, answer)
    found = json.loads(answer.text)
    changed = {**context.environ, **found["environ"]}
    environ = {name: value for name, value in changed.items() if value is not None}
    return Unwrapped(argv[0], program, answer.observations), tuple(found["argv"]), replace(context, environ=environ)


def _ask(
    context: Context, program: str, argv: tuple[str, ...], cwd: str, runner: Runner, started: list[str]
) -> Reached:
    """Adds the names of all programs that start on the way to `started`."""

    def compiles(words: tuple[str, ...]) -> bool:
        started.extend(words[:1])
        return _compiles(words)

    with context.store.workdir() as scratch:
        env = {**context.environ, "TMPDIR": str(scratch)}
        reached = runner.until(compiles, program, argv, cwd=Path(cwd), env=env, ignore=scratch)
    if isinstance(reached, str):
        named = "HCC_AMDGPU_TARGET" in context.environ or any("-arch" in word or "-target=" in word for word in argv)
        raise PassThrough("wrapper", reached if named else f"{reached}; {_NO_ARCH}")
    command = list(tools.behind(reached.argv))
    if not tools.is_clang(command[0]):
        raise PassThrough("nvidia", f"it compiles with '{command[0]}'")
    for words in reached.waiting:
        if not _only_waits(words, reached.argv):
            raise PassThrough("wrapper", f"'{words[0]}' continues after the compile")
    return reached


def _check_texts(read: Iterable[str], started: Iterable[str]) -> None:
    """`read`: the script, and all files that were read meanwhile, scripts of shells among them."""
    asks = next((name for name in started if name.rpartition("/")[2] in _CLOCKS), "")
    if asks:
        raise PassThrough("wrapper", f"it asks '{asks}'")
    rules = (_CLOCKS_OF_SHELLS, "asks for the time"), (_VOLATILE_OF_SHELLS, "changes with each command of a build")
    for path in dict.fromkeys(read):
        text = _script(path)
        for rule, why in rules:
            if found := rule.search(text):
                raise PassThrough("wrapper", f"'{path}' has '{os.fsdecode(found.group())}', which {why}")


def _script(path: str) -> bytes:
    """The text of a file that a shell may read; empty for others."""
    try:
        with open(path, "rb") as file:
            text = file.read(4)
            text += b"" if text == b"\x7fELF" else file.read(_LONGEST)
    except OSError:
        return b""
    return b"" if b"\0" in text or _OTHERS.match(text) else _COMMENT.sub(b"", text)


def _text(context: Context, reached: Reached) -> str:
    return json.dumps({"argv": _compiler(reached), "environ": _changes(context.environ, reached.environ)})


def _compiles(argv: tuple[str, ...]) -> bool:
    compiler = tools.behind(argv)[:1]
    known = any(tools.is_clang(name) or name.endswith("nvcc") for name in compiler)
    ours = not COMPILES.isdisjoint(argv) or links_device_code(argv) or compiles_and_links(argv[1:])
    return known and ours and "-###" not in argv


def _only_waits(words: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    """Does this process end as the compiler does? hipcc itself, and a shell that was given one simple command."""
    name = words[0].rpartition("/")[2]
    if name in _SHELLS:
        if words[1:-1] not in _SYSTEM:
            return False
        try:
            command = shlex.split(words[-1])
            is_simple = not _SEVERAL & set(words[-1]) and _BEFORE.isdisjoint(command[:1])
            return is_simple or tuple(command) == argv
        except ValueError:
            return False
    return tools.is_hipcc(name) or (name.startswith("perl") and any(map(tools.is_hipcc, words[1:2])))


def _compiler(reached: Reached) -> tuple[str, ...]:
    command = tools.behind(reached.argv)
    return command if "/" in command[0] or command != reached.argv else (reached.program, *command[1:])


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    names = sorted({*before, *after} - VOLATILE - _NO_MATTER)
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}
