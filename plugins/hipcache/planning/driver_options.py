"""Driver options that must be known before the driver is asked (clang/include/clang/Driver/Options.td, 15 to 19)."""

from __future__ import annotations

from enum import Enum, auto


class Side(Enum):
    """What a command line asks for."""

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
SEPARATE = frozenset(
    [
        "-o",
        "--output",
        "-x",
        "--language",
        "-I",
        "--include-directory",
        "-D",
        "--define-macro",
        "-U",
        "--undefine-macro",
        "-include",
        "--include",
        "-imacros",
        "--imacros",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-isysroot",
        "--sysroot",
        "-cxx-isystem",
        "-stdlib++-isystem",
        "-iprefix",
        "-iwithprefix",
        "-iwithprefixbefore",
        "-iwithsysroot",
        "-iframework",
        "-ivfsoverlay",
        "-include-pch",
        "-MF",
        "-MT",
        "-MQ",
        "-MJ",
        "-Xclang",
        "-Xlinker",
        "-Xassembler",
        "-Xpreprocessor",
        "-Xoffload-linker",
        "-Xcuda-ptxas",
        "-Xcuda-fatbinary",
        "-Xopenmp-target",
        "-Xthinlto",
        "-mllvm",
        "-target",
        "--target",
        "-arch",
        "-L",
        "--library-directory",
        "-l",
        "-T",
        "-F",
        "-framework",
        "-u",
        "-z",
        "-e",
        "-A",
        "-B",
        "--prefix",
        "-G",
        "-rpath",
        "-resource-dir",
        "-working-directory",
        "--param",
        "--serialize-diagnostics",
        "-serialize-diagnostics",
        "-dependency-file",
        "--config",
        "-dumpdir",
        "-dumpbase",
        "-gcc-toolchain",
        "-mthread-model",
        "-ccc-install-dir",
        "-ccc-gcc-name",
        "-Tbss",
        "-Tdata",
        "-Ttext",
    ]
)

# Reason of `outcome.REASONS` -> options that make another kind of output, or act while the driver only plans.
# A word that ends in * stands for all that begin so.
_LEFT = """
    dependencies_only   -M -MM -MG --dependencies --user-dependencies
    no_object           -fsyntax-only --precompile -emit-ast --analyze --emit-static-lib -emit-interface-stubs
    asks_driver         -### -v --verbose --version --help -help -fdriver-only -dumpversion -dumpmachine -print-*
    asks_driver         --print-* -cc1 -cc1as -cc1gen-reproducer
    save_temps          -save-temps --save-temps -save-temps=* --save-temps=*
    lto                 -flto -flto=*
    side_output         -MJ -ftime-report -ftime-report=* -fproc-stat-report -fproc-stat-report=* -gsplit-dwarf
    side_output         -gsplit-dwarf=* -ftime-trace -ftime-trace=* -fsave-optimization-record
    side_output         -fsave-optimization-record=* -foptimization-record-file* --serialize-diagnostics
    side_output         -serialize-diagnostics -gen-cdb-fragment-path* -fstack-usage -gen-reproducer* -H
    side_output         --trace-includes
    pch                 -include-pch -emit-pch
    coverage            --coverage -coverage -ftest-coverage -fprofile-arcs
    modules             -fmodule* -fcxx-modules -fimplicit-module*
    plugin              -fplugin* -fpass-plugin*
    random_cuid         -fuse-cuid=random
"""

LEFT: dict[str, str] = {}
_LEFT_PREFIXES: list[tuple[str, str]] = []
for _line in _LEFT.strip().splitlines():
    _reason, *_options = _line.split()
    for _option in _options:
        if _option.endswith("*"):
            _LEFT_PREFIXES.append((_option[:-1], _reason))
        else:
            LEFT[_option] = _reason


def why_left(option: str) -> str:
    """The reason why a compile with this option is left to the compiler; empty if it is not."""
    reason = LEFT.get(option)
    return reason or next((reason for prefix, reason in _LEFT_PREFIXES if option.startswith(prefix)), "")


def why_left_in_link(option: str) -> str:
    """The same for a link of relocatable device code, which most of what matters in a compile does not reach."""
    reason = why_left(option)
    return "" if reason in ("random_cuid", "coverage", "pch", "modules") else reason
