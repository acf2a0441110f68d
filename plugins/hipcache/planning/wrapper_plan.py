"""The plan of a link by the new offload driver: one job of clang-linker-wrapper, and what it means to do.

The wrapper takes the device images out of its inputs, links those of each offload arch (LTO in its own process, then
clang, which runs lld), bundles the code objects, writes an object that registers the bundle, and runs the host's
linker. It prints no plan of that without doing the LTO. But it links images of one arch alone where its inputs have no
others, and none at all where it is given code objects (--override-image): that is how its work is cut here.

Its options are those of clang/tools/clang-linker-wrapper/LinkerWrapperOpts.td; all else that begins with a dash is the
host linker's, and all that does not is a file to it that is looked into. (From 20 on it has the LTO done by lld.)
"""

from __future__ import annotations

from hipcache.errors import PassThrough
from hipcache.patterns import pattern
from hipcache.planning.cc1 import REFUSED_LLVM
from hipcache.planning.jobs import ToolJob, clang_version, split
from hipcache.planning.lld import COUNTING
from hipcache.values import dataclass

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


def is_wrapper(program: str) -> bool:
    return program.rpartition("/")[2].startswith("clang-linker-wrapper")


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
