"""Another version of hipcache in the middle of a build: misses at worst, never a wrong object, never a lost build."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import blake3
import hip
import hipcache
import pytest
import yaml
from hip import ENGINE_ALONE, HIT, MISS, Lab, kernel, know_tools, only_19, script, settle
from hipcache import VERBS, __version__
from hipcache.base.shared import KEY_FORMAT
from hipcache.store.layout import pack_action, unpack_action
from hipcache.store.seal import NO_SEAL

pytestmark = [only_19, pytest.mark.archs(1)]

# As long, so that it can stand in the program's place for it.
OTHER = "9" + __version__[1:]
OTHER_KEYS = str(int(KEY_FORMAT) + 1)


def installed(directory: Path, *, program: str = __version__, engine: str = __version__, keys: str = KEY_FORMAT) -> str:
    """The native program beside an engine, each as if it were of that version; the program's path."""
    directory.mkdir()
    path = directory / "hipcache"
    ours = Path(hip.LAUNCHER[0]).read_bytes()
    assert __version__.encode() + b"\0" in ours
    path.write_bytes(ours.replace(__version__.encode(), program.encode()))
    start = "from hipcache.__main__"
    as_version = f"import hipcache\nhipcache.__version__ = {engine!r}\nfrom hipcache.base import shared\n"
    text = hip.ENGINE.replace(start, f"{as_version}shared.KEY_FORMAT = {keys!r}\n{start}")
    (directory / "hipcache-engine").write_text(text)
    for file in (path, directory / "hipcache-engine"):
        file.chmod(0o755)
    return str(path)


def plain(lab: Lab) -> bytes:
    """Clang's object."""
    assert lab.run(lab.words(output="plain.o")).status == 0
    settle()
    return (lab.root / "plain.o").read_bytes()


def outcome(lab: Lab, program: str, expected: bytes) -> str:
    """Of one compile, whose object is `expected`."""
    (lab.root / "out.o").unlink(missing_ok=True)
    ended = lab.run([program, *lab.words()])
    assert (ended.status, ended.out, ended.err) == (0, b"", b"")
    assert (lab.root / "out.o").read_bytes() == expected
    return lab.counted().outcome


@pytest.mark.parametrize(
    ("program", "engine", "keys"),
    [(OTHER, OTHER, KEY_FORMAT), (OTHER, OTHER, OTHER_KEYS), (__version__, OTHER, OTHER_KEYS)],
    ids=["another version", "another format of keys", "an engine that was upgraded first"],
)
def test_versions_take_turns_with_one_store(lab: Lab, tmp_path: Path, program: str, engine: str, keys: str) -> None:
    ours = installed(tmp_path / "ours")
    other = installed(tmp_path / "other", program=program, engine=engine, keys=keys)
    for value in ("1", "2"):
        lab.write("k.hip", kernel(value))
        expected = plain(lab)
        ends = [outcome(lab, one, expected) for one in (ours, other, ours, other, ours)]
        # The program of our version finds its own record of the whole compile, whatever the engine beside it is.
        finds_nothing = keys != KEY_FORMAT and program == OTHER
        assert ends == [MISS, MISS if finds_nothing else HIT, HIT, HIT, HIT]


def _later(payload: bytes) -> bytes:
    """The record as a later version may write it under the same key."""
    with suppress(ValueError, zlib.error):  # a digest may begin with any byte
        if payload[:1] == b"x":
            found = json.loads(zlib.decompress(payload))
            return zlib.compress(json.dumps({**found, "format": 99, "later": 1}).encode())
        if payload[:1] == b"[":
            return json.dumps([{**entry, "later": 1} for entry in json.loads(payload)]).encode()
        if payload[:1] == b"{":
            return json.dumps({**json.loads(payload), "later": 1}).encode()
    return payload + b"later"


def make_later(store: Path) -> None:
    """Records, memos, notes, statistics and the ledger as of a later version, and what only that one knows."""
    for path in (store / "v2/actions").glob("*"):
        name = path.name
        path.write_bytes(pack_action(name, _later(unpack_action(name, path.read_bytes(), NO_SEAL)), NO_SEAL))
    for path in (*(store / "v2/history").glob("*/*"), *(store / "v2/tools").glob("*")):
        path.write_bytes(_later(path.read_bytes()))
    for path in (store / "v2/statistics").glob("*"):
        path.write_bytes(path.read_bytes() + b"\n00000000\tlater\t1\t2\t3\n")
    (store / "v2/ledger").write_bytes(b"hcL9" + (store / "v2/ledger").read_bytes()[4:])
    for later in ("v2/later/entry", "v3/actions/entry"):
        (store / later).parent.mkdir(parents=True)
        (store / later).write_text("of a later version")


@pytest.mark.files
def test_a_store_as_of_a_later_version_costs_misses_at_worst(lab: Lab) -> None:
    lab.warm()
    expected = plain(lab)
    make_later(lab.store)
    lab.count_anew()
    ends = [outcome(lab, hip.LAUNCHER[0], expected) for _ in range(3)]
    assert ends[1:] == [HIT, HIT], ends
    for words in (["stats"], ["explain"], ["gc"], ["verify"], ["clear"]):
        ended = lab.hipcache(*words)
        assert ended.err == b"", (words, ended)
    assert (lab.store / "v2/later/entry").exists() and (lab.store / "v3/actions/entry").exists()
    assert outcome(lab, hip.LAUNCHER[0], expected) == MISS


# Of the engine: the last one is needed only after the object was delivered.
MODULES = ("app.launch", "app.front", "execution.object", "direct.remember")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_another_version_in_the_middle_of_a_compile_is_no_lost_build(
    lab: Lab, tmp_path: Path, module: str
) -> None:
    """As where a package's files are replaced one by one: it has other names in it, and whoever imports it fails."""
    assert importlib.util.find_spec(f"hipcache.{module}"), "it has another name by now"
    know_tools(lab.environ)
    expected = plain(lab)
    shutil.copy(hip.LAUNCHER[0], tmp_path / "hipcache")
    engine = tmp_path / "hipcache-engine"
    engine.write_text(f"""\
#!{sys.executable}
import sys
class Replaced:
    def find_spec(self, name, path, target=None):
        if name == 'hipcache.{module}':
            raise AttributeError('a name of another version')
sys.meta_path.insert(0, Replaced())
from hipcache.__main__ import main
sys.exit(main())
""")
    engine.chmod(0o755)
    ended = lab.run([str(tmp_path / "hipcache"), *lab.words()])
    assert (ended.status, ended.out) == (0, b"")
    assert b"Traceback" not in ended.err
    assert (lab.root / "out.o").read_bytes() == expected
    again = lab.run([*ENGINE_ALONE, *lab.words()])
    assert (again.status, again.err) == (0, b"")
    assert (lab.root / "out.o").read_bytes() == expected


def _as_by_pip(lab: Lab, directory: Path) -> tuple[str, Path]:
    """The native program beside the script that pip makes for the engine, and the package that this one imports."""
    package = directory / "site/hipcache"
    shutil.copytree(Path(hip.__file__).parents[1] / "plugins/hipcache", package)
    shutil.copy(hip.LAUNCHER[0], directory / "hipcache")
    engine = directory / "hipcache-engine"
    engine.write_text(f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(package.parent)!r})
from hipcache.__main__ import main
if __name__ == '__main__':
    sys.exit(main())
""")
    engine.chmod(0o755)
    return str(directory / "hipcache"), package


def _hide(package: Path) -> None:
    """A checkout's package would be found in its place; one that cannot be imported is as good as none."""
    shutil.rmtree(package)
    package.mkdir()
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'hipcache'\")\n")


def _cut(module: str, before: str) -> Callable[[Path], None]:
    def cut(package: Path) -> None:
        text = (package / module).read_text()
        (package / module).write_text(text[: text.index(before)] if before else "")

    return cut


@pytest.mark.parametrize(
    "broken",
    [
        _hide,
        _cut("__init__.py", ""),
        _cut("__main__.py", ""),
        _cut("__main__.py", "    if argv[:1] == [STORAGE_HELPER]:"),
        _cut("__main__.py", "raise"),
        _cut("app/launch.py", "def launch("),
        lambda package: package.parents[1].joinpath("hipcache-engine").write_text(f"#!{sys.executable}\n"),
        lambda package: package.parents[1].joinpath("hipcache-engine").unlink(),
    ],
    ids=[
        "no package",
        "empty",
        "no main",
        "half of main",
        "a name cut",
        "another module",
        "half a script",
        "no script",
    ],
)
def test_a_package_that_is_not_there_or_not_whole_is_no_lost_build(
    lab: Lab, tmp_path: Path, broken: Callable[[Path], object]
) -> None:
    """As while `pip install --upgrade` has removed the one and writes the other."""
    know_tools(lab.environ)
    expected = plain(lab)
    program, package = _as_by_pip(lab, tmp_path)
    assert lab.run([program, "--version"]).out.decode() == f"hipcache {__version__}\n"
    broken(package)
    ended = lab.run([program, *lab.words()])
    assert (ended.status, ended.out) == (0, b"")
    assert b"Traceback" not in ended.err
    assert ended.err.startswith(b"hipcache: cannot start"), ended.err
    assert (lab.root / "out.o").read_bytes() == expected
    lab.write("k.hip", "no C++\n")
    assert lab.run([program, *lab.words()]).status == lab.run(lab.words()).status == 1


@pytest.mark.parametrize("place", ["lib/python{}.{}/site-packages", "lib/python{}.{}/dist-packages", "."])
def test_a_package_that_pip_puts_beside_its_programs_is_found(lab: Lab, tmp_path: Path, place: str) -> None:
    """As by `--prefix` and `--target`, with an interpreter that has none of its packages."""
    packages, programs = tmp_path / place.format(*sys.version_info), tmp_path / "bin"
    packages.mkdir(parents=True, exist_ok=True)
    programs.mkdir()
    for module in (hipcache, yaml, blake3):
        directory = Path(module.__file__ or "").parent
        (packages / directory.name).symlink_to(directory)
    shutil.copy(hip.LAUNCHER[0], programs)
    start = "import sys\nfrom hipcache.__main__ import main\nsys.exit(main())\n"
    script(programs / "hipcache-engine", start, program=sys._base_executable)  # type: ignore[attr-defined]
    env = {"PYTHONPATH": ""}
    ended = lab.run([str(programs / "hipcache"), *lab.words()], env=env)
    assert (ended.status, ended.err, lab.counted().outcome) == (0, b"", MISS)
    shutil.rmtree(packages) if place != "." else (packages / "hipcache").unlink()
    ended = lab.run([str(programs / "hipcache"), *lab.words("-O1")], env=env)
    hint = f"reinstall hipcache, where {sys._base_executable} finds it without PYTHONPATH"  # type: ignore[attr-defined]
    assert (ended.status, ended.err.decode().splitlines()[1].strip()) == (0, hint)


def test_a_subcommand_without_its_package_runs_no_program_of_that_name(lab: Lab, tmp_path: Path) -> None:
    """ImageMagick's `import FILE` would write over the archive."""
    program, package = _as_by_pip(lab, tmp_path)
    _hide(package)
    for verb in (*VERBS, "help"):
        script = tmp_path / "bin" / verb
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\n: > {tmp_path}/ran\n")
        script.chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    for verb in ("import", "sync", "help"):
        ended = lab.run([program, verb, "archive.tar.gz"], env=env)
        assert (ended.status, b"reinstall hipcache" in ended.err) == (127, True)
    (tmp_path / "hipcache-engine").unlink()
    assert lab.run([program, "import", "archive.tar.gz"], env=env).status == 127
    assert not (tmp_path / "ran").exists()


def test_a_hit_that_cannot_be_compared_is_a_hit(lab: Lab, tmp_path: Path) -> None:
    lab.warm()
    expected = plain(lab)
    program, package = _as_by_pip(lab, tmp_path)
    _hide(package)
    (lab.root / "out.o").unlink()
    ended = lab.run([program, *lab.words()], env={"HIPCACHE_VERIFY": "1"})
    assert (ended.status, (lab.root / "out.o").read_bytes()) == (0, expected)
