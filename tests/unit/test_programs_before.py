"""Programs that start the compiler, between hipcache and the compiler."""

from __future__ import annotations

import pytest
from hipcache.base.errors import PassThrough
from hipcache.clang.command import parse


@pytest.mark.parametrize(
    "words",
    [
        ("env", "FOO=1", "clang++", "-c", "k.hip"),
        ("nice", "-n", "10", "/opt/rocm/bin/amdclang++", "-c", "-xhip", "k.cpp"),
        ("cmake", "-E", "env", "FOO=1", "hipcc", "-c", "k.hip"),
        ("time", "clang++-15", "k.hip", "-o", "program"),
    ],
)
def test_a_program_that_starts_the_compiler_is_told(words: tuple[str, ...]) -> None:
    with pytest.raises(PassThrough) as left:
        parse(words, "/nowhere", {})
    assert left.value.reason == "not_compiler"


def test_a_source_may_be_named_as_a_compiler() -> None:
    assert parse(("clang++", "-c", "-xhip", "clang"), "/nowhere", {}).source == "clang"
