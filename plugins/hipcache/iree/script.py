"""The program that compiles if iree-compile is the script of IREE's package: that script's own answer.

The script (`console_scripts` of iree-base-compiler) finds the program with `iree.compiler.tools.binaries.find_tool`, by
IREE_TOOL_PATH or beside its package, and runs it with the same words. So its interpreter is asked for that, once: the
answer is kept with all that it looked at (`answers`). Any other script may do more than compile, and is left alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache.disk.special import absolute, is_of_kernel
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.patterns import pattern
from hipcache.planning import answers, tools
from hipcache.processes import observe
from hipcache.processes.observe import Observation
from hipcache.processes.runner import Runner, Traced
from hipcache.processes.syscalls import READ

# As pip, distlib and uv write it: nothing but imports, its own name, and the call.
_SCRIPT = pattern(
    rb"#!(/\S+)\n(?:#.*\n)?(?:import (?:re|sys)\n)*"
    rb"from iree\.compiler\.tools\.scripts\.iree_compile\.__main__ import main\n+"
    rb"if __name__ == ['\"]__main__['\"]:\n"
    rb"(?: +(?:if|elif) sys\.argv\[0\]\.endswith\(.*\):\n| +sys\.argv\[0\] = .*\n)*"
    rb" +sys\.exit\(main\(\)\)\n*"
)
_MOST = 1 << 14
_ASK = """import sys
sys.path[0] = {place!r}
from iree.compiler.tools import binaries
print(binaries.find_tool("iree-compile"))"""


def find(engine: Engine, compiler: str, cwd: str, runner: Runner) -> str:
    """The absolute path of the program that compiles. Raises PassThrough."""
    program = tools.which(compiler, cwd, engine.environ)
    if not program:
        raise PassThrough("driver", f"no '{compiler}' on PATH")
    if not is_script(program):
        return program
    try:
        with open(program, "rb") as file:
            known = _SCRIPT.fullmatch(file.read(_MOST))
    except OSError as error:
        raise PassThrough("tool", f"'{program}': {error.strerror}") from error
    if not known:
        raise PassThrough("wrapper", f"'{program}' is a script, and none of IREE's package")
    question = answers.question("iree", program, ("iree-compile",), cwd, engine.environ)
    answer = answers.recall(engine, question)
    if answer is None:
        answer = _ask(engine, os.fsdecode(known[1]), program, cwd, runner)
        answers.remember(engine, question, answer)
    return answer.text


def _ask(engine: Engine, python: str, program: str, cwd: str, runner: Runner) -> answers.Answer:
    words = [python, "-c", _ASK.format(place=os.path.dirname(program))]
    environ = {**engine.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    started = engine.clock()
    try:
        traced = runner.trace(words, cwd=Path(cwd), env=environ)
    except OSError as error:
        raise PassThrough("wrapper", f"'{python}': {error.strerror}") from error
    found = os.path.normpath(os.fsdecode(traced.ended.stdout.rstrip(b"\n")))
    if traced.ended.status != 0 or not found.startswith("/") or is_script(found):
        raise PassThrough("wrapper", f"'{program}' does not say which program it runs")
    observations = (Observation(READ, program, observe.sign(READ, program)), *_observations(traced, cwd))
    known = traced.observed is not None and not observe.changed(observations, started)
    return answers.Answer(found, observations if known else ())


def _observations(traced: Traced, cwd: str) -> list[Observation]:
    """More than `observe.observations` allows: Python asks how many processors there are, which does not decide where
    the program is."""
    found: dict[tuple[str, str], None] = {}
    for row in (traced.observed or b"").split(b"\0")[:-1]:
        how, path = observe.HOWS.get(row[:1]), absolute(os.fsdecode(row[2:]), cwd)
        if how and not is_of_kernel(path):
            found[how, path] = None
    return [Observation(how, path, observe.sign(how, path)) for how, path in found]
