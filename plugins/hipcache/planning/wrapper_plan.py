"""The plan of a link by the new offload driver: one job of clang-linker-wrapper, and what it means to do.

The wrapper takes the device images out of its inputs, links those of each offload arch (LTO in its own process, then
clang, which runs lld), bundles the code objects, writes an object that registers the bundle, and runs the host's
linker. It prints no plan of that without doing the LTO. But it links images of one arch alone where its inputs have no
others, and none at all where it is given code objects (--override-image): that is how its work is cut here.

Its options are those of clang/tools/clang-linker-wrapper/LinkerWrapperOpts.td; all else that begins with a dash is the
host linker's, and all that does not is a file to it that is looked into. (From 20 on it has the LTO done by lld, with
other options: not tried here, so left to the compiler.)
"""

from __future__ import annotations

import re

from hipcache.errors import PassThrough
from hipcache.planning.cc1 import REFUSED_LLVM
from hipcache.planning.plan import clang_version, split
from hipcache.values import dataclass

_VERSIONS = (19,)
# What each device link gets as it stands.
_OF_DEVICES = re.compile(r"--(opt-level=O[0-3]|host-triple=.*|device-debug)$")
# What no device link depends on. (--sysroot stands for a `=` before a directory, which is refused.)
_OF_HOST = re.compile(r"--(linker-path=.*|sysroot=.*|compress|compression-level=.*|wrapper-jobs=\d+)$")
# Other options of the wrapper's own: they print, write files, or change what is linked in ways that are not known here.
_REFUSED = re.compile(
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
    """`options`: those that reach device links; `directories`: where libraries are looked for. `messages`: what the
    driver itself said."""

    program: str
    options: tuple[str, ...]
    inputs: tuple[Input, ...]
    directories: tuple[str, ...]
    output: str
    messages: str


def parse(text: str) -> WrapperPlan | None:
    """None where it is no plan with the linker wrapper. Raises PassThrough where it is one that is not understood."""
    jobs, messages = split(text)
    programs = [words[0].rpartition("/")[2] for words in jobs]
    if not any(name.startswith("clang-linker-wrapper") for name in programs):
        return None
    if len(jobs) != 1:
        raise PassThrough("link", "it compiles, too")
    if clang_version(text) not in _VERSIONS:
        raise PassThrough("new_driver", f"of clang {clang_version(text)}")
    return _parse(jobs[0][0], jobs[0][1:], messages)


def _parse(program: str, arguments: tuple[str, ...], messages: str) -> WrapperPlan:
    options: list[str] = []
    inputs: list[Input] = []
    directories: list[str] = []
    output, whole = "", False
    words = iter(arguments)
    for word in words:
        if word == "-o":
            output = next(words, "")
        elif word in ("-mllvm", "-rpath", "--rpath"):
            value = next(words, "")
            if word == "-mllvm":
                if REFUSED_LLVM.search(value):
                    raise PassThrough("linker_option", f"-mllvm {value}")
                options += [word, value]
        elif _OF_DEVICES.match(word):
            options.append(word)
        elif _OF_HOST.match(word):
            continue
        elif word in _WHOLE:
            whole = _WHOLE[word]
        elif _REFUSED.match(word):
            raise PassThrough("save_temps" if word == "--save-temps" else "linker_option", word)
        elif word.startswith("-L"):
            directories.append(word[2:] or next(words, ""))
        elif word.startswith("-l"):
            inputs.append(Input(word[2:] or next(words, ""), True, whole))
        elif not word.startswith("-"):
            inputs.append(Input(word, False, whole))
    if any(directory.startswith("=") for directory in directories):
        raise PassThrough("linker_option", "-L=")
    return WrapperPlan(program, tuple(options), tuple(inputs), tuple(directories), output, messages)
