"""The rules for headers that a precompiled preamble may have, by their texts (docs/preambles.md says why)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from hipcache.patterns import pattern
from hipcache.planning import deferred, device_variables, lambdas, private_fields
from hipcache.planning.frontend import FrontEnd

# Words of a text whose meaning goes beyond its own place.
_WORDS = pattern(rb"\b(?:__COUNTER__|__BASE_FILE__|__INCLUDE_LEVEL__|__TIMESTAMP__)\b")
# A directive behind a comment, a word that goes on in the next line and the like, for which other patterns do not look.
_UNUSUAL = pattern(rb"\r(?!\n)|[\f\v][^\n]*#|\*/[^\S\n]*#|(?<!#)#[ \t]*(?:\w*\\[ \t]*\r?\n|/\*)|\w\\[ \t]*\r?\n\w")
_PRAGMA = pattern(rb"^[ \t]*(?:#|%:|\?\?=)[ \t]*pragma\b[ \t]*([^\n]*)", re.MULTILINE)
_LOCAL_PRAGMAS = pattern(rb"once\b|unroll\b|nounroll\b|clang[ \t]+loop\b|GCC[ \t]+system_header\b|GCC[ \t]+unroll\b")
# Those that clang does not know, or not without options that are excluded: other compilers', editors', OpenMP's.
_FOREIGN_PRAGMAS = pattern(rb"nv_\w+|hd_warning_disable\b|warning\b|region\b|endregion\b|omp\b")
# Their stacks are not part of a precompiled header either.
_STACKS = pattern(rb"\b(?:(push|pop)_macro|visibility[ \t]+(push|pop))\b")
_BRANCHES = pattern(rb"^[ \t]*#[ \t]*(?:(if)|(el)|(endif)|pragma\b[^\n]*\b(push|pop)(?:_macro)?\b)", re.MULTILINE)
# Which variables have which kind of section, neither.
_SECTION = pattern(rb"\b(?:__)?section(?:__)?[ \t]*\(")
_DIAGNOSTICS = pattern(rb"(?:clang|GCC)[ \t]+diagnostic[ \t]+(\w+)")
# Headers of the system take back what they set, since they are made to be included before anything. These last longer.
_LASTING_PRAGMAS = pattern(
    rb"pack\b|options\b|align\b|weak\b|redefine_extname\b|ms_struct\b|comment\b|init_seg\b|vtordisp\b|float_control\b"
    rb"|fenv_|intrinsic\b|optimize\b|function\b|\w*_seg\b|GCC[ \t]+(?:poison|optimize|target|ivdep|dependency)\b"
    rb"|clang[ \t]+(?!diagnostic\b|system_header\b|force_cuda_host_device\b|loop\b)|STDC[ \t]+(?!\w+[ \t]+DEFAULT\b)"
)
# ROCm's device libraries have these, and no library of the host's.
_OF_DEVICE_LIBRARIES = (b"__ocml_", b"__ockl_", b"__llvm_")


def fault(text: bytes, *, system: bool) -> str:
    """The reason why no preamble may have this header; empty if one may. `system`: is it one of the compiler's or
    of libc?"""
    word = _WORDS.search(text) or (not system and _SECTION.search(text))
    if word:
        return f"it has {word.group().decode()}"
    if not system and _UNUSUAL.search(text):
        return "it has a directive or a word that is not written as usual"
    if lambdas.are_numbered(text):
        return "it has a lambda outside of functions and classes"
    if b"pragma" not in text and b"_Pragma" not in text:
        return ""
    if b"_Pragma" in text and not system:
        return "it has a _Pragma"
    stacks = [found.group(1) or found.group(2) for found in _STACKS.finditer(text)]
    if stacks.count(b"push") != stacks.count(b"pop"):
        return "it pushes a macro or a visibility, and does not pop it, or pops what it has not pushed"
    if _takes_turns(text):
        return "it pushes in its first turn, and pops in its second"
    pushed = 0
    for pragma in _PRAGMA.finditer(text):
        what = pragma.group(1)
        diagnostic = _DIAGNOSTICS.match(what)
        if diagnostic:
            # The state of warnings is part of a precompiled header, the stack of pushed states is not.
            pushed += {b"push": 1, b"pop": -1}.get(diagnostic.group(1), 0)
            lasts = pushed < 0
        else:
            lasts = bool(_LASTING_PRAGMAS.match(what)) if system else not _is_local(what)
        if lasts:
            return f"it has #pragma {what[:40].decode('ascii', 'replace')}"
    return "it pushes a state of warnings, and does not pop it" if pushed else ""


def have_variables(front: FrontEnd, headers: Iterable[bytes]) -> bool:
    """Do these headers declare variables of the device?"""
    return device_variables.are_declared([macros(front), *headers])


def may_catch(front: FrontEnd, headers: Sequence[bytes]) -> bool:
    """Is it the device's pass, and have these headers a function of the device with a `try`?"""
    return front.is_device and deferred.have_try([macros(front), *headers])


def devices_functions(
    front: FrontEnd, own: Sequence[bytes], others: Sequence[bytes]
) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """(functions that these headers declare for the device, those of them that may be `extern "C"`), if it is the
    host's pass. `own`: headers of the compiler's and of HIP, which declare the C library's functions for both sides."""
    if front.is_device:
        return frozenset(), frozenset()
    more = [macros(front), *others]
    names = deferred.functions([*more, *own])
    return names, deferred.functions(more) | {name for name in names if name.startswith(_OF_DEVICE_LIBRARIES)}


def may_warn_of_fields(front: FrontEnd, header: bytes) -> bool:
    """Of private fields of this header that nothing uses."""
    return private_fields.may_be_told(header, (option.text[0] for option in front.job.options))


def _takes_turns(text: bytes) -> bool:
    """Does it pop in one branch of an #if what it has pushed in another one, so that it must be included twice?"""
    way: dict[int, int] = {}
    pushed: list[dict[int, int]] = []
    for number, (begins, turns, ends, stack) in enumerate(_BRANCHES.findall(text)):
        if begins:
            way[number] = 0
        elif turns and way:
            way[max(way)] = number
        elif ends and way:
            del way[max(way)]
        elif stack == b"push":
            pushed.append(dict(way))
        elif stack and pushed:
            before = pushed.pop()
            if any(before.get(one, branch) != branch for one, branch in way.items()):
                return True
    return False


def _is_local(pragma: bytes) -> bool:
    return bool(_LOCAL_PRAGMAS.match(pragma) or _FOREIGN_PRAGMAS.match(pragma))


def macros(front: FrontEnd) -> bytes:
    """Those of the command line, as directives."""
    return os.fsencode("".join(f"#define {one.replace('=', ' ', 1)}\n" for one in front.macros))
