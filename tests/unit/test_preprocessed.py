"""What a preprocessed text tells of macros, lines and inline assembly."""

from __future__ import annotations

import pytest
from hipcache.inputs import includes
from hipcache.inputs.preprocessed import EVERYWHERE, LINE, assembly, is_expanded, mark, name_of, numbered

LINED = f"int n = {mark(LINE)};\n"


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ('# 1 "k.hip"\nint n;\n', ()),
        (f'# 1 "k.hip"\nint n;\n# 1 "x.h" 1\n{LINED}# 2 "k.hip" 2\n', ("x.h",)),
        (f'# 1 "a\\"b\\\\c.h" 1 3\n{LINED}', ('a"b\\c.h',)),
        (f'# 1 "k.hip"\nconst char* t = R"(\n# 1 "x.h"\n)";\n{LINED}', (EVERYWHERE,)),
        ('# 1 "x.h" 1\nint f(int n = __builtin_LINE());\n', (EVERYWHERE,)),
        ('# 1 "/usr/include/c++/12/source_location" 1 3\nstruct source_location {};\n', ()),
        ('# 1 "k.hip" 1\nauto here = std::source_location::current();\n', (EVERYWHERE,)),
        ('# 1 "k.h" 1\nint f() { return *__func__; }\n# 1 "x.h" 1\nauto x = [] {};\n# 2 "k.h" 2\nint n;\n', ("x.h",)),
        ('# 1 "k.hip" 1\nauto x = [] {};\n', ()),
        ('#pragma unroll 4\n#pragma unroll(4)\n#pragma GCC diagnostic ignored "-Wx"\n#pragma omp for nowait\n', ()),
    ],
)
def test_the_files_whose_lines_count_are_told(text: str, files: tuple[str, ...]) -> None:
    assert numbered(text.encode()) == frozenset(files)


@pytest.mark.parametrize("text", [mark("X"), f'"{mark("X")}"', "#pragma other words", "#pragma unroll X"])
def test_a_mark_or_an_unknown_pragma_may_be_of_a_macro_that_counts(text: str) -> None:
    assert is_expanded(text.encode())
    assert numbered(text.encode()) is None
    assert not is_expanded(LINED.encode())


@pytest.mark.parametrize(
    ("option", "name"), [("-D X=1", "X"), ("-DX=", "X"), ("-D X", ""), ("-D X(a)=a", ""), ("-U X", ""), ("-DX Y=1", "")]
)
def test_only_a_plain_macro_with_a_value_has_a_name(option: str, name: str) -> None:
    assert name_of(option) == name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int incbin;\n", b""),
        ('asm volatile("a (b" : "=r"(x[(1)]) : "0"(y)); int z;', b'asm("a (b" : "=r"(x[(1)]) : "0"(y));'),
        ('int x __asm__("y");\n# 1 "/usr/include/asm/errno.h" 1\n__asm("b" "c")', b'asm("y");\nasm("b" "c");'),
        ("asm(text());", None),
        ('asm("a"', None),
        ('asm("a" : : "r"(R"(x)"));', None),
        ("asm { mov }", None),
    ],
)
def test_inline_assembly_is_told_from_all_else(text: str, found: bytes | None) -> None:
    assert assembly(text.encode()) == found


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ('void f() { t.incbin(".include"); asm("nop"); }', False),
        ('asm(".incbin \\"x\\"");', True),
        ('asm(".inc" "bin x");', True),
        ('asm(".in\\143bin x");', True),
        ('asm("nop" : : "r"(".include x"));', True),
    ],
)
def test_only_what_is_assembled_may_read_a_file(text: str, reads: bool) -> None:
    assert includes.assembles(text.encode()) is reads
