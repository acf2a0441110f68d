"""hipcache by other names and through links: as `clang++` first on PATH, from another directory, mistyped."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hip import ARCHS, BARE, CUID, HIT, LAUNCHER, LLVM, MISS, Ended, Lab, apart, only_19, script

COMMAND = (ARCHS[0], *BARE, CUID, "-c", "k.hip", "-o", "out.o")


@pytest.fixture
def program() -> Path:
    return Path(LAUNCHER[0])


def _link(lab: Lab, place: str, name: str, program: Path) -> str:
    directory = lab.root / place
    directory.mkdir(exist_ok=True)
    (directory / name).symlink_to(program)
    return str(directory)


def _path(*directories: str | Path) -> dict[str, str]:
    return {"PATH": ":".join([*map(str, directories), "/usr/bin:/bin"])}


@pytest.mark.parametrize("name", ["clang++", "clang"])
def test_a_link_first_on_path_caches_for_the_compiler_further_on(lab: Lab, program: Path, name: str) -> None:
    bin = LLVM[lab.version] / "bin"
    env = _path(_link(lab, "links", name, program), bin)
    assert lab.run([str(bin / name), *COMMAND]).status == 0
    plain = (lab.root / "out.o").read_bytes()
    for expected in (MISS, HIT):
        (lab.root / "out.o").unlink()
        ended = lab.run([name, *COMMAND], env=env)
        assert (ended.status, ended.err) == (0, b"")
        assert (lab.root / "out.o").read_bytes() == plain
        assert lab.counted().outcome == expected


@only_19
def test_a_link_hipcc_first_on_path_caches_for_the_real_one(lab: Lab, program: Path) -> None:
    clang = LLVM[lab.version] / "bin" / "clang++"
    script(lab.root / "hipcc", f'exec {clang} -x hip "$@"\n')
    (lab.root / "real").mkdir()
    (lab.root / "hipcc").rename(lab.root / "real/hipcc")
    env = _path(_link(lab, "links", "hipcc", program), lab.root / "real")
    for expected in (MISS, HIT):
        assert lab.run(["hipcc", *COMMAND], env=env).status == 0
        assert lab.counted().outcome == expected


@only_19
def test_a_link_acts_as_the_compiler_in_all_else(lab: Lab, program: Path) -> None:
    bin = LLVM[lab.version] / "bin"
    env = _path(_link(lab, "links", "clang++", program), bin)
    lab.write("stats", "")
    for words in (["--version"], ["stats"], ["-x", "c++", "-E", "stats"], [], ["help"]):
        plain, masked = lab.run([str(bin / "clang++"), *words]), lab.run(["clang++", *words], env=env)
        assert masked == plain


@only_19
def test_hipcache_before_a_link_to_itself_finds_the_real_compiler(lab: Lab, program: Path) -> None:
    env = _path(_link(lab, "links", "clang++", program), LLVM[lab.version] / "bin")
    for compiler in ("clang++", lab.root / "links/clang++"):
        ended = lab.run([program, compiler, *COMMAND], env=env)
        assert (ended.status, ended.err) == (0, b"")
        assert lab.counted().outcome in (MISS, HIT)


@only_19
def test_links_that_hide_no_compiler_end_with_its_name(lab: Lab, program: Path) -> None:
    links = [_link(lab, place, "clang++", program) for place in ("a", "b")]
    for words in (["clang++", *COMMAND], [program, "clang++", *COMMAND]):
        ended = lab.run(words, env={"PATH": ":".join(links)}, seconds=60)
        assert ended.status == 127
        assert b"'clang++'" in ended.err
    assert lab.counted().outcome == "nothing"


@only_19
@pytest.mark.parametrize("compilers", [True, False])
def test_copies_and_other_caches_on_path_are_no_endless_circle(lab: Lab, compilers: bool) -> None:
    """A copy cannot know that another one is hipcache, too; and ccache takes the first on PATH that is no ccache."""
    launcher = Path(LAUNCHER[0])
    for place in ("a", "b"):
        (lab.root / place).mkdir()
        shutil.copy(launcher, lab.root / place / "clang++")
        shutil.copy(launcher.with_name("hipcache-engine"), lab.root / place)
    script(lab.root / "cache", f'cd {lab.root}; n=$(cat n); echo $((n + 1)) >n; [ $n -lt 9 ] && exec a/clang++ "$@"\n')
    lab.write("n", "0")
    (lab.root / "c").mkdir()
    (lab.root / "c/clang++").symlink_to(lab.root / "cache")
    real = [LLVM[lab.version] / "bin"] if compilers else []
    path = ":".join(map(str, [*(lab.root / place for place in "abc"), *real]))
    ended = lab.run([lab.root / "a/clang++", *COMMAND], env={"PATH": path + ":" + _tools(lab)}, seconds=60)
    assert ended.status == (0 if compilers else 127), ended.err
    assert int((lab.root / "n").read_text()) <= 3


def _tools(lab: Lab) -> str:
    """A directory with what a script needs, and without a compiler."""
    place = lab.root / "tools"
    place.mkdir()
    for name in ("cat", "sh"):
        (place / name).symlink_to(f"/bin/{name}")
    return str(place)


@only_19
def test_a_compiler_behind_the_user_on_path_is_found_by_the_whole_path_of_the_link(lab: Lab, program: Path) -> None:
    links = _link(lab, "links", "clang++", program)
    env = {"PATH": f"{LLVM[lab.version] / 'bin'}:{links}:/usr/bin:/bin"}
    assert lab.run([f"{links}/clang++", *COMMAND], env=env).status == 0
    assert lab.counted().outcome == MISS


@only_19
@pytest.mark.parametrize(
    "name", ["g++", "c++", "cc", "x86_64-linux-gnu-clang++", "aarch64-linux-gnu-gcc-12", "iree-compile"]
)
def test_a_link_of_any_compilers_name_runs_the_next_program_of_that_name(lab: Lab, program: Path, name: str) -> None:
    links = _link(lab, "links", name, program)
    (lab.root / "real").mkdir()
    script(lab.root / "echo", 'echo real "$@"\n')
    (lab.root / "echo").rename(lab.root / "real" / name)
    env = _path(links, lab.root / "real")
    for words in (["--version"], ["-c", "a.cpp"], ["stats"], []):
        expected = " ".join(["real", *words]).encode() + b"\n"
        for command in ([name], [f"{links}/{name}"], [program, name], [program, f"{links}/{name}"]):
            ended = lab.run([*command, *words], env=env)
            assert (ended.status, ended.out, ended.err) == (0, expected, b"")


@only_19
def test_a_link_of_a_compilers_name_with_no_such_program_says_so(lab: Lab, program: Path) -> None:
    links = _link(lab, "links", "no-such-g++", program)
    for words in (["--version"], ["-c", "a.cpp"], []):
        ended = lab.run(["no-such-g++", *words], env=_path(links))
        assert (ended.status, ended.out) == (127, b"")
        assert b"'no-such-g++' is a link to hipcache" in ended.err
        assert len(ended.err.splitlines()) == 2


@only_19
@pytest.mark.parametrize(
    "name", ["hipcache-1.0", "hipcache1", ".hipcache-wrapped", "hipcache-cc", "hc", "ccache", "hip-wrapper.sh"]
)
def test_a_link_of_any_other_name_is_hipcache(lab: Lab, program: Path, name: str) -> None:
    links = _link(lab, "links", name, program)
    assert lab.run([name, "--version"], env=_path(links)).out.startswith(b"hipcache ")
    assert lab.run([name, "--cmakedir"], env=_path(links)).out.endswith(b"/cmake\n")
    assert lab.run([name, *lab.words()], env=_path(links)).status == 0


@only_19
def test_a_copy_of_another_name_is_hipcache(lab: Lab, program: Path) -> None:
    place = lab.root / "copies"
    place.mkdir()
    shutil.copy(program, place / "hc")
    shutil.copy(program.with_name("hipcache-engine"), place)
    assert lab.run(["hc", "--version"], env=_path(place)).out.startswith(b"hipcache ")
    assert lab.run([place / "hc", *lab.words()]).status == 0


@only_19
def test_a_first_word_of_any_kind_does_not_hide_hipcache(lab: Lab) -> None:
    """Some callers give a program a name of their own."""
    words = ["bash", "-c", f"exec -a launcher {LAUNCHER[0]} --version"]
    assert lab.run(words, env=_path()).out.startswith(b"hipcache ")
    module = [sys.executable, "-m", "hipcache", "--version"]
    assert lab.run(module, env=_path()).out.startswith(b"hipcache ")


@only_19
def test_without_proc_the_engine_is_found(lab: Lab) -> None:
    links = _link(lab, "links", "hipcache", Path(LAUNCHER[0]))
    for name in (LAUNCHER[0], f"{links}/hipcache"):
        ended = apart(lab, "mount -t tmpfs none /proc", [name, *lab.words()])
        assert (ended.status, ended.err) == (0, b"")
        assert (lab.root / "out.o").exists()


# Slips


def _nothing_counted(lab: Lab, ended: Ended) -> bool:
    return b"Traceback" not in ended.err and lab.counted().outcome == "nothing"


@only_19
@pytest.mark.parametrize("words", [["stast"], ["stast", "--json"], ["docter"], ["clera"], ["STATS"]], ids=" ".join)
def test_a_slip_in_a_verb_is_no_compile_and_names_the_nearest(lab: Lab, words: list[str]) -> None:
    ended = lab.hipcache(*words)
    assert ended.status == 2
    assert b"did you mean 'hipcache " in ended.err
    assert _nothing_counted(lab, ended)


@only_19
@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"], ["help", "stats"], ["help", "help"]], ids=" ".join)
def test_help_is_shown_and_is_no_compile(lab: Lab, words: list[str]) -> None:
    ended = lab.hipcache(*words)
    assert ended.status == 0
    assert ended.out.startswith(b"usage: hipcache")
    assert _nothing_counted(lab, ended)


@only_19
@pytest.mark.parametrize("compiler", ["no-such-clang++", "./no-such-clang++"])
def test_a_compiler_that_is_not_there_is_not_counted(lab: Lab, compiler: str) -> None:
    ended = lab.hipcache(compiler, *COMMAND)
    assert ended.status == 127
    assert os.fsencode(compiler) in ended.err
    assert _nothing_counted(lab, ended)


@only_19
@pytest.mark.parametrize("words", [[""], ["", *COMMAND], ["", "--version"]], ids=len)
def test_an_empty_compiler_is_told_as_such(lab: Lab, program: Path, words: list[str]) -> None:
    ended = lab.run([program, *words])
    assert ended.status == 127
    assert ended.err == b"hipcache: the compiler is an empty word\n  is a variable such as CXX unset?\n"
    assert _nothing_counted(lab, ended)


@only_19
def test_settings_behind_hipcache_are_told_their_place(lab: Lab, program: Path) -> None:
    ended = lab.run([program, "FOO=1", "clang++", *COMMAND])
    assert ended.status == 127
    assert b"put it before hipcache: FOO=1 hipcache" in ended.err
    assert _nothing_counted(lab, ended)
