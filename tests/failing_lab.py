"""A compile that fails, by plain clang and by hipcache side by side."""

from __future__ import annotations

import pytest
from hip import LAUNCHER, Lab, skip_without_coverage

KERNEL = 'extern "C" __global__ void k(int* p) { *p = 1; }\n'


def source(text: str) -> str:
    return f'#include "hip_in_short.hpp"\n#include "own.hpp"\n{text}{KERNEL}'


class Trial:
    """A source that does not compile, beside old outputs."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.write("own.hpp", "#pragma once\n")

    def run(self, command: list[str], *launcher: str) -> tuple[int, bytes, bytes, dict[str, str]]:
        """How it ended, and what lies in the directory then."""
        for name in ("out.o", "out.d"):
            (self.lab.root / name).unlink(missing_ok=True)
            self.lab.write(name, f"old {name}")
        ended = self.lab.run([*launcher, *command])
        found = {path.name: path.read_text(errors="replace") for path in self.lab.root.iterdir() if path.is_file()}
        return ended.status, ended.out, ended.err, found

    def by_both(self, command: list[str], times: int = 1) -> list[tuple[int, bytes, bytes, dict[str, str]]]:
        """How it ends with plain clang, then with hipcache."""
        outputs = [self.lab.root / name for name in ("out.o", "out.d")]
        plain, cached = self.lab.by_both(lambda *launcher: self.run(command, *launcher), command, without=outputs)
        return [plain, cached, *(self.run(command, *LAUNCHER) for _ in range(times - 1))]

    def same(self, text: str, *flags: str) -> str:
        """It fails as with plain clang: with an empty store, again, and after an edit. The last outcome."""
        command = self.lab.words("-MD", "-MF", "out.d", *flags)
        for edit in ("", "", "// an edit\n"):
            self.lab.write("k.hip", source(text) + edit)
            (status, out, err, files), cached = self.by_both(command)
            assert status != 0, "the test shows nothing"
            skip_without_coverage(err)
            assert cached[2].decode() == err.decode()
            assert cached[:2] == (status, out)
            rule, cached_rule = files.get("out.d"), cached[3].get("out.d")
            assert {**cached[3], "out.d": rule} == {**files, "out.d": rule}
            assert _files(cached_rule) >= _files(rule)
            assert (cached_rule is None) == (rule is None)
            counted = self.lab.counted()
            assert list((self.lab.store / "v2" / "tmp").iterdir()) == []
        return counted.outcome


def _files(rule: str | None) -> set[str]:
    return set((rule or "").replace("\\\n", " ").split())


@pytest.fixture
def trial(lab: Lab) -> Trial:
    return Trial(lab)
