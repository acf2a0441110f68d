"""A small run of the benchmark, and the pages that it writes. No test looks at how long something took."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import modules
import page
import pytest
import run
from build import Bench
from hip import Lab, settle
from phases import build_launcher_of_phases
from progress import Progress
from result import Result
from scenario import NAMES
from tool import Tool, base_environment
from trouble import BenchError
from workload import WORKLOADS, Architectures, Edit, Workload


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    """A log stays readable."""
    log, screen = io.StringIO(), Screen()
    for stream in (log, screen):
        progress = Progress(2, stream)
        progress.begin("one")
        progress.end("one", 1.25)
        progress.begin("two")
    assert log.getvalue() == "[  1/2] 0:00  one: 1.25 s\n"
    assert "one: 1.25" not in screen.getvalue()
    assert screen.getvalue().endswith("█" * 12 + "·" * 12 + " 1/2 0:00  two")


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


def tiny(tmp_path: Path) -> Workload:
    """A project of one small source."""

    def prepare(target: Path) -> None:
        (target / "tiny.hip").write_text(TINY)

    edits = {
        "host": (Edit("tiny.hip", '"first"', '"second words"', marker="second words"),),
        "comment": (Edit("tiny.hip", "", "// end\n"),),
        "device-if": (Edit("tiny.hip", "*out = 1;", "*out = 3;"),),
    }
    sets = Architectures(("gfx906", "gfx90a"), ("gfx906", "gfx90a", "gfx908"), "gfx1030", "gfx90a")
    flags = WORKLOADS["rocprim"].flags
    return Workload("tiny", "one kernel", prepare, ("tiny.hip",), "tiny.hip", sets, flags, edits)


needs_compiler = pytest.mark.skipif(
    not (shutil.which("clang++-15") and Path("/usr/include/hip/hip_runtime.h").exists()),
    reason="needs clang 15 and HIP",
)


@needs_compiler
def test_a_small_run_writes_figures_and_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the files: every scenario has its samples."""
    monkeypatch.setitem(WORKLOADS, "tiny", tiny(tmp_path))
    tools = "plain,ccache" if shutil.which("ccache") else "plain"
    # All cores: the choice of cores is the whole process's, and the tests go on after this one.
    command = ["--workload", "tiny", "--tools", tools, "--runs", "1", "--forms", "alone", "--cores", "0"]
    assert run.main([*command, "--out", str(tmp_path / "out")]) == 0
    written = Result.load(tmp_path / "out" / "results.json")
    for tool in tools.split(","):
        assert all(written.of("alone", name, tool) for name in NAMES)
    assert (tmp_path / "out" / "results.md").read_text() in capsys.readouterr().out


@needs_compiler
def test_an_object_of_the_source_before_the_edit_is_noticed(tmp_path: Path) -> None:
    """The benchmark does not praise a tool for a stale object."""
    bench = Bench(tiny(tmp_path), shutil.which("clang++-15") or "", "ninja", tmp_path, 1)
    tool = Tool(tmp_path / "home", base_environment({"PATH": "/usr/bin:/bin"}))
    bench.write_sources("")
    bench.build(tool, "alone", ["gfx906"])
    bench.inspect(tool, "alone", ["gfx906"], "")
    with pytest.raises(BenchError, match="was not made from the source as it is"):
        bench.inspect(tool, "alone", ["gfx906"], "host")
    with pytest.raises(BenchError, match="holds code for gfx906"):
        bench.inspect(tool, "alone", ["gfx906", "gfx90a"], "")


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
