"""Preambles: the leading includes of a source, which a pass may read precompiled (a PCH file) instead of as text.

A preamble is a header that has these includes and nothing else, precompiled with the options of the pass:

    clang -cc1 ... -emit-pch -x hip -                                     (the includes are on standard input)
    clang -cc1 ... -include-pch P -preamble-bytes=N,1 -fno-validate-pch   (N: where they end in the source)

It ends before the first line that is no include of a standard header (`standard_headers`), no comment and not blank.
The text lies nowhere, so it names a header in quotes as one in angles (`operand`). Each preamble begins with the header
that newer drivers put before every HIP source.
A comment must be one of which no warning tells (another one that begins in it, bytes that are no text) and that is no
line break to clang (a lone carriage return): the pass does not read it.

`why_not` and `header_rules` exclude all that is known to make a difference: see docs/preambles.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hipcache.inputs.keys import Key, make_key
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Files
from hipcache.patterns import pattern
from hipcache.planning import backend, header_rules
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.frontend import FrontEnd

# The driver's own, since clang 16 where it finds HIP.
WRAPPER = "__clang_hip_runtime_wrapper.h"
STANDARD_INPUT = "<stdin>"
# In the key of each preamble: raise it when one that older rules have made must not be used, or has another form. Where
# they were switched off they are on again then.
_RULES = "6"
# Then a precompiled header has the templates instantiated that its own text asks for.
INSTANTIATES = "-fpch-instantiate-templates"
# In a name in quotes they might be taken for something else.
_UNCLEAR = pattern(r'["\\?\x00-\x1f\x7f]')
# Messages with a place in one of these texts may have it elsewhere with a preamble, or give it another name.
_NO_FILES = pattern(rb"<(?:stdin|built-in|command line|scratch space)>")
# The number before a line that is quoted. Clang writes it since 17, and colours the words of the line since 18, but not
# with a precompiled header (clang/lib/Frontend/TextDiagnostic.cpp).
_NUMBERED = pattern(rb"^ *\d+ \| ", re.MULTILINE)
_COLOUR = b"\x1b["
# It was a header of the preamble that pushed: what it pushed is not part of a precompiled header. And without the text
# of the preamble, what follows it may look like the guard of a header.
_OF_PREAMBLES = pattern(rb"no matching push|\[-W(?:error,-W)?header-guard\]")

# Roles of options that the parsed text of a pass does not depend on.
_NOT_PARSED = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.PRESENTATION, Role.DIRECTORY, Role.BITCODE),
    *(Role.CUID, Role.GPUBINARY, Role.EMIT, Role.LANGUAGE, Role.INPUT),
}
_NAMES_SOURCE = ("-main-file-name",)
# With these a difference would show, or may: places of the text, and what is counted or told of the main file alone.
# From C++20 on, clang hides what it has declared itself in a precompiled header (operator new and delete); it does not
# hold which templates of the host's the device uses (-foffload-implicit-host-device-templates).
_LEFT = pattern(
    r"-(debug-info-|dwarf|gembed|fprofile|fcs-profile|fcoverage|coverage|fsanitize|fopenmp|fms-|fmodules|R"
    r"|W(?:error=)?(?:everything|unused-macros|documentation|max-tokens|c\+\+2|future-compat)|fmax-tokens"
    r"|foffload-implicit|fparse-all-comments|fretain-comments|traditional|trigraphs|fxray"
    r"|funique-internal|fpseudo-probe|ftest-coverage|pg$|ffile-reproducible|fdelayed-template|fkeep|frandomize"
    r"|-?std=(?:c|gnu)\+\+(?:98|03|2)|fno-pch|fpch|imacros|undef$|fallow-pch|fsyntax|fbuiltin-headers|ffreestanding-)"
)


def operand(name: str, source: str, search: SearchPath, files: Files) -> tuple[str, str]:
    """(another name, by which a text that lies nowhere includes the same header in the same way; the path at which it
    is sought before, in vain). Empty names if there is no such name: the source's path is relative, the header lies
    beside the source, or directories are searched for names in quotes alone.

    Clang looks beside the source; then it goes on as for a name in angles (clang/lib/Lex/HeaderSearch.cpp,
    LookupFile)."""
    plain = name[1:-1]
    if name.startswith("<"):
        return name, ""
    path = os.path.join(os.path.dirname(source), plain)
    if not source.startswith("/") or _UNCLEAR.search(path):
        return "", ""
    return ("", "") if search.quote or files.is_there(path) else (f"<{plain}>", path)


def may_say(front: FrontEnd, text: bytes) -> bool:
    """Is what a pass with a preamble has said what it says without? Not where a place is in a text that is no file: the
    stack of includes of the preamble's headers, macros of the command line, names that were pasted together; nor where
    the words of quoted lines have colours."""
    if not text:
        return True
    coloured = _COLOUR in text and _NUMBERED.search(text)
    return front.quotes_lines and not (coloured or _NO_FILES.search(text) or _OF_PREAMBLES.search(text))


def why_not(front: FrontEnd, *, bitcode: bool) -> str:
    """The reason why the pass goes without a preamble; empty if it need not. `bitcode`: does it end before its back
    end?"""
    job = front.job
    if job.emits != "-emit-obj":
        return "its output is no object"
    if front.auxiliary or not front.all_headers:
        return "it writes more than its object, or a list of some headers only"
    if not job.value(Role.CUID):
        return "it has no CUID"
    if not bitcode and front.is_device:
        return "it is a device pass in one step"
    for option in job.options:
        if option.role is not Role.DIRECTORY and _LEFT.match(option.text[0]):
            return f"{option.text[0]} is one of its options"
        if option.role is Role.MACRO and header_rules.macro_fault(os.fsencode(option.value)):
            return f"{option.name}{option.value}"
        if option.role is Role.INCLUDE and (option.name != "-include" or option.value != WRAPPER):
            return f"{option.name} {option.value}"
    if bitcode and WRAPPER in front.included and not is_optimized(front):
        return "without optimization, functions of the driver's header come in another order"
    return ""


def is_optimized(front: FrontEnd) -> bool:
    levels = [option.text[0] for option in front.job.options if option.text[0].startswith("-O")]
    return bool(levels) and levels[-1] != "-O0"


def key(front: FrontEnd, names: tuple[str, ...], directory: str, *, instantiated: bool) -> Key:
    """`directory`: the working directory; `instantiated`: has it instances of templates (`instances`)? The same for all
    sources that begin alike."""
    known = dict(front.key.inputs)
    relative = any(option.role is Role.SEARCH and not option.value.startswith("/") for option in front.job.options)
    named = [pair for pair in front.key.inputs if pair[0] == "one directory" or pair[0].startswith("content of ")]
    parts = [
        ("rules", _RULES),
        ("compiler", known["compiler"]),
        *(("option", " ".join(option.text)) for option in _options(front)),
        *named,
        *(("include", name) for name in names),
        *([("directory", directory)] if relative else []),
        *([("templates", INSTANTIATES)] if instantiated else []),
    ]
    return make_key("preamble", parts)


def off_key(front: FrontEnd) -> Key:
    """The key of the record which says that no pass of this compiler may have a preamble."""
    return make_key("preambles off", [("rules", _RULES), ("compiler", dict(front.key.inputs)["compiler"])])


def _options(front: FrontEnd) -> Iterator[Option]:
    for option in front.job.options:
        if option.role not in _NOT_PARSED and option.name not in _NAMES_SOURCE and option.text != ("-cc1",):
            yield option


def text_of(names: tuple[str, ...]) -> bytes:
    return os.fsencode("".join(f"#include {name}\n" for name in names))


def making(front: FrontEnd, output: str, dependencies: str, *, instantiated: bool) -> list[str]:
    """The command that reads a preamble's text on standard input."""
    words = [*compiling(front), "-emit-pch", "-fno-pch-timestamp", *([INSTANTIATES] if instantiated else [])]
    words += ["-dependency-file", dependencies, "-MT", "output", "-sys-header-deps"]
    return [*words, "-o", output, "-x", "hip", "-"]


def alone(front: FrontEnd, source: str, output: str, *, pch: str = "", assembly: bool) -> list[str]:
    """The command that compiles a preamble by itself, to LLVM's assembly or to an object. `source`: its text; with
    `pch`, the precompiled one, an empty file."""
    words = [*compiling(front), *(["-emit-llvm", "-disable-llvm-passes"] if assembly else ["-emit-obj"])]
    words += ["-include-pch", pch, "-fno-validate-pch"] if pch else []
    return [*words, "-o", output, "-x", "hip", source]


def listing_macros(front: FrontEnd, source: str, output: str) -> list[str]:
    """The command that lists all macros which are defined at the end of that text."""
    return [*compiling(front), "-E", "-dM", "-o", output, "-x", "hip", source]


def compiling(front: FrontEnd) -> list[str]:
    """The begin of a command that compiles a preamble's text: without what is to be made of it."""
    words = [front.job.program, "-cc1"]
    for option in _options(front):
        words += option.text
    return [*words, "-main-file-name", "preamble"]


def using(argv: list[str], pch: str, size: int) -> list[str]:
    """The command of a pass, with the preamble in the place of the first `size` bytes of its source."""
    skip = [f"-preamble-bytes={size},1"] if size else []
    return [*argv[:2], "-include-pch", pch, *skip, "-fno-validate-pch", *argv[2:]]


def back_end(front: FrontEnd, bitcode: str, output: str) -> list[str]:
    """The command that makes an object of a front end's bitcode."""
    words = [front.job.program]
    for option in backend.options(front.job.options):
        words += option.text
    return [*words, "-o", output, "-x", "ir", bitcode]
