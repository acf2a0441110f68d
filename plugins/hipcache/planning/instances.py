"""Instances of templates that a preamble's own headers ask for, made once with it (`-fpch-instantiate-templates`).

Clang instantiates function templates at the end of a translation unit. A precompiled header only lists those that its
headers use, so every pass that reads it instantiates them again: half of what such a pass takes, for functions that
most sources do not use. With that option they are in the precompiled header.

The output is the same where it has none of them. One that it has could stand in another place, since clang emits a
function when it is first used, or when it is instantiated if that is later. So a preamble knows the names of all its
instances (`listing`, `names`), and the bitcode of a pass that uses it must have none (`Instances.are_in`).

What a name means in an instance could be another thing behind the source's own declarations, though that is an error of
the program ([temp.point]/7 of the C++ standard). So the source, and headers of its own that the preamble does not have,
must declare nothing that an instance could find there (`declares`): no function by a name that a header of the preamble
calls, no class that such a header only declares (`open_names`), no operator, and no specialization.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hipcache.inputs import lexed
from hipcache.patterns import pattern
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass

_OPERATOR = b"operator"
_DEFINED = pattern(rb"^(?:define [^@\n]*)?@\"?(_Z[\w$.]+)\"?(?=\(| = )", re.MULTILINE)
_LENGTH = pattern(rb"[0-9]+")
_DIRECTIVE = pattern(rb"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
_MACRO = pattern(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\\\n]|\\[^\n]|\\\n)*)", re.MULTILINE)
_LITERAL = pattern(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'")
# A name that is neither a member's nor qualified, and the word before it, or the end of a type that is written as
# usual (`char* f`, `vector<int> f`). With `<`: arguments for a template.
_NAMED = pattern(
    rb"(?:(\b[A-Za-z_]\w*|[\w>][&*>]+)\s+)?(?<![\w$])(?<!::)(?<!->)(?<![\w)\]]\.)([A-Za-z_]\w*)(?:\s*\(|<)"
)
# Behind another word, it is declared.
_BEFORE_CALLS = frozenset(
    b"return else do case throw and or not xor bitand bitor compl co_await co_yield co_return".split()
)
# Before parentheses, and no names of functions.
_KEYWORDS = frozenset(
    b"__attribute__ __attribute __declspec alignas decltype noexcept static_assert sizeof alignof typeof __typeof__ "
    b"explicit requires throw asm __asm__ __asm".split()
)
# The only functions that the standard library looks up in the namespaces of the arguments ([contents]/3 of the C++
# standard; those of ranges and of `for`). Nobody else may declare others in its own namespace.
_LOOKED_UP = frozenset(b"swap make_error_code make_error_condition begin end get iter_move iter_swap".split())
_CLASS = pattern(rb"\b(?:struct|class|union)\s+([A-Za-z_]\w*)")
_INCOMPLETE = pattern(rb"\b(?:struct|class|union)\s+([A-Za-z_]\w*)\s*;")
# The head of a class, up to its name; the parentheses are those of attributes.
_HEAD = rb"\b(?:struct|class|union)\b(?:[^;{}(),=<>:]|::|\((?:[^()]|\([^()]*\))*\))*?"
_DEFINED_CLASS = pattern(_HEAD + rb"([A-Za-z_]\w*)\s*(?:\bfinal\s*)?(?::(?!:)|\{)")
# Also where it is only named.
_SPECIALIZED = pattern(_HEAD + rb"<")
_SPECIALIZED_OTHERS = pattern(rb"\btemplate\s*<\s*>|\btemplate\b[^;{}()]*>\s*=(?!=)")
# Digraphs, trigraphs and splices of lines, for which other patterns do not look.
_UNUSUAL = pattern(rb"<%|%>|%:|\?\?|\\\n")
_TOKEN = pattern(rb"[A-Za-z_]\w*|[{}();=]")
_OPEN_NAMESPACE = pattern(rb"(?:\bnamespace\b[\w\s:\[\]()]*|\bextern\s*\"\")\s*$")


@dataclass(frozen=True)
class Instances:
    """Of one preamble. `instances`: mangled names; `open_names`: those of its headers that the rest of a source must
    not declare."""

    instances: tuple[bytes, ...]
    open_names: frozenset[bytes]

    def are_in(self, bitcode: bytes) -> bool:
        """May one of them be in it? (Names lie there as they are, one behind the other.)"""
        return any(name in bitcode for name in self.instances)

    def pack(self) -> bytes:
        """The names of instances, one a line, an empty line, and the open names."""
        return b"\n".join(self.instances) + b"\n\n" + b"\n".join(sorted(self.open_names))

    @classmethod
    def unpack(cls, packed: bytes) -> Instances:
        instances, _, open_names = packed.partition(b"\n\n")
        return cls(tuple(instances.split()), frozenset(open_names.split()))


@dataclass(frozen=True)
class Header:
    """Names in a header: functions that it may call unqualified, all its classes, and those that it only declares at
    that place. `specializes`: does a macro of it specialize templates?"""

    called: frozenset[bytes]
    classes: frozenset[bytes] = frozenset()
    incomplete: frozenset[bytes] = frozenset()
    specializes: bool = False


@dataclass(frozen=True)
class Declared:
    """What a text declares where an instance could find it: `names` of functions and classes. `odd`: operators,
    specializations, or what a macro does."""

    names: frozenset[bytes]
    odd: bool


def listing(front: FrontEnd, source: str, output: str) -> list[str]:
    """The command that writes all functions and variables of a preamble's text, used or not, as LLVM's assembly."""
    words = preamble.compiling(front)
    return [*words, "-emit-llvm", "-disable-llvm-passes", "-femit-all-decls", "-o", output, "-x", "hip", source]


def names(assembly: bytes) -> tuple[bytes, ...]:
    """The instances in it, by their mangled names."""
    return tuple(sorted({name for name in _DEFINED.findall(assembly) if is_instance(name)}))


def is_instance(name: bytes) -> bool:
    """Is it that of a template, of a member of a class template, or of a function that clang may have declared itself
    (constructors, destructors, assignment)? True for a name that is of a form not known here. The form is that of the
    Itanium C++ ABI, 5.1; only what is named counts, not its parameters."""
    at = 3 if name.startswith(b"_ZL") else 2
    nested = name[at : at + 1] == b"N"
    at += nested
    while at < len(name):
        length = _LENGTH.match(name, at)
        if length:
            at = length.end() + int(length.group())
            if not nested:
                return name[at : at + 1] == b"I"
        elif name[at : at + 2] == b"St":
            at += 2
        elif not nested:
            return name[at : at + 1].isupper() or name[at + 2 : at + 3] == b"I"
        elif name[at : at + 1] == b"E":
            return False
        elif name[at : at + 1] in (b"I", b"C", b"D", b"T", b"Z") or name[at : at + 2] == b"aS":
            return True
        elif name[at : at + 1] == b"S":
            at += 2  # of std, or of what stands before in the name
        else:
            at += 1  # qualifiers, operators
    return True


def read(header: bytes, *, of_library: bool) -> Header:
    """`of_library`: is it the standard library's?"""
    if of_library:
        return Header(_LOOKED_UP)
    bare = _bare(header)
    called = {name for before, name in _NAMED.findall(bare) if not before or before in _BEFORE_CALLS}
    specializes = b"template" in bare and any(_SPECIALIZED.search(body) for _, body in _MACRO.findall(bare))
    classes, incomplete = (frozenset(one.findall(bare)) for one in (_CLASS, _INCOMPLETE))
    return Header(frozenset(called), classes, incomplete, specializes)


def open_names(headers: Sequence[Header]) -> frozenset[bytes]:
    """All functions that headers may call by an unqualified name, and all classes that one declares and does not
    define there."""
    called = {name for one in headers for name in one.called}
    classes = {name for one in headers for name in one.classes}
    return frozenset(called - classes).union(*(one.incomplete for one in headers))


def declares(text: bytes) -> Declared:
    bare = _bare(text)
    macros = {name for name, body in _MACRO.findall(bare) if body}
    code = _DIRECTIVE.sub(b"", bare)
    odd = any(one.search(code) for one in (_SPECIALIZED, _SPECIALIZED_OTHERS, _UNUSUAL))
    functions = frozenset(_outside(code))
    odd = odd or _OPERATOR in functions or not macros.isdisjoint(functions)
    return Declared(functions.union(_DEFINED_CLASS.findall(code)), odd)


def _outside(code: bytes) -> Iterator[bytes]:
    """Names before parentheses outside of functions and classes, and what `using` names there. `operator` also where
    the text does not end outside of all braces."""
    depth = parentheses = namespaces = begin = 0
    last, names_one, initializes = b"", False, False
    for token in _TOKEN.finditer(code):
        text = token.group()
        outside = not depth and not parentheses
        if text == b"{":
            is_open = outside and _OPEN_NAMESPACE.search(code, begin, token.start())
            namespaces, depth = (namespaces + 1, 0) if is_open else (namespaces, depth + 1)
        elif text == b"}":
            namespaces, depth = (namespaces, depth - 1) if depth else (namespaces - 1, 0)
        elif text == b"(":
            parentheses += 1
            if outside and last and not initializes and last not in _KEYWORDS:
                yield last
        elif text == b")":
            parentheses -= 1
        elif outside and text == _OPERATOR:
            yield text
        elif outside and text == b"using":
            names_one = True
        elif outside and text == b"=":
            initializes = b"template" not in code[begin : token.start()]  # else that of a parameter
        if text == b";" and names_one:
            names_one = False
            yield last
        if text in b"{};":
            begin, initializes = token.end(), False
        last = b"" if text in b"{}();=" else text
    if depth or parentheses or namespaces:
        yield _OPERATOR


def _bare(text: bytes) -> bytes:
    """Without comments, and without what is in literals."""
    found = lexed.lex(text, lexed.BARE)
    return _LITERAL.sub(b'""', found.bare)
