"""The command that the build tool ran, as a value: what is compiled, to what, and whether it is ours at all.

Only what must be known *before* the driver is asked is read here (is it one HIP source, compiled to an object, with no side
effects while it is only planned?). Everything else is read from the driver's own plan.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hipcache.errors import PassThrough

# Driver options whose value is the next word (clang/include/clang/Driver/Options.td, kind Separate). One that is
# missing here makes its value look like a second source: the compile passes through.
_SEPARATE = frozenset(
    ["-o", "--output", "-x", "--language", "-I", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-isysroot", "--sysroot", "-MF", "-MT", "-MQ", "-MJ", "-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xoffload-linker", "-Xcuda-ptxas", "-Xcuda-fatbinary", "-mllvm", "-target", "--target", "-arch", "-L", "-T", "-F", "-framework", "-u", "-z", "-e", "-A", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-iwithsysroot", "-iframework", "-ivfsoverlay", "-include-pch", "-resource-dir", "-working-directory", "--param", "-B", "-G", "--serialize-diagnostics", "-serialize-diagnostics", "-dependency-file", "-cxx-isystem", "-stdlib++-isystem", "-isystem-after", "--config", "-dumpdir", "-gcc-toolchain", "-dumpbase", "-rpath", "-l", "-Tbss", "-Tdata", "-Ttext", "-Xopenmp-target", "-Xthinlto", "-mthread-model", "-ccc-install-dir", "-ccc-gcc-name", "--include-directory", "--define-macro", "--undefine-macro", "--include", "--imacros", "--library-directory", "--prefix"]
)

_LANGUAGES = ("-x", "--language")

# Options that make another kind of output, or act while the driver only plans. Option -> reason.
_NOT_OURS = {
    "-E": "preprocess", "--preprocess": "preprocess", "-S": "assembly", "--assemble": "assembly", "-M": "dependencies_only",
    "-MM": "dependencies_only", "-MG": "dependencies_only", "-fsyntax-only": "no_object", "-emit-llvm": "llvm_ir",
    "--precompile": "no_object", "-emit-ast": "no_object", "--analyze": "no_object", "-###": "asks_driver", "-v": "asks_driver",
    "--verbose": "asks_driver", "-save-temps": "save_temps", "--save-temps": "save_temps", "-fgpu-rdc": "rdc",
    "--offload-new-driver": "new_driver", "-foffload-lto": "lto", "-flto": "lto", "-MJ": "side_output", "--version": "asks_driver",
    "-fdriver-only": "asks_driver", "-ftime-report": "side_output", "-fproc-stat-report": "side_output", "-gsplit-dwarf": "side_output",
    "-ftime-trace": "side_output", "-include-pch": "pch", "-emit-pch": "pch", "--coverage": "coverage", "-coverage": "coverage",
    "-ftest-coverage": "coverage", "-fprofile-arcs": "coverage", "--cuda-device-only": "one_side", "--cuda-host-only": "one_side",
    "--offload-device-only": "one_side", "--offload-host-only": "one_side", "--offload-compress": "offload_compress",
    "-fmodules": "modules", "--gpu-bundle-output": "one_side", "--emit-static-lib": "no_object", "-fsave-optimization-record": "side_output",
    "--serialize-diagnostics": "side_output", "-serialize-diagnostics": "side_output", "-print-search-dirs": "asks_driver",
    "-dumpversion": "asks_driver", "-dumpmachine": "asks_driver", "--help": "asks_driver", "-help": "asks_driver", "-cc1": "asks_driver",
    "-cc1as": "asks_driver", "--hip-link": "link", "-fuse-cuid=random": "random_cuid",
}  # fmt: skip
_NOT_OURS_PREFIXES = (
    ("-save-temps=", "save_temps"), ("--save-temps=", "save_temps"), ("-flto=", "lto"), ("-foffload-lto=", "lto"),
    ("-ftime-trace=", "side_output"), ("-ftime-report=", "side_output"), ("-fproc-stat-report=", "side_output"),
    ("-fplugin", "plugin"), ("-fpass-plugin", "plugin"), ("-print-", "asks_driver"), ("--print-", "asks_driver"),
    ("-gen-cdb-fragment-path", "side_output"), ("-fmodule", "modules"), ("-gsplit-dwarf=", "side_output"),
    ("-fsave-optimization-record=", "side_output"), ("-foptimization-record-file", "side_output"),
)  # fmt: skip

# Variables that make the driver write something beside the output.
_SIDE_EFFECTS = (
    "CC_PRINT_OPTIONS", "CC_PRINT_HEADERS", "CC_LOG_DIAGNOSTICS", "CC_PRINT_PROC_STAT", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """One HIP compile: `argv` as the build tool gave it, `arguments` with response files read in.

    `source` and `output` as spelled; `output` is empty where the compiler chooses the name.
    """

    argv: tuple[str, ...]
    arguments: tuple[str, ...]
    cwd: str
    source: str
    output: str
    macros: tuple[str, ...]
    own_cuid: bool

    @property
    def compiler(self) -> str:
        return self.argv[0]

    def path(self, name: str) -> str:
        return os.path.join(self.cwd, name)


def parse(argv: tuple[str, ...], cwd: str, environ: Mapping[str, str]) -> Command:
    """Raises PassThrough (with a reason of `outcome.REASONS`) for everything that is not one HIP source to one object."""
    arguments = expand(argv[1:], cwd)
    sources: list[tuple[str, str]] = []
    language, output, macros, compiles, own_cuid, refused = "", "", [], False, False, ("", "")
    words = iter(arguments)
    for word in words:
        if word == "--":
            sources += [(name, language) for name in words]
            break
        if not word.startswith("-") or word == "-":
            sources.append((word, language))
            continue
        if word.startswith("-Xarch_"):
            next(words, None)
            continue
        reason = _NOT_OURS.get(word) or next((r for p, r in _NOT_OURS_PREFIXES if word.startswith(p)), "")
        if reason and not refused[0]:
            refused = (reason, word)
        value = next(words, "") if word in _SEPARATE else ""
        if word in _LANGUAGES:
            language = value
        elif word.startswith(("-x", "--language=")):
            language = word[2:] if word.startswith("-x") else word.partition("=")[2]
        elif word in ("-o", "--output"):
            output = value
        elif word.startswith("--output="):
            output = word.partition("=")[2]
        elif word.startswith("-o") and not word.startswith(("-object", "-objc")):
            output = word[2:]
        elif word in ("-c", "--compile"):
            compiles = True
        elif word in ("-D", "-U"):
            macros.append(word + value)
        elif word.startswith(("-D", "-U")):
            macros.append(word)
        elif word.startswith(("-cuid=", "-fuse-cuid=")):
            own_cuid = True
    _refuse(sources, compiles=compiles, refused=refused, output=output, environ=environ)
    return Command(argv, arguments, cwd, sources[0][0], output, tuple(macros), own_cuid)


def _refuse(
    sources: list[tuple[str, str]],
    *,
    compiles: bool,
    refused: tuple[str, str],
    output: str,
    environ: Mapping[str, str],
) -> None:
    hip = [name for name, language in sources if is_hip(name, language)]
    if not hip:
        raise PassThrough("not_hip" if compiles or not sources else "link_or_not_hip")
    if refused[0]:
        raise PassThrough(*refused)
    if not compiles:
        raise PassThrough("link")
    if len(sources) != 1:
        raise PassThrough("several_sources", " ".join(name for name, _ in sources))
    if sources[0][0] == "-" or output == "-":
        raise PassThrough("standard_streams")
    for name in _SIDE_EFFECTS:
        if name in environ:
            raise PassThrough("side_output", name)


def is_hip(source: str, language: str) -> bool:
    """Does clang compile it as HIP? `language` is that of the last -x before it, or empty."""
    if language in ("", "none"):
        return source.endswith(".hip")
    return language == "hip" and not source.endswith((".o", ".a", ".so"))


def expand(arguments: tuple[str, ...], cwd: str, depth: int = 0) -> tuple[str, ...]:
    """Response files (`@file`) read in, with the quoting rules of GNU's (llvm::cl::TokenizeGNUCommandLine)."""
    if not any(word.startswith("@") for word in arguments):
        return arguments
    if depth > 20:
        raise PassThrough("response_file", "nested too deep")
    words: list[str] = []
    for word in arguments:
        if not word.startswith("@"):
            words.append(word)
            continue
        try:
            with open(os.path.join(cwd, word[1:]), encoding="utf-8", errors="surrogateescape") as file:
                words += expand(tokenize(file.read()), cwd, depth + 1)
        except OSError as error:
            raise PassThrough("response_file", f"'{word[1:]}': {error.strerror}") from error
    return tuple(words)


def tokenize(text: str) -> tuple[str, ...]:
    """Words of a response file: blanks separate, a backslash takes the next character, quotes group."""
    words: list[str] = []
    word, started, quote, i = "", False, "", 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            i += 1
            word, started = word + text[i], True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char in "'\"":
            quote, started = char, True
        elif char in " \t\r\n\0":
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + char, True
        i += 1
    if started:
        words.append(word)
    return tuple(words)
