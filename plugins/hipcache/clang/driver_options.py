"""Driver options that must be known before the driver is asked (clang/include/clang/Driver/Options.td, 15 to 19)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from hipcache.base.errors import PassThrough


class Side(Enum):
    """The sides that a command line asks for."""

    BOTH = auto()
    DEVICE = auto()
    HOST = auto()


SIDES = {
    "--cuda-device-only": Side.DEVICE,
    "--offload-device-only": Side.DEVICE,
    "--cuda-host-only": Side.HOST,
    "--offload-host-only": Side.HOST,
    "--cuda-compile-host-device": Side.BOTH,
    "--offload-host-device": Side.BOTH,
}

# Options whose value is the next word (kind Separate, or JoinedOrSeparate). One that is missing here makes its
# value look like a second source: the compile passes through.
_WITH_VALUE = """
    -o --output -x --language -I --include-directory -D --define-macro -U --undefine-macro -include --include -imacros
    --imacros -isystem -iquote -idirafter -isysroot --sysroot -cxx-isystem -stdlib++-isystem -iprefix -iwithprefix
    -iwithprefixbefore -iwithsysroot -iframework -ivfsoverlay -include-pch -MF -MT -MQ -MJ -Xclang -Xlinker -Xassembler
    -Xpreprocessor -Xoffload-linker -Xcuda-ptxas -Xcuda-fatbinary -Xopenmp-target -Xthinlto -mllvm -target --target
    -arch -L --library-directory -l -T -F -framework -u -z -e -A -B --prefix -G -rpath -resource-dir -working-directory
    --param --serialize-diagnostics -serialize-diagnostics -dependency-file --config -dumpdir -dumpbase -gcc-toolchain
    -mthread-model -ccc-install-dir -ccc-gcc-name -Tbss -Tdata -Ttext --std
"""
SEPARATE = frozenset(_WITH_VALUE.split())

# Reason of `reasons.REASONS` -> options that make another kind of output, or act while the driver only plans.
# A word that ends in * stands for all that begin so.
_LEFT = """
    dependencies_only   -M -MM -MG --dependencies --user-dependencies
    no_object           -fsyntax-only --precompile -emit-ast --analyze --emit-static-lib -emit-interface-stubs
    asks_driver         -### -v --verbose --version --help -help -fdriver-only -dumpversion -dumpmachine -print-*
    asks_driver         --print-* -cc1 -cc1as -cc1gen-reproducer
    save_temps          -save-temps --save-temps -save-temps=* --save-temps=*
    side_output         -ftime-report -ftime-report=* -fproc-stat-report -fproc-stat-report=*
    side_output         -ftime-trace -ftime-trace=* -gen-reproducer* -H --trace-includes
    temporary_names     -MJ* -gen-cdb-fragment-path* -gsplit-dwarf=single
    pch                 -include-pch -emit-pch
    modules             -fmodule* -fcxx-modules -fimplicit-module*
    plugin              -fplugin* -fpass-plugin*
    random_cuid         -fuse-cuid=random
    compiler_option     -cuid=
"""

ARCHS = ("--offload-arch=", "--no-offload-arch=", "--cuda-gpu-arch=", "--no-cuda-gpu-arch=")

# Names a file for all messages. The driver removes it when it starts, also where it only plans, and in the end puts in
# what it has had to say itself (clang/lib/Frontend/SerializedDiagnosticPrinter.cpp).
SERIALIZE = ("--serialize-diagnostics", "-serialize-diagnostics")

PASSED_THROUGH: dict[str, str] = {}
_PREFIXES: list[tuple[str, str]] = []
for _line in _LEFT.strip().splitlines():
    _reason, *_options = _line.split()
    for _option in _options:
        if _option.endswith("*"):
            _PREFIXES.append((_option[:-1], _reason))
        else:
            PASSED_THROUGH[_option] = _reason


def why_passed_through(option: str) -> str:
    """The reason why a compile with this option is left to the compiler; empty if it is not."""
    reason = PASSED_THROUGH.get(option)
    return reason or next((reason for prefix, reason in _PREFIXES if option.startswith(prefix)), "")


def refuse_options(options: Iterable[str], why: Callable[[str], str]) -> None:
    """Raises PassThrough for the first option that `why` gives a reason for."""
    for word in options:
        reason = why(word)
        if reason:
            raise PassThrough(reason, word)


def chooses_cuid(option: str) -> bool:
    """Has the user chosen the CUID with it, so that hipcache does not?"""
    return option.startswith("-cuid=") or option == "-fuse-cuid=none"


# Beginnings of options that only a link does not understand: what the device's LTO writes, and the host's LTO.
_IN_LINKS = {
    "lto": ("-flto",),
    "side_output": (
        *("-gsplit-dwarf", "-fsave-optimization-record", "-foptimization-record-file", "-fstack-usage"),
        *SERIALIZE,
    ),
}


def why_passed_through_in_link(option: str) -> str:
    """The same for a link of relocatable device code, which most of what matters in a compile does not reach."""
    for reason, names in _IN_LINKS.items():
        if option.startswith(names):
            return reason
    reason = why_passed_through(option)
    return "" if reason in ("random_cuid", "pch", "modules") else reason


def why_passed_through_in_program(option: str) -> str:
    """The same for a command that compiles and links at once: second outputs are named after a temporary object."""
    covers = option in ("--coverage", "-coverage", "-ftest-coverage", "-fprofile-arcs")
    return why_passed_through(option) or why_passed_through_in_link(option) or ("coverage" if covers else "")
