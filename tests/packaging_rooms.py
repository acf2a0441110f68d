"""Builders of packages, for tests: each makes a package of a source tree, and hands back what is in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path

import hipcache
import pytest
from hip import HIP_IN_SHORT, LAUNCHER, SESSION, kernel

CHECKOUT = Path(__file__).parent.parent
PACKAGING = CHECKOUT / "packaging"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# An ordinary user, who need not be known here: makepkg does not run as root.
SOMEBODY = 54321

CHANGELOG = """\
demo ({version}-1) unstable; urgency=low

  * Another entry.

 -- Demo <demo@example.org>  {date}
"""
CONTROL = """\
Source: demo
Maintainer: Demo <demo@example.org>
Build-Depends: debhelper-compat (= 13)

Package: demo
Architecture: any
Description: test package
"""
# dwz does not read clang 15's debug information.
RULES = """\
#!/usr/bin/make -f
%:
	dh $@
override_dh_dwz:
"""
SPEC = """\
Name: demo
Version: {version}
Release: 1
Summary: Test package
License: MIT
%global debug_package %{{nil}}
%description
Test package.
%prep
%setup -q -T -c -n demo-1
cp -r {source}/. .
%build
{build}
%install
{install}
%files
/usr/lib
%changelog
* {date} Demo <demo@example.org> - {version}-1
- Another entry
"""
PKGBUILD = """\
pkgname=demo
pkgver={version}
pkgrel=1
arch=(x86_64)
options=(!strip debug)
prepare() {{ mkdir -p demo-1; cp -r {source}/. demo-1; }}
build() {{ cd demo-1; {build}; }}
package() {{ cd demo-1; {install}; }}
"""


@dataclass(frozen=True)
class Source:
    """A source tree; how it is built, and installed below $DESTDIR; and the file that is compared."""

    files: Mapping[str, str]
    build: str
    install: str
    made: str


MAKEFILE = """\
HIPCXX ?= /usr/lib/llvm-19/bin/clang++
all: libdemo.a
%.o: %.hip
	$(LAUNCHER) $(HIPCXX) -x hip $(ARCHES:%=--offload-arch=%) -nogpuinc -nogpulib -I$(CURDIR) $(CXXFLAGS) -cuid=$* \\
		-c $(CURDIR)/$< -o $@
libdemo.a: one.o two.o
	ar rcsD $@ $^
clean:
	rm -f *.o *.a
install:
	install -Dm644 libdemo.a $(DESTDIR)/usr/lib/libdemo.a
"""
SMALL = Source(
    {
        "Makefile": MAKEFILE,
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": kernel("1"),
        "two.hip": kernel("sizeof(__FILE__)"),
    },
    "make",
    "make install",
    "usr/lib/libdemo.a",
)


def columns(language: str) -> Source:
    """The example, without its line for hipcache, as a package's rules build it: as "hip", or by "hipcc" as CXX."""
    example = CHECKOUT / "examples/cmake"
    files = {
        path.relative_to(example).as_posix(): path.read_text()
        for path in example.rglob("*")
        if path.is_file() and path.suffix in (".hip", ".hpp", ".cpp", ".txt", ".cmake")
    }
    files["CMakeLists.txt"] = files["CMakeLists.txt"].replace("include(HipCache)\n", "")
    configure = "--toolchain debian-12.cmake -DCMAKE_HIP_ARCHITECTURES=\"$(echo $ARCHES | tr ' ' ';')\""
    if language == "hipcc":
        # CMake says `-x c++` of another suffix.
        files = {name.replace(".hip", ".cpp"): text for name, text in files.items()}
        files["CMakeLists.txt"] = HIPCC_LISTS
        configure = "-DCMAKE_CXX_COMPILER=/usr/bin/hipcc -DARCHES=\"$(echo $ARCHES | tr ' ' ';')\""
    build = f"cmake -S . -B build -DCMAKE_BUILD_TYPE=Release {configure} && cmake --build build --target columns -j2"
    install = "install -Dm644 build/libcolumns.a $DESTDIR/usr/lib/libcolumns.a"
    return Source(files, build, install, "usr/lib/libcolumns.a")


HIPCC_LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(columns LANGUAGES CXX)
file(GLOB sources CONFIGURE_DEPENDS src/*.cpp)
add_library(columns STATIC ${sources})
target_include_directories(columns PUBLIC include)
target_compile_features(columns PUBLIC cxx_std_17)
list(TRANSFORM ARCHES PREPEND --offload-arch=)
target_compile_options(columns PRIVATE ${ARCHES}
  --rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode)
"""


@dataclass(frozen=True)
class Entry:
    """One entry of a package's changelog. Its date is past: what is newer than that has that date in a package."""

    version: str = "1"
    day: int = 1

    @property
    def rfc2822(self) -> str:
        return f"{('Sun', 'Mon', 'Tue')[self.day - 1]}, {self.day:02} Nov 2020 12:00:00 +0000"

    @property
    def epoch(self) -> int:
        return int(datetime(2020, 11, self.day, 12, tzinfo=timezone.utc).timestamp())

    @property
    def rpms(self) -> str:
        return f"{('Sun', 'Mon', 'Tue')[self.day - 1]} Nov {self.day:02} 2020"


FIRST, NEXT = Entry(), Entry(day=2)


class Builder:
    """`place`: one that other users may enter."""

    tools: tuple[str, ...] = ()
    user: int | None = None
    # The last package as a whole, where a builder writes no more into it than what it was given.
    whole: bytes = b""

    def __init__(self, place: Path) -> None:
        for tool in self.tools:
            if not shutil.which(tool, path=SYSTEM_PATH):
                pytest.skip(f"{tool} is not installed (scripts/setup.sh)")
        self.place = place
        self.store = place / "store"
        (place / "home").mkdir()
        self._own(place, place / "home")

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        """Build the package in a directory of that name; the content of the file that it is made for."""
        raise NotImplementedError

    def cached(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        """The same through hipcache."""
        launchers = ("LAUNCHER", "CMAKE_HIP_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
        return self.build(name, source, entry, {**environ, **dict.fromkeys(launchers, LAUNCHER[0])})

    def run(
        self, argv: Sequence[str | Path], cwd: Path, environ: Mapping[str, str], *, privileged: bool = False
    ) -> bytes:
        """What it prints; `privileged`: as the user that the tests have, and not as the builder's."""
        told = {
            "PATH": SYSTEM_PATH,
            "HOME": str(self.place / "home"),
            "LC_ALL": "C.UTF-8",
            "HIP_PLATFORM": "amd",
            "HIPCACHE_DIR": str(self.store),
            "TMPDIR": str(self.place),
        }
        as_user = {} if self.user is None or privileged else {"user": self.user, "group": self.user, "extra_groups": []}
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**told, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=1800,
            **as_user,  # type: ignore[call-overload]
        )
        output: bytes = done.stdout
        assert done.returncode == 0, output.decode(errors="replace")[-20000:]
        return output

    def top(self, name: str, source: Source) -> Path:
        """An empty directory, and the source beside it."""
        tree = self.place / "source"
        for file, text in source.files.items():
            path = tree / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        top = self.place / name
        top.mkdir(parents=True)
        self._own(top)
        return top

    def _own(self, *paths: Path) -> None:
        for path in paths:
            if self.user is not None:
                os.chown(path, self.user, self.user)


class Dpkg(Builder):
    tools = ("dpkg-buildpackage", "dh")

    def debianised(self, name: str, source: Source, entry: Entry) -> Path:
        """The source with a debian/ in a directory of that name, where nothing else is."""
        tree = self.top(name, source) / "demo-1"
        shutil.copytree(self.place / "source", tree)
        rules = RULES
        if source.build != "make":
            build, install = (text.replace("$", "$$") for text in (source.build, source.install))
            rules += f"override_dh_auto_configure override_dh_auto_test:\noverride_dh_auto_build:\n\t{build}\n"
            rules += f"override_dh_auto_install:\n\texport DESTDIR=$(CURDIR)/debian/demo; {install}\n"
        for file, text in {
            "changelog": CHANGELOG.format(version=entry.version, date=entry.rfc2822),
            "control": CONTROL,
            "rules": rules,
            "source/format": "3.0 (quilt)\n",
        }.items():
            path = tree / "debian" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tree / "debian/rules").chmod(0o755)
        return tree

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        tree = self.debianised(name, source, entry)
        self.run(["dpkg-buildpackage", "-b", "-us", "-uc"], tree, environ)
        return self.made(tree.parent, source)

    def made(self, directory: Path, source: Source) -> bytes:
        (package,) = directory.glob("demo_*.deb")
        self.whole = package.read_bytes()
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        return member(content, source.made)


def source_tree(place: Path) -> Path:
    """hipcache's files, as a release has them."""
    tree = place / f"hipcache-{hipcache.__version__}"
    for name in ("plugins", "cmake", "meson", "docs", "completions", "packaging"):
        shutil.copytree(CHECKOUT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "ARCHITECTURE.md", "SECURITY.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, tree)
    return tree


def hipcache_of_debian(builder: Builder, directory: Path) -> Path:
    """hipcache's own package."""
    tree = source_tree(directory)
    shutil.copytree(tree / "packaging/debian/debian", tree / "debian")
    builder.run(["dpkg-buildpackage", "-b", "-us", "-uc"], tree, {})
    (package,) = directory.glob("hipcache_*.deb")
    return package


class Rpmbuild(Builder):
    tools = ("rpmbuild", "rpm2archive")

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        top = self.top(name, source)
        install = f"export DESTDIR=%{{buildroot}}; {source.install}"
        spec = SPEC.format(
            version=entry.version, source=self.place / "source", build=source.build, install=install, date=entry.rpms
        )
        (top / "demo.spec").write_text(spec)
        flags = f"-O2 -g -ffile-prefix-map={top}/BUILD=."
        argv = ["rpmbuild", "-bb", "--define", f"_topdir {top}", "--define", "source_date_epoch_from_changelog 1"]
        self.run([*argv, "demo.spec"], top, {"CXXFLAGS": flags, **environ})
        (package,) = top.glob("RPMS/*/demo-*.rpm")
        self.run(["rpm2archive", package], top, {})
        return member(Path(f"{package}.tgz").read_bytes(), source.made)


class Makepkg(Builder):
    tools = ("makepkg", "bsdtar", "fakeroot")
    user = SOMEBODY

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        top = self.top(name, source)
        (top / "PKGBUILD").write_text(
            PKGBUILD.format(
                version=entry.version,
                source=self.place / "source",
                build=source.build,
                install=f'export DESTDIR="$pkgdir"; {source.install}',
            )
        )
        self.run(["makepkg", "-d", "-f"], top, {"PKGEXT": ".pkg.tar.gz", **environ})
        (package,) = (path for path in top.glob("demo-*.pkg.tar.gz") if "debug" not in path.name)
        return member(package.read_bytes(), source.made)


# The builder is the shell of Debian, whose directories the sandbox shows beside the store of Nix.
DERIVATION = """\
derivation {{
  name = "demo-{version}";
  system = builtins.currentSystem;
  builder = "/bin/sh";
  args = [ "-ec" ''
    cp -r $src demo-1
    chmod -R u+w demo-1
    cd demo-1
    {build}
    export DESTDIR=$out
    {install}
  '' ];
  src = {source};
  SOURCE_DATE_EPOCH = "{epoch}";
  {environ}
}}
"""


class Nix(Builder):
    """The sandbox has a network, users and processes of its own, and the build happens in /build."""

    tools = ("nix-build",)

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        top = self.top(name, source)
        told = {
            "PATH": SYSTEM_PATH,
            "HIPCACHE_DIR": str(self.store),
            "HOME": "/homeless-shelter",
            "HIP_PLATFORM": "amd",
        }
        build, install = (text.replace("${", "''${") for text in (source.build, source.install))
        text = DERIVATION.format(
            version=entry.version,
            build=build,
            install=install,
            source=self.place / "source",
            epoch=entry.epoch,
            # The name makes it another derivation, which Nix has not built yet.
            environ="\n  ".join(f'{key} = "{value}";' for key, value in {**told, **environ, "ROOM": name}.items()),
        )
        (top / "default.nix").write_text(text)
        self.store.mkdir(exist_ok=True)
        shown = [self.store, SESSION, CHECKOUT, *("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/perl")]
        options = {
            "sandbox": "true",
            "build-users-group": "",
            "extra-sandbox-paths": " ".join(str(path) for path in shown if os.path.exists(path)),
            "substitute": "false",
        }
        argv = ["nix-build", "--store", str(self.place / "nix"), "--no-out-link", "default.nix"]
        for option in options.items():
            argv += ["--option", *option]
        out = self.run(argv, top, {"NIX_STATE_DIR": str(self.place / "state")}).split()[-1].decode()
        return Path(f"{self.place}/nix{out}/{source.made}").read_bytes()


EBUILD = """\
EAPI=8
DESCRIPTION="Test package"
HOMEPAGE="https://example.org"
SLOT="0"
KEYWORDS="amd64"
LICENSE="MIT"
IUSE="{flags}"
RESTRICT="strip"
S="${{WORKDIR}}/demo-1"
src_unpack() {{ cp -r {source}/. "${{S}}"; }}
src_configure() {{ append="-ffile-prefix-map=${{WORKDIR}}=."; export CXXFLAGS="${{CXXFLAGS}} ${{append}}"; }}
src_compile() {{ export ARCHES="${{AMDGPU_TARGETS}}"; {build} || die; }}
src_install() {{ export ARCHES="${{AMDGPU_TARGETS}}" DESTDIR="${{ED%/}}"; {install} || die; }}
"""
# A repository without a profile's usual content, and without eclasses.
PORTAGE = {
    "repo/profiles/repo_name": "demo\n",
    "repo/profiles/arch.list": "amd64\n",
    "repo/profiles/categories": "sci-libs\n",
    "repo/profiles/profiles.desc": "amd64 base stable\n",
    "repo/profiles/base/eapi": "8\n",
    "repo/profiles/base/make.defaults": 'ARCH="amd64"\nACCEPT_KEYWORDS="amd64"\nUSE_EXPAND="AMDGPU_TARGETS"\n',
    "repo/metadata/layout.conf": "masters =\nthin-manifests = true\nprofile-formats = portage-2\n",
}
MAKE_CONF = """\
CHOST="x86_64-pc-linux-gnu"
CXXFLAGS="-O2 -pipe"
FEATURES="network-sandbox pid-sandbox ipc-sandbox mount-sandbox userpriv -sandbox -usersandbox -strict"
PORTAGE_USERNAME="nobody"
PORTAGE_GRPNAME="nogroup"
PORTAGE_TMPDIR="{top}/tmp"
DISTDIR="{top}/distfiles"
PKGDIR="{top}/packages"
AMDGPU_TARGETS="{arches}"
{more}
"""


class Portage(Builder):
    """Portage as an ordinary user, with what it unshares. Its sandbox by LD_PRELOAD is Gentoo's alone. hipcache comes
    in by the hook of packaging/gentoo."""

    tools = ("unshare",)

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        ebuild = Path(sys.executable).with_name("ebuild")
        if not ebuild.exists():
            pytest.skip("Portage is not installed (scripts/setup.sh)")
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        top, arches = self.top(name, source), environ["ARCHES"]
        room = f"demo-1-r{entry.day}"
        hooked = "LAUNCHER" in environ
        flags = " ".join(f"amdgpu_targets_{arch}" for arch in arches.split())
        files = {
            **PORTAGE,
            f"repo/sci-libs/demo/{room}.ebuild": EBUILD.format(
                flags=flags, source=self.place / "source", build=source.build, install=source.install
            ),
            "etc/portage/make.conf": MAKE_CONF.format(
                top=top, arches=arches, more=f'HIPCACHE_DIR="{self.store}"' if hooked else ""
            ),
        }
        if hooked:
            files["etc/portage/bashrc"] = (PACKAGING / "gentoo/bashrc").read_text()
        for file, text in files.items():
            path = top / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (top / "etc/portage/make.profile").symlink_to(top / "repo/profiles/base")
        for directory in (self.store, top / "tmp"):
            directory.mkdir(exist_ok=True)
            shutil.chown(directory, "nobody", "nogroup")
        told = {
            "PATH": f"{Path(LAUNCHER[0]).parent}:{SYSTEM_PATH}",
            "PORTAGE_CONFIGROOT": str(top),
            "PORTAGE_REPOSITORIES": f"[DEFAULT]\nmain-repo = demo\n[demo]\nlocation = {top}/repo\nauto-sync = no\n",
            # make.conf has the store, as on Gentoo
            **{key: value for key, value in environ.items() if not key.startswith(("ARCHES", "CMAKE", "HIPCACHE"))},
        }
        self.run([ebuild, f"repo/sci-libs/demo/{room}.ebuild", "manifest", "compile", "install"], top, told)
        (made,) = top.glob(f"tmp/portage/sci-libs/{room}/image/**/{Path(source.made).name}")
        return made.read_bytes()


def member(archive: bytes, name: str) -> bytes:
    """The content of a file in an archive."""
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        for one in opened:
            if one.name.lstrip("./") == name:
                file = opened.extractfile(one)
                assert file
                return file.read()
    raise AssertionError(f"there is no {name} in the package")
