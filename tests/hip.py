"""What the tests of compiles share: plain clang and hipcache side by side, and what hipcache counted meanwhile.

How to write a quick test (a compile of a bare source costs 0.2 s of plain clang, 0.3 s of hipcache, 0.01 s warm):

- `lab.warm()`, then one change, then `lab.changed()` or `lab.compile()`: plain clang is asked again only after a change
  (`golden`), and once for all tests that begin with the same files and command (`golden_of_all`). A loop that rewrites
  a file that stays the same makes it run anew. Own comparisons go through `lab.by_both`.
- `kernel(...)`, HIP_IN_SHORT and BARE instead of HIP's own headers, which take a second for each pass.
- `lab.counted()`, `lab.stats()`, `statistics(environ)` instead of a process `hipcache stats`.
- Nothing sleeps until a file is old: `same` and `plain` see to it, `settle()` does elsewhere. Engines of tests take an
  instant for old (`racy`), and know the compilers from the run's other tests (`shared_memos`).
- Where something is waited for, wait for it, with a bound. Each test has one as well (`bound`), as has each command of
  `lab.run`; children begin with the usual signals, also in a background job.
- Costly projects and programs are made once, in a fixture of the module; a configured build directory can be used by
  several tests if each has a target of its own.
- The marker `archs(1)` on a module where a second architecture proves nothing, which costs half a compile more;
  `archs(2)` on its tests that tell one from the other. In a full run each compile is for two.
- The marker `new_driver`: the fixture `lab` compiles with the new offload driver, too (clang 22), if its packages are
  there.
- `only_15`, `only_19` (HIP's own clang, and the newer one) where the compiler cannot matter; `with_15`, `with_19` where
  it must be that version. Three cases of a matrix or more meet one compiler each in
  `make test`, and all in `make test-full`: see `sampling`, also for samples of a large matrix.
- In a short run root's files lie in memory (`private_mounts`), and tests share what plain clang makes
  (`golden_of_all`).
- pytest's `--durations=20` says where the time goes; count CPU seconds (`time`: user + sys), not seconds of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from bare_lab import BareLab
from ended import FAILED, HIT, MISS, PARTIAL, PASSED_THROUGH, Compiled, Counted, Ended, Made
from golden import Tree
from kernels import ARCHS, BARE, CUID, HIP_IN_SHORT, KERNEL, kernel
from launchers import ENGINE, ENGINE_ALONE, LAUNCHER
from rewriting import SETTLED, let_others_in, replace, rewrite, same_times, script, settle, write_files
from session import FULL, RESIDENT, SESSION
from terminals import in_terminal
from told import explained, know_tools, statistics
from toolchains import COMPILERS, DEVICE_LIBRARIES, HIP_FLAGS, LLVM, rocm, toolchain, watched_compiler

__all__ = [
    "ARCHS",
    "BARE",
    "COMPILERS",
    "CUID",
    "DEVICE_LIBRARIES",
    "ENGINE",
    "ENGINE_ALONE",
    "FAILED",
    "FULL",
    "HIP_FLAGS",
    "HIP_IN_SHORT",
    "HIT",
    "KERNEL",
    "LAUNCHER",
    "LLVM",
    "MISS",
    "PARTIAL",
    "PASSED_THROUGH",
    "SESSION",
    "Compiled",
    "Counted",
    "Ended",
    "explained",
    "in_terminal",
    "kernel",
    "know_tools",
    "let_others_in",
    "replace",
    "rewrite",
    "rocm",
    "same_times",
    "script",
    "settle",
    "statistics",
    "toolchain",
    "watched_compiler",
    "write_files",
]

Result = TypeVar("Result")
# Beside a lab's root, what is of no compiler's concern: a resident's sockets, small disks, copies of the launcher.
_APART = ("run", "hipcache", "fake", "disk", "alone")


@dataclass
class Lab(BareLab):
    """A lab in which plain clang and hipcache compile side by side."""

    def compile(
        self,
        *flags: str | Path,
        source: str | Path = "k.hip",
        output: str = "out.o",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """The fresh compile of plain clang, then hipcache's: everything about them must be the same."""
        return self.same(self.words(*flags, source=source, output=output), output=output, cwd=cwd, env=env)

    def same(
        self,
        command: Sequence[str],
        *,
        output: str = "out.o",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        directory = cwd or self.root
        made, rule = directory / output, (directory / output).with_suffix(".d")

        def run(*launcher: str) -> Made:
            for path in (made, rule):
                path.unlink(missing_ok=True)
            ended = self.run([*launcher, *command], cwd=cwd, env=env)
            return Made(ended, made.read_bytes() if made.exists() else None, rule.read_text() if rule.exists() else "")

        for path in (made, rule):
            path.unlink(missing_ok=True)
        plain, cached = self.by_both(run, command, without=(made, rule), cwd=directory, env=env, everywhere=True)
        skip_without_coverage(plain.ended.err)
        assert cached.ended.err.decode() == plain.ended.err.decode(), (cached.ended.err, plain.ended.err)
        assert (cached.ended.status, cached.ended.out) == (plain.ended.status, plain.ended.out)
        assert (cached.object is None) == (plain.object is None)
        assert cached.object == plain.object, "the object is not plain clang's"
        assert bool(cached.rule) == bool(plain.rule)
        messages, counted = plain.ended.err.decode(), self.counted()
        assert counted.reason != "internal", self.hipcache("explain").out.decode()
        return Compiled(cached.object or b"", messages, plain.ended.status, counted, cached.rule, plain.rule)

    def by_both(
        self,
        run: Callable[..., Result],
        command: Sequence[str],
        *,
        without: Sequence[Path] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
        everywhere: bool = False,
    ) -> tuple[Result, Result]:
        """What `run()` gives, which is plain clang's `command`, and what `run(*launcher)` gives, hipcache's.

        clang's is the same again where nothing that it can see has changed since (see `golden`), and another test's if
        `everywhere` (`golden_of_all`). It is known by the command: behind that stands what else `run` does by itself.
        `without`: files that are gone before each run. Afterwards all files are old enough to be remembered.
        """
        told = {**self.environ, **(env or {})}
        seen = {name: value for name, value in told.items() if not name.startswith("HIPCACHE_")} | self._usual()
        apart = {self.store, Path(told["HIPCACHE_DIR"]), *(self.root.parent / name for name in _APART)}
        temporary = Path(told.get("TMPDIR", "/"))
        if not temporary.is_dir():
            seen["TMPDIR"] = f"{temporary}, which is none"
        elif not any(place.is_relative_to(temporary) for place in (self.root, cwd or self.root)):
            apart.add(temporary)
        guessed: list[Result] = []

        def look() -> Tree:
            return Tree.of(self.root.parent, (*without, *apart))

        def guess() -> Result:
            tree.settle(SETTLED)
            guessed.append(run(*(launcher or LAUNCHER)))
            return guessed[0]

        tree = look()
        plain = self._golden.get(run, command, cwd or self.root, seen, tree, look, guess, everywhere)
        tree.settle(SETTLED)
        return plain, guessed[0] if guessed else guess()

    def _usual(self) -> dict[str, str]:
        """hipcache's variables as each lab begins, which stand for all their values in the key of a digest."""
        begins = {"HIPCACHE_PACKS": "1", "HIPCACHE_PREAMBLES": "0", "HIPCACHE_RESIDENT": "0"}
        return {"HIPCACHE_DIR": str(self.root.with_name("store")), **begins}

    def warm(
        self,
        *flags: str | Path,
        source: str | Path = "k.hip",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """A compile that is served from now on, as the second one shows."""
        first = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert first.status == 0, first.messages
        second = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert second.outcome == HIT, f"{second.counted}\n{self.hipcache('explain').out.decode()}"
        for _ in range(3 if RESIDENT else 0):  # it is asked, told, and has time to learn
            second = self.compile(*flags, source=source, cwd=cwd, env=env)
            assert second.outcome == HIT, second.counted
        return second

    def changed(
        self,
        before: Compiled,
        *flags: str | Path,
        source: str | Path = "k.hip",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """The compile after a change that matters: another object, plain clang's, and not served."""
        after = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert after.status == 0, after.messages
        assert after.object != before.object, "the change does not change the object: the test shows nothing"
        assert after.outcome != HIT
        return after


def apart(lab: Lab, before: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Ended:
    """Runs `argv` where mounts are its own, after the shell's `before`, with the variables that it would have here.
    Skips the test where this machine lets nobody mount."""
    namespace = ["unshare", "--mount", "--map-root-user"]
    if lab.run([*namespace, "true"]).status != 0:
        pytest.skip("this machine lets nobody mount")
    told = lab.environ.get("PWD")
    same = ["env", f"PWD={told}" if told else "-uPWD"]
    return lab.run([*namespace, "sh", "-c", f'{before}\nexec "$@"', "sh", *same, *argv], env=env)


def skip_without_coverage(said: bytes) -> None:
    """Skips the test if plain clang said that it has no runtime for the coverage of a device."""
    if b"undefined symbol: llvm_gcda" in said:
        pytest.skip("this clang links no coverage of a device")


def skip_if_bitcode_is_covered(lab: Lab, options: str) -> None:
    """Skips the test of coverage where devices are covered, too, from clang 20 on: their bitcode passes through."""
    if int(lab.version) > 19 and "-fgpu-rdc" in options and "coverage" in options:
        pytest.skip("this clang covers devices")


def unobserved(lab: Lab) -> Lab:
    """The lab with a script for a compiler, which is not observed: its processes may outlive it."""
    lab.compiler = str(watched_compiler(lab.root.parent / "compiler", lab.version, ""))
    return lab


only_19 = pytest.mark.parametrize("lab", COMPILERS[-1:], indirect=True)
# Of what that version alone does.
with_15 = pytest.mark.parametrize("lab", ["15"], indirect=True)
with_19 = pytest.mark.parametrize("lab", ["19"], indirect=True)
only_15 = pytest.mark.parametrize("lab", COMPILERS[:1], indirect=True)


def _since(version: int) -> pytest.MarkDecorator:
    fitting = [known for known in (*reversed(COMPILERS), *LLVM) if int(known) >= version]
    return pytest.mark.parametrize("lab", (fitting or [str(version)])[:1], indirect=True)


#: Of what clang does since then.
since_18, since_19 = _since(18), _since(19)
