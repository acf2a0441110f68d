"""Packages by Nix, for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hip import SESSION
from packaging_rooms import CHECKOUT, SYSTEM_PATH, Builder, Entry, Source

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
