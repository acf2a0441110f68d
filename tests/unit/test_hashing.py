"""The package `blake3` and our own C give the same digests by the same interface."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blake3
import pytest
from hipcache.base import hashing, native
from hipcache.base.hashing import OwnBlake3

Hasher = Callable[..., Any]
BOTH = pytest.mark.parametrize("hasher", [blake3.blake3, OwnBlake3], ids=["package", "own"])
# Around the ends of a block, a chunk, a piece, and what our C hashes side by side.
SIZES = (0, 1, 63, 64, 65, 1023, 1024, 1025, 8 * 1024, 16 * 1024 + 1, (1 << 20) - 1, (1 << 20) + 1, 3 << 20)
# github.com/BLAKE3-team/BLAKE3, test_vectors.json: of no bytes, and of the first 1,025 of 0, 1 ... 250, 0, 1 ...
KEY = b"whats the Elvish word for friend"
CONTEXT = "BLAKE3 2019-12-27 16:29:52 test vectors context"
KNOWN = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
}


def content(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@BOTH
@pytest.mark.parametrize("size", KNOWN)
def test_it_gives_the_specifications_digests(hasher: Hasher, size: int) -> None:
    assert hasher(content(size)).hexdigest() == KNOWN[size]


@BOTH
def test_a_digest_has_32_bytes_or_the_first_of_them(hasher: Hasher) -> None:
    whole = hasher(b"text").digest()
    assert len(whole) == 32
    assert hasher(b"text").digest(4) == whole[:4]
    assert hasher(b"text").hexdigest(8) == whole[:8].hex()


@BOTH
def test_pieces_are_one_content(hasher: Hasher, tmp_path: Path) -> None:
    whole = content(5000)
    file = tmp_path / "file"
    file.write_bytes(whole)
    one = hasher(whole[:10])
    one.update(whole[10:1024]).update(b"").update(whole[1024:])
    assert one.digest() == hasher(whole).digest()
    assert one.digest() == one.digest()
    for before, after in ((b"", b""), (b"a", b""), (b"", b"b"), (b"a", b"b")):
        mapped = hasher(before)
        mapped.update_mmap(file)
        mapped.update(after)
        assert mapped.digest() == hasher(before + whole + after).digest(), (before, after)
    twice = hasher()
    twice.update_mmap(file)
    twice.update_mmap(str(file))
    assert twice.digest() == hasher(whole * 2).digest()


@BOTH
def test_an_empty_file_is_no_content(hasher: Hasher, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    one = hasher()
    one.update_mmap(tmp_path / "empty")
    assert one.hexdigest() == KNOWN[0]


@BOTH
def test_a_wrong_key_is_refused(hasher: Hasher) -> None:
    for wrong in ({"key": b"short"}, {"key": KEY, "derive_key_context": CONTEXT}):
        with pytest.raises(ValueError):
            hasher(b"", **wrong)


@BOTH
def test_a_file_that_is_not_there_is_an_error(hasher: Hasher, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hasher().update_mmap(tmp_path / "none")


@pytest.mark.parametrize("size", SIZES)
def test_both_agree_on_each_size_key_and_context(size: int, tmp_path: Path) -> None:
    whole = content(size)
    file = tmp_path / "file"
    file.write_bytes(whole)
    for more in ({}, {"key": KEY}, {"derive_key_context": CONTEXT}):
        ours, theirs = OwnBlake3(whole, **more), blake3.blake3(whole, **more)
        assert ours.hexdigest() == theirs.hexdigest(), more
        mapped = OwnBlake3(**more)
        mapped.update_mmap(file)
        assert mapped.digest() == theirs.digest(), more


def test_the_package_is_taken_where_it_is() -> None:
    assert hashing.blake3 is blake3.blake3


WITHOUT = "import sys; sys.modules['blake3'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    """In a Python that has no package `blake3`."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_else_ours_is() -> None:
    done = run("from hipcache.base import hashing; print(hashing.blake3.__name__, hashing.blake3(b'').hexdigest())")
    assert (done.stdout, done.stderr) == (f"OwnBlake3 {KNOWN[0]}\n", "")


def test_with_neither_nothing_starts_that_would_fail_later() -> None:
    assert native.PATH.name == "libhipcache.so"
    done = run("from hipcache.base import native; native._open = lambda: None; import hipcache.base.hashing")
    assert "cannot be loaded" in done.stderr
