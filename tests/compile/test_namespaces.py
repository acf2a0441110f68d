"""Namespaces: results of one are not found in another, and one can be removed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import HIT, MISS, only_19
from hipcache import config
from hipcache.base.errors import ConfigError
from hipcache.cli import run as run_cli
from hipcache.store.local import LocalStore, open_store
from hipcache.store.seal import Seal

__all__ = ["direct"]

KEY = "ab" * 32


def of(root: Path, namespace: str, secret: bytes = b"") -> LocalStore:
    return LocalStore(root, max_bytes=0, seal=Seal(secret).within(namespace))


def digest(content: bytes) -> str:
    return blake3(content).hexdigest()


@pytest.mark.parametrize("secret", [b"", b"s" * 32], ids=["open", "sealed"])
def test_two_namespaces_and_none_find_no_record_of_each_other(tmp_path: Path, secret: bytes) -> None:
    spaces = ("", "one", "two")
    for name in spaces:
        of(tmp_path, name, secret).put_action(KEY, name.encode())
    assert [of(tmp_path, name, secret).get_action(KEY) for name in spaces] == [b"", b"one", b"two"]
    assert of(tmp_path, "three", secret).get_action(KEY) is None
    assert of(tmp_path, "one", b"x" * 32).get_action(KEY) is None


def test_gc_removes_one_namespace_and_keeps_what_others_share_with_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "s")}
    for name in ("", "one", "two"):
        store, own = of(tmp_path / "s", name), f"of {name}".encode()
        for content in (b"shared", own):
            store.put_blob(content)
        store.put_action(KEY, f'{{"outputs": ["{digest(b"shared")}", "{digest(own)}"]}}'.encode())

    def gc(*words: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        assert run_cli(["gc", *words], environ, out, err) == 0, err.getvalue()
        return out.getvalue()

    assert gc("--namespace", "three").startswith("no results have the namespace 'three'\nfreed 0 bytes")
    environ["HIPCACHE_NAMESPACE"] = "two"
    assert "'tow'; the namespace that is set is 'two'\n" in gc("--namespace", "tow", "--dry-run")
    assert gc("--namespace", "one", "--dry-run").count("\n") == 1
    assert of(tmp_path / "s", "one").get_action(KEY) is not None
    gc("--namespace", "one")
    assert of(tmp_path / "s", "one").get_action(KEY) is None
    for name in ("", "two"):
        assert of(tmp_path / "s", name).get_action(KEY) is not None
        assert of(tmp_path / "s", name).has_blob(digest(f"of {name}".encode()))
    assert of(tmp_path / "s", "").has_blob(digest(b"shared"))
    assert not of(tmp_path / "s", "").has_blob(digest(b"of one"))
    out = io.StringIO()
    assert run_cli(["gc", "--namespace", "a/b"], environ, out, out) == 2


def test_the_settings_name_it_and_a_project_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "s"), "HIPCACHE_NAMESPACE": "one"}
    assert open_store(config.load(environ)).seal == Seal().within("one")
    for bad in ("a b", "a/b", "ä", "n" * 65):
        with pytest.raises(ConfigError, match="is not a valid name"):
            config.load({**environ, "HIPCACHE_NAMESPACE": bad})
    (tmp_path / ".hipcache.yaml").write_text("namespace: two\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cannot be set in a project's"):
        config.load(environ)


@only_19
@pytest.mark.archs(1)
def test_direct_hits_stay_in_their_namespace(direct: Direct, tmp_path: Path) -> None:
    lab, one = direct.lab, {"HIPCACHE_NAMESPACE": "one"}
    file = tmp_path / "own.yaml"
    file.write_text("namespace: one\n")
    lab.warm()
    assert direct.ask()
    assert not direct.ask(env=one)
    assert lab.compile(env=one).outcome == MISS
    assert lab.compile(env=one).outcome == HIT
    assert direct.ask(env=one)
    assert direct.ask()
    by_file = {"HIPCACHE_CONFIG": str(file)}
    assert lab.compile(env=by_file).outcome == HIT  # the same namespace, however it is named
    assert direct.ask(env=by_file)
    file.write_text("namespace: two\n")
    assert not direct.ask(env=by_file)
    assert lab.hipcache("gc", "--namespace", "one").status == 0
    assert not direct.ask(env=one)
    assert direct.ask()
