"""Packages by Portage, for tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hip import LAUNCHER
from packaging_rooms import PACKAGING, SYSTEM_PATH, Builder, Entry, Source

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
