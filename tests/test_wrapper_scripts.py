"""Scripts in the compiler's place: which are looked behind, and which are left alone."""

from __future__ import annotations

import pytest
from hip import HIT, LLVM, PASSED_THROUGH, Compiled, Lab, script

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]


def through(lab: Lab, text: str, *, shell: str = "/bin/sh") -> list[Compiled]:
    """Two compiles by a script with that text, in which CXX stands for the compiler."""
    compiler = script(lab.root / "cxx", text.replace("CXX", f"{LLVM[lab.version]}/bin/clang++"))
    compiler.write_text(compiler.read_text().replace("/bin/sh", shell, 1))
    lab.compiler = str(compiler)
    return [lab.compile() for _ in range(2)]


@pytest.mark.parametrize("text", ['exec CXX "$@"\n', 'exec CXX -DVALUE=7 "$@"\n'])
def test_a_script_of_bash_is_looked_behind(lab: Lab, text: str) -> None:
    assert through(lab, text, shell="/bin/bash")[1].outcome == HIT


@pytest.mark.parametrize("line", ["echo >/dev/tty", "exec 3<>/dev/tty", "exec 3>>/dev/tty"])
def test_a_script_of_bash_that_writes_to_the_terminal_is_left_alone(lab: Lab, line: str) -> None:
    """There is none in tests."""
    for made in through(lab, f'({line}) 2>/dev/null\nexec CXX "$@"\n', shell="/bin/bash"):
        assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")
