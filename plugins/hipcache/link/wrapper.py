"""Links by the new offload driver: one job of clang-linker-wrapper, what it means to do, and the graph of that.

The wrapper takes the device images out of its inputs, links those of each offload arch (LTO in its own process, then
clang, which runs lld), bundles the code objects, writes an object that registers the bundle, and runs the host's
linker. It prints no plan of that without doing the LTO. But it links images of one arch alone where its inputs have no
others, and none at all where it is given code objects (--override-image): that is how its work is cut here.

Its options are those of clang/tools/clang-linker-wrapper/LinkerWrapperOpts.td; all else that begins with a dash is the
host linker's, and all that does not is a file to it that is looked into. (From 20 on it has the LTO done by lld.)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from functools import partial
from itertools import combinations
from pathlib import Path

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.keys import digest_bytes
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.build import Action, ActionOutput, Graph, Inputs, Literal, Ran, Ref, Source, Word
from hipcache.clang import colours, driver, host_object, jobs, tools
from hipcache.clang.cc1 import REFUSED_LLVM
from hipcache.clang.dry_run import is_wrapper
from hipcache.clang.host_object import UnknownObject
from hipcache.clang.jobs import COUNTING, ToolJob, clang_version, known_link, split
from hipcache.execution.local import place
from hipcache.execution.session import Session
from hipcache.link import steps
from hipcache.link.images import HIP, Embedded, UnknownFile, archive, read_images
from hipcache.link.steps import CODE

# Those that were tried. (Debian has no 20.)
_VERSIONS = (19, 21, 22, 23, 24)
# Options that each device link gets unchanged.
_OF_DEVICES = pattern(r"--(opt-level=O[0-3]|host-triple=.*|device-debug|device-compiler=.*|should-extract=.*)$")
# Options that no device link depends on: the wrapper reads them, and the host's linker does not get them either.
_OF_WRAPPER = pattern(r"--(linker-path=.*|compress|compression-level=.*|wrapper-jobs=(\d+|jobserver))$")
# Of these, what the bundle of the code objects depends on.
_OF_BUNDLE = pattern(r"--compress")
_LINKER = "--linker-path="
# Since 22 an option of LLVM's own comes in two such words.
_TO_LINKER = "--device-linker="
# Stands in the host linker's words for what the wrapper makes.
_HOLDER = "\0the object that registers the code objects"
# Other options of the wrapper's own: they print, write files, or change what is linked in ways that are not known here.
_REFUSED = pattern(
    r"--(arch=|bitcode-library=|builtin-bitcode=|clang-backend$|compiler-arg=|cuda-path=|device-|dry-run$|embed-bitcode$"
    r"|help|linker-arg=|opt-level|output|override-image=|pass-remarks|print-wrapped|ptxas-arg=|save-temps$|triple="
    r"|whole-program$|wrapper-)"
    r"|--?(library|offload-opt=|relocatable$|r$|v$|version$)|[-/]\??(out:|libpath:|wholearchive)|-o.|-?-?$|@"
)
_WHOLE = {"--whole-archive": True, "-whole-archive": True, "--no-whole-archive": False, "-no-whole-archive": False}


@dataclass(frozen=True)
class Input:
    """A file as spelled, or (`library`) what stood behind -l. `whole`: is all of a static library taken?"""

    name: str
    library: bool
    whole: bool


@dataclass(frozen=True)
class WrapperPlan:
    """`job` as it stands; `options`: those that reach device links; `bundling`: those that reach the bundle of code
    objects. `host`: the words of the host's linker; `directories`: where libraries are looked for. `messages`: what the
    driver itself said."""

    job: ToolJob
    options: tuple[str, ...]
    bundling: tuple[str, ...]
    host: tuple[str, ...]
    inputs: tuple[Input, ...]
    directories: tuple[str, ...]
    output: str
    messages: str
    bundles_by_elf: bool

    @property
    def by_compiler(self) -> bool:
        """Do options for the device's compiler, which links, stand among the wrapper's? (Since 22.)"""
        return any(word.startswith("--device-compiler=") for word in self.options)

    def host_link(self, holder: str) -> list[str]:
        """The command of the host's linker, where `holder` is the object that registers the code objects."""
        return [holder if word == _HOLDER else word for word in self.host]


def parse(text: str) -> WrapperPlan | None:
    """The plan; None if it is no plan with the linker wrapper. Raises PassThrough if it is one that is not
    understood."""
    jobs, messages = split(text)
    if not any(is_wrapper(words[0]) for words in jobs):
        return None
    if len(jobs) != 1:
        raise PassThrough("link", "it compiles, too")
    return of_job(ToolJob(jobs[0][0], jobs[0][1:]), messages, clang_version(text))


def of_job(job: ToolJob, messages: str, version: int) -> WrapperPlan:
    """The same of the job alone, of clang's major `version`."""
    if version not in _VERSIONS:
        raise PassThrough("new_driver", f"of clang {version}")
    options: list[str] = []
    bundling: list[str] = []
    linker, host = "", list[str]()
    inputs: list[Input] = []
    directories: list[str] = []
    output, whole = "", False
    words = iter(job.arguments)
    for word in words:
        ours = [word]
        if word == "-o":
            output = next(words, "")
            ours += [output, _HOLDER]
        elif word.startswith(_TO_LINKER) and word.endswith("=-mllvm"):
            value = next(words, "")
            _check_llvm(value.removeprefix(_TO_LINKER).partition("=")[2])
            options += [word, value]
            ours = []
        elif word in ("-mllvm", "-rpath", "--rpath"):
            value = next(words, "")
            ours.append(value)
            if word == "-mllvm":
                _check_llvm(value)
                options += ours
                ours = []
        elif _OF_DEVICES.match(word) or _OF_WRAPPER.match(word):
            options += ours if _OF_DEVICES.match(word) else []
            bundling += ours if _OF_BUNDLE.match(word) else []
            linker = word[len(_LINKER) :] if word.startswith(_LINKER) else linker
            ours = []
        elif word in _WHOLE:
            whole = _WHOLE[word]
        elif _REFUSED.match(word):
            raise PassThrough("save_temps" if word == "--save-temps" else "linker_option", word)
        elif word.startswith(("-L", "-l")):
            value = word[2:] or next(words, "")
            ours = [word[:2], value]
            if word.startswith("-L"):
                directories.append(value)
            else:
                inputs.append(Input(value, True, whole))
        elif not word.startswith("-"):
            inputs.append(Input(word, False, whole))
        host += ours
    if any(directory.startswith("=") for directory in directories):
        raise PassThrough("linker_option", "-L=")
    return WrapperPlan(
        job,
        tuple(options),
        tuple(bundling),
        (linker, *host),
        tuple(inputs),
        tuple(directories),
        output,
        messages,
        version >= 23,
    )


def _check_llvm(option: str) -> None:
    if not option.startswith("-") or REFUSED_LLVM.search(option):
        raise PassThrough("linker_option", f"-mllvm {option}")
    if COUNTING.search(option):
        raise PassThrough("linker_option", f"-mllvm {option}, which may count across all architectures")


# From LLVM 24 on the processor stands in it, as in "amdgpu9.0a".
_TRIPLE = pattern(r"(amdgcn|amdgpu[0-9a-f.]*)-amd-amdhsa$")
_FLIP = str.maketrans("+-", "-+")
_TARGET_ID = pattern(r"gfx[0-9a-f]+(:(sramecc|xnack)[+-])*$")


@dataclass(frozen=True)
class LinkInput:
    """An input with device code."""

    path: str
    found: Embedded
    whole: bool

    @property
    def is_lazy(self) -> bool:
        return self.found.is_archive and not self.whole

    def of(self, arch: str) -> bytes:
        """The same input without the images of other archs, for the wrapper; empty if it has no image of this arch."""
        images = [image for image in self.found.images if image.arch == arch]
        return archive(images) if images and self.is_lazy else b"".join(image.raw for image in images)


def read_inputs(session: Session, plan: WrapperPlan) -> list[LinkInput]:
    """The inputs with device code. Raises PassThrough."""
    files = [file for file in (_open(session, plan, name) for name in plan.inputs) if file and file.found.images]
    images = [image for file in files for image in file.found.images]
    for image in images:
        if image.kind not in HIP or not _TRIPLE.match(image.triple) or not image.is_bitcode:
            raise PassThrough("link", f"device code that is not HIP's bitcode, for '{image.triple}'")
        if not _TARGET_ID.match(image.arch):
            raise PassThrough("target_id", image.arch)
    _check_incompatible({image.arch for image in images})
    return files


def triples_of(files: list[LinkInput]) -> dict[str, str]:
    """Arch -> triple, in the order of the wrapper's links. Archs that only libraries have are not linked. Raises
    PassThrough."""
    triples = {image.arch: image.triple for file in files if not file.is_lazy for image in file.found.images}
    if not triples:
        raise PassThrough("link", "of objects that have no device code to link")
    for image in (image for file in files for image in file.found.images):
        if triples.get(image.arch, image.triple) != image.triple:
            raise PassThrough("link", f"{image.arch} with two triples")
    return triples


def _check_incompatible(archs: Set[str]) -> None:
    """Images of one target ID that run on another one's devices, too, are linked for both (`areTargetsCompatible`,
    llvm/lib/Object/OffloadBinary.cpp): for all of one processor but those with other features."""
    for one, other in combinations(sorted(archs), 2):
        first, second = one.split(":"), other.split(":")
        flipped = {feature.translate(_FLIP) for feature in second[1:]}
        if first[0] == second[0] and not flipped & set(first[1:]):
            raise PassThrough("target_id", f"{one} and {other}, which are linked together")


def _open(session: Session, plan: WrapperPlan, file: Input) -> LinkInput | None:
    """The file of an input; None if the wrapper finds none there."""
    name = _library(session, plan, file.name) if file.library else file.name
    path = session.files.resolve(name)
    if not os.path.exists(path) or os.path.isdir(path):
        return None
    if not os.path.isfile(path):
        raise PassThrough("named_file", f"'{name}' is not a regular file")
    try:
        with passing_through("named_file", name):
            return LinkInput(name, read_images(path), file.whole)
    except UnknownFile as error:
        raise PassThrough("object_layout", f"'{name}': {error}") from error


def _library(session: Session, plan: WrapperPlan, name: str) -> str:
    """The path where the wrapper finds it (`searchLibrary`)."""
    if name.endswith(".lib"):
        raise PassThrough("linker_option", f"-l{name}")
    wanted = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
    for directory in plan.directories:
        for file in wanted:
            path = os.path.join(directory, file)
            if os.path.exists(session.files.resolve(path)):
                return path
    raise PassThrough("named_file", f"no library '-l{name}'")


# The programs that clang-linker-wrapper runs for a device link: their contents are in the key.


def keyed_tools(session: Session, plan: WrapperPlan, processor: str, triple: str) -> list[tuple[str, str]]:
    """The parts of each key for the wrapper, for the clang that it runs, and for the lld that this runs. (Differences
    between architectures follow from the arch.)"""
    beside = os.path.dirname(os.path.realpath(session.files.resolve(plan.job.program)))
    clang = os.path.join(beside, "clang")
    level = next((word[len("--opt-level=") :] for word in plan.options if word.startswith("--opt-level=")), "O2")
    words = [clang, "-###", "--no-default-config", "-o", "code object", f"--target={triple}", f"-mcpu={processor}"]
    words += [f"-{level}", "-Wl,--no-undefined", "/dev/null"]
    words += [
        word.partition("=")[2].partition("=")[2] for word in plan.options if word.startswith("--device-compiler=")
    ]
    runner, cwd = session.jobs.runner, session.command.cwd
    _, said = driver.answer(words, words, cwd, session.context, runner, lambda: session.jobs.workdir)
    jobs, messages = split(said.text)
    if len(jobs) != 1:
        raise PassThrough("plan", f"clang links device code with {len(jobs)} jobs")
    program, *options = jobs[0]
    # It will say so in each device link: that some of its words, which variables choose, too, are of no use.
    inputs = [("compiler's message", messages)] if messages else []
    for name, path in (("linker wrapper", plan.job.program), ("compiler", clang), ("linker", program)):
        inputs.append((name, session.tool(path)))
    return inputs + [("linker option", word.replace(processor, "arch")) for word in known_link(tuple(options))]


def nothing_program(session: Session) -> str:
    """The path of a program that does nothing."""
    found = tools.which("true", session.command.cwd, session.context.environ)
    if not found:
        raise PassThrough("tool", "no 'true' on PATH")
    return found


# The object that holds a program's code objects and registers them, as clang-linker-wrapper would have written it.
#
# Given code objects (--override-image), the wrapper knows of each no more than its processor: of target IDs with
# features it would make a bundle in which the features are missing, and from LLVM 23 on one with the triple of the ELF
# file. So it is given one alone, to write such an object and say how it runs the bundler; that is run for all of them
# by their target IDs, and the bundle put in the place of the first. What else is in the object says nothing of the
# bundle, not even its size.

_NAME = "program"
_BUNDLE, _OBJECT = f"{_NAME}.hipfb", f"{_NAME}.o"
# The host's linker, called `-o program /.../program.hip.image.wrapper-012345.o` with the bundle beside that object,
# keeps both. (With --save-temps the wrapper would keep them, but from 23 on it makes another object then.)
_KEEPS = f"""\
#!/bin/sh
cp "$3" {_OBJECT} && cp "${{3%.hip.image.wrapper*}}"-*.hipfb {_BUNDLE}
"""
_TARGETS = pattern(r"(-targets=host-[^,]+),hip-amd(?:gcn|gpu)-amd-amdhsa--")
_TARGET = ",hip-amdgcn-amd-amdhsa--"


def make_holder(session: Session, plan: WrapperPlan, codes: Mapping[str, str]) -> Path:
    """Its path. `codes`: paths of code objects by arch. Raises JobFailed, PassThrough."""
    jobs = session.jobs
    linker = jobs.scratch("holder/linker", _KEEPS.encode())
    linker.chmod(0o700)
    place = linker.parent
    environ = {**jobs.environ_here(), "TMPDIR": str(place)}
    words = [plan.job.program, *plan.options, *plan.bundling, "--wrapper-verbose"]
    words += [f"--linker-path={linker}", "-o", _NAME, f"--override-image=hip={next(iter(codes.values()))}"]
    done = jobs.run_now("linker wrapper", words, directory=place, environ=environ)
    try:
        first, template = (place / _BUNDLE).read_bytes(), (place / _OBJECT).read_bytes()
        bundled = jobs.run_now("bundler", _bundler(os.fsdecode(done.stderr), codes), directory=place)
        if bundled.stderr:
            raise PassThrough("job_output", f"the bundler printed: {os.fsdecode(bundled.stderr)[:200]}")
        spliced = host_object.splice(template, (place / _BUNDLE).read_bytes(), first)
    except OSError as error:
        raise PassThrough("job_output", f"the linker wrapper did not write '{error.filename}'") from error
    except UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error
    return jobs.scratch(f"{place.name}/{_OBJECT}", spliced)


def _bundler(said: str, codes: Mapping[str, str]) -> list[str]:
    """The command of the bundler for all `codes`, in the wrapper's order."""
    # The first line. (The second one is the host linker's.) The first word of each is quoted, the others are not.
    lines = said.splitlines()
    if len(lines) != 2 or not lines[0].startswith(' "') or " -output=" not in lines[0]:
        raise PassThrough("job_output", f"the linker wrapper printed: {said[:200]}")
    program, _, rest = lines[0][2:].partition('" ')
    # The store may have a blank in its name.
    rest = rest.partition(" -output=")[0].replace(f" -input={next(iter(codes.values()))}", "")
    archs = sorted(codes, reverse=True)
    words = [program]
    for word in rest.split():
        if targets := _TARGETS.match(word):
            words.append("".join([targets[1], *(_TARGET + arch for arch in archs)]))
        elif not word.startswith("-input="):
            words.append(word)
        elif word == "-input=/dev/null":
            words += [word, *(f"-input={codes[arch]}" for arch in archs)]
    return [*words, f"-output={_BUNDLE}"]


# Begins the names of a device link's inputs. What is said of them names no file of the user's.
INPUT = "hipcache-input-"


def last_action(session: Session, plan: WrapperPlan, codes: Mapping[str, ActionOutput], columns: int | None) -> Action:
    """`codes`: by arch."""
    inputs = {f"{arch}/code": code for arch, code in codes.items()}

    def link(read: Inputs) -> Ran:
        if any(INPUT in read.said(name) for name in inputs):
            raise PassThrough("job_output", "a device link printed a message about one of its inputs")
        paths = {arch: place(session, name, read) for arch, name in zip(codes, inputs, strict=True)}
        return _link(session, plan, paths, columns)

    return steps.last_step(session, link, inputs)


def _link(session: Session, plan: WrapperPlan, codes: Mapping[str, str], columns: int | None) -> Ran:
    """Have the user's command (where it does nothing but link), the wrapper, or the host's linker write the program.
    `codes`: paths of code objects by arch. Raises HostLinkFailed, JobFailed, PassThrough."""
    if plan.bundles_by_elf or any(":" in arch for arch in codes):
        linker, *words = plan.host_link(str(make_holder(session, plan, codes)))
        message = f"{plan.job.program}: error: '{os.path.basename(linker)}' failed\n"
        return steps.run_host_link(session, ToolJob(linker, tuple(words)), columns=columns, wrapper=message)
    images = [f"--override-image=hip={code}" for code in codes.values()]
    command = session.command
    if not command.links:
        return steps.run_host_link(session, ToolJob(plan.job.program, (*images, *plan.job.arguments)), columns=columns)
    jobs = session.jobs
    messages_as = colours.ask(command, session.context, jobs.runner, columns=columns, scratch=lambda: jobs.workdir)
    words = [command.compiler, *messages_as.options]
    for image in images:
        words += ["-Xlinker", image]
    # The driver speaks before the device links, the host's linker after them.
    return steps.run_command(session, [*words, *command.argv[1:]], plan.messages)


def graph(session: Session, plan: WrapperPlan, sources: Mapping[str, str], columns: int | None) -> Graph:
    """The device link of each arch, keyed with the images that go in, and the link.

    clang-linker-wrapper runs each device link, with inputs that contain only that arch's images, a host linker that
    does nothing, and a path for clang to write the code object to. Then the user's own command runs with the code
    objects: the wrapper bundles, registers and links them as it would its own. `sources`: of temporary objects. Raises
    PassThrough.
    """
    for word in plan.options:
        named = jobs.value_of(word)
        if named and session.files.exists(
            named
        ):  # by a path that device links, in a directory of their own, may not have
            raise PassThrough("linker_option", f"{word} names a file")
    files = read_inputs(session, plan)
    triples = triples_of(files)
    arch, triple = next(iter(triples.items()))
    tools = keyed_tools(session, plan, arch.partition(":")[0], triple)
    nothing = nothing_program(session)
    links = {arch: _device_link(plan, arch, files, sources, tools, nothing) for arch in triples}
    units = tuple(steps.unit_of(arch, link, several=bool(sources)) for arch, link in links.items())
    codes = {arch: steps.code_of(link) for arch, link in links.items()}
    program = last_action(session, plan, codes, columns)
    return Graph((*links.values(), program), (), units, session.command.path(plan.output), plan.messages)


def _device_link(
    plan: WrapperPlan,
    arch: str,
    files: list[LinkInput],
    sources: Mapping[str, str],
    tools: list[tuple[str, str]],
    nothing: str,
) -> Action:
    parts: list[tuple[str, Word]] = [*tools, *(("option", word) for word in plan.options), ("arch", arch)]
    command: list[Word] = [plan.job.program, *plan.options, f"--linker-path={nothing}"]
    # Where clang writes: lld's last word until 19, clang's since (the driver puts lld's own in the end).
    chooser = "--device-compiler=-o" if plan.by_compiler else "--device-linker=-o"
    command += [(chooser, Ref(CODE)), "-o", os.path.basename(plan.output)]
    inputs: list[tuple[str, Source]] = []
    for number, file in enumerate(files):
        content = file.of(arch)
        if content:
            base = os.path.basename(sources.get(file.path, file.path))
            name = f"{arch}/{INPUT}{number}/{base}"
            what = f"device code of library '{base}'" if file.is_lazy else f"device code of '{base}'"
            inputs.append((name, Literal(digest_bytes(content), partial(file.of, arch))))
            parts.append((what, (Ref(name),)))
            command.append((Ref(name),))
    return steps.device_link(arch, tuple(command), f"{arch}/{CODE}", parts, inputs, root=arch)
