"""Packages by makepkg, for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from packaging_rooms import Builder, Entry, Source, member

# An ordinary user, who need not be known here: makepkg does not run as root.
SOMEBODY = 54321
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
