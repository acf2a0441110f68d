"""Device front ends that are alike: they differ in the name of the GPU, and in nothing else that clang looks at.

Many GPUs have the same features for clang, such as gfx1030 to gfx1036 (clang/lib/Basic/Targets/AMDGPU.cpp,
llvm/lib/TargetParser). Where the text behind the preprocessor is the same too, so is their bitcode, but for the name in
the attribute `target-cpu` of functions, and the number of the GPU if the device libraries ask for it
(`__oclc_ISA_version`). Names of one length take the same place in it.

    clang -cc1 ... -E -dD                        the text of the pass: some tenth of the time of its front end
    clang -cc1 ... -emit-llvm -x ir BITCODE      what a bitcode file says, as text

The text has all macros as they are defined, and the line of each token. A line lies in one branch of a condition: where
two texts are the same, the same branches were taken, but for such as have neither tokens nor macros. What remains of
these is no part of a text that is shared (`gpu_names`, `may_ask`).

Two GPUs have the same features if clang makes the same of an empty kernel (`PROBE`) for both, and defines the same
macros, but for the name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hipcache.inputs.keys import Key, make_key
from hipcache.patterns import pattern
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.frontend import REPLACED, FrontEnd
from hipcache.values import dataclass

PROBE = b"__attribute__((global)) void kernel() {}\n"
# The variable by which device libraries ask for the number of the GPU.
_ISA_VERSION = b"__oclc_ISA_version"
_NUMBER = pattern(rb"^@__oclc_ISA_version = [^\n]*\bi32 ([0-9]+)\b", re.MULTILINE)
# In each key: raise it when what older rules have found must not count.
_RULES = "3"
_CPU = "-target-cpu"
_NAMED = pattern(r"gfx[0-9]{1,2}[0-9a-f]{2}")
# The file that sets that variable, as the driver names it.
_ISA_FILE = "oclc_isa_version_{}.bc"
# Behind clang's own macros, in a text.
_COMMAND_LINE = b'# 1 "<command line>" 1\n'
# Where a file or eight lines end, the text has a line that begins with #.
_ASKS = pattern(
    rb"processor_is|\b_*target(?:_clones|_version)?_*\s*(?:#|\((?![\w\s]*\)))|^#pragma[^\n]*target"
    rb"|__builtin_COLUMN|__builtin_source_location|__oclc_ISA_version",
    re.MULTILINE,
)
# Their output has more of the text than its tokens, or of the command; or they say more than warnings and errors.
_LEFT = pattern(
    r"-(debug-info-|dwarf|gembed|fprofile|fcs-profile|fcoverage|coverage|fsanitize|fmodules|R|fxray|fopenmp"
    r"|funique-internal|fpseudo-probe|ftest-coverage|pg$|record-command-line|fembed|ftime|fparse-all-comments|emit-llvm"
    # Options for the form of the text.
    r"|P$|CC?$|d[A-Z]$|fminimize-whitespace|fkeep-system-includes|fdirectives-only|traditional|frewrite)"
)


@dataclass(frozen=True)
class Kind:
    """The front end of the GPU `arch` over one source. Two of one `key` may be alike. `library`: the digest of the file
    with the GPU's number, if the command names it."""

    arch: str
    key: Key
    library: str


def kind(front: FrontEnd) -> Kind | None:
    """None if no other front end may be like it."""
    job = front.job
    archs = [option.value for option in job.options if option.name == _CPU]
    if front.comments_matter or front.auxiliary or job.emits != "-emit-obj":
        return None
    if len(archs) != 1 or not _NAMED.fullmatch(archs[0]):
        return None
    if any(option.role is not Role.DIRECTORY and _LEFT.match(option.text[0]) for option in job.options):
        return None
    arch, library, parts = archs[0], "", [("compiler", _compiler(front))]
    for option in job.options:
        if option.role in REPLACED or option.name == _CPU:
            continue
        words = " ".join(option.text)
        if option.role is Role.BITCODE and os.path.basename(option.value) == _ISA_FILE.format(arch[3:]):
            words = f"{option.name} {os.path.dirname(option.value)}/{_ISA_FILE}"
            library = dict(front.key.inputs)[f"bitcode {_ISA_FILE.format(arch[3:])}"]
        parts.append(("option", words))
    return Kind(arch, make_key("front ends alike", [*parts, ("length of the name", str(len(arch)))]), library)


def number(arch: str) -> int:
    """The number of the GPU, as its device library has it: 10306 of gfx1036, 9010 of gfx90a."""
    return int(arch[3:-2]) * 1000 + int(arch[-2], 16) * 100 + int(arch[-1], 16)


def as_text(argv: list[str]) -> list[str]:
    """The command of a front end, changed to one that writes the text which it would read."""
    start = argv.index("-emit-llvm-bc")
    end = argv.index("-disable-llvm-passes")
    return [*argv[:start], "-E", "-dD", "-Wembedded-directive", *argv[end + 1 :]]


def probes(front: FrontEnd, source: str, output: str) -> Iterator[list[str]]:
    """Commands that write what clang makes of that source without headers: as bitcode, then the macros."""
    words = [front.job.program, "-cc1", *(word for option in _options(front) for word in option.text)]
    words += [_CPU, front.job.value(Role.PLAIN, _CPU), "-main-file-name", "probe", "-o", output, "-x", "hip", source]
    yield [*words, "-emit-llvm-bc", "-disable-llvm-passes"]
    yield [*words, "-E", "-dM"]


def as_assembly(front: FrontEnd, bitcode: str, output: str) -> list[str]:
    """The command that writes what the bitcode says."""
    triple = ["-triple", front.job.value(Role.PLAIN, "-triple")]
    return [front.job.program, "-cc1", *triple, "-emit-llvm", "-disable-llvm-passes", "-o", output, "-x", "ir", bitcode]


def probe_key(front: FrontEnd, arch: str) -> Key:
    """The key of what the probes have found."""
    return make_key("probe of a GPU", [*_parts(front), ("GPU", arch)])


def trust_key(front: FrontEnd, one: Kind, other: Kind, preamble: str, has_number: bool) -> Key:
    """The key of the record that the bitcode of one, made with that preamble, was compared with that of the other.
    `has_number`: the number of the GPU is in it, too."""
    gpus = [("GPU", f"{kind.arch} {kind.library}") for kind in sorted((one, other), key=lambda kind: kind.arch)]
    return make_key("shared front end", [*_parts(front), *gpus, ("preamble", preamble), ("number", str(has_number))])


def number_in(assembly: bytes, of: Kind) -> int | None:
    """The number of the GPU, if it is in what its bitcode says."""
    found = _NUMBER.search(assembly) if of.library else None
    return int(found.group(1)) if found else None


def neutral(text: bytes, arch: str) -> bytes:
    """The text of a pass without the name of its GPU in clang's own macros; empty if these do not stand where they
    should."""
    own, mark, rest = text.partition(_COMMAND_LINE)
    return own.replace(arch.encode(), b"gfx") + mark + rest if mark else b""


def may_ask(text: bytes) -> bool:
    """May the source ask for more than the text shows: for the name of the GPU (since clang 21, `__builtin_amdgcn_
    processor_is`), for the features of another GPU, for a column, or set the number of the GPU itself?"""
    return bool(_ASKS.search(text))


def off_key(front: FrontEnd) -> Key:
    """The key of the record which says that no front end of this compiler may serve another GPU."""
    return make_key("shared front ends off", [("rules", _RULES), ("compiler", _compiler(front))])


def _parts(front: FrontEnd) -> list[tuple[str, str]]:
    options = [("option", " ".join(option.text)) for option in _options(front)]
    return [("rules", _RULES), ("compiler", _compiler(front)), *options]


def _options(front: FrontEnd) -> Iterator[Option]:
    """Those that no text of a source needs, without the name of the GPU."""
    for option in front.job.options:
        mere = option.role is Role.PLAIN and option.name not in (_CPU, "-main-file-name")
        if mere and option.text != ("-cc1",):
            yield option


def _compiler(front: FrontEnd) -> str:
    return dict(front.key.inputs)["compiler"]
