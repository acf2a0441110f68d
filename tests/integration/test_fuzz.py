"""Random compiles, side by side with plain clang's (`scripts/fuzz.py`): some seeds that were chosen once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hip import FULL, LAUNCHER

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import fuzz
from fuzz_case import Case, Difference

SEEDS = [*range(1, 17), *(range(17, 400) if FULL else ())]
# By the old driver of clang 15 and of clang 19, and by the new one.
LINK_SEEDS = (404, 286, 421)
# With -fgpu-rdc, and in one command.
OBJECT_SEEDS = [1, 4, *(range(5, 60) if FULL else ())]
REAL_SEEDS = [*range(1, 2), *(range(2, 30) if FULL else ())]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_compile_and_what_follows_are_as_with_plain_clang(seed: int) -> None:
    assert not fuzz.check(seed, launcher=LAUNCHER)


@pytest.mark.parametrize("seed", OBJECT_SEEDS)
def test_so_is_a_program_of_several_objects(seed: int) -> None:
    assert not fuzz.check(seed, kind="objects", launcher=LAUNCHER)


@pytest.mark.parametrize("seed", REAL_SEEDS)
def test_so_is_one_with_the_headers_of_hip(seed: int) -> None:
    assert not fuzz.check(seed, real=True, launcher=LAUNCHER)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [*range(1, 9), *(range(9, 100) if FULL else ())])
def test_so_is_a_source_of_the_assembler(seed: int) -> None:
    assert not fuzz.check(seed, kind="assembler", launcher=LAUNCHER)


@pytest.mark.parametrize("seed", [*LINK_SEEDS, *(range(1, 100) if FULL else ())])
def test_so_is_a_link_of_relocatable_device_code(seed: int) -> None:
    assert not fuzz.check(seed, kind="links", launcher=LAUNCHER)


def test_a_difference_is_reported_with_its_seed_and_commands() -> None:
    other = ["/bin/sh", "-c", 'exec "$0" "$@" -DVALUE=99']
    found = (fuzz.check(seed, launcher=other) for seed in range(1, 6))
    assert any("has other bytes" in text and text.startswith("seed ") and "clang++-" in text for text in found)


class Shell(Case):
    """A command that writes its process number into one file, and what the launcher says into another."""

    def words(self) -> list[str]:
        return ["/bin/sh", "-c", 'echo $$ > unsteady; echo "$SAID" > steady']

    def _edit(self) -> str:
        return self._nothing()


def test_a_file_that_the_compiler_makes_otherwise_each_time_is_left_out_and_no_other(tmp_path: Path) -> None:
    for name in ("same", "other"):
        case = Shell(1, tmp_path / name, launcher=["env", *(["SAID=more"] if name == "other" else [])])
        case.work.mkdir(parents=True)
        if name == "same":
            case.run()
        else:
            with pytest.raises(Difference, match="'steady' has other bytes"):
                case.run()
