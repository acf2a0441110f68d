"""The rules of the house that no other test holds: one name for one thing, and a tier for each test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import house

TESTS = Path(__file__).parents[1]
# Of Python, of files in other languages, and of sections.
OTHERS = {
    *("re", "os", "str", "concurrent", "console", "google", "util", "blake3", "binaries", "hipcache"),
    *("arc", "hash", "module", "__clang_hip_runtime_wrapper"),
}


def test_no_two_classes_share_a_name() -> None:
    assert house.duplicate_classes() == set()


def test_what_texts_refer_to_is_there() -> None:
    """`MODULE.NAME`, in docstrings and comments: a module of the program, and a name in it."""
    texts = {name: path.read_text() for name, path in house.names().items()}
    known: dict[str, set[str]] = {}
    for name, text in texts.items():
        *_, package, module = ["", *name.split(".")]
        known.setdefault(package, set()).add(module)
        nodes = ast.walk(ast.parse(text))
        words = [(getattr(node, "name", ""), getattr(node, "id", ""), getattr(node, "attr", "")) for node in nodes]
        known.setdefault(module, set()).update(word for names in words for word in names)
    sources = {path.stem for path in house.PACKAGE.rglob("*.[ch]")}
    wrong = []
    for name, text in texts.items():
        for module, word in re.findall(r"`(?:[a-z_]+\.)*([a-z_]+)\.(\w+)`", text):
            if module not in OTHERS and (module not in sources or word not in "ch"):
                wrong += [f"{name}: {module}.{word}"] * (word not in known.get(module, ()))
    assert not wrong


def test_each_test_has_a_tier() -> None:
    assert not [path.name for path in TESTS.glob("test_*.py")]
    tiers = {"unit", "compile", "hazards", "features", "integration"}
    assert {path.parent.name for path in TESTS.rglob("test_*.py")} == tiers
