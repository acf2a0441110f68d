"""Regular expressions that are compiled late: each one is valid, and is what `re` would have made."""

from __future__ import annotations

import importlib
import pkgutil
import re
from contextlib import suppress

import hipcache
import pytest
from hipcache.base.patterns import pattern


def test_each_pattern_of_each_module_is_valid() -> None:
    valid = 0
    for module in pkgutil.walk_packages(hipcache.__path__, "hipcache."):
        with suppress(ImportError):  # of a package that may be missing
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, pattern):  # type: ignore[arg-type]
                    re.compile(value.pattern, value.flags)
                    valid += 1
    assert valid > 100


def test_it_does_what_re_does() -> None:
    lazy, made = pattern(r"^(a+)b", re.MULTILINE), re.compile(r"^(a+)b", re.MULTILINE)
    text = "aab\nab c"
    assert [one.span() for one in lazy.finditer(text)] == [one.span() for one in made.finditer(text)]
    assert lazy.findall(text) == made.findall(text) == ["aa", "a"]
    assert lazy.sub(r"\1", text) == made.sub(r"\1", text)
    assert lazy.split(text) == made.split(text)
    assert lazy.match(text, 4) and not lazy.fullmatch(text) and lazy.pattern == made.pattern


def test_a_wrong_one_is_told_where_it_is_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
    with pytest.raises(AttributeError):
        assert wrong.nothing  # type: ignore[attr-defined]
