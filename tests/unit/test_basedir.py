"""Paths below HIPCACHE_BASEDIR stand without it, and come back in another one."""

from __future__ import annotations

import pytest
from hipcache.inputs.basedir import MARK, Basedir

ONE, OTHER = Basedir("/home/one"), Basedir("/home/other")


@pytest.mark.parametrize(
    "text",
    [
        "/home/one/k.hip",
        "-I/home/one/include",
        "-fmacro-prefix-map=/home/one=.",
        "/home/one",
        '"/home/one/a b"',
        "/home/one:/home/one/x;/home/one",
    ],
)
def test_a_path_below_it_is_the_same_in_another_checkout(text: str) -> None:
    assert ONE.portable(text) == OTHER.portable(text.replace("/home/one", "/home/other"))
    assert "/home/one" not in ONE.portable(text)


@pytest.mark.parametrize(
    "text", ["/home/one/k.hip", "-I/home/one", "k.hip", "/usr/include", "/home/one-more/k.hip", ""]
)
def test_what_was_made_portable_comes_back(text: str) -> None:
    assert ONE.local(ONE.portable(text)) == text


def test_it_comes_back_in_the_other_checkout() -> None:
    assert OTHER.local(ONE.portable("/home/one/k.hip")) == "/home/other/k.hip"


@pytest.mark.parametrize("text", ["/home/one-more/k.hip", "/home/oneself", "/home/one.hip"])
def test_a_name_that_only_begins_like_it_stays(text: str) -> None:
    assert ONE.portable(text) == text


def test_without_one_nothing_is_portable() -> None:
    nothing = Basedir("")
    assert nothing.portable("/home/one/k.hip") == "/home/one/k.hip"
    assert nothing.local(f"{MARK}/k.hip") == f"{MARK}/k.hip"
    assert not nothing.named_in(b"/home/one")


def test_it_is_spelled_without_dots() -> None:
    assert Basedir("/home/./x/../one/").path == "/home/one"


def test_a_product_that_names_it_is_seen() -> None:
    assert ONE.named_in(b"\0/home/one/k.hip\0")
    assert not ONE.named_in(b"\0/home/other/k.hip\0")
