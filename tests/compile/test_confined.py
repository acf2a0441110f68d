"""Only `confined` opens what lies in a store: seen at work, by an audit hook of Python's.

`confined` looks names up from a descriptor of the store, so a path of the store reaches the system from nowhere else. A
compile's private directory in `tmp/` is the exception: compilers are told its path."""

from __future__ import annotations

import sys
from pathlib import Path

from hip import Lab, only_19

# Events have paths in their arguments: docs.python.org/3/library/audit_events.html
PROGRAM = """\
import os, sys
base, seen = sys.argv[1], sys.argv[2]
def hook(event, arguments):
    for one in arguments:
        if isinstance(one, (str, bytes, os.PathLike)):
            path = os.path.normpath(os.fsdecode(one))
            if path.startswith(base) and not path.startswith(base + "/tmp/work-"):
                where = sys._getframe(1)
                text = f"{event} {path[len(base):]} {where.f_globals['__name__']} {where.f_lineno}\\n"
                os.write(told, text.encode())
told = os.open(seen, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.addaudithook(hook)
from hipcache.__main__ import main
sys.exit(main(sys.argv[3:]))
"""


def audited(lab: Lab, seen: Path, *words: str, env: dict[str, str] | None = None) -> None:
    base = str(lab.store / "v2")
    ended = lab.run([sys.executable, "-c", PROGRAM, base, str(seen), *words], env=env)
    assert ended.status == 0, ended.err


@only_19
def test_no_other_module_reaches_into_the_store(lab: Lab, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    for env in ({"HIPCACHE_MAX_SIZE": "1k"}, {}, {}, {"HIPCACHE_RECACHE": "1"}, {"HIPCACHE_VERIFY": "1"}):
        audited(lab, seen, *lab.words(), env=env)
    for verb in (["stats"], ["explain"], ["explain", "out.o"], ["doctor"], ["gc"], ["verify"], ["stats", "--zero"]):
        audited(lab, seen, *verb)
    audited(lab, seen, "clear")
    assert seen.read_text() == ""


@only_19
def test_the_hook_sees_who_does(lab: Lab, tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    seen = tmp_path / "seen"
    lab.write("log", "")
    audited(lab, seen, *lab.words())
    (lab.store / "v2/log").write_text("")
    audited(lab, seen, *lab.words(), env={"HIPCACHE_LOG": str(lab.store / "v2/log")})
    assert "open /log" in seen.read_text()
