"""Packages by dpkg-buildpackage, for tests; hipcache's own among them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import hipcache
from packaging_rooms import CHECKOUT, Builder, Entry, Source, member

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
