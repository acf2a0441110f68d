"""Messages by the launcher are clang's, in a terminal and without one."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from hip import ARCHS, DEVICE_LIBRARIES, ENGINE_ALONE, FULL, HIT, LAUNCHER, Lab, in_terminal, kernel

TERMINFO = [f"{place}/terminfo/{letter}/xterm" for place in ("/lib", "/usr/share") for letter in ("x", "78")]
pytestmark = pytest.mark.archs(1)

WARNS = (
    kernel("1")
    + "int f() { int a_variable_with_a_long_name_that_nobody_uses_at_all_in_this_function = 1; return 0; }\n"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("env", "columns"),
    [
        ({"TERM": "xterm-256color"}, 60),
        ({"TERM": "xterm-256color"}, 200),
        ({"TERM": "xterm-256color", "COLUMNS": "40"}, 100),
        ({"TERM": "xterm-256color", "COLUMNS": "wide"}, 60),
        ({"TERM": "dumb"}, 60),
        ({"TERM": ""}, 60),
        ({"TERM": "vt100"}, 80),
        ({"TERM": "linux"}, 0),
        ({"TERM": "alacritty"}, 60),
        ({"TERM": "tmux"}, 60),
        ({"TERM": "sun-color"}, 60),
        ({"TERM": "xterm", "NO_COLOR": "1"}, 60),
        ({"TERM": "xterm", "NO_COLOR": ""}, 60),
    ],
    ids=str,
)
@pytest.mark.parametrize("flags", [[], ["-fno-color-diagnostics"], ["-fmessage-length=30"]], ids=" ".join)
def test_a_terminal_shows_what_clang_would_show(lab: Lab, env: dict[str, str], columns: int, flags: list[str]) -> None:
    if flags and not FULL and env != {"TERM": "xterm-256color"}:
        pytest.skip("one more combination: make test-full")
    lab.write("k.hip", WARNS)
    words = lab.words("-Wall", *flags)
    time.sleep(0.05)
    plain = in_terminal(words, lab.root, lab.environ | env, columns)
    assert b"a_variable" in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *words], lab.root, lab.environ | env, columns) == plain


def test_messages_are_as_wide_as_each_terminal(lab: Lab) -> None:
    """From clang 20 on, without COLUMNS; standard output is the terminal that is asked."""
    lab.write("k.hip", WARNS)
    words = lab.words("-Wall")
    environ = {name: value for name, value in lab.environ.items() if name != "COLUMNS"}
    for columns in (60, 60, 35, 200, 60):
        assert in_terminal([*LAUNCHER, *words], lab.root, environ, columns) == in_terminal(
            words, lab.root, environ, columns
        )


def test_colours_follow_what_the_driver_looks_at(lab: Lab) -> None:
    """One command in one store: each variable, and the entry of terminfo, counts for its hits, too."""
    lab.write("k.hip", WARNS)
    lab.write("clang.cfg", "-fno-color-diagnostics\n")
    foot = lab.root.parent / "home/.terminfo/f/foot"
    time.sleep(0.05)

    def same(env: dict[str, str], *flags: str) -> bool:
        words = lab.words("-Wall", *flags)
        plain = in_terminal(words, lab.root, lab.environ | env)
        for _ in range(2):
            assert in_terminal([*LAUNCHER, *words], lab.root, lab.environ | env) == plain
        return b"\x1b[" in plain[1]

    assert [same({"TERM": name}) for name in ("foot", "xterm", "foot")] == [False, True, False]
    assert same({"TERM": "xterm", "NO_COLOR": "1"}) == (lab.version == "15")
    same({"TERM": "xterm"}, "--config=./clang.cfg")
    foot.parent.mkdir(parents=True)
    foot.write_bytes(next(Path(place).read_bytes() for place in TERMINFO if Path(place).exists()))
    same({"TERM": "foot"})


def test_messages_without_a_terminal_follow_those_with_one(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    words = [*LAUNCHER, *lab.words("-Wall")]
    assert b"\x1b[" in in_terminal(words, lab.root, lab.environ | {"TERM": "xterm-256color"})[1]
    lab.counted()
    assert "\x1b[" not in lab.compile("-Wall").messages


@pytest.mark.archs(2)
def test_a_warning_for_each_pass_comes_in_clangs_order(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    archs = ("--offload-arch=gfx90a", "--offload-arch=gfx1030", "--offload-arch=gfx906")
    first = lab.compile(*archs, "-Wall")
    assert first.messages.count("when compiling for") == 4
    assert lab.compile(*archs, "-Wall").outcome == HIT


def test_a_warning_made_an_error_fails(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    lab.warm("-Wall")
    assert lab.compile("-Wall", "-Werror").status == 1


@pytest.mark.archs(2)
def test_an_architecture_that_the_device_libraries_do_not_cover_is_told_in_clangs_words(lab: Lab) -> None:
    shutil.copytree(DEVICE_LIBRARIES, lab.root / "bitcode", ignore=shutil.ignore_patterns("*1100*"))
    words = [lab.compiler, "-x", "hip", *ARCHS, "--offload-arch=gfx1100", "-nogpuinc", "--rocm-path=/usr"]
    ended = lab.same([*words, "--rocm-device-lib-path=bitcode", "-c", "k.hip", "-o", "out.o"])
    assert ended.status != 0
    assert "cannot find ROCm device library for gfx1100" in ended.messages


def test_a_flag_that_has_no_effect_is_warned_about(lab: Lab) -> None:
    assert "unused" in lab.compile("-lm", "-Wl,-x").messages
    again = lab.compile("-lm", "-Wl,-x")
    assert "unused" in again.messages


def test_an_output_directory_that_is_not_there_is_clangs_error(lab: Lab) -> None:
    lab.warm()
    for output in ("none/out.o", "none/out.o", "."):
        words = lab.words(output=output)
        plain, cached = lab.run(words), lab.hipcache(*words)
        assert (cached.status, cached.out, cached.err) == (plain.status, plain.out, plain.err)
        assert lab.counted().reason == "output"


def test_where_messages_cannot_be_written_no_object_is_left(lab: Lab) -> None:
    """Else make would take it for a good one."""
    lab.write("k.hip", WARNS)
    lab.warm("-Wall")
    ended = []
    for launcher in ((), LAUNCHER, ENGINE_ALONE, ("env", "HIPCACHE_RECACHE=1", *LAUNCHER)):
        (lab.root / "out.o").unlink(missing_ok=True)
        done = lab.run(["sh", "-c", 'exec "$@" 2>/dev/full', "sh", *launcher, *lab.words("-Wall")])
        ended.append((done.status, (lab.root / "out.o").exists()))
    assert ended == [(1, False)] * 4
    assert lab.compile("-Wall").outcome == HIT


@pytest.mark.parametrize("locales", [("C.UTF-8", "en_US.ISO-8859-1"), ("en_US.ISO-8859-1", "C.UTF-8")], ids=" ".join)
def test_messages_have_the_compilers_bytes_in_any_locale(lab: Lab, tmp_path: Path, locales: tuple[str, str]) -> None:
    made = lab.run(["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(tmp_path / "en_US.ISO-8859-1")])
    if made.status != 0:
        pytest.skip("no sources of locales")
    lab.write("k.hip", kernel("1", '#warning "arrow \u2192 caf\u00e9"'))
    for locale in (*locales, locales[0]):
        env = {"LC_ALL": locale, "LOCPATH": str(tmp_path)}
        assert "caf\u00e9" in lab.same(lab.words("-Wno-unused"), env=env).messages
