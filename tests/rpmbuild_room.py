"""Packages by rpmbuild, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging_rooms import Builder, Entry, Source, member

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
