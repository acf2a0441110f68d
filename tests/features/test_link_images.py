"""Device images are found in objects, static libraries and files of their own; what is cut is never read as less."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hip import ARCHS, BARE, Lab, only_19
from hipcache.link import images
from hipcache.link.images import HIP, Embedded, UnknownFile

pytestmark = only_19


@pytest.fixture
def made(lab: Lab) -> Path:
    """An object with code for two archs."""
    words = [lab.compiler, *ARCHS, *BARE, "--offload-new-driver", "-fgpu-rdc", "-c", "k.hip", "-o", "k.o"]
    assert lab.run(words).status == 0
    return lab.root / "k.o"


def read(path: Path, content: bytes) -> Embedded | None:
    path.write_bytes(content)
    try:
        return images.read_images(str(path))
    except UnknownFile:
        return None


def test_images_are_found_wherever_they_are(lab: Lab, made: Path) -> None:
    found = images.read_images(str(made))
    assert [(one.arch, one.triple, one.kind in HIP, one.is_bitcode) for one in found.images] == [
        (arch, "amdgcn-amd-amdhsa", True, True) for arch in ("gfx906", "gfx90a")
    ]
    assert not found.is_archive
    alone = read(lab.root / "alone.bin", b"".join(one.raw for one in found.images))
    assert alone == found
    lab.write("a name that is too long for the header of a member.o", made.read_bytes())
    assert lab.run(["ar", "rc", "k.a", "k.o", "a name that is too long for the header of a member.o"]).status == 0
    library = images.read_images(str(lab.root / "k.a"))
    assert library == Embedded(found.images * 2, is_archive=True)
    assert read(lab.root / "one.a", images.archive(library.images)) == library
    # As the wrapper sees it: a library that ar can list.
    listed = lab.run(["ar", "t", "one.a"])
    assert (listed.status, listed.out.split()) == (0, [b"0.o", b"1.o", b"2.o", b"3.o"])


def test_a_file_that_is_cut_is_not_read_as_one_with_less(lab: Lab, made: Path) -> None:
    whole, content = images.read_images(str(made)), made.read_bytes()
    for length in range(16, len(content), 37):
        assert read(lab.root / "cut.o", content[:length]) in (None, whole)
    alone = b"".join(one.raw for one in whole.images)
    ends = {0, len(whole.images[0].raw)}
    for length in set(range(8, len(alone), 37)) - ends:
        assert read(lab.root / "cut.bin", alone[:length]) is None
    library = images.archive(whole.images)
    one = len(images.archive(whole.images[:1]))  # without the byte that makes it even, it is whole, too
    for length in set(range(9, len(library) - 1, 37)) - {one - 1, one}:
        assert read(lab.root / "cut.a", library[:length]) is None


@pytest.mark.parametrize("place", [4, 8, 16, 24])
def test_another_format_is_not_understood(lab: Lab, made: Path, place: int) -> None:
    raw = bytearray(images.read_images(str(made)).images[0].raw)
    struct.pack_into("<I", raw, place, 0x7FFFFFFF)
    assert read(lab.root / "other.bin", bytes(raw)) is None


def test_other_files_hold_none(lab: Lab) -> None:
    for content in (b"", b"INPUT(-lc)\n", b"\x7fELF", b"\x7fELF\x01\x01\x01" + bytes(60)):
        assert read(lab.root / "other", content) in (Embedded((), is_archive=False), None)
    assert images.read_images(str(Path("/lib64/ld-linux-x86-64.so.2"))).images == ()
