"""The walk of a miss in ARCHITECTURE.md names functions in the order in which a real miss calls them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from hip import Lab

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
# A newcomer reads the walk in five minutes.
MOST = 25
# Compiles as the engine does, and writes each function of the project in the order of the first calls, in any thread.
PROFILED = """
import json, os, sys, threading

seen = {}


def profile(frame, event, _):
    if event == "call" and f"{os.sep}hipcache{os.sep}" in frame.f_code.co_filename:
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        kind = owner if isinstance(owner, type) else type(owner)
        method = getattr(kind, frame.f_code.co_name, None)
        inside = getattr(method, "__code__", None) is frame.f_code
        prefix = f"{kind.__name__}." if inside else ""
        seen.setdefault(f"{frame.f_globals['__name__']}.{prefix}{frame.f_code.co_name}")


threading.setprofile(profile)
sys.setprofile(profile)
from hipcache.app.launch import launch

status = launch(sys.argv[2:], dict(os.environ))
sys.setprofile(None)
with open(sys.argv[1], "w") as file:
    json.dump(list(seen), file)
sys.exit(status)
"""


def walk() -> list[str]:
    """The functions that the numbered steps name, as Python calls them."""
    steps = ARCHITECTURE.read_text().partition("\n## A miss, step by step\n")[2].partition("\n## ")[0]
    numbered = steps[steps.index("\n0. ") :].partition("\n\n")[0]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)?(?:\.[A-Z]\w+)?\.[a-z_]+)`", numbered)
    return [f"hipcache.{name.replace('/', '.')}" for name in named]


def test_a_miss_calls_the_functions_of_the_walk_in_that_order(lab: Lab) -> None:
    wanted = walk()
    assert len(set(wanted)) == len(wanted)
    assert 15 <= len(wanted) <= MOST
    called, script = lab.root / "called.json", lab.write("profiled.py", PROFILED)
    ended = lab.run([sys.executable, script, called, *lab.words("-O2")])
    assert (ended.status, ended.err) == (0, b"")
    assert lab.stats()["compiles"]["miss"] == 1  # type: ignore[index]
    order = json.loads(called.read_text())
    assert [name for name in order if name in wanted] == wanted
