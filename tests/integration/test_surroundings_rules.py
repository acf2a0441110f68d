"""Dependency files in odd surroundings: links, and names that nobody wants."""

from __future__ import annotations

import pytest
from hip import LAUNCHER, Lab, only_19


@only_19
def test_without_a_directory_for_the_object_no_dependency_file_is_left(lab: Lab) -> None:
    (lab.root / "out.d").symlink_to("elsewhere.d")
    words = lab.words("--offload-host-only", "-MD", "-MF", "out.d", output="nowhere/out.o")
    plain, cached = lab.run(words), lab.run([*LAUNCHER, *words])
    assert (cached.status, cached.err) == (plain.status, plain.err)
    assert cached.status == 1
    assert not (lab.root / "elsewhere.d").exists()


@only_19
@pytest.mark.parametrize("target", ["elsewhere.d", "missing.d"])
def test_a_dependency_file_that_is_a_link_is_written_through(lab: Lab, target: str) -> None:
    lab.write("elsewhere.d", "old")
    (lab.root / "link.d").symlink_to(target)
    words = lab.words("-MD", "-MF", "link.d")
    assert lab.run(words).status == 0
    expected = (lab.root / target).read_bytes()
    lab.write("elsewhere.d", "old")
    for _ in range(2):
        (lab.root / "missing.d").unlink(missing_ok=True)
        assert lab.hipcache(*words) == lab.run(["true"])
        assert (lab.root / "link.d").is_symlink()
        assert (lab.root / target).read_bytes() == expected


@only_19
def test_a_dependency_file_that_nobody_wants_does_not_matter(lab: Lab) -> None:
    lab.warm("-MD", "-MF", "/dev/null")


def test_of_two_dependency_files_the_last_one_is_written(lab: Lab) -> None:
    words = lab.words("-MD", "-MF", "first.d", "-Xclang", "-dependency-file", "-Xclang", "last.d")
    lab.same(words)
    for _ in range(2):
        (lab.root / "last.d").unlink(missing_ok=True)
        lab.same(words)
        assert (lab.root / "last.d").exists()
        assert not (lab.root / "first.d").exists()


def test_a_dependency_file_without_a_target_is_an_error_as_in_clang(lab: Lab) -> None:
    assert lab.compile("-Xclang", "-dependency-file", "-Xclang", "rule.d").status == 1
