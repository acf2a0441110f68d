"""Bitcode for another GPU, by bits: what stands where."""

from __future__ import annotations

import pytest
from hipcache.making import retarget
from hipcache.planning import alike


def row(*numbers: int, width: int = 6, before: int = 0) -> bytes:
    """Numbers of variable width, behind so many zero bits, and some more."""
    bits = [0] * before + [bit for number in numbers for bit in retarget._variable(number, width)]
    bits += [0] * (-len(bits) % 8 + 16)
    return bytes(
        sum(bit << place for place, bit in enumerate(bits[start : start + 8])) for start in range(0, len(bits), 8)
    )


def attribute(arch: str, before: int) -> bytes:
    return row(4, *b"target-cpu", 0, *arch.encode(), 0, before=before)


@pytest.mark.parametrize("before", range(9))
def test_the_name_is_found_at_any_bit(before: int) -> None:
    made = retarget.for_gpu(attribute("gfx90a", before), "gfx90a", "gfx90c")
    assert made == attribute("gfx90c", before)


def test_each_function_has_it() -> None:
    many = b"".join(attribute("gfx1030", before) for before in range(8))
    assert retarget.for_gpu(many, "gfx1030", "gfx1036") == b"".join(attribute("gfx1036", b) for b in range(8))


def test_none_where_it_is_not_there_or_has_another_length() -> None:
    assert retarget.for_gpu(attribute("gfx906", 3), "gfx908", "gfx906") is None
    assert retarget.for_gpu(attribute("gfx906", 3), "gfx906", "gfx1030") is None
    assert retarget.for_gpu(b"", "gfx906", "gfx908") is None


def constant(number: int, before: int) -> bytes:
    """Behind the abbreviation 5, which has four bits."""
    bits = [0] * before + [1, 0, 1, 0, *retarget._variable(number * 2, 8)]
    bits += [0] * (-len(bits) % 8 + 16)
    return bytes(
        sum(bit << place for place, bit in enumerate(bits[start : start + 8])) for start in range(0, len(bits), 8)
    )


@pytest.mark.parametrize("before", range(8))
def test_the_number_is_found_at_any_bit(before: int) -> None:
    old = attribute("gfx1030", 1) + constant(10300, before)
    new = attribute("gfx1036", 1) + constant(10306, before)
    assert retarget.for_gpu(old, "gfx1030", "gfx1036", (10300, 10306)) == new


def test_none_where_the_number_is_there_twice_or_not_at_all() -> None:
    name, number = attribute("gfx1030", 0), constant(10300, 0)
    assert retarget.for_gpu(name, "gfx1030", "gfx1031", (10300, 10301)) is None
    assert retarget.for_gpu(name + number + number, "gfx1030", "gfx1031", (10300, 10301)) is None


def test_a_number_of_another_length_is_refused() -> None:
    old = attribute("gfx1030", 0) + constant(8191, 0)
    assert retarget.for_gpu(old, "gfx1030", "gfx1031", (8191, 8192)) is None


def test_alone_is_a_number_that_no_function_uses() -> None:
    assert retarget.is_alone(b"@__oclc_ISA_version = constant i32 10300, align 4\n", (10300, 10301))
    assert not retarget.is_alone(b"constant i32 10300\nstore i32 10300, ptr %1", (10300, 10301))
    assert not retarget.is_alone(b"constant i32 10300\nadd i32 %2, 10301", (10300, 10301))
    assert not retarget.is_alone(b"", (10300, 10301))


@pytest.mark.parametrize(
    ("arch", "number"),
    [("gfx803", 8003), ("gfx906", 9006), ("gfx90a", 9010), ("gfx90c", 9012), ("gfx1036", 10306), ("gfx1151", 11501)],
)
def test_numbers_of_gpus(arch: str, number: int) -> None:
    assert alike.number(arch) == number
