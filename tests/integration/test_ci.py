"""docs/ci.md and the GitHub action: their shell lines are run, twice, as two jobs, with a small HIP project."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cmake_project import CHECKOUT, COMPILER, PROGRAMS, TOOLCHAIN, simple_project
from hip import know_tools, write_files

PAGE = (CHECKOUT / "docs/ci.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
START, FINISH = CHECKOUT / "action.yml", CHECKOUT / ".github/actions/finish/action.yml"
PROJECTS = ("TheRock", "PyTorch", "vLLM", "llama.cpp", "conda-forge")


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)


class Machine:
    """A runner: directories of its own, and the variables that its steps set for those behind them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        for name in ("temp", "home"):
            (root / name).mkdir(parents=True)
        files = simple_project(way_in='set(CMAKE_HIP_ARCHITECTURES "gfx906")')
        write_files(self.workspace, files)
        self.environ = {
            "PATH": f"{PROGRAMS}:/usr/bin:/bin",
            "HOME": str(root / "home"),
            "HIP_PLATFORM": "amd",
            "CMAKE_TOOLCHAIN_FILE": str(TOOLCHAIN),
            "CMAKE_GENERATOR": "Ninja",
            "HIPCACHE_RESIDENT": "0",
            "HIPCACHE_DIR": str(root / "store"),
        }

    def run(self, script: str, **more: str) -> str:
        environ = {**self.environ, **more}
        if "HIPCACHE_DIR" in environ:
            know_tools(environ)
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.workspace,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def compiles(self, **more: str) -> dict[str, int]:
        counts: dict[str, int] = json.loads(self.run("hipcache stats --json", **more))["compiles"]
        return counts


def compile_as_cxx(machine: Machine) -> None:
    """Give it a project of the other kind: its C++ is HIP, as by hip::device or CXX=hipcc."""
    lists = """\
cmake_minimum_required(VERSION 3.21)
project(simple LANGUAGES CXX)
add_library(kernels STATIC one.cpp)
target_compile_options(kernels PRIVATE -x hip --offload-arch=gfx906 -nogpulib -nogpuinc)
"""
    source = (machine.workspace / "one.hip").read_text()
    write_files(machine.workspace, {"CMakeLists.txt": lists, "one.cpp": source})
    machine.environ |= {"CXX": COMPILER, "CMAKE_TOOLCHAIN_FILE": ""}


#: What makes the project of a machine one of that kind.
KINDS: dict[str, Callable[[Machine], None]] = {"hip": lambda _: None, "cxx": compile_as_cxx}


class Runner(Machine):
    """GitHub's, as far as its manual tells of files and variables."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        del self.environ["HIPCACHE_DIR"], self.environ["HIPCACHE_RESIDENT"]
        self.environ |= {
            "RUNNER_TEMP": str(root / "temp"),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_ACTION_PATH": str(CHECKOUT),
        }
        self.summary = root / "summary.md"
        for name in ("ENV", "PATH", "STEP_SUMMARY"):
            self.environ[f"GITHUB_{name}"] = str(root / f"github_{name.lower()}")
        self.environ["GITHUB_STEP_SUMMARY"] = str(self.summary)

    def action(self, path: Path, **given: str) -> list[str]:
        """Run its shell steps; what it uses besides."""
        document = yaml.safe_load(path.read_text())
        inputs = {name: str(one["default"]) for name, one in document["inputs"].items()} | given
        used = []
        for step in document["runs"]["steps"]:
            if "uses" in step:
                used.append(step["uses"])
                continue
            env = {name: _filled(text, inputs) for name, text in step.get("env", {}).items()}
            self.step(step["run"], **env)
        return used

    def finish(self) -> str:
        """What the shell steps of the last action print."""
        steps = yaml.safe_load(FINISH.read_text())["runs"]["steps"]
        return "".join(self.run(step["run"]) for step in steps if "run" in step)

    def step(self, script: str, **env: str) -> None:
        self.run(script, **env)
        file = Path(self.environ["GITHUB_ENV"])
        if file.exists():
            self.environ |= dict(line.split("=", 1) for line in file.read_text().splitlines())


def _filled(text: str, inputs: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


def _workflow() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(blocks("GitHub Actions", "yaml")[0])
    return document["jobs"]["build"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_job_on_github_is_served_by_the_first_ones_store(tmp_path: Path, kind: str) -> None:
    steps = _workflow()["steps"]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert uses == ["actions/checkout@v4", "OWNER/hipcache@main", "OWNER/hipcache/.github/actions/finish@main"]
    (given,) = (step["with"] for step in steps if "with" in step)
    rates = []
    for number in (1, 2):
        runner = Runner(tmp_path / str(number))
        KINDS[kind](runner)
        if number == 2:
            # As the cache hands it on: other inodes, the same times.
            shutil.copytree(tmp_path / "1/temp/hipcache-store", tmp_path / "2/temp/hipcache-store")
        assert runner.action(START, **given) == ["actions/cache/restore@v4"]
        assert runner.environ["HIPCACHE_MAX_SIZE"] == "2GiB"
        for step in steps:
            if "run" in step:
                runner.step(step["run"])
        assert runner.action(FINISH) == ["actions/cache/save@v4"]
        rates.append(re.findall(r"^\| hit rate \| ([\d.]+) % \|$", runner.summary.read_text(), re.MULTILINE))
    assert rates[0] != ["100.0"]
    assert rates[1] == ["100.0"], runner.summary.read_text()
    assert "::warning::" not in runner.finish()


def test_the_finish_step_warns_where_no_compile_was_seen(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.action(START)
    assert "::warning::hipcache saw no compile" in runner.finish()


@pytest.mark.parametrize("has_venv", [True, False])
def test_the_action_installs_hipcache_where_there_is_none(tmp_path: Path, *, has_venv: bool) -> None:
    """With a Python that says what it is asked for: `tests/integration/test_wheel.py` installs in earnest."""
    runner = Runner(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "mkdir", "cp", "chmod", "rm"):
        (programs / name).symlink_to(f"/bin/{name}")
    told = tmp_path / "told"
    (programs / "python3").write_text(
        f'#!/bin/bash\necho "python3 $*" >> {told}\n'
        + ('if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/pip"; fi\n' if has_venv else "[ $# != 3 ]\n")
    )
    (programs / "python3").chmod(0o755)
    (step,) = (s for s in yaml.safe_load(START.read_text())["runs"]["steps"] if s["name"] == "Install hipcache")
    runner.run(step["run"], PATH=str(programs))
    place = f"{tmp_path}/temp/hipcache"
    install = ["-m venv {}", "install --quiet {clone}"]
    if not has_venv:
        install = ["-m venv {}", "-m pip install --quiet --target {} {clone}"]
    assert told.read_text().splitlines() == [f"python3 {one}".format(place, clone=CHECKOUT) for one in install]
    assert Path(runner.environ["GITHUB_PATH"]).read_text() == f"{place}/bin\n"


@pytest.mark.parametrize("path", [START, FINISH], ids=["start", "finish"])
def test_nothing_that_somebody_else_writes_gets_into_a_shell(path: Path) -> None:
    """An expression in `run` is pasted into the script: a branch's name could be a command."""
    document = yaml.safe_load(path.read_text())
    for step in document["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "shell" in step or "uses" in step
        for name in re.findall(r"inputs\.([\w-]+)", json.dumps(step)):
            assert name in document["inputs"]


def test_restore_and_save_speak_of_the_same_cache() -> None:
    restored, saved = (
        next(step["with"] for step in yaml.safe_load(path.read_text())["runs"]["steps"] if "uses" in step)
        for path in (START, FINISH)
    )
    assert (restored["key"], restored["path"]) == (saved["key"], saved["path"])
    assert restored["key"].startswith(restored["restore-keys"])
    assert restored["key"] != restored["restore-keys"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_job_on_gitlab_is_served_by_the_first_ones_store(tmp_path: Path, kind: str) -> None:
    job = yaml.safe_load(blocks("GitLab", "yaml")[0])["build"]
    stores = []
    for number in (1, 2):
        machine = Machine(tmp_path / str(number))
        KINDS[kind](machine)
        for name, value in job["variables"].items():
            machine.environ[name] = value.replace("$CI_PROJECT_DIR", str(machine.workspace))
        stores.append(Path(machine.environ["HIPCACHE_DIR"]))
        assert [machine.workspace / path for path in job["cache"]["paths"]] == [stores[-1]]
        if number == 2:
            shutil.copytree(stores[0], stores[1])
        before = machine.compiles()
        machine.run("\n".join(job["script"]))
        machine.run("\n".join(job["after_script"]))
    assert machine.compiles()["hit"] > before["hit"]
    assert machine.compiles()["miss"] == before["miss"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_docker_build_is_served_by_the_first_ones_store(tmp_path: Path, kind: str) -> None:
    text = blocks("Docker", "dockerfile")[0].replace("\\\n", "")
    (variables,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    ((mount, script),) = re.findall(r"^RUN --mount=(\S+) +(.*)$", text, re.MULTILINE)
    environ = dict(word.split("=") for word in variables.split())
    assert f"target={environ['HIPCACHE_DIR']}," in mount
    environ["HIPCACHE_DIR"] = str(tmp_path / "store")
    machine = Machine(tmp_path)
    KINDS[kind](machine)
    machine.run(script, **environ)
    first = machine.compiles(**environ)
    shutil.rmtree(machine.workspace / "build")  # a layer that is built anew, at the same place
    machine.run(script, **environ)
    counts = machine.compiles(**environ)
    assert counts["hit"] > first["hit"]
    assert (counts["miss"], counts["partial"]) == (first["miss"], first["partial"])
    machine.run(blocks("Docker", "sh")[0], **environ)


@pytest.mark.parametrize("project", PROJECTS)
def test_the_lines_of_a_project_send_its_compiles_through_hipcache(tmp_path: Path, project: str) -> None:
    (script,) = blocks(project, "sh")
    machine = Machine(tmp_path)
    if project == "TheRock":
        compile_as_cxx(machine)
    if project == "PyTorch":  # the language HIP; and hipcc of 7.13 and newer, in short
        machine.run(f"{script}\ncmake -S . -B build && cmake --build build")
        assert machine.compiles()["miss"] >= 1
        words = "-x hip --offload-arch=${PYTORCH_ROCM_ARCH%%;*} -nogpulib -nogpuinc -c one.hip -o one.o"
        script += f"\n$HIP_CLANG_LAUNCHER /usr/bin/clang++-15 {words}"
    output = machine.run(script)
    counts = machine.compiles()
    assert counts["miss"] >= (2 if project == "PyTorch" else 1), output


@pytest.mark.parametrize("project", PROJECTS)
def test_a_launcher_is_one_word(project: str) -> None:
    """Projects hand it on: TheRock's rocgdb gives it to a `configure`, where a CMake list would be two words."""
    launchers = re.findall(r"_LAUNCHER=(\S+)", SECTIONS[project])
    assert launchers or project == "conda-forge"
    assert [one for one in launchers if ";" in one] == []


def test_vllms_image_gets_the_launcher_and_a_store_in_a_cache_mount(tmp_path: Path) -> None:
    text = blocks("vLLM", "dockerfile")[0].replace("\\\n", "")
    environ = dict(word.split("=", 1) for word in shlex.split(text.splitlines()[0])[1:])
    (script,) = blocks("vLLM", "sh")
    assert environ["CMAKE_ARGS"] in script
    (mount,) = re.findall(r"id=vllm-rocm-hipcache,target=(\S+)", text)
    assert mount == environ["HIPCACHE_DIR"]
    machine = Machine(tmp_path)
    machine.run("cmake -S . -B build $CMAKE_ARGS && cmake --build build", CMAKE_ARGS=environ["CMAKE_ARGS"])
    assert machine.compiles()["miss"] >= 1


def test_every_block_of_the_page_is_run_or_read() -> None:
    """None is forgotten: the languages, and how many of each."""
    found = re.findall(r"^```(\w*)$", PAGE, re.MULTILINE)
    counted = {language: found.count(language) for language in set(found) - {""}}
    assert counted == {"yaml": 3, "dockerfile": 2, "sh": 1 + len(PROJECTS)}
    remote = yaml.safe_load(blocks("GitHub Actions", "yaml")[1])
    assert set(remote["env"]) == {"HIPCACHE_REMOTE"}


def test_the_page_names_settings_that_exist() -> None:
    from hipcache.config.settings import VARIABLES

    for text in (PAGE, START.read_text(), FINISH.read_text()):
        assert set(re.findall(r"HIPCACHE_[A-Z_]+", text)) <= {*VARIABLES}
    assert os.access(CHECKOUT / "docs/ci.md", os.R_OK)
