"""The seal of records: with a secret, those of nobody else count. The same in Python and in C."""

from __future__ import annotations

import ctypes
import os
import random
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import HIT, LAUNCHER, MISS, only_19, settle
from hipcache.base import native
from hipcache.base.errors import StoreError
from hipcache.config import Config
from hipcache.store import seal
from hipcache.store.layout import action_name
from hipcache.store.local import LocalStore, open_store
from hipcache.store.seal import Seal
from hipcache.verify import verb
from test_direct_library import SIZES

__all__ = ["direct"]

KEY = "ab" * 32
SECRET = Seal(b"s" * 32)
OTHER = Seal(b"o" * 32)


def secret_file(path: Path, content: bytes = b"0123456789abcdef") -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def store(root: Path, seal: Seal) -> LocalStore:
    return LocalStore(root, max_bytes=0, seal=seal)


# The records of a store


@pytest.mark.parametrize("reader", [Seal(), OTHER])
def test_a_store_holds_the_records_of_those_who_have_a_secret_and_of_others(tmp_path: Path, reader: Seal) -> None:
    store(tmp_path, SECRET).put_action(KEY, b"sealed")
    assert store(tmp_path, reader).get_action(KEY) is None
    store(tmp_path, reader).put_action(KEY, b"another")
    for _ in range(2):
        assert store(tmp_path, SECRET).get_action(KEY) == b"sealed"
        assert store(tmp_path, reader).get_action(KEY) == b"another"


@pytest.mark.parametrize("forger", [Seal(), OTHER])
def test_a_record_that_somebody_else_puts_in_its_place_is_a_miss(tmp_path: Path, forger: Seal) -> None:
    mine = store(tmp_path, SECRET)
    mine.put_action(KEY, b"sealed")
    (file,) = (path for path in (tmp_path / "v2/actions").rglob("*") if path.is_file())
    name = file.name
    other = Path(f"{tmp_path}/other")
    forging = LocalStore(other, max_bytes=0, seal=forger)
    forging._puts.put(action_name(name), seal_as(forger, name, b"forged"))
    file.write_bytes((other / "v2/actions" / name).read_bytes())
    assert mine.get_action(KEY) is None
    assert not file.exists(), "damage is removed"


def seal_as(forger: Seal, name: str, payload: bytes) -> bytes:
    from hipcache.store.layout import pack_action

    return pack_action(name, payload, forger)


def test_verify_takes_no_record_of_a_secret_for_damaged(tmp_path: Path) -> None:
    for one in (Seal(), SECRET, OTHER):
        store(tmp_path, one).put_action(KEY, b'{"object": "' + blake3(b"x").hexdigest().encode() + b'"}')
    store(tmp_path, Seal()).put_blob(b"x")
    for one in (Seal(), SECRET):
        assert verb.check(store(tmp_path, one)).damaged == []


# The secret


def test_a_secret_is_any_file_of_this_user_that_others_cannot_read(tmp_path: Path) -> None:
    file = secret_file(tmp_path / "key")
    found = open_store(Config(dir=tmp_path, key=file)).seal
    assert found.secret == blake3(file.read_bytes(), derive_key_context=seal.CONTEXT).digest()
    assert seal.read(None) == Seal()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("missing", "No such file"),
        ("short", "has 15 bytes; it must have 16"),
        ("long", "more bytes than it may"),
        ("readable", "can be read or written by others"),
        ("directory", "is not a regular file"),
        ("fifo", "is not a regular file"),
        ("foreign", "belongs to another user"),
    ],
)
def test_a_secret_that_is_none_is_told(tmp_path: Path, how: str, why: str) -> None:
    file = tmp_path / "key"
    if how in ("directory", "fifo"):
        (os.mkdir if how == "directory" else os.mkfifo)(file)
    elif how != "missing":
        secret_file(file, bytes({"short": 15, "long": seal.MOST + 1}.get(how, 16)))
    if how == "readable":
        file.chmod(0o640)
    if how == "foreign":
        if os.getuid():
            pytest.skip("only root can give files away")
        os.chown(file, 4711, -1)
    with pytest.raises(StoreError, match=why) as told:
        seal.read(file)
    assert "umask 077" in told.value.hint


# In C


def test_both_implementations_give_the_same_names_and_digests(tmp_path: Path) -> None:
    library = native.load()
    assert library is not None
    content, digest = random.Random(2).randbytes(max(SIZES)), ctypes.create_string_buffer(32)
    for size in SIZES:
        library.blake3_keyed(SECRET.secret, content, ctypes.c_size_t(size), digest)
        assert digest.raw == SECRET.digest(content[:size]), size
    for length in (seal.LEAST, 100, seal.MOST):
        file = secret_file(tmp_path / "key", content[:length])
        assert library.seal_read_secret(os.fsencode(file), digest)
        assert digest.raw == seal.read(file).secret
    for one, namespace in ((Seal(), "nightly"), (SECRET, "n" * 64)):
        digest.raw = one.secret or bytes(32)
        library.seal_within(namespace.encode(), bool(one.secret), digest)
        assert digest.raw == one.within(namespace).secret
    name = ctypes.create_string_buffer(KEY.encode())
    library.seal_name(SECRET.secret, name)
    assert name.value.decode() == SECRET.name(KEY)
    library.seal_name.restype = ctypes.c_bool
    for bad in (0o604, 0o620):
        file.chmod(bad)
        assert library.seal_read_secret(os.fsencode(file), digest) & 1 == 0


# In a compile


@only_19
@pytest.mark.parametrize("by", ["environment", "config file"])
def test_with_a_key_other_records_are_misses_that_are_counted(direct: Direct, by: str, tmp_path: Path) -> None:
    lab, file = direct.lab, secret_file(tmp_path / "key")
    env = {"HIPCACHE_KEY": str(file)}
    if by == "config file":
        env = {"HIPCACHE_CONFIG": str(lab.write("hipcache.yaml", f"key: {file}\n"))}
    lab.warm()
    assert direct.ask()
    assert not direct.ask(env=env)
    assert lab.compile(env=env).outcome == MISS
    assert lab.compile(env=env).outcome == HIT
    assert direct.ask(env=env)
    assert direct.ask() == (by == "environment" or direct.ask()), "the others' records are there as before"
    file.write_bytes(b"another secret of many bytes")
    assert not direct.ask(env=env)


@only_19
def test_a_key_that_cannot_be_read_leaves_the_compile_to_the_compiler(direct: Direct) -> None:
    lab, env = direct.lab, {"HIPCACHE_KEY": str(direct.lab.root / "nokey")}
    lab.warm()
    assert not direct.ask(env=env)
    settle()
    (lab.root / "out.o").unlink(missing_ok=True)
    assert lab.run([*LAUNCHER, *lab.words()], env=env).status == 0
    assert (lab.root / "out.o").exists()
    assert lab.counted().reason == "store"
