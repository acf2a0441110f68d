"""The launcher acts as the compiler: spellings, dependency files, switches."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace as with_changes

import pytest
from hip import ARCHS, BARE, CUID, FULL, HIT, LAUNCHER, LLVM, MISS, Lab, kernel
from hipcache.build.depfile import parse

pytestmark = pytest.mark.archs(1)

# Spellings


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "archs",
    [
        ["--offload-arch=gfx906"],
        ["--offload-arch=gfx906,gfx90a"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a"],
        ["--cuda-gpu-arch=gfx906"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a", "--no-offload-arch=gfx906"],
        ["--offload-arch=gfx90a:sramecc+:xnack-"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_architectures_is_recognised(lab: Lab, archs: list[str]) -> None:
    first = lab.compile(*archs)
    assert (first.status, first.outcome) == (0, MISS), first.messages
    assert lab.compile(*archs).outcome == HIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["k.hip", "k.cu", "k.cpp", "k.cc", "k"])
@pytest.mark.parametrize(
    "language", [["-x", "hip"], ["-xhip"], ["--language=hip"], ["--language", "hip"]], ids=" ".join
)
def test_every_spelling_of_the_language_is_recognised(lab: Lab, name: str, language: list[str]) -> None:
    if not FULL and name not in ("k.cu", "k.hip") and language != ["-x", "hip"]:
        pytest.skip("one more combination: make test-full")
    lab.write(name, kernel("1"))
    first = lab.compile(*language, source=name)
    assert (first.status, first.outcome) == (0, MISS), first.messages
    assert lab.compile(*language, source=name).outcome == HIT


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "end",
    [
        ["-c", "k.hip", "-oout.o"],
        ["-c", "-o", "out.o", "--", "k.hip"],
        ["k.hip", "-o", "out.o", "-c"],
        ["--compile", "k.hip", "--output=out.o"],
        ["--compile", "k.hip", "--output", "out.o"],
        ["-x", "c++", "-x", "hip", "-c", "k.hip", "-o", "other.o", "-o", "out.o"],
    ],
    ids=" ".join,
)
def test_every_order_and_spelling_of_source_and_output_is_recognised(lab: Lab, end: list[str]) -> None:
    command = [lab.compiler, *ARCHS, *BARE, CUID, *end]
    first, second = lab.same(command), lab.same(command)
    assert (first.outcome, second.outcome) == (MISS, HIT)


@pytest.mark.archs(2)
def test_without_an_output_name_the_object_is_called_after_the_source(lab: Lab) -> None:
    command = [lab.compiler, *ARCHS, *BARE, CUID, "-c", "k.hip"]
    assert lab.same(command, output="k.o").outcome == MISS
    assert lab.same(command, output="k.o").outcome == HIT


@pytest.mark.archs(2)
def test_response_files_are_read_with_gnus_quoting(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE") + "const char* text() { return TEXT; }\n")
    lab.write("inner.rsp", '-DVALUE=3\r\n\'-DTEXT="a b\\\\"c"\'\n')
    lab.write("all.rsp", f'@inner.rsp {" ".join((*ARCHS, *BARE, CUID))} "-c" k\\.hip -o\nout.o')
    first = lab.same([lab.compiler, "@all.rsp"])
    assert first.outcome == MISS or first.status != 0
    assert lab.same([lab.compiler, "@all.rsp"]).object == first.object


@pytest.mark.parametrize("way", ["path", "PATH", "symlink", "relative"])
def test_the_compiler_is_found_as_the_shell_finds_it(lab: Lab, way: str) -> None:
    real = LLVM[lab.version] / "bin" / "clang++"
    names = {"path": str(real), "PATH": f"clang++-{lab.version}", "symlink": str(lab.root / "cxx"), "relative": "./cxx"}
    (lab.root / "cxx").symlink_to(real)
    lab = with_changes(lab, compiler=names[way])
    assert lab.compile().outcome == MISS
    assert lab.compile().outcome == HIT


@pytest.mark.parametrize("name", ["amdclang++", "amdclang", "clang++-99"])
def test_a_clang_of_any_name_is_one(lab: Lab, name: str) -> None:
    (lab.root / "bin").mkdir()
    (lab.root / "bin" / name).symlink_to(LLVM[lab.version] / "bin" / "clang++")
    env = {"PATH": f"{lab.root}/bin:{lab.environ['PATH']}"}
    lab = with_changes(lab, compiler=name)
    assert lab.compile(env=env).outcome == MISS
    assert lab.compile(env=env).outcome == HIT


@pytest.mark.archs(2)
def test_without_an_architecture_it_is_the_compilers_default(lab: Lab) -> None:
    command = [lab.compiler, *BARE, CUID, "-c", "k.hip", "-o", "out.o"]
    first, second = lab.same(command), lab.same(command)
    assert (first.status, first.outcome, second.outcome) == (0, MISS, HIT)
    (default,) = re.findall(rb'"-target-cpu" "(gfx\w+)"', lab.run([*command, "-###"]).err)[:1]
    assert second.counted.served == {default.decode(), "host"}


def test_the_c_driver_compiles_hip_too(lab: Lab) -> None:
    lab = with_changes(lab, compiler=str(LLVM[lab.version] / "bin" / "clang"))
    assert lab.compile().outcome == MISS
    assert lab.compile().outcome == HIT


def test_a_compiler_that_is_not_there_is_named(lab: Lab) -> None:
    ended = lab.hipcache("no-such-clang++", "-c", "k.hip")
    assert ended.status == 127
    assert b"no-such-clang++" in ended.err


# Dependency files


@pytest.mark.parametrize(
    "flags",
    [
        ["-MD"],
        ["-MMD"],
        ["-MD", "-MF", "deps/x.d"],
        ["-MMD", "-MFdeps/x.d"],
        ["-MD", "-MT", "a target"],
        ["-MD", "-MQ", "a $target", "-MT", "two"],
        ["-MD", "-MP"],
        ["-MMD", "-MP", "-MTx", "-MF", "deps/x.d"],
        ["-MD", "-MV"],
        ["-Wp,-MD,deps/x.d"],
    ],
    ids=" ".join,
)
def test_the_dependency_file_is_clangs_where_every_pass_reads_the_same(lab: Lab, flags: list[str]) -> None:
    (lab.root / "deps").mkdir()
    lab.write("inc/odd name$x.hpp", "#define VALUE 1\n")
    lab.write("sys/far.hpp", "")
    lab.write("k.hip", kernel("VALUE", '#include "inc/odd name$x.hpp"\n#include <far.hpp>'))
    rule = lab.root / ("deps/x.d" if "x.d" in " ".join(flags) else "out.d")
    words = lab.words(*flags, "-isystem", "sys")
    texts = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        rule.unlink(missing_ok=True)
        time.sleep(0.05)
        assert lab.run([*launcher, *words]).status == 0
        texts.append(rule.read_text())
    assert texts[1] == texts[0]
    assert texts[2] == texts[0]


@pytest.mark.archs(2)
@pytest.mark.parametrize("flag", ["-MD", "-MMD"])
def test_the_dependency_file_lists_what_any_pass_read(lab: Lab, flag: str) -> None:
    for name in ("host", "device", "gfx906"):
        lab.write(f"{name}.hpp", "")
    text = (
        '#if defined(__gfx906__)\n#include "gfx906.hpp"\n#endif\n'
        '#ifdef __HIP_DEVICE_COMPILE__\n#include "device.hpp"\n#else\n#include "host.hpp"\n#endif\n'
    )
    lab.write("k.hip", kernel("1", text))
    for _ in range(2):
        made = lab.compile(flag)
        assert {"host.hpp", "device.hpp", "gfx906.hpp", "hip_in_short.hpp"} <= set(parse(made.dependencies))
        assert set(parse(made.plain_dependencies)) <= set(parse(made.dependencies))
    assert made.outcome == HIT


# Switches


def test_disabled_it_only_runs_the_compiler(lab: Lab) -> None:
    assert lab.compile(env={"HIPCACHE_DISABLE": "1"}).outcome == "nothing"
    assert not lab.store.exists() or not any(lab.store.rglob("blobs/*"))


def test_read_only_it_serves_and_stores_nothing(lab: Lab) -> None:
    lab.warm()

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in lab.store.rglob("*")}

    before = state()
    env = {"HIPCACHE_READONLY": "1"}
    assert lab.compile(env=env).outcome == "nothing"
    lab.write("k.hip", kernel("77"))
    lab.compile(env=env)
    assert state() == before
    assert lab.compile().counted.missed


@pytest.mark.archs(2)
def test_recache_takes_no_hits_and_stores_anew(lab: Lab) -> None:
    lab.warm()
    again = lab.compile(env={"HIPCACHE_RECACHE": "1"})
    assert again.counted.missed == {"gfx906", "gfx90a", "host"}
    assert lab.compile().outcome == HIT


def test_a_miss_imports_nothing_that_takes_long_and_is_not_needed(lab: Lab) -> None:
    lab.compile()
    lab.write("k.hip", kernel("3"))
    command = [sys.executable, "-X", "importtime", "-m", "hipcache", *lab.words(source="k.hip", output="out.o")]
    said = subprocess.run(command, cwd=lab.root, env=lab.environ, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert "hipcache.build.loop" in imported
    assert not imported & {"tempfile", "shutil", "random", "dataclasses", "argparse", "yaml", "difflib", "hipcache.cli"}
