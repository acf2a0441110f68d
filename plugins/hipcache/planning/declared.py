"""What a C++ text declares outside of functions and classes, and what the headers of a preamble leave open to it.

By the text alone, without types, and rather too much than too little: it decides only whether a preamble may have
instances of templates (`instances`). Such an instance means something else if the rest of the source declares

- a function by a name that a header may call unqualified, or any operator: it could be found by its arguments;
- a class that a header only declares;
- a specialization of a template.

A macro may do each of these where it is used. Those of standard headers are taken to do none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hipcache.patterns import pattern
from hipcache.planning import cxx_text
from hipcache.planning.cxx_text import MACRO, PARENTHESES, without_directives
from hipcache.values import dataclass

# (its name, all words of its body; None: it may declare something by itself). One may be defined more than once.
Macro = tuple[bytes, frozenset[bytes] | None]

_OPERATOR = b"operator"
_PASTE = b"##"
_WORD = pattern(rb"[A-Za-z_]\w*")
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
    b"__attribute__ __attribute __launch_bounds__ __declspec alignas decltype noexcept static_assert sizeof alignof "
    b"typeof __typeof__ explicit requires throw asm __asm__ __asm _Pragma if for while switch return void int template "
    b"static_cast reinterpret_cast const_cast".split()
)
# The only functions that the standard library looks up in the namespaces of the arguments ([contents]/3 of the C++
# standard; those of ranges and of `for`). Nobody else may declare others in its own namespace.
_LOOKED_UP = frozenset(b"swap make_error_code make_error_condition begin end get iter_move iter_swap".split())
_INCOMPLETE = pattern(rb"\b(?:struct|class|union)\s+([A-Za-z_]\w*)\s*;")
# The head of a class, up to its name; the parentheses are those of attributes.
_HEAD = rb"\b(?:struct|class|union)\b(?:[^;{}(),=<>:]|::|\((?:[^()]|\([^()]*\))*\))*?"
_DEFINED_CLASS = pattern(_HEAD + rb"([A-Za-z_]\w*)\s*(?:\bfinal\s*)?(?::(?!:)|\{)")
# Also where it is only named.
_SPECIALIZED = pattern(_HEAD + rb"<")
_SPECIALIZED_OTHERS = pattern(rb"\btemplate\s*<\s*>|\btemplate\b(?:[^;{}():]|::)*>\s*(?:=(?!=)|\{)")
# Digraphs, trigraphs and splices of lines, for which other patterns do not look.
_UNUSUAL = pattern(rb"<%|%>|%:|\?\?|\\\n")
_MARK = pattern(rb"[{}();]")
_OPEN_NAMESPACE = pattern(rb"(?:\bnamespace\b[\w\s:\[\]()]*|\bextern\s*\"\")\s*$")
# Each `(`, and the name before it, if there is one; `(name)(` counts, too.
_FUNCTION = pattern(rb"([A-Za-z_]\w*)\s*(?:\)\s*)*\(")
_ATTRIBUTE = pattern(rb"\[\[[^\]]*\]\]|\b__attribute(?:__)?\s*" + PARENTHESES)
_EQUALS = pattern(rb"=")
_OVERLOADED = pattern(rb"\boperator\b")
_USING = pattern(rb"\busing\b")
_USED = pattern(rb"(\w+)\s*(?:,|\Z)")


@dataclass(frozen=True)
class Open:
    """What the rest of a source must not declare, by name."""

    names: frozenset[bytes] = frozenset()

    def is_met(self, texts: Iterable[Declared]) -> bool:
        """May one of these, which together are the rest of the source and the macros of the command line, declare such
        a thing?"""
        rest = list[Declared]()
        for text in texts:  # which may be read one by one
            if text.odd or not text.names.isdisjoint(self.names):
                return True
            rest.append(text)
        macros = frozenset[Macro]().union(*(text.macros for text in rest))
        names = _with_macros(self.names, macros)
        declare = _with_macros({name for name, words in macros if words is None}, macros)
        return any(not (text.names.isdisjoint(names) and text.words.isdisjoint(declare)) for text in rest)


@dataclass(frozen=True)
class Declared:
    """What a text declares. `names`: of functions and classes; `odd`: there are operators or specializations, or the
    text cannot be told; `words`: all that stand there; `macros`: its own."""

    names: frozenset[bytes]
    odd: bool = False
    words: frozenset[bytes] = frozenset()
    macros: frozenset[Macro] = frozenset()


def called(header: bytes, *, of_library: bool) -> frozenset[bytes]:
    """All functions that a header may call by an unqualified name, and all classes that it declares and does not define
    at that place. `of_library`: is it the standard library's?"""
    if of_library:
        return _LOOKED_UP
    bare = cxx_text.bare(header)
    names = {name for before, name in _NAMED.findall(bare) if not before or before in _BEFORE_CALLS}
    return frozenset(names.union(_INCOMPLETE.findall(bare)))


def left_open(headers: Iterable[frozenset[bytes]], macros: bytes) -> Open:
    """By all headers of a preamble, also what one calls by a macro. `headers`: what each has `called`; `macros`: of the
    command line, as directives."""
    names = set[bytes]().union(*headers)
    bodies = [(name, frozenset(_WORD.findall(rest))) for name, _, rest in MACRO.findall(cxx_text.bare(macros))]
    while more := {word for name, words in bodies if name in names for word in words} - names:
        names |= more
    return Open(frozenset(names - _KEYWORDS))


def of(text: bytes) -> Declared:
    bare = cxx_text.bare(text)
    code = _ATTRIBUTE.sub(b"", without_directives(bare))
    declarations = list(_outside(code))
    names = frozenset(name for one in declarations for name in _functions(one))
    odd = _OPERATOR in names or _specializes(code) or bool(_UNUSUAL.search(code))
    words = frozenset(word for one in declarations for word in _WORD.findall(one))
    return Declared(names.union(_DEFINED_CLASS.findall(code)), odd, words, _macros(bare))


def _specializes(code: bytes) -> bool:
    return any(one.search(code) for one in (_SPECIALIZED, _SPECIALIZED_OTHERS))


def _macros(bare: bytes) -> frozenset[Macro]:
    """Those that have words, or arguments to put in."""
    found = set[Macro]()
    for name, opens, rest in MACRO.findall(bare):
        body = rest.partition(b")")[2] if opens else rest
        words = None if opens or _may_declare(body) else frozenset(_WORD.findall(body))
        if body.strip() and words != frozenset():
            found.add((name, words))
    return frozenset(found)


def _may_declare(body: bytes) -> bool:
    code = _ATTRIBUTE.sub(b"", body)
    return _PASTE in code or _specializes(code) or bool(_DEFINED_CLASS.search(code) or _functions(code))


def _with_macros(names: Iterable[bytes], macros: Iterable[Macro]) -> set[bytes]:
    """The names, and those of the macros that may come to one of them, also by way of other macros."""
    found, more = set[bytes](), set(names)
    while more:
        found |= more
        more = {name for name, words in macros if words and not words.isdisjoint(more)} - found
    return found


def _outside(code: bytes) -> Iterator[bytes]:
    """Each declaration outside of functions and classes, up to its body or its end. Ends with `operator`, which counts
    for whatever may be declared, if the text does not end outside of all braces."""
    depth = parentheses = namespaces = begin = 0
    for mark in _MARK.finditer(code):
        text = mark.group()
        if text in b"()":
            parentheses += 1 if text == b"(" else -1
            continue
        if not depth:
            yield code[begin : mark.start()]
        if text == b"{":
            is_open = not depth and not parentheses and _OPEN_NAMESPACE.search(code, begin, mark.start())
            namespaces, depth = (namespaces + 1, 0) if is_open else (namespaces, depth + 1)
        elif text == b"}":
            namespaces, depth = (namespaces, depth - 1) if depth else (namespaces - 1, 0)
        begin = mark.end()
    yield _OPERATOR if depth or parentheses or namespaces else code[begin:]


def _functions(declaration: bytes) -> set[bytes]:
    """Those that it may declare, also `(name)(...)` and those that return a function's address, and what `using` names
    in it."""
    if b"template" not in declaration:  # else the initializer may be that of a parameter
        declaration = _before_initializer(declaration)
    found = set(_FUNCTION.findall(declaration)) - _KEYWORDS
    found.update(_OVERLOADED.findall(declaration))
    if _USING.search(declaration):
        found.update(_USED.findall(declaration))
    return found


def _before_initializer(declaration: bytes) -> bytes:
    for mark in _EQUALS.finditer(declaration):
        before = declaration[: mark.start()]
        if before.count(b"(") == before.count(b")"):  # else that of a parameter
            return before
    return declaration
