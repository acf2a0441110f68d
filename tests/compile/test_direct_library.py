"""The parts of a direct hit that are called in this process: libhipcache's hit, its digest and its search."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import Lab, only_19
from hipcache.base import native
from hipcache.inputs import variables
from hipcache.inputs.identity import Memos

__all__ = ["direct"]
pytestmark = pytest.mark.archs(1)


def _hit(lab: Lab) -> native.DirectHit | None:
    return native.hit(str(lab.store), str(lab.root), lab.words(), lab.environ, terminal=False, resident=False)


@only_19
def test_a_library_call_serves_the_same(direct: Direct) -> None:
    lab = direct.lab
    assert _hit(lab) is None
    before = lab.warm()
    (lab.root / "out.o").unlink()
    hit = _hit(lab)
    assert hit is not None
    assert (lab.root / "out.o").read_bytes() == before.object
    assert hit.messages == b""


SIZES = [*range(0, 70), 127, 128, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193, 9216, 65536, 100_001]
SIZES += [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) + 1025, 3 << 20, 5_000_000]


@pytest.mark.parametrize("sizes", [SIZES])
def test_the_digest_in_c_is_blake3(sizes: list[int]) -> None:
    library = native.load()
    assert library is not None, "the native library was not built: run `make setup`"
    content = random.Random(1).randbytes(max(sizes))
    digest = ctypes.create_string_buffer(32)
    for size in sizes:
        library.blake3(content, ctypes.c_size_t(size), digest)
        assert digest.raw == blake3(content[:size]).digest(), size


def test_names_are_searched_in_whole_files(tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_bytes(b"\x7fELF" + b"x" * 5000 + b"FIRST_ON" + b"y" * 5000 + b"LAST_ONE")
    assert native.search(str(file), [b"FIRST_ON", b"LAST_ONE", b"LAST_ONF"]) == {b"FIRST_ON", b"LAST_ONE"}
    with pytest.raises(OSError, match="cannot be searched"):
        native.search(str(tmp_path / "none"), [b"FIRST_ON"])
    tools = {"digest": (str(file),)}
    names = ["FIRST_ONE_IS_ASKED", "SECOND_ONE_IS_NOT", "SHORT", "LD_SOMETHING_ELSE"]
    kept: dict[str, bytes] = {}
    memos = Memos(kept.get, kept.__setitem__)
    for _ in range(2):  # found out, and remembered
        assert variables.never_asked(names, tools, memos) == {"SECOND_ONE_IS_NOT"}
    # That says where hipcache's own settings are.
    assert variables.never_asked(["XDG_CONFIG_HOME"], tools, memos) == {"SECOND_ONE_IS_NOT"}
    assert variables.never_asked(["ANOTHER_NAME"], tools, memos) == {"SECOND_ONE_IS_NOT", "ANOTHER_NAME"}
    assert variables.never_asked(["SECOND_ONE_IS_NOT"], {"other": (str(tmp_path / "none"),)}, memos) == set()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 31, 32, 33, 40, 100, 1000])
def test_the_search_finds_what_is_there_and_nothing_else(tmp_path: Path, length: int) -> None:
    """Few letters, so that texts overlap and nearly match; each place of the file is the only one of some text."""
    chosen, file = random.Random(length), tmp_path / "tool"
    for _ in range(20):
        content = bytes(chosen.choices(b"ab", k=length))
        file.write_bytes(content)
        texts = [bytes(chosen.choices(b"ab", k=8)) for _ in range(30)]
        texts += [content[at : at + 8] for at in chosen.sample(range(length), k=min(length, 10)) if at + 8 <= length]
        assert native.search(str(file), texts) == {text for text in texts if text in content}
