"""Scripts in the compiler's place: which are looked behind, and which are left alone."""

from __future__ import annotations

import sys

import pytest
from hip import HIT, LLVM, MISS, PASSED_THROUGH, Compiled, Lab, script
from kernels import kernel

pytestmark = pytest.mark.archs(1)


def through(lab: Lab, text: str, *, shell: str = "/bin/sh") -> list[Compiled]:
    """Two compiles by a script with that text, in which CXX stands for the compiler."""
    compiler = script(lab.root / "cxx", text.replace("CXX", f"{LLVM[lab.version]}/bin/clang++"))
    compiler.write_text(compiler.read_text().replace("/bin/sh", shell, 1))
    lab.compiler = str(compiler)
    return [lab.compile() for _ in range(2)]


@pytest.mark.parametrize(
    "text", ['exec CXX "$@"\n', 'exec CXX -DVALUE=7 "$@"\n', '# SECONDS, or $SECONDS\nMOST_SECONDS=3\nexec CXX "$@"\n']
)
def test_a_script_of_bash_is_looked_behind(lab: Lab, text: str) -> None:
    assert through(lab, text, shell="/bin/bash")[1].outcome == HIT


def test_a_script_of_bash_without_shell_is_looked_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many containers: bash asks for the user's shell, and the C library a daemon first, which is not there."""
    monkeypatch.delenv("SHELL", raising=False)
    lab.environ.pop("SHELL", None)
    assert through(lab, 'exec CXX "$@"\n', shell="/bin/bash")[1].outcome == HIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["STREAM", "DGRAM"])
@pytest.mark.parametrize("place", ["/dev/log", "./answers", "\\0abstract"])
def test_a_script_that_asks_another_process_is_left_alone(lab: Lab, kind: str, place: str) -> None:
    asks = f"import socket\ntry: socket.socket(1, socket.SOCK_{kind}).connect('{place}')\nexcept OSError: pass"
    for made in through(lab, f'{sys.executable} -ISc "{asks}"\nexec CXX "$@"\n'):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


@pytest.mark.parametrize("line", ["echo >/dev/tty", "exec 3<>/dev/tty", "exec 3>>/dev/tty"])
def test_a_script_of_bash_that_writes_to_the_terminal_is_left_alone(lab: Lab, line: str) -> None:
    """There is none in tests."""
    for made in through(lab, f'({line}) 2>/dev/null\nexec CXX "$@"\n', shell="/bin/bash"):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/sh", "set -- -DX=$$"),
        ("/bin/sh", "set -- -DX=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"),
        ("/bin/sh", "set -- -DX=$(date +%Y)"),
        ("/bin/sh", "export X=$$; set --"),
        ("/bin/bash", "set -- -DX=$RANDOM$RANDOM"),
        ("/bin/bash", "set -- -DX=$((EPOCHSECONDS / 1000))"),
        ("/bin/bash", ". ./sourced; set -- -DX=$now"),
        ("/bin/bash", "printf -v now '%(%Y)T'; set -- -DX=$now"),
    ],
)
def test_a_script_that_asks_for_the_time_or_at_random_is_left_alone(lab: Lab, shell: str, line: str) -> None:
    """What it says may be another thing next time, though no path and no variable has changed."""
    lab.write("sourced", "now=${EPOCHSECONDS%??}\n")
    for made in through(lab, f'given=$*\n{line} $given\nexec CXX "$@"\n', shell=shell):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


WHERE = 'here=$(cd "$(dirname "$0")" && pwd)\nexec CXX -DWHERE="$here" "$@"\n'


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_script_that_looks_where_it_is_is_looked_behind(lab: Lab, shell: str) -> None:
    assert through(lab, WHERE, shell=shell)[1].outcome == HIT


def test_a_script_that_goes_by_a_link_is_asked_again_when_it_leads_elsewhere(lab: Lab) -> None:
    lab.write("k.hip", kernel("NUMBER"))
    for name in ("1", "2"):
        lab.write(f"{name}/in/readme", "the same")
    link = lab.root / "link"
    link.symlink_to("1/in")
    text = 'n=$(cd -P link/.. && pwd -P)\nexec CXX -DNUMBER=${n##*/} "$@"\n'
    assert through(lab, text)[1].outcome == HIT
    link.unlink()
    link.symlink_to("2/in")
    assert lab.compile().outcome == MISS


def test_a_script_that_compiles_in_another_directory_is_left_alone(lab: Lab) -> None:
    (lab.root / "elsewhere").mkdir()
    for made in through(lab, f'cd elsewhere; exec CXX -I{lab.root} "$@"\n'):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


@pytest.mark.parametrize("word", ["$OLDPWD", "${SHLVL}", "$(cd - >&2; pwd)", '"${MAKEFLAGS:-none}"'])
def test_a_script_that_asks_for_what_each_command_changes_is_left_alone(lab: Lab, word: str) -> None:
    for made in through(lab, f'exec CXX -DX={word} "$@"\n'):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


def test_a_script_behind_another_one_that_asks_for_the_time_is_left_alone(lab: Lab) -> None:
    clang = LLVM[lab.version] / "bin/clang++"
    script(lab.root / "inner", f'exec {clang} -DX=$((SECONDS / 100)) "$@"\n', program="/bin/bash")
    for made in through(lab, 'exec ./inner "$@"\n'):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


@pytest.mark.parametrize("dashes", ["", "-- "])
def test_what_a_shell_does_after_a_timed_command_is_not_left_out(lab: Lab, dashes: str) -> None:
    for made in through(lab, f'TIMEFORMAT=done exec bash -c {dashes}"time CXX $*"\n'):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")
