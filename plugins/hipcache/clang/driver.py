"""Asks the compiler driver for its plan (`-###`), or reuses a stored plan that still holds (`tool_answers`)."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hipcache.base import native
from hipcache.base.errors import JobFailed, PassThrough, in_words, passing_through
from hipcache.base.paths import is_stream, names_stream
from hipcache.base.patterns import pattern
from hipcache.build.context import Context
from hipcache.clang import cuid, tool_answers, tools
from hipcache.clang.cc1 import COMMAND_LINES, NOWHERE
from hipcache.clang.command import Command, messages_file, tokenize
from hipcache.clang.driver_options import ARCHS, chooses_cuid, refuse_options
from hipcache.clang.jobs import split
from hipcache.clang.tool_answers import Answer
from hipcache.processes import observe
from hipcache.processes.runner import Runner

# Configuration files of clang: options that the driver reads before those of the command.
#
# Words have the quoting rules of response files, within a line; a backslash at its end continues it, and `#` in front
# of it makes it a comment. `@file` stands for the words of another such file. Its name, if relative, and `<CFGDIR>`
# begin at the file in which they stand (llvm/lib/Support/CommandLine.cpp: `tokenizeConfigFile`, `expandResponseFile`).

_BLANKS = " \t\r\n"
_LINE = pattern(rf"[{_BLANKS}]*(#[^\n]*|(?:\\\r\n|\\.|[^\\\n]|\\\Z)+)", re.DOTALL)
_CONTINUED = pattern(r"\\(?:(\r?\n)|(.))", re.DOTALL)
_MOST_NESTED = 20


def configuration_words(path: str, depth: int = 0) -> list[str]:
    """The options in such a file, and in those that it names. Raises PassThrough."""
    if depth > _MOST_NESTED:
        raise PassThrough("response_file", f"'{path}': nested too deep")
    words: list[str] = []
    directory = os.path.dirname(path)
    for line in _LINE.findall(_configuration_text(path)):
        if line.startswith("#"):
            continue
        joined = _CONTINUED.sub(lambda found: "" if found[1] else found[0], line)
        for word in (token.replace("<CFGDIR>", directory) for token in tokenize(joined)):
            if word.startswith("@"):
                words += configuration_words(os.path.join(directory, word[1:]), depth + 1)
            elif word.startswith("--config="):  # by the driver's rules of where to look
                raise PassThrough("plan", f"'{path}' has '{word}'")
            else:
                words.append(word)
    return words


def _configuration_text(path: str) -> str:
    if is_stream(path):
        raise PassThrough("standard_streams", path)
    with passing_through("driver", path), open(path, "rb") as file:
        raw = file.read()
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16", "replace") if utf16 else raw.decode("utf-8-sig", "surrogateescape")


# Options that a command does not have, and that the driver adds to it.

# Options that certainly take no other word.
_WHOLE = pattern(r"-(?:O|W|(?:[DUI]|MJ).|std=|f[\w-]+=|g\d?$)|[^-]")
_WIDTH = "-fmessage-length="


def added_options(text: str, environ: Mapping[str, str]) -> list[str]:
    """Options that are not in the command: of the configuration files that the plan's banner names, and of
    CCC_OVERRIDE_OPTIONS."""
    return _edited(_edits(environ)) + _configured(text)


def counted_options(text: str, environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """What counts of these in a CUID. Edits are taken as they are: some take options away."""
    edits = (f"edit {edit}" for edit in _edits(environ) if edit and not edit[1:].startswith(ARCHS))
    return (*cuid.options(_configured(text), cwd), *edits)


def _configured(text: str) -> list[str]:
    names = re.findall(r"^Configuration file: (.*)$", text, re.MULTILINE)
    return [word for name in names for word in configuration_words(name)]


def kept_options(ours: Sequence[str], text: str, environ: Mapping[str, str]) -> list[str]:
    """Our options without those that the user has chosen there."""
    theirs = added_options(text, environ)
    chosen = ["-cuid="] if any(map(chooses_cuid, theirs)) else []
    if any(word.startswith(_WIDTH) for word in theirs):
        chosen.append(_WIDTH)
    return [word for word in ours if not word.startswith(tuple(chosen))]


def check_edits(environ: Mapping[str, str]) -> None:
    """Raises PassThrough if CCC_OVERRIDE_OPTIONS puts an option first whose value may be the next word: that would be
    our own `-###`, and the driver would compile."""
    for edit in _edits(environ):
        if edit[:1] == "^" and not _WHOLE.match(edit[1:]):
            raise PassThrough("plan", f"CCC_OVERRIDE_OPTIONS has '{edit}'")


def _edits(environ: Mapping[str, str]) -> list[str]:
    return environ.get("CCC_OVERRIDE_OPTIONS", "").removeprefix("#").split(" ")


def _edited(edits: list[str]) -> list[str]:
    """The words that CCC_OVERRIDE_OPTIONS adds to a command (clang/lib/Driver/Driver.cpp: `applyOneOverrideOption`).
    A `#` in front silences what the driver says about the edits. Raises PassThrough for one that may turn any word into
    any other."""
    words: list[str] = []
    for edit in edits:
        if edit.startswith(("+", "^")):
            words.append(edit[1:])
        elif edit and edit[0] not in "xXO":
            raise PassThrough("plan", f"CCC_OVERRIDE_OPTIONS has '{edit}'")
    return words


Observations = tuple[observe.Observation, ...]

# The name of the driver's own job.
DRIVER = "the driver"
# `native` as the value of an option (-march=native, --offload-arch=gfx906,native), not as a part of a path.
_NATIVE = pattern(r"(?:^|[=,;])native(?![\w/.-])")
# Those that ask the processor alone.
_OF_PROCESSOR = pattern(r"-m(?:arch|cpu|tune)=native")


def why_unknown(arguments: Sequence[str]) -> str:
    """Why it is not known all that the driver looked at, and what the user can do about it."""
    words = sorted(filter(_NATIVE.search, arguments), key=lambda word: _OF_PROCESSOR.fullmatch(word) is not None)
    if not words:
        return "hipcache does not know all that the driver looked at"
    name = "the processor (-march=znver3)" if _OF_PROCESSOR.fullmatch(words[0]) else "the GPU (--offload-arch=gfx90a)"
    return f"'{words[0]}' makes the driver ask the machine; name {name} instead"


def to_plan(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with messages to nowhere: the driver removes the file that they would go to, even when it plans."""
    at, _ = messages_file(argv)
    return (*argv[:at], NOWHERE, *argv[at + 1 :]) if at else argv


def with_messages_to(text: str, file: str) -> str:
    """The plan of such a command, with messages to the file."""
    quoted = re.sub(r'([\\"$])', r"\\\1", file)
    return text.replace(f'"{NOWHERE}"', f'"{quoted}"')


def as_typed(text: str, words: Sequence[str], command: Command) -> str:
    """The plan without our options (of `words`, the command that was asked for it) in those texts of it that repeat the
    command: -grecord-command-line and -frecord-command-line put it into the object. The driver gives the words back as
    they are, blanks and backslashes escaped; ours have neither. Where a text is not as that, ours stay, and `cc1`
    refuses it."""
    ours = " ".join(words[1 : len(words) - len(command.argv) + 1])
    if not any(f'"{name}"' in text for name in COMMAND_LINES):
        return text
    return re.sub(rf'("(?:{"|".join(COMMAND_LINES)})" "[^"]*?) {re.escape(ours)}(?= )', r"\1", text)


def answer(
    argv: list[str], arguments: Sequence[str], cwd: str, context: Context, runner: Runner, scratch: Callable[[], Path]
) -> tuple[str, Answer]:
    """The path of the driver, and what it says to `argv`, which has `-###` in it and `arguments` written out: as it
    was remembered, if that still holds. Raises PassThrough, JobFailed."""
    program = tools.find(argv[0], cwd, context.environ)
    question = tool_answers.question("plan", program, argv, cwd, context.environ)
    found = tool_answers.recall(context, question)
    if found is None:
        check_edits(context.environ)
        asking = list(filter(_NATIVE.search, arguments))
        processor = observe.processor() if asking else None
        found = run(program, argv, context, runner, Path(cwd), scratch())
        if any("native" in word for word in added_options(found.text, context.environ)):
            found = Answer(found.text, ())
        elif asking:
            found = _beside(found, processor if all(map(_OF_PROCESSOR.fullmatch, asking)) else None)
        tool_answers.remember(context, question, found)
    return program, found


def answer_with(
    ours: Sequence[str], command: Command, context: Context, runner: Runner, scratch: Callable[[], Path]
) -> tuple[str, list[str], Answer]:
    """The same for the command with those of our options that the driver has a use for, and that the user has not
    chosen in a configuration file: these stand before ours, which would count instead. Also the words for that."""
    words = words_for(command, ours)
    try:
        program, found = answer(words, command.arguments, command.cwd, context, runner, scratch)
    except JobFailed as failed:  # maybe of a warning about ours, by -Werror
        used = [word for word in ours if _is_used(word, os.fsdecode(failed.said))]
        if used == [*ours]:
            raise
        return answer_with(used, command, context, runner, scratch)
    kept = kept_options([word for word in ours if _is_used(word, found.text)], found.text, context.environ)
    if kept == [*ours]:
        return program, words, found
    words, before = words_for(command, kept), found.observations
    program, found = answer(words, command.arguments, command.cwd, context, runner, scratch)
    looked = (*before, *found.observations) if before and found.observations else ()
    return program, words, Answer(found.text, looked)


def _is_used(option: str, text: str) -> bool:
    """The new offload driver, up to clang 19, has no CUIDs."""
    return f"unused during compilation: '{option}'" not in text


def _beside(found: Answer, processor: observe.Observation | None) -> Answer:
    """The answer of a driver that has asked the machine what `native` means, and not through a path. `processor`: what
    was asked, as it was before; None if that is not known."""
    known = found.observations and processor and processor == observe.processor()
    return Answer(found.text, (*found.observations, processor) if known and processor else ())


def words_for(command: Command, more: Sequence[str]) -> list[str]:
    # Our options go first, so that the user's override them, and because a `--` may end the options.
    return [command.compiler, "-###", *more, *command.argv[1:]]


def check_options(text: str, environ: Mapping[str, str], why: Callable[[str], str]) -> None:
    """Raises PassThrough for an option that is not in the command, and that `why` gives a reason for, or that names a
    stream; JobFailed."""
    added = added_options(text, environ)
    refuse_options(added, lambda word: why(word) or ("standard_streams" if names_stream(word, "/") else ""))
    check_messages(text)


def check_messages(text: str) -> None:
    """clang 15 plans on after an error (an -Xarch_ option that cannot be forwarded) and ends with status 0."""
    if "error:" in text and "error:" in split(text)[1]:
        raise JobFailed(DRIVER, 1)


def run(program: str, argv: list[str], context: Context, runner: Runner, cwd: Path, scratch: Path) -> Answer:
    env = {**context.environ, "TMPDIR": str(scratch)}
    # A program that does not bear the library (AddressSanitizer's comes first) is asked without.
    for more in (native.for_plans(program, context.environ), {}):
        started = context.clock()
        try:
            traced = runner.trace(argv, cwd=cwd, env={**env, **more}, program=program)
        except OSError as error:
            raise PassThrough("driver", in_words(error)) from error
        answer = traced.ended
        if answer.status == 0 or b"error: " in answer.stderr or not more:
            break
    observations = observe.observations(traced.observed, str(cwd), ignore=str(scratch), started=started)
    if answer.status != 0:
        raise JobFailed(DRIVER, answer.status, b"" if answer.stdout else answer.stderr)
    if answer.stdout:
        raise PassThrough("driver", "-### wrote to standard output")
    return Answer(os.fsdecode(answer.stderr), observations)
