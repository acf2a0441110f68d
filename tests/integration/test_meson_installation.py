"""How Meson finds an installed hipcache, and the subproject where there is none."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from pathlib import Path

import hipcache
import pytest
from cmake_project import CHECKOUT, HIPCACHE
from meson_project import BARE, MESONS, OPTION, PLAIN_PATH, SUBPROJECT, Project, each_meson, simple

pytestmark = pytest.mark.takes_turns("meson")


class TestInstallation:
    """Where the subproject and the program come from."""

    def copied(self, root: Path, meson: str) -> Project:
        """A project with a copy of the subproject, on a machine without hipcache."""
        shutil.copytree(SUBPROJECT, root / "subprojects" / "hipcache")
        return Project(root, meson, {"PATH": PLAIN_PATH}).write(simple())

    @each_meson
    def test_a_missing_hipcache_is_an_error_that_says_what_to_do(self, tmp_path: Path, meson: str) -> None:
        said = self.copied(tmp_path, meson).setup_fails(BARE)
        assert "hip_cache is true, but the program 'hipcache' was not found" in said
        assert "-Dhip_cache=false" in said

    def test_a_hipcache_that_does_not_start_is_an_error(self, tmp_path: Path) -> None:
        project = self.copied(tmp_path, "newest")
        broken = tmp_path / "bin" / "hipcache"
        broken.parent.mkdir()
        broken.write_text("#!/bin/sh\necho no module >&2\nexit 1\n")
        broken.chmod(0o755)
        project.environ["PATH"] = f"{broken.parent}:{PLAIN_PATH}"
        assert f"'{broken} --version' fails: no module" in project.setup_fails(BARE)

    def test_what_keeps_from_caching_is_said_at_setup(self, tmp_path: Path) -> None:
        project = Project(tmp_path, "newest").write(simple())
        project.environ["HIPCACHE_MAX_SIZE"] = "much"
        said = project.setup(BARE)
        assert "WARNING: hipcache: nothing is cached: environment variable 'HIPCACHE_MAX_SIZE': 'much'" in said

    @each_meson
    def test_without_the_cache_no_hipcache_is_needed(self, tmp_path: Path, meson: str) -> None:
        project = self.copied(tmp_path, meson)
        project.setup(BARE, "-Dhip_cache=false")
        assert project.built() == {"one.hip", "two.hip"}

    @each_meson
    def test_an_installed_subproject_takes_the_program_of_its_prefix(self, tmp_path: Path, meson: str) -> None:
        prefix = tmp_path / "a prefix"
        shutil.copytree(SUBPROJECT, prefix / "share" / "hipcache" / "meson")
        (prefix / "bin").mkdir()
        (prefix / "bin" / "hipcache").symlink_to(HIPCACHE)
        (tmp_path / "subprojects").mkdir()
        (tmp_path / "subprojects" / "hipcache").symlink_to(prefix / "share" / "hipcache" / "meson")
        project = Project(tmp_path, meson).write(simple())
        assert re.search(rf"cache\s*: {prefix}/bin/hipcache\n", project.setup(BARE))
        assert project.built() == {"one.hip", "two.hip"}
        assert project.units()["gfx906"] == (0, 2)

    @each_meson
    def test_the_wrap_file_unpacks_an_archive_and_provides_the_library(self, tmp_path: Path, meson: str) -> None:
        text = """\
project('wrapped', 'cpp')
executable('program', 'main.cpp', dependencies: dependency('amdhip64', version: '>=5'))
"""
        project = Project(tmp_path, meson).write({"meson.build": text, "meson_options.txt": OPTION})
        (tmp_path / "main.cpp").write_text("#include <hip/hip_runtime_api.h>\nint main() { return hipInit(0) == 1; }\n")
        (tmp_path / "subprojects" / "hipcache").unlink()
        wrap = SUBPROJECT / "hipcache.wrap"
        shutil.copy(wrap, tmp_path / "subprojects")
        commands = [line[6:] for line in wrap.read_text().splitlines() if re.match(r"#     ( |mkdir|tar)", line)]
        done = project.run("sh", "-ec", "\n".join(commands))
        assert done.returncode == 0, done.stdout
        project.setup("-Dhipcache:hip_architectures=gfx906")
        project.ninja()
        assert project.run("readelf", "--dynamic", project.build_dir / "program").stdout.count("[libamdhip64.so") == 1

    @each_meson
    def test_the_wrap_file_of_a_release_is_downloaded(self, tmp_path: Path, meson: str) -> None:
        """From this machine, by the name that a release would have; and not if it has other bytes."""
        served = tmp_path / "served"
        served.mkdir()
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}"
            subprocess.run([CHECKOUT / "scripts/meson_wrap.sh", url, served], check=True, timeout=60)
            declared = re.findall(r"^option\(.*\)$", (CHECKOUT / "docs/meson.md").read_text(), re.MULTILINE)
            project = Project(tmp_path / "project", meson)
            project.write({**simple(), "meson_options.txt": "\n".join(declared)})
            (project.root / "subprojects/hipcache").unlink()
            shutil.copy(served / "hipcache.wrap", project.root / "subprojects")
            done = project.run(MESONS[meson], "subprojects", "download")
            assert done.returncode == 0, done.stdout
            (archive,) = served.glob("*.tar.gz")
            unpacked = project.root / "subprojects" / archive.name.removesuffix(".tar.gz")
            assert all((unpacked / name).is_file() for name in ("meson.build", "LICENSE"))
            told = project.setup(BARE, "-Dhip_cache=false", "-Dhip_architectures=gfx1030")
            assert re.search(r"architectures *: gfx1030\n", told) and re.search(r"cache *: off", told), told
            archive.write_bytes(b"of somebody else")
            shutil.rmtree(project.root / "subprojects/packagecache")
            shutil.rmtree(unpacked)
            assert "hash" in project.run(MESONS[meson], "subprojects", "download").stdout.lower()
            assert not unpacked.exists()
            server.shutdown()

    def test_mesondir_is_the_directory_of_the_subproject(self, tmp_path: Path) -> None:
        assert Project(tmp_path, "newest").run(HIPCACHE, "--mesondir").stdout == f"{SUBPROJECT}\n"

    def test_the_subproject_has_the_version_of_the_python_package(self) -> None:
        assert (
            f"project('hipcache', 'cpp', version: '{hipcache.__version__}'" in (SUBPROJECT / "meson.build").read_text()
        )
