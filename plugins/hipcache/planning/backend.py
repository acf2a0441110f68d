"""The options of a device pass that its back end needs.

A back end reads bitcode. For bitcode, clang uses almost no language options (`CompilerInvocation`, ParseLangArgs): they
have had their effect already. The same holds for directories and prefix maps, which clang applies when it writes debug
information, coverage and `__FILE__`. A back end's warnings only show that it has messages; the user reads them from a
pass in one step with all options (`planners/device_code`). None of these can affect the code object, so a back end runs
without them: a change of `-Wall` or `-std=` starts no back end. Each option was tested with clang 15 and 19: the code
object is the same with and without it. Options that are not listed stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from hipcache.patterns import pattern
from hipcache.planning.cc1 import Option, Role

# Roles that only concern the front end.
_FRONT_ONLY = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.BITCODE, Role.CUID, Role.SEARCH, Role.INCLUDE),
    *(Role.MACRO, Role.LANGUAGE, Role.INPUT, Role.PRESENTATION, Role.DIRECTORY),
}

# Options that only the front end uses (-fX and -fno-X, with or without a value).
_LANGUAGE = (
    *("access-control", "aligned-allocation", "blocks", "borland-extensions", "char8_t", "check-new", "concepts-ts"),
    *("coroutines", "coroutines-ts", "cuda-allow-variadic-functions", "cxx-exceptions", "declspec"),
    *("delayed-template-parsing", "deprecated-macro", "digraphs", "dollars-in-identifiers"),
    *("double-square-bracket-attributes", "elide-constructors", "exceptions", "gnu-keywords", "gnuc-version"),
    *(
        "hip-new-launch-api",
        "implicit-modules",
        "ms-compatibility",
        "ms-compatibility-version",
        "ms-extensions",
        "operator-names",
    ),
    *("pascal-strings", "relaxed-template-template-args", "rtti", "rtti-data", "short-wchar", "signed-char"),
    *("signed-wchar", "sized-deallocation", "skip-odr-check-in-gmf", "strict-enums", "threadsafe-statics"),
    *("trigraphs", "use-cxa-atexit", "wchar", "wchar-type"),
)
# The look of messages, and the point where a front end gives up. (A back end reports hot code.)
_MESSAGES = (
    *("ansi-escape-codes", "bracket-depth", "caret-diagnostics", "color-diagnostics", "constexpr-backtrace-limit"),
    *("constexpr-depth", "constexpr-steps", "error-limit", "macro-backtrace-limit", "message-length"),
    *("operator-arrow-depth", "show-column", "show-source-location", "spell-checking", "spell-checking-limit"),
    *("template-backtrace-limit", "template-depth"),
)
_SWITCHES = frozenset((*_LANGUAGE, *_MESSAGES))
_SWITCH = pattern(r"-f(?:no-)?([\w-]+)(?:=.*)?")
# The groups of warnings of which any is a back end's (clang's DiagnosticFrontendKinds.td).
_OWN_WARNINGS = (
    *("everything", "attribute-warning", "backend-plugin", "frame-larger-than", "inline-asm", "linker-warnings"),
    *("misexpect", "override-module", "pass-failed", "source-mgr", "unsupported-floating-point-opt"),
)
_DROPPED = pattern(
    rf"-(aux-(triple|target-cpu|target-feature)|-?std=.*|pthread|w|pedantic(-errors)?|source-date-epoch"
    rf"|f(?:debug|macro|coverage)-prefix-map=.*"
    rf"|W(?!(?:no-)?(?:error=)?(?:no-)?(?:{'|'.join(_OWN_WARNINGS)})).*)"
)
# A back end that reads bitcode has no source lines for remarks, and its module is named after the bitcode's file:
# AddressSanitizer writes that name into the code.
_IN_ONE_STEP = ("-R", "-fsanitize", "-fprofile", "-ffat-lto-objects")
# By ThinLTO the module gets a summary and a hash of the source's text.
# With -ffp-contract=fast (by clang 19 also -ffast-math) the code generator fuses what the pragma or a device library
# keeps apart. That is one of the language options: a back end that reads bitcode does not fuse them.
_WHOLE = {("-flto=thin",), ("-ffp-contract=fast",), ("-ffp-contract", "fast")}


def options(given: Iterable[Option]) -> list[Option]:
    """The options of a pass that its back end keeps, in its command and in its key."""
    return [option for option in given if option.role not in _FRONT_ONLY and not _is_dropped(option.text[0])]


def shows_bitcode(given: Iterable[Option]) -> bool:
    """Would two steps with bitcode in between change the code object or the messages?"""
    return any(option.name.startswith(_IN_ONE_STEP) or option.text in _WHOLE for option in given)


def warns(given: Iterable[Option]) -> bool:
    """Are warnings on (no -w)?"""
    return all(option.name != "-w" for option in given)


def _is_dropped(word: str) -> bool:
    if _DROPPED.fullmatch(word):
        return True
    switch = _SWITCH.fullmatch(word)
    if not switch:
        return False
    name = switch[1]
    if name.startswith("diagnostics-"):
        return name != "diagnostics-" and "hotness" not in word and "misexpect" not in word
    return name in _SWITCHES
