"""The libraries of LLVM that most runs of tests load are those of the system, with their pointers filled in."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import prelinked
import pytest
from hip import COMPILERS, LLVM, Lab
from prelink import prelink, symbols

SOURCE = """\
#include <stdio.h>
static int value = 41;
int shown = 7;
static int *const to_value[] = {&value, 0, &shown};
static __thread int own = 3;
static int add(int more) { return *to_value[0] + more; }
static int (*const function)(int) = add;
static char text[8];
static void begin(void) __attribute__((constructor));
static void begin(void) { snprintf(text, sizeof text, "%d", value); }
int told(void) { return function(1) + *to_value[2] + own + (text[0] - '4'); }
"""


@pytest.fixture
def library(tmp_path: Path) -> bytes:
    (tmp_path / "l.c").write_text(SOURCE)
    words = [LLVM[COMPILERS[0]] / "bin/clang", "-shared", "-fPIC", "-O1", tmp_path / "l.c", "-o", tmp_path / "plain.so"]
    subprocess.run(list(map(str, words)), check=True)
    return (tmp_path / "plain.so").read_bytes()


def test_a_prelinked_library_is_loaded_where_it_says_and_does_the_same(library: bytes, tmp_path: Path) -> None:
    address = prelinked.FIRST_ADDRESS - prelinked.DISTANCE
    (tmp_path / "made.so").write_bytes(prelink(library, address))
    loaded = ctypes.CDLL(str(tmp_path / "made.so"))
    assert loaded.told() == ctypes.CDLL(str(tmp_path / "plain.so")).told() == 42 + 7 + 3
    shown = ctypes.addressof(ctypes.c_int.in_dll(loaded, "shown"))
    assert address < shown < address + prelinked.DISTANCE


def test_a_name_that_is_known_is_bound_beforehand(library: bytes, tmp_path: Path) -> None:
    """`shown` as if another library had it."""
    asked = next(one for one in symbols(library) if one.name == b"shown")
    other = (ctypes.c_int * 1)(100)
    known = {b"shown": ctypes.addressof(other)}
    (tmp_path / "bound.so").write_bytes(prelink(library, prelinked.FIRST_ADDRESS - 2 * prelinked.DISTANCE, known))
    assert asked.defined and asked.address
    assert ctypes.CDLL(str(tmp_path / "bound.so")).told() == 42 + 100 + 3


@pytest.mark.parametrize("damage", ["no ELF", "a program", "another machine"])
def test_what_is_no_such_library_is_refused(damage: str, library: bytes) -> None:
    at, content = {"no ELF": (0, b"#!"), "a program": (16, b"\2"), "another machine": (18, b"\3")}[damage]
    with pytest.raises(ValueError, match="no shared library"):
        prelink(library[:at] + content + library[at + len(content) :], 0)


def test_clang_makes_the_same_with_the_libraries_of_the_system(lab: Lab) -> None:
    seen = prelinked.in_use()
    if not seen:
        pytest.skip("this run loads the libraries of the system")
    command = lab.words("-g")
    assert lab.run(command).status == 0
    with_copies = (lab.root / "out.o").read_bytes()
    (lab.root / "out.o").unlink()
    without = f'umount {" ".join(map(str, seen))} && exec "$@"'
    made = lab.run(["unshare", "--mount", "sh", "-c", without, "sh", *command])
    assert (made.status, made.err) == (0, b"")
    assert (lab.root / "out.o").read_bytes() == with_copies
