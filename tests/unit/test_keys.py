"""A key is the digest of named inputs: no two lists of them give the same bytes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.base.keys import digest_bytes, digest_file, make_key
from hipcache.clang import cc1, spelling
from hipcache.clang.jobs import Cc1Job


def test_a_digest_is_64_lower_case_hexadecimal_digits() -> None:
    digest = make_key("kind", [("name", "value")]).digest
    assert len(digest) == 64
    assert set(digest) <= set("0123456789abcdef")


def test_the_same_inputs_give_the_same_digest() -> None:
    assert make_key("kind", [("a", "b")]).digest == make_key("kind", iter([("a", "b")])).digest


def test_no_two_lists_of_inputs_collide_by_concatenation() -> None:
    words = ["", "a", "b", "ab", "1", "1:", "1:a", "0:", ":"]
    pairs = list(itertools.product(words, repeat=2))
    keys = [make_key(kind, [pair]) for kind in words for pair in pairs]
    keys += [make_key("a", two) for two in itertools.product(pairs[::3], repeat=2)]
    keys += [make_key(kind, []) for kind in words]
    assert len({key.digest for key in keys}) == len(keys)


def test_the_order_of_inputs_counts() -> None:
    assert make_key("k", [("a", "1"), ("b", "2")]).digest != make_key("k", [("b", "2"), ("a", "1")]).digest


class Pair(tuple[str, str]):
    """An input that counts with how many it is compared."""

    compared = 0
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        Pair.compared += 1
        return tuple.__eq__(self, other)


def test_the_key_for_every_spelling_compares_no_input_with_all_macros() -> None:
    macros = [f"-DM{number}" for number in range(100)]
    job = Cc1Job("clang", cc1.parse(("-cc1", "-emit-obj", *macros, "-cuid=1", "-x", "hip", "k.hip")))
    spelled = spelling.of(job, "/w")
    assert spelled
    front = make_key("pass", [Pair(("option", macro)) for macro in reversed(macros)])
    key = spelling.key(front, job, spelled, str)
    assert [text for _, text in key.inputs] == sorted(macros)
    assert Pair.compared <= len(macros)


def test_the_inputs_stay_readable() -> None:
    assert make_key("k", [("option", "-O2")]).inputs == (("option", "-O2"),)


def test_text_that_is_no_utf8_has_a_key() -> None:
    one, other = (make_key("k", [("option", os.fsdecode(raw))]).digest for raw in (b"\xff", b"\xfe"))
    assert one != other


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_the_digest_of_a_file_is_that_of_its_content(size: int, tmp_path: Path) -> None:
    content = bytes(size % 251 for size in range(size))
    path = tmp_path / "file"
    path.write_bytes(content)
    assert digest_file(path) == digest_file(str(path)) == digest_bytes(content) == blake3(content).hexdigest()


def test_a_file_that_cannot_be_read_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digest_file(tmp_path / "gone")
    with pytest.raises(IsADirectoryError):
        digest_file(tmp_path)


def test_the_places_of_names_are_those_of_their_directory() -> None:
    """As those of each path alone, which is slow where 1,000 directories miss 40 names each."""
    directories = (("/w", ""), ("/w/a", "a"), ("/w/a/b", "a/b"), ("/x", "../x"), ("/w/c", "c"), ("/y/c", "c"))
    spelled = spelling.Spelling(("/w/s.hip", "s.hip"), directories)
    names = ("a", "b", "c", "h.h")
    for directory in ("", "./", "a/", "./a/", "a/b/", "../", "../x/", "/w/", "c/", "other/"):
        places, further = spelled.places_in(directory, names)
        for name in names:
            found = [*(place + name for place in places), *further.get(name, ())]
            assert sorted(found) == sorted(spelled.places(directory + name)), (directory, name)
