"""The driver's header as a precompiled header (PCH): its key, and the commands that make and use it.

    clang -cc1 ... -include __clang_hip_runtime_wrapper.h -emit-pch -x hip - < TEXT
    clang -cc1 ... -include-pch P -fno-validate-pch      (in the place of the -include)

It is made with the options of the pass, but for the user's -I, -iquote, -D and -U that the header does not ask for: so
one serves all sources of a build. One serves all architectures whose macros the header does not ask for either: a pass
corrects those (-U, -D) that the compiler defines for the architecture it was made with.

For a device TEXT includes the header itself, between two declarations. The one behind it is of the second of the
header's two weak functions: with that, clang lists them in the order in which it does without a precompiled header
(clang 16 to 22), and the bitcode is the same, byte for byte. The one before it has clang refuse calls of __sv_check,
with which std::string_view checks positions: a pass that has one fails, and is run plainly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from hipcache.base.keys import Key, make_key
from hipcache.base.patterns import pattern
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.frontend import FrontEnd
from hipcache.inputs import lexer, preprocessed

NAME = "__clang_hip_runtime_wrapper.h"
# In each key: raise it when what older rules have made must not be used. Where it was switched off it is on again then.
_RULES = "9"
# libstdc++'s __sv_check names a function of the host. It is no template, so what clang says of that function where a
# device calls it is lost with a precompiled header. (Clang 19 reads no other such function for it; templates are
# instantiated in the pass.) So each call of it is an error, in templates when they are instantiated: the condition of
# the attribute names a parameter, so it is looked at where the arguments are known. The names are poisoned, too: an
# address can be taken without a call, and an explicit instantiation may use what std::string has for it.
_POISONED = ("__sv_check", "__sv_limit", "__sv_type", "__sv_wrapper", "_S_to_string_view")
_REFUSED = b"__sv_check"
# What TEXT says of it, without a word from clang.
_SILENT = b"""\
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
%b
#pragma clang diagnostic pop
"""
_REFUSES = b"""\
namespace std {
constexpr __SIZE_TYPE__ __sv_check(__SIZE_TYPE__ __n, __SIZE_TYPE__, const char*)
    __attribute__((diagnose_if(((void)__builtin_constant_p(__n), true), "hipcache", "error")));
}"""
# That the header's function is that one: else the name would be ambiguous.
_IS_ONE = b'static_assert(sizeof(decltype(&std::__sv_check)) != 0, "");'
# Only where the header has it: else a source could name it, too.
_DELETED = b"__cxa_deleted_virtual"
_ON_DEVICE = b'extern "C" __attribute__((device)) void %b(void);\n' % _DELETED
# Libraries of C++ have constant functions of wide characters, which no device can run: clang says so when a source uses
# them, but not of those of a precompiled header. A pass that reads one of these is run plainly.
_OF_HOST = ("wcslen", "wmemchr", "wmemcmp")
# As clang joins lines (Lexer::getEscapedNewLineSize).
_SPLICE = pattern(rb"(?:\\|\?\?/)[ \t\f\v]*(?:\r\n|\n\r|[\r\n])")
_MACRO = pattern(r"#define ([^ (\n]+)(\([^)]*\))? ?(.*)")
# Macros that clang 20 and 21 have marked as deprecated. A precompiled header loses the mark, and with it the warning.
_DEPRECATED = pattern(rb"__AMDGCN_WAVEFRONT_SIZE")
# The preprocessor checks the body of a macro where it is defined, not where it is used: before the names are poisoned.
_NAMES_POISONED = pattern(rb"(?m)^[ \t]*#[ \t]*define\b.*\b(?:%b)\b" % "|".join(_POISONED).encode())
# Macros with other names are the user's alone: the header may not ask for them.
_KNOWN_MACRO = pattern(r"_|NDEBUG\b")

# With it libstdc++ calls constant templates, which are instantiated in the header itself, for functions of the host.
_CHECKS = "_GLIBCXX_CONCEPT_CHECKS"
# What a file may leave besides macros: it is not read again, or has counted. (No word of code is one of these; but
# texts of several words have them.)
_LEAVES_MORE = pattern(rb"\b(?:once|import)\b|__COUNTER__")
_SENTENCE = pattern(rb'"[^"\\\n]*\w +\w[^"\\\n]*"')
_KEEPS = pattern(rb"push_macro\b(?:[\s\0]*\([\s\0]*\\?\"(\w+))?")
_KEPT = "hipcache_kept"
# The end of a line that takes in the next one where it is read again.
_GOES_ON = pattern(rb"(?m)(?:\\|\?\?/)[ \t\f\v]*$")

# What a PCH loses: that a macro was undefined which clang computes (Preprocessor::RegisterBuiltinMacros), and the marks
# of macros.
_LOST = pattern(
    rb"\bundef[\s\0]+(?:__(?:has|is|building)_|_Pragma\b|__(?:[A-Z]+_)*(?:LINE|FILE|NAME|LEVEL|TIME|"
    rb"TIMESTAMP|DATE|COUNTER|METHOD|MODULE)__|__identifier\b)|[pP]ragma\W+clang\s+(?:deprecated|final|restrict_exp)"
)

# A header's macro may be no UTF-8: each byte is a character.
_BYTES = "latin-1"

# Roles of options that the text of the header does not depend on.
_NOT_READ = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.PRESENTATION, Role.DIRECTORY, Role.BITCODE),
    *(Role.CUID, Role.GPUBINARY, Role.EMIT, Role.LANGUAGE, Role.INPUT),
}
_OF_SOURCE = ("-main-file-name",)
_OF_ARCH = ("-target-cpu", "-target-feature")
# With these a difference would show, or may: debug information, coverage and the like name places and files of the
# header; some warnings and counts are of the main file alone; and from C++20 on clang hides what it has declared itself
# in a precompiled header (operator new and delete).
_LEFT = pattern(
    r"-(debug-info-|dwarf|gembed|fprofile|fcs-profile|fcoverage|coverage|fsanitize|fopenmp|fms-|fmodules|R"
    r"|W(?:error=)?(?:everything|system-headers|unused-macros|documentation|max-tokens|c\+\+2|future-compat)|fmax-tokens"
    r"|foffload-implicit|c-isystem|cxx-isystem|fparse-all-comments|fretain-comments|traditional|trigraphs|fxray|F"
    r"|funique-internal|fpseudo-probe|ftest-coverage|pg$|ffile-reproducible|fdelayed-template|fkeep|frandomize"
    r"|-?std=(?:c|gnu)\+\+(?:98|03|2)|fno-pch|fpch|imacros|undef$|fallow-pch|fsyntax|fbuiltin-headers|ffreestanding"
    r"|nobuiltininc|nostd)"
)
# A place in one of these texts has another name behind a precompiled header.
_NO_FILES = pattern(rb"<(?:stdin|built-in|command line|scratch space)>")
# Clang numbers the lines that it quotes since 17, and colours their words since 18, but not with a precompiled header.
_NUMBERED = pattern(rb"^ *\d+ \| ", re.MULTILINE)
# The stacks of pragmas are no part of a precompiled header, nor is the guard of the file before.
_STACKS = pattern(rb"no matching push|\[-W(?:error,-W)?header-guard\]")


def may_say(front: FrontEnd, text: bytes) -> bool:
    """Is it certain that a pass which says this without the precompiled header says it with it, too?"""
    if not text:
        return True
    coloured = b"\x1b[" in text and _NUMBERED.search(text)
    return front.quotes_lines and not (coloured or _NO_FILES.search(text) or _STACKS.search(text))


def why_not(front: FrontEnd, *, bitcode: bool) -> str:
    """The reason why the pass reads the header as text; empty if it need not. `bitcode`: does it end before its back
    end?"""
    if front.included[:1] != [NAME]:
        return "the driver puts no header first"
    if front.auxiliary or not front.job.value(Role.CUID):
        return "it writes a second output, or has no CUID"
    if not bitcode and (front.is_device or front.job.emits != "-emit-obj"):
        return "its output is text, or what is left of a device's functions when they were optimized"
    for option in front.job.options:
        if option.role is not Role.DIRECTORY and _LEFT.match(option.text[0]):
            return f"{option.text[0]} is one of its options"
        if option.role is Role.MACRO and (
            is_deprecated(os.fsencode(option.value)) or not preprocessed.macro_of(option.value)
        ):
            return f"{option.value} may name what is deprecated, or takes in other options"
        if option.role is Role.SEARCH and option.value.startswith("="):
            return f"{option.name} {option.value} may be below the sysroot"
        if option.role is Role.INCLUDE and (option.name != "-include" or option.value != NAME):
            return f"{option.name} {option.value}"
    names = macros(front, all_of_them=True)
    if len(names) > len(set(names)):  # clang warns, and goes by their order
        return "a macro is defined twice"
    if front.is_device and _CHECKS in names:
        return f"with {_CHECKS} the header has instances of templates that name functions of the host"
    return ""


def is_deprecated(content: bytes) -> bool:
    """May a file, or the value of a macro, name a macro that is?"""
    return bool(_DEPRECATED.search(joined(content)))


def joined(content: bytes) -> bytes:
    """The content with lines joined that go on in the next."""
    return _SPLICE.sub(b"", content)


def has_poisoned_macro(content: bytes) -> bool:
    """Does a macro of this file, one of the header's, name what is poisoned behind it?"""
    return bool(_NAMES_POISONED.search(content))


def is_of_user(option: Option) -> bool:
    """Is it one that the header is made without?"""
    if option.role is Role.MACRO:
        return not _KNOWN_MACRO.match(option.value)
    return option.role is Role.SEARCH and option.name in ("-I", "-iquote")


def macros(front: FrontEnd, *, all_of_them: bool = False) -> list[str]:
    """The names of the command's macros; by default of those that the header is made without."""
    defined = (option for option in front.job.options if option.role is Role.MACRO)
    return [preprocessed.macro_of(option.value) for option in defined if all_of_them or is_of_user(option)]


def directories(front: FrontEnd) -> list[str]:
    """The user's directories that the header is made without."""
    return [option.value for option in front.job.options if option.role is Role.SEARCH and is_of_user(option)]


def places(front: FrontEnd) -> list[str]:
    """The other directories of the search path, in the order in which clang looks (clang/lib/Frontend/
    CompilerInvocation.cpp, ParseHeaderSearchArgs)."""
    searched = [option for option in front.job.options if option.role is Role.SEARCH and not is_of_user(option)]
    order = sorted(searched, key=lambda option: (option.name == "-idirafter", option.name != "-isystem"))
    return [option.value for option in order]


def key(front: FrontEnd, directory: str, *, shared: bool) -> Key:
    """`directory`: the working directory. The same for all sources of a build, as a rule; `shared`: and for all
    architectures."""
    skipped = _OF_ARCH if shared and front.is_device else ()
    relative = any(
        option.role is Role.SEARCH and not is_of_user(option) and not option.value.startswith("/")
        for option in front.job.options
    )
    named = [pair for pair in front.key.inputs if pair[0] == "one directory" or pair[0].startswith("content of ")]
    parts = [
        *_compiler(front),
        *(("option", option.joined) for option in _options(front) if option.name not in skipped),
        *named,
        *([("directory", directory)] if relative else []),
    ]
    return make_key("driver's header 2", parts)  # the number counts the forms of TEXT


def macros_key(front: FrontEnd) -> Key:
    """The key of the macros that the compiler defines."""
    options = (("option", option.joined) for option in _options(front, macros=False))
    return make_key("macros that the compiler defines", [*_compiler(front), *options])


def trust_key(front: FrontEnd) -> Key:
    """The key of what was compared: of this compiler and side, device or host."""
    side = ("side", "device" if front.is_device else "host")
    return make_key("driver's header compared", [*_compiler(front), side])


def off_key(front: FrontEnd) -> Key:
    """The key of the record which says that no pass of this compiler may use it."""
    return make_key("driver's header off", _compiler(front))


def text(front: FrontEnd, left: Collection[str], expanded: bytes) -> bytes:
    """TEXT. `left`: macros of which the header has left a definition to be taken back, which a PCH loses. They are
    poisoned, too: a pass that takes one back and names it fails. `expanded`: the header's text."""
    if not front.is_device:
        return preprocessed.poison(left)
    before, behind = (_SILENT % text if _REFUSED in expanded else b"" for text in (_REFUSES, _IS_ONE))
    header = b'#include "%b"\n' % NAME.encode()
    last = _ON_DEVICE if _DELETED in expanded else b""
    return before + header + behind + last + preprocessed.poison({*_POISONED, *left})


def making(front: FrontEnd, output: str, dependencies: str) -> list[str]:
    """The command that reads TEXT on standard input: a file would be listed as one that each pass has read."""
    written = ["-emit-pch", "-fno-pch-timestamp", *_listing_files(dependencies), "-o", output]
    words = _command(front)
    return [*(_without_header(words) if front.is_device else words), *written, "-x", "hip", "-"]


def _without_header(words: list[str]) -> list[str]:
    at = words.index(NAME)
    return [*words[: at - 1], *words[at + 1 :]]


def _listing_files(dependencies: str) -> list[str]:
    return ["-dependency-file", dependencies, "-MT", "output", "-sys-header-deps"]


def preprocessing(front: FrontEnd, output: str, dependencies: str, *, numbers: bool) -> list[str]:
    """The command that writes the header's text with its macros expanded: names that it pastes together (`gammal` of
    `gamma` and `l`) stand nowhere else. Without `numbers` there is a mark for each number of a line."""
    marks = [] if numbers else [f"-D__LINE__={preprocessed.mark(preprocessed.LINE)}", "-Wno-builtin-macro-redefined"]
    return [*_command(front), *marks, "-E", "-P", *_listing_files(dependencies), "-o", output, "-x", "hip", os.devnull]


def kept(contents: Iterable[bytes]) -> list[str]:
    """The macros whose definitions the files keep for later."""
    found = (found[1] for content in contents for found in _KEEPS.finditer(_code(content)))
    return sorted({name.decode() for name in found if name})


def pops(macros: Iterable[str]) -> bytes:
    """A text that takes the macros back."""
    lines = '#undef {0}\n#define {0} {1}\n#pragma pop_macro("{0}")\n"{0}" {0}\n'
    return "".join(lines.format(macro, _KEPT) for macro in macros).encode()


def popping(front: FrontEnd, pops: str, output: str) -> list[str]:
    """The command that writes what becomes of the file `pops` behind the header."""
    silent = ["-w", "-Wno-ignored-pragmas"]  # also where warnings are errors
    return [*_command(front), *silent, "-E", "-P", "-o", output, "-x", "hip", pops]


def left(macros: Iterable[str], text: bytes) -> list[str]:
    """Those of the macros of which the header has left a definition. `text`: as `popping` wrote it."""
    return [macro for macro in macros if f'"{macro}" {_KEPT}'.encode() not in text]


def listing(front: FrontEnd, output: str, *, macros: bool = False, behind: bool = False) -> list[str]:
    """The command that lists the macros that the compiler defines by itself; with those of options, if they count; or
    those behind the header."""
    words = _command(front, macros=macros)
    return [*(words if behind else _without_header(words)), "-E", "-dM", "-o", output, "-x", "hip", os.devnull]


def behind(before: bytes, after: bytes) -> bytes:
    """The directives that make the macros listed as `before` those listed as `after`, in a header of the system. Empty
    if one of the lines would go on in the next."""
    if _GOES_ON.search(after):
        return b""
    old, new = ({name: line[0] for name, line in _listed(macros).items()} for macros in (before, after))
    lines = ["#pragma GCC system_header"]
    lines += [f"#undef {name}" for name in sorted(old) if new.get(name) != old[name]]
    lines += [line for name, line in sorted(new.items()) if old.get(name) != line]
    return "".join(f"{line}\n" for line in lines).encode(_BYTES)


def is_lost(content: bytes) -> bool:
    """Has the file something that a PCH loses, and that `kept` does not tell?"""
    code = _code(content)
    return bool(_LOST.search(code)) or not all(found[1] for found in _KEEPS.finditer(code))


def leaves_more(content: bytes) -> bool:
    """May what the preprocessor makes of other files depend on more of this one than its macros?"""
    return bool(_LEAVES_MORE.search(content)) and bool(_LEAVES_MORE.search(_SENTENCE.sub(b"", _code(content))))


def _code(content: bytes) -> bytes:
    """Without comments, if it is plain where they are."""
    found = lexer.lex(content, lexer.BARE)
    return content if found.flags else found.bare


def corrections(made: bytes, own: bytes) -> dict[str, tuple[str, ...]]:
    """The options after which macros listed as `made` are those listed as `own`, by the name of the macro. With a blank
    behind it, the name is another one to clang (collectMacroDefinitions in ASTReader.cpp): so it writes an #undef and a
    #define, and does not warn of a second definition."""
    before, after = _listed(made), _listed(own)
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if not (old and new and old[0] == new[0]):
            found[name] = ("-U", name, *(("-D", f"{name}{new[2] or ''} ={new[3]}") if new else ()))
    return found


def defines(listed: bytes, names: Collection[str]) -> bool:
    """Is one of the macros listed?"""
    return not _listed(listed).keys().isdisjoint(names)


@lru_cache(maxsize=32)  # each architecture has its own
def _listed(macros: bytes) -> dict[str, re.Match[str]]:
    return {line[1]: line for line in _MACRO.finditer(macros.decode(_BYTES))}


def using(front: FrontEnd, argv: list[str], pch: str, corrections: tuple[str, ...]) -> list[str]:
    """The command of a pass, with the precompiled header."""
    at = argv.index(NAME)
    guards = [word for name in _OF_HOST for word in ("-error-on-deserialized-decl", name)] if front.is_device else []
    ours = ["-include-pch", pch, "-fno-validate-pch", *corrections, *guards]
    return [*argv[:2], *ours, *argv[2 : at - 1], *argv[at + 1 :]]


def _command(front: FrontEnd, *, macros: bool = True) -> list[str]:
    """Without what it is to do."""
    words = (word for option in _options(front, macros=macros) for word in option.text)
    return [front.job.program, "-cc1", *words, "-main-file-name", "header"]


def _options(front: FrontEnd, *, macros: bool = True) -> Iterator[Option]:
    """Those that the header may depend on; `macros`: with the user's macros that it may ask for."""
    for option in front.job.options:
        if option.role in _NOT_READ or option.name in _OF_SOURCE or option.text == ("-cc1",) or is_of_user(option):
            continue
        if macros or option.role is not Role.MACRO:
            yield option


def _compiler(front: FrontEnd) -> list[tuple[str, str]]:
    return [("rules", _RULES), ("compiler", dict(front.key.inputs)["compiler"])]
