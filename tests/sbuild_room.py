"""sbuild in a clean root, for tests: no network, the packages of Debian alone, and a user of a shifted number.

sbuild takes root's part in a user namespace, for which an ordinary user needs numbers to share out (/etc/subuid) and a
name. Both are shown to it in a mount namespace of its own: no file of the system's is written.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from dpkg_room import Dpkg, hipcache_of_debian
from hip import SESSION
from packaging_rooms import PACKAGING, Entry, Source

USER = 54322
# The first number of the 65,536 that are the clean root's.
SHIFTED = 1_000_000
DECOYS = {
    "passwd": f"packager:x:{USER}:{USER}::/nonexistent:/bin/sh\n",
    "group": f"packager:x:{USER}:\n",
    "subuid": f"packager:{SHIFTED}:65536\n",
    "subgid": f"packager:{SHIFTED}:65536\n",
}
AS_PACKAGER = f"""\
for file in passwd group subuid subgid; do mount --bind "$0/$file" "/etc/$file" || exit 32; done
exec setpriv --reuid={USER} --regid={USER} --clear-groups "$@"
"""
# What is in the clean root beside a compiler for C: sbuild would install these if it had a network.
PACKAGES = (
    *("debhelper", "fakeroot", "cmake", "python3-yaml"),
    *(
        "clang-19",
        "clang-tools-19",
        "lld-19",
        "llvm-19",
        "hipcc",
        "libamdhip64-dev",
        "librocprim-dev",
        "rocm-device-libs",
    ),
)
SBUILDRC = """\
$chroot_mode = 'unshare';
$unshare_tmpdir_template = '{place}/sbuild.XXXXXXXXXX';
$apt_update = $apt_upgrade = $apt_distupgrade = 0;
$run_lintian = $run_piuparts = $run_autopkgtest = 0;
$nolog = 1;
$extra_packages = ['{hipcache}'];
$build_environment = {{ {environ} }};
"""


class Sbuild(Dpkg):
    """An ordinary user's sbuild, with the fragment of packaging/debian and hipcache's own package."""

    tools = ("dpkg-buildpackage", "dh", "sbuild", "mmdebstrap", "newuidmap", "ip")
    user = USER

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        self.store = place / "home/.cache/hipcache-sbuild"
        decoys = place / "etc"
        decoys.mkdir()
        try:
            for name, more in DECOYS.items():
                (decoys / name).write_text((Path("/etc") / name).read_text() + more)
            self.as_packager(["unshare", "--map-root-user", "--map-auto", "--pid", "--fork", "true"], place)
        except (OSError, AssertionError) as error:
            pytest.skip(f"an ordinary user has no namespaces here, and so no sbuild: {error}")
        self.clean, self.package = self._made_once()

    def _made_once(self) -> tuple[Path, Path]:
        """(The clean root as an archive, hipcache's package), which all tests of this run share."""
        shared = SESSION / "sbuild"
        shared.mkdir(exist_ok=True)
        clean = shared / "root.tar"
        with (shared / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not clean.exists():
                own = self.place / "hipcache"
                own.mkdir()
                shutil.copy(hipcache_of_debian(Dpkg(own), own), shared)
                self._make_root(clean)
        (package,) = shared.glob("hipcache_*.deb")
        return clean, package

    def _make_root(self, clean: Path) -> None:
        wanted = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
        wanted += ["Created-By: Packages", "Origin: Debian"]
        targets = subprocess.run(wanted, capture_output=True, text=True, check=True).stdout.splitlines()
        if not targets:
            pytest.skip("apt knows no packages of Debian's here (apt-get update)")
        being_made = self.place / clean.name
        argv = ["mmdebstrap", "--mode=unshare", "--variant=buildd", f"--include={','.join(PACKAGES)}"]
        suite = min((target.split()[1] for target in targets), key=len)  # and not its -updates
        argv += [suite, being_made, *(f"deb {target}" for target in dict.fromkeys(targets))]
        try:
            self.as_packager(argv, self.place / "home", network=True)
        except AssertionError as error:
            if "Failed to fetch" in str(error) or "resolving" in str(error):
                pytest.skip(f"the packages of a clean root cannot be had here: {error}")
            raise
        shutil.move(being_made, clean)

    def as_packager(self, argv: Sequence[str | Path], cwd: Path, *, network: bool = False) -> bytes:
        namespaces = ["--mount"] if network else ["--mount", "--net"]
        return self.run(
            ["unshare", *namespaces, "sh", "-c", AS_PACKAGER, self.place / "etc", *argv], cwd, {}, privileged=True
        )

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        return self._build(name, source, entry, environ, "1;\n")

    def cached(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        if not self.store.exists():
            for directory in (self.store.parent, self.store):
                directory.mkdir(exist_ok=True)
            self._own(self.store.parent, self.store)
            self.store.chmod(0o2777)  # as the page says
        told = {**environ, "LAUNCHER": "hipcache"}  # of a makefile; CMake's are in the fragment
        made = self._build(name, source, entry, told, (PACKAGING / "debian/sbuildrc").read_text())
        owners = {path.stat().st_uid for path in self.store.glob("v2/**/*") if path.is_file()}
        assert any(SHIFTED < owner < SHIFTED + 65536 for owner in owners), "the clean root's user has written"
        return made

    def _build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str], more: str) -> bytes:
        tree = self.debianised(name, source, entry)
        top = tree.parent
        self.run(["tar", "--exclude=debian", "-czf", "demo_1.orig.tar.gz", tree.name], top, {})
        self.run(["dpkg-source", "-b", tree.name], top, {})
        (described,) = top.glob("*.dsc")
        variables = ", ".join(f"'{key}' => '{value}'" for key, value in {**environ, "HIP_PLATFORM": "amd"}.items())
        settings = SBUILDRC.format(place=self.place, hipcache=self.package, environ=variables)
        (self.place / "home/.sbuildrc").write_text(settings + more)
        self._own(top)
        self.as_packager(["sbuild", "--dist=unstable", f"--chroot={self.clean}", described], top)
        return self.made(top, source)
