"""The recipes of packaging/: each is read by its own tool where that is here, its switch does what its page says, and
nothing where nobody has switched it on."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import hipcache
import pytest
import version
import yaml

PACKAGING = Path(__file__).parents[2] / "packaging"
LAUNCHERS = ("CMAKE_HIP_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
SHELL = (
    *("arch/PKGBUILD", "arch/hipcache.sh", "conda/activate.sh", "conda/deactivate.sh", "debian/debian/tests/smoke"),
    *("debian/pbuilderrc", "gentoo/bashrc", "gentoo/hipcache/hipcache-1.0.0.ebuild", "nix/setup-hook.sh"),
)


def needs(*tools: str) -> None:
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (scripts/setup.sh)")


def run(*words: str | Path, env: Mapping[str, str] | None = None, path: Path | None = None) -> str:
    """What a command prints; `path`: where its programs are looked for first."""
    found = f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin"
    environ = {"PATH": found, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **(env or {})}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with a program `hipcache`."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "hipcache").symlink_to("/bin/true")
    return directory


def shown(*names: str) -> str:
    """Shell text that prints those variables."""
    return "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names)


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


# Reading


@pytest.mark.parametrize("name", SHELL)
def test_a_shell_reads_each_script(name: str) -> None:
    run("bash", "-n", PACKAGING / name)


@pytest.mark.parametrize("name", ["fedora/hipcache.py", "spack/hipcache/package.py"])
def test_python_reads_each_recipe(name: str) -> None:
    ast.parse((PACKAGING / name).read_text())


def stand_in(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for name in modules:
        for part in (name[: at.start()] for at in re.finditer(r"\.|$", name)):
            monkeypatch.setitem(sys.modules, part, ModuleType(part))


@pytest.mark.parametrize("home", ["mockbuild.file_util", "mockbuild.util"])
def test_mocks_plugin_finds_what_it_calls_in_each_version(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    stand_in(monkeypatch, "mockbuild.mounts", home)
    vars(sys.modules["mockbuild.mounts"])["BindMountPoint"] = vars(sys.modules[home])["mkdirIfAbsent"] = str
    assert runpy.run_path(str(PACKAGING / "fedora/hipcache.py"))["mkdirIfAbsent"] is str


class PythonPackage:
    """Spack's, as far as the recipe needs it."""


@pytest.mark.parametrize("home", ["spack_repo.builtin.build_systems.python", "spack.package"], ids=["1.x", "0.2x"])
def test_spacks_recipe_finds_its_base_class_in_each_version(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    assert issubclass(spacks_recipe(monkeypatch, home), PythonPackage)


def spacks_recipe(monkeypatch: pytest.MonkeyPatch, home: str) -> Any:
    """The class of the recipe, with directives that do nothing. `home`: of the base class."""
    stand_in(monkeypatch, "spack.package", home)
    directives = {
        name: lambda *_, **__: lambda method: method for name in ("license", "version", "depends_on", "run_after")
    }
    vars(sys.modules["spack.package"]).update(directives)
    vars(sys.modules["spack.package"]).update(filter_file=_filter_file, join_path=os.path.join)
    vars(sys.modules[home])["PythonPackage"] = PythonPackage
    return runpy.run_path(str(PACKAGING / "spack/hipcache/package.py"))["Hipcache"]


def _filter_file(regex: str, text: str, path: str) -> None:
    Path(path).write_text(re.sub(regex, text, Path(path).read_text(), flags=re.MULTILINE))


class Spec(dict[str, SimpleNamespace]):
    def traverse(self, *, root: bool, deptype: str) -> list[SimpleNamespace]:
        return list(self.values())


def test_spacks_engine_finds_what_it_needs_without_pythonpath(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recipe = spacks_recipe(monkeypatch, "spack.package")()
    engine = tmp_path / "bin/hipcache-engine"
    for directory in (engine.parent, tmp_path / "yaml/lib/site-packages"):
        directory.mkdir(parents=True)
    engine.write_text("#!/usr/bin/python3\nimport re\nimport sys\nprint(sys.path[-1])\n")
    python = SimpleNamespace(platlib="lib/site-packages", purelib="lib/none")
    recipe.prefix = SimpleNamespace(bin=engine.parent)
    recipe.spec = Spec(
        {
            "python": SimpleNamespace(prefix="/no", package=python),
            "py-pyyaml": SimpleNamespace(prefix=tmp_path / "yaml"),
        }
    )
    recipe.name_dependencies()
    assert run("/usr/bin/python3", engine) == f"{tmp_path}/yaml/lib/site-packages\n"


@pytest.mark.parametrize("name", ["conda/recipe.yaml", "spack/packages.yaml"])
def test_yaml_is_read(name: str) -> None:
    assert isinstance(yaml.safe_load((PACKAGING / name).read_text()), dict)


@pytest.mark.parametrize("name", ["package.nix", "module.nix"])
def test_nix_reads_its_files(name: str) -> None:
    needs("nix-instantiate")
    run("nix-instantiate", "--parse", PACKAGING / "nix" / name)


def test_each_recipe_needs_zstd() -> None:
    """It is opened by its name, which recipes for systems without a common place replace."""
    recipes = ("debian/debian/control", "arch/PKGBUILD", "conda/recipe.yaml", "fedora/hipcache.spec")
    recipes += ("nix/package.nix", "guix/hipcache.scm", "spack/hipcache/package.py")
    recipes += ("gentoo/hipcache/hipcache-1.0.0.ebuild",)
    assert all("zstd" in (PACKAGING / name).read_text() for name in recipes)
    for name in ("base/compression.py", "native/direct/pack.c"):
        assert (PACKAGING.parent / "plugins/hipcache" / name).read_text().count('"libzstd.so.1"') == 1


def test_guixs_parentheses_match() -> None:
    text = re.sub(r'"(\\.|[^"\\])*"|;.*', "", (PACKAGING / "guix/hipcache.scm").read_text())
    assert text.count("(") == text.count(")") > 10


def test_perl_reads_sbuilds_configuration() -> None:
    needs("perl")
    text = (PACKAGING / "debian/sbuildrc").read_text()
    code = "our ($unshare_bind_mounts, $build_environment, $manual_depends) = ([{}], {A => 1}, []); "
    told = 'print "$build_environment->{HIPCACHE_DIR} $unshare_bind_mounts->[1]{mountpoint} @$manual_depends"'
    assert run("perl", "-Mstrict", "-we", f"{code} {text} {told}") == "/build/hipcache /build/hipcache hipcache"


def test_each_recipe_is_of_this_version() -> None:
    assert version.version() == hipcache.__version__
    for path, text in version.texts(hipcache.__version__).items():
        assert path.read_text() == text, "run .venv/bin/python scripts/version.py"
    assert f"hipcache ({hipcache.__version__}-" in (PACKAGING / "debian/debian/changelog").read_text()
    assert (PACKAGING / f"gentoo/hipcache/hipcache-{hipcache.__version__}.ebuild").is_file()


def test_the_changes_have_one_date_everywhere() -> None:
    heading = f"## {hipcache.__version__} ("
    (when,) = re.findall(
        rf"^{re.escape(heading)}(.+)\)$", (PACKAGING.parent / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    day = date.fromisoformat(when)
    debian, fedora = (PACKAGING / name for name in ("debian/debian/changelog", "fedora/hipcache.spec"))
    assert f"  {day:%a, %d %b %Y} " in debian.read_text().split("\n\n -- ")[1].splitlines()[0]
    assert fedora.read_text().split("%changelog\n")[1].startswith(f"* {day:%a %b %d %Y} ")


def test_each_recipe_names_the_place_that_pyproject_does() -> None:
    """One line to change when there is a public place: this test then names the files that still have the old one."""
    place = re.search(r'^Homepage = "(.+)"$', (PACKAGING.parent / "pyproject.toml").read_text(), re.MULTILINE)
    assert place
    for path in PACKAGING.rglob("*"):
        text = path.read_text() if path.is_file() else ""
        found = re.findall(r"https?://[^\s'\"]*hipcache[^\s'\"]*|https?://example[^\s'\"]*", text)
        assert [url for url in found if not url.startswith(place[1])] == [], path


def test_each_folder_has_a_page_of_10_to_20_lines_and_is_listed() -> None:
    index = (PACKAGING / "README.md").read_text()
    for folder in sorted(path for path in PACKAGING.iterdir() if path.is_dir()):
        lines = (folder / "README.md").read_text().splitlines()
        assert 10 <= len(lines) <= 20, folder.name
        assert f"({folder.name}/README.md)" in index
        assert "ot run" in "\n".join(lines), "the page says what was not run"


# Switches


def test_a_debian_rules_file_that_includes_the_switch(programs: Path, tmp_path: Path) -> None:
    """The file looks for /usr/bin/hipcache, for which the test has one of its own."""
    needs("make")
    text = (PACKAGING / "debian/hipcache.mk").read_text()
    switch = tmp_path / "hipcache.mk"
    switch.write_text(text.replace("/usr/bin/hipcache", str(programs / "hipcache")))
    rules = tmp_path / "rules"
    rules.write_text(f"-include {switch}\nall:\n\t@{shown(*LAUNCHERS).replace('$', '$$')}\n")
    told = variables(run("make", "-f", rules, env={"HIPCACHE_DIR": "/store"}))
    assert told == dict.fromkeys(LAUNCHERS, "hipcache")
    assert variables(run("make", "-f", rules)) == dict.fromkeys(LAUNCHERS, "unset")
    switch.write_text(text)
    if not Path("/usr/bin/hipcache").exists():
        assert variables(run("make", "-f", rules, env={"HIPCACHE_DIR": "/store"})) == dict.fromkeys(LAUNCHERS, "unset")


def test_fedoras_macro() -> None:
    needs("rpm")
    macros = PACKAGING / "fedora/macros.hipcache"

    def built(*defined: str, **env: str) -> dict[str, str]:
        script = run("rpm", "--load", str(macros), *defined, "--eval", "%{?hipcache_env}")
        return variables(run("sh", "-c", f"{script}\n{shown('HIPCACHE_DIR', *LAUNCHERS)}", env=env))

    on = dict.fromkeys(LAUNCHERS, "hipcache")
    assert built() == {"HIPCACHE_DIR": "unset", **dict.fromkeys(LAUNCHERS, "unset")}
    assert built(HIPCACHE_DIR="/a") == {"HIPCACHE_DIR": "/a", **on}
    assert built("--define", "_hipcache_dir /b") == {"HIPCACHE_DIR": "/b", **on}
    assert run("rpm", "--eval", "%{?hipcache_env}") == "\n"


def test_archs_drop_in(programs: Path) -> None:
    needs("makepkg")
    library = Path("/usr/share/makepkg/util/option.sh")
    script = (
        f"build_options=(); buildenv_functions=(); options=(); source {library}; source {PACKAGING}/arch/hipcache.sh\n"
    )
    script += f'"${{buildenv_functions[0]}}"; echo options=$build_options; {shown(*LAUNCHERS)}'
    for mark, value in (("", "hipcache"), ("!", "unset")):
        told = variables(run("bash", "-c", f"BUILDENV=({mark}hipcache); {script}", path=programs))
        assert told == {"options": "hipcache", **dict.fromkeys(LAUNCHERS, value)}


def test_gentoos_hook_opens_the_sandbox_for_packages_with_architectures(programs: Path) -> None:
    script = (
        'addread() {{ echo "read=$1"; }}; addwrite() {{ echo "write=$1"; }}; IUSE="{}"\n'
        f"source {PACKAGING}/gentoo/bashrc; pre_src_configure; echo launcher=$CMAKE_HIP_COMPILER_LAUNCHER"
    )
    rocm, store = "test +amdgpu_targets_gfx906 amdgpu_targets_gfx90a", {"HIPCACHE_DIR": "/store"}
    on = {"read": "/store", "write": "/store", "launcher": "hipcache"}
    assert variables(run("bash", "-c", script.format(rocm), env=store, path=programs)) == on
    assert variables(run("bash", "-c", script.format("test"), env=store, path=programs)) == {"launcher": ""}
    assert variables(run("bash", "-c", script.format(rocm), path=programs)) == {"launcher": ""}


def test_nixs_hook_needs_a_store_that_may_be_written(tmp_path: Path) -> None:
    script = (
        f"preConfigureHooks=(); source {PACKAGING}/nix/setup-hook.sh; ${{preConfigureHooks[0]}}; {shown(*LAUNCHERS)}"
    )
    assert set(variables(run("bash", "-c", script, env={"HIPCACHE_DIR": str(tmp_path)})).values()) == {"hipcache"}
    assert set(variables(run("bash", "-c", script, env={"HIPCACHE_DIR": "/no/such"})).values()) == {"unset"}


def test_condas_scripts_switch_on_and_off_again() -> None:
    place = PACKAGING / "conda"
    script = f". {place}/activate.sh; {shown(*LAUNCHERS)}; . {place}/deactivate.sh; {shown(LAUNCHERS[0])}"
    env = {"CONDA_PREFIX": "/env", "CONDA_HIPCACHE": "1"}
    lines = run("sh", "-c", script, env=env).splitlines()
    assert lines == [*(f"{name}=/env/bin/hipcache" for name in LAUNCHERS), f"{LAUNCHERS[0]}=unset"]
    assert "/env" not in run("sh", "-c", script, env={"CONDA_PREFIX": "/env"})
    mine = {"variable": "mine", "value": "mine"}  # conda sources the scripts in the user's shell
    assert variables(run("sh", "-c", f"{script}; {shown(*mine)}", env={**env, **mine})).items() >= mine.items()


def test_a_dockerfiles_line_mounts_the_store_that_it_names(programs: Path) -> None:
    """The builder's part is read, and the shell's is run, with a cmake that tells what it is given."""
    (programs / "cmake").write_text(f'#!/bin/sh\necho "ran=$1"; {shown("HIPCACHE_DIR", *LAUNCHERS)}\n')
    (programs / "cmake").chmod(0o755)
    text = (PACKAGING / "containers/Dockerfile").read_text().replace("\\\n", "")
    (line,) = re.findall(r"^RUN --mount=type=cache,(\S+) +(.*)$", text, re.MULTILINE)
    options = dict(option.split("=") for option in line[0].split(","))
    assert options == {"id": "hipcache", "target": "/var/cache/hipcache", "sharing": "shared"}
    assert f"--mount=type=cache,{line[0]} " in (PACKAGING / "containers/README.md").read_text()
    told = [f"HIPCACHE_DIR={options['target']}", *(f"{name}=hipcache" for name in LAUNCHERS)]
    expected = [word for verb in ("-S", "--build", "--install") for word in (f"ran={verb}", *told)]
    assert run("sh", "-c", line[1], path=programs).splitlines() == expected
