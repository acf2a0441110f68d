"""A small run of the benchmark, and the pages that it writes. No test looks at how long something took."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import modules
import page
import pytest
import run
from build import Bench
from hip import Lab, settle
from phases import build_launcher_of_phases
from rows import PROGRAMS, ROWS
from tool import Tool, base_environment
from trouble import BenchError
from workload import Workload, rocprim

# Without HIP's headers, which take most of the time.
TINY = """struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
__attribute__((global)) void kernel(int* out)
{
#if defined(__gfx90a__)
    *out = 1;
#else
    *out = 2;
#endif
}
const char* words() { return "first"; }
"""


def repository(tmp_path: Path) -> Path:
    """A repository of two programs, each of one small source."""
    place = tmp_path / "collection"
    for name in ("a-hip", "b-hip"):
        (place / "src" / name).mkdir(parents=True)
        (place / "src" / name / "tiny.hip").write_text(TINY)
    me = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "sources"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


needs_compiler = pytest.mark.skipif(
    not (shutil.which("clang++-15") and Path("/usr/include/hip/hip_runtime.h").exists()),
    reason="needs clang 15 and HIP",
)


@needs_compiler
def test_a_small_run_writes_figures_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the command line to the files: every row of the programs has its samples, and every object is right."""
    tools = "plain,ccache" if shutil.which("ccache") else "plain"
    names = [row.name for row in ROWS if row.workload == PROGRAMS]
    command = ["--collection", str(repository(tmp_path)), "--compiler", "clang++-15", "--archs", "gfx906,gfx90a"]
    # All cores: the choice of cores is the whole process's, and the tests go on after this one.
    command += ["--tools", tools, "--rows", ",".join(names), "--cores", "0", "--out", str(tmp_path / "out")]
    assert run.main(command) == 0
    written = json.loads((tmp_path / "out" / "programs-clang++-15.json").read_text())
    assert written["sources"] == {"programs": ["src/a-hip/tiny.hip"]}
    for tool in tools.split(","):
        taken = {sample["row"] for sample in written["samples"] if sample["tool"] == tool}
        spared = {row.name for row in ROWS if row.same_as} if tool == "plain" else set()
        assert taken == set(names) - spared
    assert not any(sample["differing"] for sample in written["samples"])
    assert (tmp_path / "out" / "programs-clang++-15.md").read_text() in capsys.readouterr().out


@needs_compiler
def test_an_object_of_the_source_before_the_edit_is_noticed(tmp_path: Path) -> None:
    """The benchmark does not praise a tool for a stale object."""

    def prepare(place: Path) -> None:
        place.mkdir()
        (place / "tiny.hip").write_text(TINY)

    workload = Workload("tiny", prepare, ("tiny.hip",), rocprim().flags)
    bench = Bench(workload, run.architectures("gfx906"), shutil.which("clang++-15") or "", "ninja", tmp_path, 1)
    bench.prepare()
    tool = Tool(tmp_path / "home", base_environment({"PATH": "/usr/bin:/bin"}))
    made = {}
    for name in ("cold", "host"):
        row = next(row for row in ROWS if row.name == name)
        bench.write_sources(row)
        bench.build(tool, row)
        made[name] = bench.objects(tool, row)
    assert bench.differing(tool, row, made["host"], made["host"]) == {}
    assert bench.differing(tool, row, made["cold"], made["host"]) == {"tiny.hip.o": "differs"}


def test_a_page_is_written_whole_with_what_is_at_most_allowed(tmp_path: Path) -> None:
    places = []

    def measure(directory: Path) -> tuple[dict[str, object], str]:
        places.append(directory)
        cells = [
            ("fast", *page.checked(0.1, 0.15)),
            ("slow", *page.checked(0.2, 0.15)),
            ("cold", *page.checked(1, None)),
        ]
        return {"links": []}, "\n".join(page.table(("link", "at most", ""), cells)) + "\n"

    assert page.write("link", tmp_path, measure) == 0
    assert (tmp_path / "link.md").read_text() == (
        "| link | at most | |\n|---|---|---|\n| fast | 0.15 | ok |\n| slow | 0.15 | MISSED |\n| cold | | |\n"
    )
    assert set(json.loads((tmp_path / "link.json").read_text())) == {"machine", "links"}
    assert not places[0].exists()


def test_a_measurement_that_ends_early_writes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(directory: Path) -> tuple[dict[str, object], str]:
        raise BenchError("no clang", "install it")

    assert page.write("link", tmp_path, measure) == 1
    assert capsys.readouterr().err == "bench: no clang\ninstall it\n"
    assert not list(tmp_path.iterdir())


def test_a_page_of_modules_shows_each_build_beside_plain_iree_compile() -> None:
    rows = [modules.Row("cold", 40.0, 41.0, 1.025, None), modules.Row("unchanged", 40.0, 1.2, 0.03, 0.2)]
    text = modules.render(rows, 3)
    assert "| cold | 40.00 | 41.00 | 1.02 | | |" in text
    assert "| unchanged | 40.00 | 1.20 | 0.03 | 0.2 | ok |" in text


def test_the_program_of_the_modules_has_a_function_for_each_layer() -> None:
    assert modules.program(3).count("func.func @layer") == 3


def test_a_launcher_with_phases_tells_them_of_a_direct_hit(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, "19")
    lab.warm()
    settle()
    assert lab.hipcache(*lab.words()).status == 0
    program = build_launcher_of_phases(tmp_path / "phases")
    ended = lab.run([program, *lab.words()])
    phases = [line.split()[1] for line in ended.err.decode().splitlines()]
    assert (ended.status, phases) == (0, ["start", "key", "record", "state", "outputs", "count"])
