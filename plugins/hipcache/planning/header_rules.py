"""The rules for standard headers that a precompiled preamble may have, by their texts (docs/preambles.md says why)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from hipcache.patterns import pattern
from hipcache.planning import deferred, lambdas
from hipcache.planning.frontend import FrontEnd

# Words of a text whose meaning goes beyond its own place.
_WORDS = pattern(rb"\b(?:__COUNTER__|__BASE_FILE__|__INCLUDE_LEVEL__|__TIMESTAMP__)\b")
# Of a macro: also a section, since a precompiled header does not hold which variables have which kind of section.
_WORDS_OF_MACROS = pattern(_WORDS.pattern + rb"|\b_Pragma\b|\b(?:__)?section(?:__)?[ \t]*\(")
_PRAGMA = pattern(rb"^[ \t]*(?:#|%:|\?\?=)[ \t]*pragma\b[ \t]*([^\n]*)", re.MULTILINE)
# Their stacks are not part of a precompiled header either.
_STACKS = pattern(rb"\b(?:(push|pop)_macro|visibility[ \t]+(push|pop))\b")
_BRANCHES = pattern(rb"^[ \t]*#[ \t]*(?:(if)|(el)|(endif)|pragma\b[^\n]*\b(push|pop)(?:_macro)?\b)", re.MULTILINE)
_DIAGNOSTICS = pattern(rb"(?:clang|GCC)[ \t]+diagnostic[ \t]+(\w+)")
# Standard headers take back what they set, since they are made to be included before anything. These last longer.
_LASTING_PRAGMAS = pattern(
    rb"pack\b|options\b|align\b|weak\b|redefine_extname\b|ms_struct\b|comment\b|init_seg\b|vtordisp\b|float_control\b"
    rb"|fenv_|intrinsic\b|optimize\b|function\b|\w*_seg\b|GCC[ \t]+(?:poison|optimize|target|ivdep|dependency)\b"
    rb"|clang[ \t]+(?!diagnostic\b|system_header\b|force_cuda_host_device\b|loop\b)|STDC[ \t]+(?!\w+[ \t]+DEFAULT\b)"
)
# ROCm's device libraries have these, and no library of the host's.
_OF_DEVICE_LIBRARIES = (b"__ocml_", b"__ockl_", b"__llvm_")


def macro_fault(macro: bytes) -> str:
    """The reason why no pass with that macro of the command line may have a preamble; empty if it may."""
    word = _WORDS_OF_MACROS.search(macro)
    return f"it has {word.group().decode()}" if word else ""


def fault(text: bytes) -> str:
    """The reason why no preamble may have this header; empty if one may."""
    word = _WORDS.search(text)
    if word:
        return f"it has {word.group().decode()}"
    if lambdas.are_numbered(text):
        return "it has a lambda outside of functions and classes"
    if b"pragma" not in text and b"_Pragma" not in text:
        return ""
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
        if pushed < 0 or _LASTING_PRAGMAS.match(what):
            return f"it has #pragma {what[:40].decode('ascii', 'replace')}"
    return "it pushes a state of warnings, and does not pop it" if pushed else ""


def devices_functions(front: FrontEnd, headers: Sequence[bytes]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """(functions that these headers declare for the device, those of them that may be `extern "C"`), if it is the
    host's pass. (The C library's functions are declared for both sides.)"""
    if front.is_device:
        return frozenset(), frozenset()
    more = macros(front)
    names = deferred.functions([more, *headers])
    return names, deferred.functions([more]) | {name for name in names if name.startswith(_OF_DEVICE_LIBRARIES)}


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


def macros(front: FrontEnd) -> bytes:
    """Those of the command line, as directives."""
    return os.fsencode("".join(f"#define {one.replace('=', ' ', 1)}\n" for one in front.macros))
