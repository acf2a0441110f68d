"""The native look at many paths finds what Python's own finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipcache.base import native
from hipcache.inputs.readset import status_of


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Files, directories, links, and what is not there."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").write_text("text")
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "link").symlink_to("directory/file")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "circle").symlink_to("circle")
    os.utime(tmp_path / "directory/file", ns=(-5_000_000_001, -5_000_000_001))
    strange = os.fsdecode(b"not utf-8 \xff")
    (tmp_path / strange).write_text("")
    below = ["directory/file", "directory/other", "directory/", "directory", "link", "link/x", "dangling", "circle"]
    below += ["circle/x", "nothing/x", "closed", strange, "x" * 300]
    return [f"{tmp_path}/{name}" for name in below] + ["/", "/usr/bin", "//usr//bin"]


@pytest.mark.parametrize("links", [False, True])
def test_statuses_are_those_of_the_system(paths: list[str], links: bool) -> None:
    for path, found in zip(paths, native.statuses(paths, links=links), strict=True):
        try:
            expected = os.stat(path, follow_symlinks=not links)
        except OSError:
            assert found is None, path
            continue
        assert found, path
        assert found.status == status_of(expected)
        assert found.mode == expected.st_mode
        if not links:
            assert found.readable == os.access(path, os.R_OK), path
    assert native.statuses([]) == []


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        native.statuses(["/usr", "a\0b"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["other", "another"], ""),
        (["other", "file", "another"], "file"),
        (["file"], "file"),
        (["x" * 300, "other"], "x" * 300),
    ],
    ids=["none", "missing", "there", "one", "too long"],
)
def test_the_first_name_that_is_not_missing_is_found(paths: list[str], names: list[str], expected: str) -> None:
    directory = paths[0].removesuffix("file")
    listed = native.listed([directory + name for name in names])
    assert native.not_missing(listed) == (directory + expected if expected else "")


def test_names_below_what_is_not_there_are_missing(paths: list[str], tmp_path: Path) -> None:
    def not_missing(*names: str) -> str:
        return native.not_missing(native.listed(names))

    assert not not_missing(f"{tmp_path}/nothing/a", f"{tmp_path}/nothing/b")
    assert not not_missing(paths[0] + "/a", paths[0] + "/b")  # below a file
    assert not_missing(f"{tmp_path}/a", f"{tmp_path}/dangling") == f"{tmp_path}/dangling"
    assert not_missing(f"{tmp_path}/circle/a", f"{tmp_path}/circle/b") == f"{tmp_path}/circle/a"
