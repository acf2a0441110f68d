"""The dry run of the driver, for compiles and sources of a GPU's assembler, and that of the linker wrapper.

The plan of the new offload driver (HIP's default since LLVM 23) is brought into the shape of the old one's (`plan`):

    for each offload arch:  cc1 (device)  -> bitcode
    llvm-offload-binary                   -> a package of it
    clang-linker-wrapper                  -> fat binary
        for each offload arch:  clang, which runs lld (LTO)   -> code object
        clang-offload-bundler                                 -> fat binary
    cc1 (host), which embeds the fat binary -> object

The driver does not print what the wrapper runs. The wrapper prints it itself (--dry-run), if it gets a package with an
image of each arch; it does not look into the images. The clang that it runs prints its lld (-###). So the package and
the wrapper are replaced by these jobs. Besides this module only `plan` (packages) and `link` know of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from hipcache.base.errors import PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field, replace
from hipcache.build.context import Context
from hipcache.clang import assembler, colours, driver, plan, tools
from hipcache.clang.assembler import AssemblerJob
from hipcache.clang.command import Command, messages_file
from hipcache.clang.driver_options import SERIALIZE, why_passed_through
from hipcache.clang.jobs import split
from hipcache.clang.plan import Plan
from hipcache.clang.tool_answers import Answer, question, recall, remember
from hipcache.inputs.identity import is_script
from hipcache.processes.runner import Runner

Job = tuple[str, ...]

_PACKAGERS = ("clang-offload-packager", "llvm-offload-binary")
_WRITES_FAT_BINARY = "--emit-fatbin-only"
# Options of the wrapper whose whole effect is on the commands that it prints.
_KNOWN = pattern(
    r"--(should-extract|device-compiler|device-linker|host-triple|linker-path|compression-level|wrapper-jobs)=."
    rf"|--compress$|{_WRITES_FAT_BINARY}$"
)
_JOBS = "--wrapper-jobs="
# The names of files while the wrapper is asked.
_PACKAGE, _FAT_BINARY = "package.out", "fat.hipfb"
_NO_IMAGE = "/dev/null"
_IMAGE = "--image="
# What it prints: the program is quoted, the words behind it are not.
_COMMAND = pattern(r' "([^"]+)" (.+)')
_INPUT = pattern(r"package-(.+)-[0-9a-f]{6}\.o")
_CODE = "code object"


@dataclass(frozen=True)
class Image:
    """The bitcode of one offload arch in a package; `name`: triple and arch, as the wrapper writes them into names of
    files; `fields`: the others of its description."""

    file: str
    name: str
    fields: tuple[str, ...]


@dataclass
class DryRuns:
    """Asks the wrapper and its clang. `looked`: every path that they looked at; None if unknown."""

    context: Context
    runner: Runner
    cwd: str
    scratch: Callable[[], Path]
    looked: driver.Observations | None = field(default_factory=tuple)

    def wrapper(self, package: Sequence[str], wrapper: Sequence[str]) -> str:
        """What the wrapper prints, in a directory with that package."""
        for program in (package[0], wrapper[0]):
            self._check(program)
        key = question("wrapper plan", package[0], [*package, *wrapper], "", self.context.environ)
        found = recall(self.context, key)
        if found is None:
            place = self.scratch() / "wrapper"
            place.mkdir(exist_ok=True)
            looked: list[driver.Observations] = []
            for argv in (package, wrapper):
                found = driver.run(argv[0], list(argv), self.context, self.runner, place, place)
                looked.append(found.observations)
            assert found
            whole = (*looked[0], *looked[1]) if all(looked) else ()
            found = Answer(found.text.replace(f"{place}/", ""), whole)
            remember(self.context, key, found)
        return self._text(found)

    def clang(self, argv: Sequence[str]) -> str:
        """The plan of that command."""
        self._check(argv[0])
        words = [argv[0], "-###", *argv[1:]]
        _, found = driver.answer(words, argv[1:], self.cwd, self.context, self.runner, self.scratch)
        return self._text(found)

    def _check(self, program: str) -> None:
        """These programs are only asked, never run: a script may do more than what it stands for prints."""
        if is_script(tools.find(program, self.cwd, self.context.environ)):
            raise PassThrough("plan", f"'{program}' is a script, which may do more than it prints")

    def _text(self, found: Answer) -> str:
        known = self.looked is not None and found.observations
        self.looked = (*(self.looked or ()), *found.observations) if known else None
        return found.text


def is_wrapper(program: str) -> bool:
    return program.rpartition("/")[2].startswith("clang-linker-wrapper")


def flat(jobs: Iterable[Job], asked: DryRuns) -> list[Job]:
    """The jobs, with all that a wrapper runs in its place where it writes a fat binary. Raises PassThrough."""
    flattened = list(jobs)
    for wrapper in [job for job in flattened if is_wrapper(job[0]) and _WRITES_FAT_BINARY in job]:
        output, package = _files(wrapper)
        packagers = [job for job in flattened if os.path.basename(job[0]).startswith(_PACKAGERS)]
        made = [job for job in packagers if job[1:3] == ("-o", package)]
        if len(made) != 1:
            raise PassThrough("plan", "the linker wrapper does not read one package")
        at = flattened.index(wrapper)
        flattened[at : at + 1] = _of_wrapper(wrapper, output, _images(made[0]), made[0][0], asked)
        flattened.remove(made[0])
    return flattened


def _files(wrapper: Job) -> tuple[str, str]:
    """The wrapper's output and input."""
    words = [word for word in wrapper[1:] if not _KNOWN.match(word)]
    if len(words) != 3 or words[0] != "-o" or any(word.startswith("-") for word in words[1:]):
        raise PassThrough("plan", f"the linker wrapper with '{' '.join(words)}'")
    if any(character in word for word in wrapper for character in ' "'):
        raise PassThrough("plan", "the linker wrapper prints words with blanks unquoted")
    return words[1], words[2]


def _images(package: Job) -> list[Image]:
    images = []
    for word in package[3:]:
        fields = dict(part.partition("=")[::2] for part in word.removeprefix(_IMAGE).split(","))
        file = fields.pop("file", "")
        if not word.startswith(_IMAGE) or not file or not {"triple", "arch", "kind"} <= fields.keys():
            raise PassThrough("plan", f"the packager's option '{word}'")
        rest = tuple(f"{name}={value}" for name, value in fields.items())
        images.append(Image(file, f"{fields['triple']}-{fields['arch']}", rest))
    return images


def _of_wrapper(wrapper: Job, output: str, images: list[Image], packager: str, asked: DryRuns) -> list[Job]:
    package = [packager, "-o", _PACKAGE]
    package += [_IMAGE + ",".join([f"file={_NO_IMAGE}", *image.fields]) for image in images]
    # How many are linked at once is no part of the answer, and asking make's jobserver for it might be.
    renamed = [word for word in wrapper if _KNOWN.match(word) and not word.startswith(_JOBS)]
    said = asked.wrapper(package, [wrapper[0], *renamed, "-o", _FAT_BINARY, _PACKAGE, "--dry-run"])
    *clangs, bundler = [_command(line) for line in said.splitlines()] or [("",)]
    if not os.path.basename(bundler[0]).startswith("clang-offload-bundler") or len(clangs) != len(images):
        raise PassThrough("plan", "the linker wrapper does not link each image once")
    links, codes = [], {}
    for command in clangs:
        image, code = _linked(command, images)
        codes[code] = f"{image.file}.code"
        links += _link(command, image, code, codes[code], asked)
    words = [_renamed(word, codes, output) for word in bundler[1:]]
    return [*links, (bundler[0], *words)]


def _command(line: str) -> Job:
    command = _COMMAND.fullmatch(line)
    if not command:
        raise PassThrough("plan", f"the linker wrapper printed: {line[:200]}")
    return (command[1], *command[2].split(" "))


def _linked(command: Job, images: list[Image]) -> tuple[Image, str]:
    """The only image that the command links, and its output."""
    names = [found[1] for word in command for found in [_INPUT.fullmatch(word)] if found]
    read = [image for image in images if [image.name] == names]
    if len(read) != 1 or command[1:-1].count("-o") != 1:
        raise PassThrough("target_id", f"images that the linker wrapper links together: {' '.join(names)}")
    return read[0], command[command.index("-o") + 1]


def _link(command: Job, image: Image, code: str, output: str, asked: DryRuns) -> list[Job]:
    """The lld that clang runs; two jobs for SPIR-V (`plan`)."""
    words = [_NO_IMAGE if _INPUT.fullmatch(word) else _CODE if word == code else word for word in command]
    jobs, messages = split(asked.clang(words))
    if len(jobs) != 1 + ("spirv64" in image.name) or messages:
        raise PassThrough(
            "plan", f"clang links device code with {len(jobs)} jobs{messages and f': {messages.strip()[:200]}'}"
        )
    names = {_NO_IMAGE: image.file, _CODE: output}
    return [tuple(names.get(word, word) for word in job) for job in jobs]


def _renamed(word: str, codes: dict[str, str], output: str) -> str:
    option, equals, value = word.partition("=")
    if option == "-input":
        return option + equals + codes.get(value, value)
    return f"-output={output}" if option == "-output" else word


@dataclass(frozen=True)
class Asked:
    """The plan, the path of the driver, and every path that the driver looked at (empty if unknown). `added`: what
    counts in a CUID of options that are not in the command; `of_terminal`: are messages as wide as this terminal?"""

    plan: Plan
    program: str
    observations: driver.Observations
    added: tuple[str, ...] = ()
    of_terminal: bool = False


@dataclass(frozen=True)
class AskedToAssemble:
    """The same for a GPU assembler source."""

    job: AssemblerJob
    program: str
    observations: driver.Observations


def ask(
    command: Command, cuid: str, context: Context, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Asked:
    """The plan for `command`. `cuid` is empty if the user has chosen one; `columns`: the width of the terminal
    that messages go to, None if they do not go to one; `scratch` gives a directory for what the driver leaves behind
    (clang 15 makes directories for its temporary files even when it only plans). Raises PassThrough, and JobFailed
    if the driver refuses the command."""
    command, messages = _without_messages_file(command)
    messages_as = colours.ask(command, context, runner, columns=columns, scratch=scratch)
    ours = [*messages_as.options, *([f"-cuid={cuid}"] if cuid else [])]
    program, words, found = driver.answer_with(ours, command, context, runner, scratch)
    driver.check_options(found.text, context.environ, _why_passed_through)
    more = driver.counted_options(found.text, context.environ, command.cwd)
    text = driver.as_typed(found.text, words, command)
    text = driver.with_messages_to(text, messages) if messages else text
    wrapper = DryRuns(context, runner, command.cwd, scratch)
    parsed = plan.parse(text, command.side, partial(flat, asked=wrapper))
    plan.check_side_outputs(parsed, command.path)
    looked = () if wrapper.looked is None else (*found.observations, *wrapper.looked)
    observations = messages_as.beside(looked if found.observations else ())
    return Asked(parsed, program, observations, more, messages_as.of_terminal)


def _why_passed_through(option: str) -> str:
    """The same for options that are not in the command: a file for messages among them is not known before."""
    return "side_output" if option in SERIALIZE else why_passed_through(option)


def _without_messages_file(command: Command) -> tuple[Command, str]:
    """The command with another file for messages, and the name of that one (see `SERIALIZE`)."""
    _, name = messages_file(command.argv)
    if messages_file(("", *command.arguments))[1] != name:
        raise PassThrough("side_output", f"{SERIALIZE[0]} in a response file")
    return replace(command, argv=driver.to_plan(command.argv)), name


def ask_assembler(command: Command, context: Context, runner: Runner, scratch: Callable[[], Path]) -> AskedToAssemble:
    """The plan for a source of a GPU's assembler. As `ask`; raises PassThrough also if the driver has something to
    say, which it would say in another look on a terminal."""
    if messages_file(("", *command.arguments))[0]:
        raise PassThrough("side_output", SERIALIZE[0])
    words = driver.words_for(command, [])
    program, found = driver.answer(words, command.arguments, command.cwd, context, runner, scratch)
    driver.check_options(found.text, context.environ, _why_passed_through)
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("job_output", f"the driver printed: {messages.strip()[:200]}")
    return AskedToAssemble(assembler.parse(jobs), program, found.observations)


def count_jobs(argv: tuple[str, ...], cwd: str, context: Context) -> tuple[int, driver.Observations]:
    """The number of jobs that the driver plans for a command of several sources, and all that it looked at for that
    (nothing if that is not known). Raises JobFailed, and PassThrough also if it has something to say: it says that
    once, for all sources."""
    if messages_file(argv)[0]:
        raise PassThrough("several_sources", SERIALIZE[0])
    words = [argv[0], "-###", *argv[1:]]
    with context.store.workdir() as scratch:
        _, found = driver.answer(words, argv, cwd, context, context.runner, lambda: scratch)
    driver.check_messages(found.text)
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("several_sources", f"the driver printed: {messages.strip()[:200]}")
    return len(jobs), found.observations
