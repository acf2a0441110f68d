"""The options of `clang -cc1`, as far as a cache must know them: what each one reads, writes or changes.

The driver's `-###` prints one such command for each pass. Each option has a role. If an option has none, hipcache does
not know it, and the compile passes through. The names are those of clang's `clang/include/clang/Driver/Options.td`
(releases 15 to 22).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import Enum, auto

from hipcache.base.errors import PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.inputs.search import SearchPath


class Role(Enum):
    """The role of an option for the cache."""

    PLAIN = auto()  # changes the output; its text is the whole input, unless it names a file
    OUTPUT = auto()  # -o: where, not what
    AUXILIARY = auto()  # the path of a second output (`auxiliary`)
    EMIT = auto()  # the kind of output: object, bitcode, assembly, text
    DEPENDENCIES = auto()  # the dependency file's path and targets
    DEPENDENCY_STYLE = auto()  # -sys-header-deps
    PRESENTATION = auto()  # the format of messages
    DIRECTORY = auto()  # the working directory, written into debug information
    BITCODE = auto()  # a bitcode file that is linked in
    CUID = auto()
    GPUBINARY = auto()  # the fat binary (of the new driver: the package) that the host embeds
    SEARCH = auto()  # a directory to search for headers
    INCLUDE = auto()  # a file that is included first
    MACRO = auto()  # -D, -U
    LANGUAGE = auto()  # -x
    INPUT = auto()


@dataclass(frozen=True)
class Option:
    """One option with its value; `text` holds the words as they stood on the command line."""

    role: Role
    name: str
    value: str
    text: tuple[str, ...]

    @property
    def joined(self) -> str:
        """Its words in one text. The one word `-I x`, which names ` x`, has two blanks in it."""
        if len(self.text) == 1 and self.text[0].startswith(f"{self.name} "):
            return f"{self.name} {self.text[0].removeprefix(self.name)}"
        return " ".join(self.text)


# Options whose value is the next word.
_NAMES = {
    Role.OUTPUT: "-o -dumpdir",
    Role.AUXILIARY: """
        -split-dwarf-output -opt-record-file -stack-usage-file -serialize-diagnostic-file -coverage-notes-file
    """,
    Role.DEPENDENCIES: "-dependency-file -MT -MQ",
    Role.PRESENTATION: "-fmessage-length",
    Role.BITCODE: "-mlink-builtin-bitcode -mlink-bitcode-file",
    Role.GPUBINARY: "-fcuda-include-gpubinary -foffload-include-binary",
    Role.SEARCH: "-I -isystem -iquote -idirafter -internal-isystem -internal-externc-isystem -cxx-isystem -c-isystem",
    Role.INCLUDE: "-include -imacros",
    Role.MACRO: "-D -U",
    Role.LANGUAGE: "-x",
    Role.PLAIN: """
        -triple -aux-triple -main-file-name -mrelocation-model -pic-level -aux-target-cpu -aux-target-feature
        -target-cpu -target-feature -target-abi -tune-cpu -target-linker-version -mllvm -mfloat-abi -mfpmath -mregparm
        -mtp -mthread-model -mlimit-float-precision -meabi -msmall-data-limit -fvisibility -ftype-visibility
        -resource-dir -isysroot -ferror-limit -fdiagnostics-format -fdiagnostics-hotness-threshold
        -fdiagnostics-show-category -ftemplate-depth -ftemplate-backtrace-limit -fconstexpr-depth -fconstexpr-steps
        -fconstexpr-backtrace-limit -fmacro-backtrace-limit -fspell-checking-limit -fbracket-depth
        -foperator-arrow-depth -split-dwarf-file -opt-record-format -opt-record-passes -coverage-data-file
        -stack-protector -stack-protector-buffer-size -source-date-epoch -exception-model -Rpass -dwarf-debug-flags
        -record-command-line
    """,
}
_SEPARATE = {name: role for role, names in _NAMES.items() for name in names.split()}

#: Options whose value is the user's command line (-grecord-command-line, -frecord-command-line).
COMMAND_LINES = ("-dwarf-debug-flags", "-record-command-line")

_JOINED: tuple[tuple[str, Role], ...] = (
    ("-fmessage-length=", Role.PRESENTATION),
    ("-fcolor-diagnostics", Role.PRESENTATION),
    ("-fansi-escape-codes", Role.PRESENTATION),
    ("-fdebug-compilation-dir=", Role.DIRECTORY),
    ("-fcoverage-compilation-dir=", Role.DIRECTORY),
    ("-cuid=", Role.CUID),
    ("-coverage-notes-file=", Role.AUXILIARY),
    ("-fembed-offload-object=", Role.GPUBINARY),
    ("-sys-header-deps", Role.DEPENDENCY_STYLE),
    ("-MP", Role.DEPENDENCIES),
    ("-D", Role.MACRO),
    ("-U", Role.MACRO),
    ("-I", Role.SEARCH),
)

#: With this option the driver prints its plan.
PLANNED = "-###"
#: A path where no file can be created: it replaces the file of --serialize-diagnostics while the driver plans.
NOWHERE = "/proc/hipcache-messages"

# Options whose value never names an input file, whatever it looks like.
MERE_NAMES = frozenset(
    {name for name, role in _SEPARATE.items() if role is Role.PLAIN and name != "-mllvm"}
    | {"-object-file-name=", "-std=", "--std=", "-mframe-pointer="}
    | {"-ffp-contract=", "-fgnuc-version=", "-debugger-tuning=", "-dwarf-version=", "-debug-info-kind="}
    | {"-fvisibility=", "-Rpass=", "-split-dwarf-file", "-coverage-data-file", "-coverage-data-file="}
)

# Beginnings of options that write a second file, load code, read through something the trace does not see, or hold the
# driver's command line (ours is not the user's).
_REFUSED = (
    *("-stats-file", "-header-include", "-diagnostic-log-file", "-ftime-", "-plugin", "-add-plugin", "-fplugin"),
    *("-fpass-plugin", "-include-pch", "-pch-", "-building-pch", "-fmodule", "-fimplicit-modul", "-fprebuilt"),
    *("-ivfsoverlay", "-vfsoverlay", "-remap-file", "-femit-coverage", "-fthin", "-fsave-", "-fproc-stat", "-print-"),
    *("-save-temps", "-ast-", "-analy", "-code-completion", "-fdump", "-mdebug-pass", "-fverify-debuginfo"),
    *("-foverride-record-layout", "-as-secure-log", "-dependency-dot", "-module-", "-fapinotes", "-fixit", "-verify"),
    *("-fsyntax-only", "-frewrite", "-working-directory", "-iprefix", "-iwithprefix", "-iframework", "-F/"),
    *("-fexperimental-cache", "-fcas", "-fdepscan", "-chain-include", "-fmemory-profile", "-fprofile-sample"),
    *("-fcuda-include-gpubinary=", "--embed-dir", "-fbasic-block-sections=list"),
)
_REFUSED_WORDS = frozenset(["-load", "-H", "-MG", "-v", "-F"])
_REFUSED_BUT = pattern(
    r"-(coverage-(?!(notes|data)-file|version=)|fembed(?!-offload-object=)|flto(?!=(full|thin)$|-unit$)|dump(?!dir$)"
    r"|emit-(?!llvm-uselists$))"
)

# Those with their own reason.
_REASONS = {
    "plugin": ("-load", "-plugin", "-add-plugin", "-fplugin", "-fpass-plugin"),
    "pch": ("-include-pch", "-emit-pch", "-pch-", "-building-pch"),
    "coverage": ("-coverage-", "-femit-coverage"),
    "lto": ("-flto", "-fthin"),
    "modules": ("-fmodule", "-fimplicit-modul", "-fprebuilt", "-module-"),
    "side_output": (
        *("-stats-file", "-header-include", "-H"),
        *("-diagnostic-log-file", "-ftime-", "-fsave-", "-fproc-stat", "-dependency-dot"),
    ),
    "command_line": ("-fembed",),
}

# The outputs of a pass.
_EMITS = frozenset(["-emit-obj", "-emit-llvm-bc", "-emit-llvm", "-S", "-E"])

_UNDERSTOOD = (
    *("-W", "-std=", "--std=", "-stdlib=", "-R", "-pedantic", "-debugger-tuning=", "-debug-info-", "-dwarf-"),
    *("-object-file-name=", "-compress-debug-sections", "--compress-debug-sections", "--mrelax-relocations"),
    *("--gpu-max-threads-per-block=", "--system-header-prefix=", "--no-system-header-prefix=", "-complex-range="),
    *("--dependent-lib=", "--linker-option=", "-coverage-", "-unwindlib=", "-isysroot"),
)
_UNDERSTOOD_WORDS = frozenset(
    (
        *("-w", "-O", "-O0", "-O1", "-O2", "-O3", "-Os", "-Og", "-Oz", "-Ofast", "-cc1", "-emit-llvm-uselists"),
        *("-disable-free", "-clear-ast-before-backend", "-no-clear-ast-before-backend", "-disable-llvm-verifier"),
        *("-discard-value-names", "-pic-is-pie", "-vectorize-loops", "-vectorize-slp", "-nobuiltininc", "-nogpulib"),
        *("--no-offloadlib", "-nostdsysteminc", "-nostdinc++", "-undef", "-pthread", "-trigraphs"),
        *("-relaxed-aliasing", "-no-struct-path-tbaa", "-new-struct-path-tbaa", "-static-define", "-Qn", "-Qy"),
        *("-disable-O0-optnone", "-disable-red-zone", "-no-implicit-float", "-pg", "-enable-noundef-analysis"),
        *("-no-enable-noundef-analysis", "-round-trip-args", "-no-round-trip-args", "-traditional-cpp"),
        *("--offload-new-driver", "--no-offload-new-driver", "-C", "-P", "-CC", "-dD", "-dI", "-dM", "-dU"),
        *("--crel", "-pointer-tbaa"),
    )
)
_UNDERSTOOD_GROUPS = pattern(r"-([fm][a-z]|g[a-z0-9-]*(=.*)?$)")

# LLVM's internal options: those whose name says that they print or write something pass through.
REFUSED_LLVM = pattern(
    r"dwo_dir|file|dump|print|view|dot-|-out|path|stats|time-|debug|trace|record|profile|import|export"
)


def parse(arguments: tuple[str, ...], language: str = "hip") -> tuple[Option, ...]:
    """The options after `clang`. Raises PassThrough for an option that the cache does not know."""
    options = tuple(_options(arguments))
    inputs = [option for option in options if option.role is Role.INPUT]
    languages = [option.value for option in options if option.role is Role.LANGUAGE]
    if len(inputs) != 1 or languages != [language]:
        raise PassThrough("plan", f"a cc1 job with {len(inputs)} inputs of {languages}")
    rule = {option.name for option in options if option.role is Role.DEPENDENCIES}
    if "-dependency-file" in rule and not rule & {"-MT", "-MQ"}:
        raise PassThrough("compiler_option", "-dependency-file without -MT")
    return options


def _options(arguments: tuple[str, ...]) -> Iterator[Option]:
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word == "-":
            yield Option(Role.INPUT, "", word, (word,))
            continue
        if word in _EMITS:
            yield Option(Role.EMIT, word, word, (word,))
            continue
        if word.startswith(_REFUSED) or word in _REFUSED_WORDS or _REFUSED_BUT.match(word):
            raise PassThrough(_why_refused(word), word)
        role = _SEPARATE.get(word)
        if role is not None:
            value = next(words, None)
            if value is None:
                raise PassThrough("compiler_option", f"{word} without a value")
            # (A value in a word of its own may name a file.)
            if word == "-mllvm" and (REFUSED_LLVM.search(value) or not value.startswith("-")):
                raise PassThrough("compiler_option", f"-mllvm {value}")
            # Of these it is not known how it looks without ours.
            if word in COMMAND_LINES and (PLANNED in value.split(" ") or NOWHERE in value):
                raise PassThrough("command_line", word)
            if word == "-fdiagnostics-format" and value == "sarif":  # which has the directory in it
                raise PassThrough("compiler_option", f"{word} {value}")
            yield Option(role, word, value, (word, value))
            continue
        for prefix, joined in _JOINED:
            if word.startswith(prefix):
                yield Option(joined, prefix, word[len(prefix) :], (word,))
                break
        else:
            if word == "-no-integrated-as":
                raise PassThrough("assembler", word)
            known = word.startswith(_UNDERSTOOD) or word in _UNDERSTOOD_WORDS or _UNDERSTOOD_GROUPS.match(word)
            if not known:
                raise PassThrough("compiler_option", word)
            name, equals, value = word.partition("=")
            yield Option(Role.PLAIN, name + equals, value, (word,))


def _why_refused(word: str) -> str:
    return next((reason for reason, names in _REASONS.items() if word.startswith(names)), "compiler_option")


def sysroot(options: Sequence[Option]) -> str | None:
    return next((option.value for option in reversed(options) if option.name == "-isysroot"), None)


def search_path(options: Sequence[Option]) -> SearchPath:
    root = sysroot(options)
    groups: dict[str, list[str]] = {"quote": [], "angled": [], "system": [], "after": []}
    own: list[str] = []
    for option in options:
        if option.role is not Role.SEARCH:
            continue
        if option.name.startswith("-internal-") and option.value.startswith("/"):
            own.append(option.value.rstrip("/") + "/")
        group = {"-iquote": "quote", "-I": "angled", "-idirafter": "after"}.get(option.name, "system")
        groups[group].append(_directory(option, root))
    angled = groups["angled"] + groups["system"] + groups["after"]
    system = [place.rstrip("/") + "/" for place in groups["system"] + groups["after"] if place.startswith("/")]
    return SearchPath(
        tuple(dict.fromkeys(groups["quote"])),
        tuple(angled),
        tuple(dict.fromkeys(system)),
        len(groups["angled"]),
        tuple(own),
    )


def _directory(option: Option, root: str | None) -> str:
    """That which is searched. A `=` that begins it stands for the sysroot, if one is given (CompilerInvocation.cpp,
    ParseHeaderSearchArgs)."""
    if root is None or not option.value.startswith("=") or option.name.startswith("-internal-"):
        return option.value
    return os.path.join(root, option.value[1:].lstrip("/"))
