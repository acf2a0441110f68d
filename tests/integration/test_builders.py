"""In a builder of packages: its next build in another directory hits."""

from __future__ import annotations

import os
import struct
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hip import HIP_IN_SHORT, HIT, LLVM, MISS, Compiled, Lab, kernel, only_15, only_19
from hipcache.base.elf import may_hold

# What the next build shares


class Package:
    """A package's source, unpacked by a builder into directories of random names."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def build(self, name: str, environ: Mapping[str, str], *flags: str, below: str = "") -> Compiled:
        """One compile as CMake writes it, in the builder's directory `name`; "@" in texts stands for that."""
        top = self.lab.root / name
        source = top / below
        for path in (top / "debian/changelog", top / "pkg/.keep"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("demo (1) unstable\n")
        for path, text in {
            "include/value.hpp": "#define VALUE 3\n",
            "include/hip_in_short.hpp": HIP_IN_SHORT,
            "src/k.hip": kernel("VALUE", "#include <value.hpp>"),
        }.items():
            self.lab.write(source / path, text)
        build = source / "build"
        build.mkdir(exist_ok=True)
        env = {key: value.replace("@", str(top)) for key, value in environ.items()}
        words = [flag.replace("@", str(source)) for flag in flags]
        return self.lab.compile(f"-I{source}/include", *words, source=source / "src/k.hip", cwd=build, env=env)


@pytest.fixture
def package(lab: Lab) -> Package:
    return Package(lab)


DPKG = {"DEB_BUILD_ARCH": "amd64", "SOURCE_DATE_EPOCH": "1793491200"}
# dpkg-buildflags of Debian 12 and 13, rpm --eval %optflags of Fedora 41 with clang (ROCm packages leave out LTO; the
# hardening that --config adds; without -grecord-gcc-switches, see docs/design/options.md), makepkg.conf of Arch, and a
# hardened profile of Gentoo. -fcf-protection is an error for amdgcn, so ROCm packages give it to the host alone.
DEBIAN = "-g -O2 -ffile-prefix-map=@=. -fstack-protector-strong -Wformat -Werror=format-security"
FLAGS = {
    "Debian 12": (DPKG, "", f"{DEBIAN} -Wdate-time -D_FORTIFY_SOURCE=2"),
    "Debian 13": (
        DPKG,
        "",
        f"{DEBIAN} -fstack-clash-protection -Xarch_host -fcf-protection -Wdate-time -D_FORTIFY_SOURCE=2",
    ),
    "Debian, packed": (DPKG, "", f"{DEBIAN} -gz"),
    "Fedora": (
        {"RPM_PACKAGE_NAME": "demo", "RPM_BUILD_DIR": "@"},
        "demo-1",
        "-O2 -fexceptions -g -ffile-prefix-map=@=. -pipe -Wall -Werror=format-security"
        " -Wp,-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=3 -Wp,-D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fPIE"
        " -m64 -Xarch_host -mtune=generic -fasynchronous-unwind-tables -fstack-clash-protection"
        " -Xarch_host -fcf-protection -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer",
    ),
    "Arch": (
        {"TEXTDOMAIN": "pacman-scripts", "SOURCE_DATE_EPOCH": "1793491200"},
        "src",
        "-Xarch_host -march=x86-64 -Xarch_host -mtune=generic -O2 -pipe -fno-plt -fexceptions -Wp,-D_FORTIFY_SOURCE=3"
        " -Wformat -Werror=format-security -fstack-clash-protection -Xarch_host -fcf-protection"
        " -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -g -ffile-prefix-map=@=/usr/src/debug/demo",
    ),
    "Gentoo": (
        {"PORTAGE_BUILDDIR": "@"},
        "work/demo-1",
        "-O2 -pipe -fstack-protector-strong -fstack-clash-protection -Xarch_host -fcf-protection -D_FORTIFY_SOURCE=3"
        " -D_GLIBCXX_ASSERTIONS -fPIE",
    ),
    "Nix": (
        {"NIX_BUILD_TOP": "@", "SOURCE_DATE_EPOCH": "315532800"},
        "source",
        "-O2 -frandom-seed=abc -Wformat -Wformat-security -Werror=format-security -fstack-protector-strong"
        " --param ssp-buffer-size=4 -D_FORTIFY_SOURCE=3 -fno-strict-overflow -fPIC",
    ),
    "conda": (
        {"CONDA_BUILD": "1", "SRC_DIR": "@"},
        "",
        "-fvisibility-inlines-hidden -fmessage-length=0 -Xarch_host -march=nocona -Xarch_host -mtune=haswell"
        " -ftree-vectorize -fPIC -fstack-protector-strong -fno-plt -O2 -ffunction-sections -pipe"
        " -fdebug-prefix-map=@=/usr/local/src/conda/demo-1",
    ),
    "Spack": (
        {"SPACK_SHORT_SPEC": "demo@1"},
        "",
        "-O2 -Xarch_host -march=x86-64-v3 -Xarch_host -mtune=generic -DNDEBUG",
    ),
}


@pytest.mark.parametrize("distribution", FLAGS)
def test_the_flags_of_each_distribution_hit_in_another_directory(package: Package, distribution: str) -> None:
    environ, below, flags = FLAGS[distribution]
    first = package.build("spack-stage-demo-1-aaaa", environ, *flags.split(), below=below)
    assert first.status == 0, first.messages
    again = package.build("spack-stage-demo-1-of-another-length", environ, *flags.split(), below=below)
    assert again.outcome == HIT, again.counted


def test_without_a_builder_back_ends_are_shared_between_mapped_directories(package: Package) -> None:
    """Prefix maps and compilation directories are in no back end's key."""
    package.build("one", {}, *DEBIAN.split())
    again = package.build("another", {}, *DEBIAN.split())
    assert again.counted.back_ends == 0


# The command in the output (Fedora's -grecord-gcc-switches)


FEDORA = (*FLAGS["Fedora"][2].split(), "-grecord-gcc-switches")


def test_fedoras_record_of_the_command_hits_in_the_same_directory(package: Package) -> None:
    """mock builds in /builddir each time."""
    first = package.build("one", FLAGS["Fedora"][0], *FEDORA, below="demo-1")
    assert first.status == 0
    assert package.build("one", FLAGS["Fedora"][0], *FEDORA, below="demo-1").outcome == HIT


def test_a_recorded_command_is_the_user_s_own(package: Package) -> None:
    """In another directory, too, though that is the base directory there (`Lab.compile` compares with plain clang)."""
    package.build("one", FLAGS["Fedora"][0], *FEDORA, below="demo-1")
    elsewhere = package.build("another", FLAGS["Fedora"][0], *FEDORA, below="demo-1")
    assert (elsewhere.status, elsewhere.outcome) == (0, MISS)
    other = package.build("one", FLAGS["Fedora"][0], *FEDORA, "-DOTHER", below="demo-1")
    assert (other.status, other.outcome) == (0, MISS)


@pytest.mark.parametrize("directory", ["one", "another"])
def test_a_recorded_command_without_debug_information(package: Package, directory: str) -> None:
    package.build("one", {"HIPCACHE_BASEDIR": "@"}, "-frecord-command-line")
    again = package.build(directory, {"HIPCACHE_BASEDIR": "@"}, "-frecord-command-line")
    assert (again.status, again.outcome) == (0, HIT if directory == "one" else MISS)


# A new entry in the changelog


@only_19
def test_a_new_changelog_entry_hits(package: Package) -> None:
    package.build("one", DPKG, *DEBIAN.split())
    later = package.build("another", {**DPKG, "SOURCE_DATE_EPOCH": "1793999999"}, *DEBIAN.split())
    assert later.outcome == HIT
    assert package.build("third", {"DEB_BUILD_ARCH": "amd64"}, *DEBIAN.split()).outcome == HIT


DATED = {
    "named": ('__DATE__ " " __TIME__', "", ()),
    "in a header": ("BUILT", '#define BUILT __DATE__ " " __TIME__\n', ()),
    "by a flag": ("BUILT", "", ("-DBUILT=__TIME__",)),
    "from pieces": ("PASTE(__DA, TE__)", "#define PASTE(a, b) PASTE_(a, b)\n#define PASTE_(a, b) a##b\n", ()),
}


@only_19
@pytest.mark.parametrize("how", DATED)
def test_a_date_that_a_text_may_show_is_that_of_the_entry(lab: Lab, how: str) -> None:
    value, header, flags = DATED[how]
    lab.write("built.hpp", header)
    lab.write("k.hip", kernel("1", '#include "built.hpp"') + f"const char* built() {{ return {value}; }}\n")
    first = lab.compile(*flags, env={"SOURCE_DATE_EPOCH": "1600000000"})
    later = lab.compile(*flags, env={"SOURCE_DATE_EPOCH": "1700000000"})
    assert first.object != later.object
    assert "host" in later.counted.missed
    assert lab.compile(*flags, env={"SOURCE_DATE_EPOCH": "1600000000"}).object == first.object
    assert lab.hipcache(*lab.words(*flags)).status == 0
    assert lab.counted().outcome != HIT, "without a source date the date is today's"


@only_19
def test_explain_says_so(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __DATE__; }\n")
    lab.compile(env={"SOURCE_DATE_EPOCH": "1600000000"})
    lab.compile(env={"SOURCE_DATE_EPOCH": "1700000000"})
    said = lab.hipcache("explain", env={"SOURCE_DATE_EPOCH": "1700000000"}).out.decode()
    assert "SOURCE_DATE_EPOCH was 1600000000" in said


@only_19
def test_an_epoch_that_the_command_gives_is_in_the_key(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __DATE__; }\n")
    one, two = (lab.compile("-Xclang", "-source-date-epoch", "-Xclang", epoch) for epoch in ("1000000", "1700000000"))
    assert one.object != two.object


# Compressed sections


def elf(sections: list[tuple[int, bytes]]) -> bytes:
    """An object with sections of those flags and contents."""
    header = struct.Struct("<16sHHIQQQIHHHHHH")
    body, table = b"", struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for flags, content in sections:
        table += struct.pack("<IIQQQQIIQQ", 0, 1, flags, 0, header.size + len(body), len(content), 0, 0, 1, 0)
        body += content
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return (
        header.pack(ident, 1, 62, 1, 0, 0, header.size + len(body), 0, 64, 0, 0, 64, len(sections) + 1, 0)
        + body
        + table
    )


def compressed(content: bytes, kind: int = 1) -> tuple[int, bytes]:
    return 0x800, struct.pack("<IIQQ", kind, 0, len(content), 1) + zlib.compress(content)


def test_a_name_in_a_compressed_section_is_found_wherever_it_stands() -> None:
    for before in (0, 1, (1 << 20) - 3, (1 << 20) + 1):
        text = b"\0" * before + b"/home/one/k.hip" + b"\0" * 100
        assert may_hold(elf([(0, b"text"), compressed(text)]), b"/home/one")
        assert not may_hold(elf([(0, b"text"), compressed(text)]), b"/home/two")


def test_a_section_that_cannot_be_read_may_hold_anything() -> None:
    good = elf([compressed(b"nothing" * 100)])
    assert not may_hold(good, b"/home/one")
    for bad in (
        elf([compressed(b"nothing", kind=2)]),
        elf([(0x800, b"short")]),
        elf([(0x800, compressed(b"nothing")[1][:-2])]),
        elf([(0x800, struct.pack("<IIQQ", 1, 0, 7, 1) + b"no stream")]),
        good[:-10],
    ):
        assert may_hold(bad, b"/home/one")
    assert not may_hold(b"text", b"/home/one")


@only_15
def test_what_clang_compresses_is_found(lab: Lab, tmp_path: Path) -> None:
    made = tmp_path / "k.o"
    command = [LLVM["15"] / "bin/clang", "-x", "c", "-", "-g", "-gz", "-c", "-o", made]
    text = "int f(int a) { return a + 1; }\n"
    subprocess.run(command, input=text.encode(), check=True, cwd=tmp_path)
    content = made.read_bytes()
    if os.fsencode(tmp_path) not in content:
        assert may_hold(content, os.fsencode(tmp_path))
    assert not may_hold(content, b"/no/such/place")
