"""The subcommands, as people and scripts meet them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from cli_shell import MISS, Shell, Terminal, rows, shell
from hipcache import __version__, cli
from hipcache.base.errors import HipcacheError
from hipcache.cli import screen, toolchain
from hipcache.remote import queue
from hipcache.report import statistics
from hipcache.store.local import LocalStore

__all__ = ["shell"]


def test_gc_removes_entries_down_to_the_size_that_was_asked_for(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    for number in range(4):
        store.put_blob(bytes([number]) * 100_000)
    assert shell("gc") == 0
    assert "freed 0 bytes" in shell.out
    assert shell("gc", "--max-size", "250K") == 0
    assert "freed 0" not in shell.out
    assert store.size().bytes <= 250_000
    assert store.size().entries == 2
    assert "2 entries" in shell.out


@pytest.mark.parametrize("words", [["gc"], ["gc", "--older-than", "7d"], ["gc", "--dry-run"], ["clear"]], ids=" ".join)
def test_a_store_that_is_not_there_has_nothing_to_remove_and_is_not_made(shell: Shell, words: list[str]) -> None:
    assert shell(*words) == 0
    assert shell.out == f"nothing to remove: there is no store in '{shell.dir}' yet\n"
    assert not shell.dir.exists()


@pytest.mark.parametrize("words", [["gc", "--max-size", "4K"], ["gc", "--dry-run"], ["clear"]], ids=" ".join)
def test_a_directory_of_others_is_no_store(shell: Shell, words: list[str]) -> None:
    (shell.dir / "v2/packs").mkdir(parents=True)
    (shell.dir / "v2/packs/mine").write_text("data")
    assert shell(*words) == 1
    assert "no store" in shell.err
    assert [path.name for path in shell.dir.rglob("*")] == ["v2", "packs", "mine"]


@pytest.mark.parametrize("words", [["gc", "--max-size", "4K"], ["gc", "--dry-run"], ["clear"]], ids=" ".join)
def test_a_store_without_entries_or_without_its_tag_is_one(shell: Shell, words: list[str]) -> None:
    """Nothing was cached, or a process was killed before it wrote the tag."""
    statistics.record(shell.dir, MISS)
    assert shell(*words) == 0
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"content")
    store.pack()
    (shell.dir / "v2/CACHEDIR.TAG").unlink()
    assert shell(*words) == 0


def test_an_empty_store_holds_no_entries_whatever_is_beside_them(shell: Shell) -> None:
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x" * 10_000)
    statistics.record(shell.dir, MISS)
    assert shell("clear") == 0
    assert shell("gc") == 0
    assert shell.out.endswith("; the store holds no entries\n")


def test_gc_refuses_a_size_that_is_none_and_one_of_zero(shell: Shell) -> None:
    for size, word in (("much", "'much'"), ("0", "clear")):
        assert shell("gc", "--max-size", size) == 2
        assert word in shell.err
        assert len(shell.err.splitlines()) == 2


def test_gc_removes_what_was_long_unused_and_refuses_an_age_that_is_none(shell: Shell) -> None:
    shell.environ["HIPCACHE_PACKS"] = "0"
    store = LocalStore(shell.dir, max_bytes=0)
    digests = [store.put_blob(bytes([number]) * 1000) for number in range(4)]
    days = {path: number for number, path in enumerate(sorted((shell.dir / "v2/blobs").iterdir()))}
    assert len(days) == len(digests)
    for path, number in days.items():
        used = time.time() - number * 86400 - 3660  # it may have been used for an hour from then on
        os.utime(path, (used, used))
    assert shell("gc", "--older-than", "3d") == 0
    assert [number for path, number in days.items() if path.exists()] == [0, 1, 2]
    assert shell("gc", "--older-than", "25h", "--max-size", "1GiB") == 0
    assert [number for path, number in days.items() if path.exists()] == [0, 1]
    for age, word in (("7", "'7'"), ("d", "'d'"), ("-1d", "--older-than"), ("0d", "clear"), ("7y", "4w")):
        assert shell("gc", "--older-than", age) == 2
        assert word in shell.err


def test_clear_empties_the_store_and_keeps_the_statistics(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"x" * 100_000)
    statistics.record(shell.dir, MISS)
    assert queue.add(store.confined, ["0" * 64], [])  # to be uploaded to a remote
    assert shell("clear") == 0
    assert "KiB" in shell.out
    assert not list((shell.dir / "v2/remote").iterdir())
    assert store.size().entries == 0
    assert statistics.read(shell.dir).compiles["miss"] == 1


def test_clear_tells_what_it_would_remove_and_asks_on_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"x" * 100_000)
    assert shell("clear", "--dry-run") == 0
    assert "1 entry" in shell.out and "would be removed" in shell.out
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert shell("clear") == 1
    assert "nothing was removed" in shell.err
    assert store.size().entries == 1
    assert shell("clear", "--yes") == 0
    assert store.size().entries == 0


def test_gc_and_clear_leave_a_read_only_store_alone(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"x" * 100_000)
    for verb in ("gc", "clear"):
        assert shell(verb, HIPCACHE_READONLY="1") == 1
        assert "HIPCACHE_READONLY" in shell.err
        assert shell(verb, "--dry-run", HIPCACHE_READONLY="1") == 0
    assert store.size().entries == 1


def test_a_dry_run_tells_what_gc_then_frees_and_writes_nothing(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    for number in range(4):
        store.put_blob(bytes([number]) * 100_000)
    left = shell.dir / "v2/tmp/work-left"
    left.mkdir()
    (left / "x.bc").write_bytes(b"x" * 10_000)
    os.utime(left, (0, 0))
    before = {path: path.stat().st_mtime_ns for path in shell.dir.rglob("*")}
    assert shell("gc", "--dry-run", "--max-size", "250K") == 0
    assert {path: path.stat().st_mtime_ns for path in shell.dir.rglob("*")} == before
    told = shell.out.split(" in ")[0]
    assert "2 entries would be freed" in shell.out
    assert shell("gc", "--max-size", "250K") == 0
    assert f"freed {told};" in shell.out
    assert not left.exists()


def test_a_mark_or_setting_that_is_not_there_is_told_with_what_to_do(shell: Shell, tmp_path: Path) -> None:
    assert shell("stats", "--since", str(tmp_path / "none.json")) == 1
    assert f"cannot read '{tmp_path}/none.json'" in shell.err
    assert "hipcache stats --json > FILE" in shell.err
    for word, known in (("max_sise", "max_size"), ("HIPCACHE_MAXSIZE", "max_size"), ("names", "namespace")):
        assert shell("config", "get", word) == 1
        assert shell.err.splitlines() == [f"hipcache: unknown setting '{word}'", f"  did you mean '{known}'?"]


def test_unknown_words_and_options_name_the_nearest_known_one(shell: Shell) -> None:
    for argv, nearest in (
        (["--jsn"], ""),
        (["--versoin"], "--version"),
        (["--cmake-dir"], "--cmakedir"),
        (["stats", "--jsn"], "--json"),
        (["gc", "--maxsize", "3G"], "--max-size"),
        (["config", "max_size"], ""),
        (["--version", "please"], ""),
    ):
        assert shell(*argv) == 2
        assert shell.out == ""
        fault, advice = shell.err.splitlines()
        assert fault.startswith("hipcache: ")
        assert f"did you mean '{nearest}'?" in advice if nearest else "--help" in advice or "did you mean" in advice


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("verify --compile --sample 0", "'0' is not a count"),
        ("verify --compile --sample=-3", "'-3' is not a count"),
        ("verify --sample 5", "--sample goes with --compile"),
        ("verify -p build", "-p goes with --compile"),
        ("stats --json --markdown", "not allowed with argument --json"),
        ("doctor --build none", "there is no 'CMakeCache.txt' in 'none'"),
        ("doctor --build setup.cfg", "there is no 'CMakeCache.txt' in 'setup.cfg'"),
        ("doctor --brief --build none", "there is no 'CMakeCache.txt' in 'none'"),
    ],
)
def test_arguments_that_would_have_no_effect_are_refused(shell: Shell, words: str, told: str) -> None:
    assert shell(*words.split()) != 0
    assert told in shell.err
    assert shell.out == ""


def test_options_may_not_be_abbreviated(shell: Shell) -> None:
    assert shell("stats", "--js") == 2


def test_help_names_every_subcommand_and_every_subcommand_has_help(shell: Shell) -> None:
    assert shell("--help") == 0
    listed = [line[0] for line in rows(shell.out) if line]
    for verb in cli.VERBS:
        if (Path(cli.__file__).parent / f"{verb}.py").exists():
            assert verb in listed
            assert shell(verb, "--help") == 0
            assert shell.out.startswith(f"usage: hipcache {verb}")
            shell("--help")


def test_version_prints_name_and_version(shell: Shell) -> None:
    assert shell("--version") == 0
    assert shell.out == f"hipcache {__version__}\n"


def test_no_words_at_all_print_the_usage_on_standard_error(shell: Shell) -> None:
    assert shell() == 2
    assert shell.out == ""
    assert shell.err.startswith("usage: hipcache COMPILER")


def test_a_store_that_cannot_be_written_is_a_fault_and_no_traceback(shell: Shell) -> None:
    shell.dir.write_text("a file")
    for verb in ("gc", "clear"):
        assert shell(verb) == 1
        assert shell.err.startswith("hipcache: ")
    assert shell("stats", "--zero") == 1


# The directories of the build tools' files


def test_cmakedir_of_a_checkout_is_its_cmake_directory(shell: Shell) -> None:
    assert shell("--cmakedir") == 0
    assert shell.out == f"{Path(cli.__file__).resolve().parents[3] / 'cmake'}\n"


@pytest.mark.parametrize("tool", sorted(toolchain.PLACES))
def test_a_checkout_comes_before_an_installation_and_neither_is_an_error(tmp_path: Path, tool: str) -> None:
    prefix = tmp_path / "usr"
    package = prefix / "src/plugins/hipcache"
    package.mkdir(parents=True)
    installed, in_checkout = toolchain.PLACES[tool]
    with pytest.raises(HipcacheError, match=f"'{tool}'"):
        toolchain.support_files(tool, package, prefix)

    (prefix / installed).mkdir(parents=True)
    assert toolchain.support_files(tool, package, prefix) == prefix / installed

    (prefix / "src" / in_checkout).mkdir()
    assert toolchain.support_files(tool, package, prefix) == prefix / installed, "a bare neighbour is no checkout"
    (prefix / "src/pyproject.toml").touch()
    assert toolchain.support_files(tool, package, prefix) == prefix / "src" / in_checkout


@pytest.mark.parametrize("tool", sorted(toolchain.PLACES))
def test_files_beside_the_package_come_before_those_of_another_installation(tmp_path: Path, tool: str) -> None:
    """As `pip install --target` puts them; the record that it leaves leads elsewhere."""
    package, prefix = tmp_path / "target/hipcache", tmp_path / "usr"
    package.mkdir(parents=True)
    installed, _ = toolchain.PLACES[tool]
    (prefix / installed).mkdir(parents=True)
    with pytest.raises(HipcacheError, match=f"'{tool}'"):
        toolchain.support_files(tool, package, prefix)
    (tmp_path / "target" / installed).mkdir(parents=True)
    assert toolchain.support_files(tool, package, prefix) == tmp_path / "target" / installed


def test_the_installers_record_leads_to_another_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "opt/lib/python/site-packages"
    info = site / "hipcache-9.dist-info"
    info.mkdir(parents=True)
    (site / "hipcache").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hipcache\nVersion: 9\n")
    (info / "RECORD").write_text("hipcache/__init__.py,,\n../../../share/cmake/HipCache/HipCache.cmake,,\n")
    cmake = tmp_path / "opt/share/cmake/HipCache"
    cmake.mkdir(parents=True)
    (cmake / "HipCache.cmake").touch()  # Python 3.12 leaves out files that are not there.
    monkeypatch.syspath_prepend(str(site))
    assert toolchain.support_files("cmake", site / "hipcache", tmp_path / "else") == cmake
    with pytest.raises(HipcacheError):  # the record of that distribution says nothing about another copy
        toolchain.support_files("cmake", tmp_path / "copy/hipcache", tmp_path / "else")


# Sizes, times, names


def test_arches_are_ordered_by_number_with_hexadecimal_steppings() -> None:
    names = [
        "gfx803",
        "gfx906",
        "gfx90a",
        "gfx90a:sramecc+",
        "gfx90a:xnack+",
        "gfx942",
        "gfx10-3-generic",
        "gfx1030",
        "gfx1100",
        "gfx1201",
    ]
    assert sorted(set(names), key=screen.arch_order) == names
    assert sorted(["gfx942", "gfx9-generic", "gfx803"], key=screen.arch_order) == ["gfx803", "gfx9-generic", "gfx942"]
    assert sorted(["spirv", "gfx906"], key=screen.arch_order) == ["spirv", "gfx906"]


def test_sizes_and_times_read_well() -> None:
    sizes = {
        0: "0 bytes",
        1: "1 byte",
        1023: "1023 bytes",
        1024: "1.0 KiB",
        2**20 - 1: "1.0 MiB",
        10 * 2**30: "10.0 GiB",
    }
    assert {size: screen.human_size(size) for size in sizes} == sizes
    assert screen.human_size(5000 * 2**40) == "5000.0 TiB"
    times = {0: "0.0 s", 4.25: "4.2 s", 59.97: "1 min 0 s", 125: "2 min 5 s", 7260: "2 h 1 min", 90000: "1 d 1 h"}
    assert {time: screen.human_time(time) for time in times} == times
    assert screen.percent(9999, 10000) == "99.9 %"
    assert screen.percent(0, 0) == "-"
