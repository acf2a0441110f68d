"""The engine's script as each installer writes its first lines: Python's own variables do not reach it, and no build is
lost where the package, the Python or the end of the script is missing."""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path

import hip
import hipcache
import pytest
from hip import HIT, MISS, Lab, know_tools, only_19, settle

pytestmark = [only_19, pytest.mark.archs(1)]

FORMS = {
    "pip": "#!{}\n",
    "pipx": "#!{} -E\n",
    "fedora": "#!{} -sP\n" if sys.version_info >= (3, 11) else "#!{} -s\n",
    "space": "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n",
    "space and option": "#!/bin/sh\n'''exec' \"{}\" -E \"$0\" \"$@\"\n' '''\n",
    "uv": "#!/bin/sh\n'''exec' '{}' \"$0\" \"$@\"\n' '''\n",
    "long": "#!/bin/sh\n'''exec' {} \"$0\" \"$@\"\n' '''\n",
    "conda": "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\" #'''\n",
}
QUOTED = {"space", "space and option", "uv", "conda"}


class Installed:
    """The native program, its engine's script in one of these forms, the Python that it names, and the package."""

    def __init__(self, place: Path, form: str) -> None:
        environment = place / ("with space" if form in QUOTED else "environment")
        environment.symlink_to(sys.prefix)
        self.python = environment
        self.package = place / "site/hipcache"
        shutil.copytree(Path(hipcache.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.program, self.engine = place / "hipcache", place / "hipcache-engine"
        shutil.copy(hip.LAUNCHER[0], self.program)
        self.head = FORMS[form].format(environment / "bin/python")
        self.text = f"""\
{self.head}import sys
sys.path.insert(0, {str(self.package.parent)!r})
from hipcache.__main__ import main
if __name__ == '__main__':
    sys.exit(main())
"""
        self.write(self.text)

    def write(self, text: str) -> None:
        self.engine.write_text(text)
        self.engine.chmod(0o755)


@pytest.fixture(params=FORMS)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Installed:
    return Installed(tmp_path, request.param)


def test_pythons_own_variables_do_not_reach_it(lab: Lab, tmp_path: Path, installed: Installed) -> None:
    know_tools(lab.environ)
    for module in ("signal.py", "yaml.py"):
        lab.write(tmp_path / "shadow" / module, "raise SystemExit(0)\n")
    shadow = {"PYTHONPATH": str(tmp_path / "shadow"), "PYTHONHOME": "/nowhere", "PYTHONIOENCODING": "no-such"}
    for outcome in (MISS, HIT):
        settle()
        ended = lab.run([str(installed.program), *lab.words()], env=shadow)
        assert (ended.status, ended.err, lab.counted().outcome) == (0, b"", outcome)
        (lab.root / "out.o").unlink()


def test_no_build_is_lost_without_its_package_or_its_python(lab: Lab, installed: Installed) -> None:
    made = lab.root / "made"
    argv = [str(installed.program), "touch", "made"]
    shutil.rmtree(installed.package)
    installed.package.mkdir()
    (installed.package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'hipcache'\")\n")
    ended = lab.run(argv)
    assert (ended.status, ended.out, made.exists()) == (0, b"", True)
    assert ended.err.startswith(b"hipcache: cannot start: No module named 'hipcache'\n")
    made.unlink()
    installed.python.unlink()
    ended = lab.run(argv)
    assert (ended.status, ended.out, made.exists()) == (0, b"", True)
    assert ended.err.startswith(b"hipcache: cannot start 'hipcache-engine'")


def test_no_build_is_lost_by_a_script_that_was_cut(lab: Lab, installed: Installed) -> None:
    """At each end of a line, on both sides of it, and between two; behind `main` nothing is missing."""
    text, made = installed.text, lab.root / "made"
    ends = [at for at, letter in enumerate(text) if letter == "\n"]
    cuts = {end + more for end in ends for more in (-1, 0, 1)}
    cuts |= {(first + second) // 2 for first, second in itertools.pairwise([0, *ends])}
    cuts |= {text.find(" -") + 2}
    for at in sorted(cut for cut in cuts if cut < text.rindex("main")):
        installed.write(text[:at])
        ended = lab.run([str(installed.program), "touch", "made"])
        assert (ended.status, ended.out, made.exists()) == (0, b"", True), text[:at]
        made.unlink()


def test_where_python_could_not_write_its_modules_whole_it_writes_none(lab: Lab, installed: Installed) -> None:
    ended = lab.run(["sh", "-c", f"ulimit -f 12; exec '{installed.program}' --version"])
    assert (ended.status, ended.out.decode()) == (0, f"hipcache {hipcache.__version__}\n")
    assert not list(installed.package.rglob("*.pyc"))
