"""Never a wrong object: files by the names that a process has for its own directory and root (Bazel's PWD is one)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hip import HIT, LLVM, PASSED_THROUGH, Lab, kernel, only_19, script, write_files
from hipcache.base.paths import absolute, is_own
from hipcache.inputs import observing
from hipcache.processes import STAT
from hipcache.processes.observe import Observation, observations, sign
from hipcache.processes.runner import SubprocessRunner

pytestmark = pytest.mark.archs(1)

BAZELS = {"PWD": "/proc/self/cwd"}
ASKS = "#if __has_include({})\n#define VALUE 5\n#else\n#define VALUE 6\n#endif"


def places(lab: Lab) -> list[str]:
    return ["/proc/self/cwd", f"/proc/self/root{lab.root}"]


def test_a_header_that_appears_is_seen(lab: Lab) -> None:
    write_files(lab.root, {"two/v.h": "#define VALUE 2\n"})
    lab.write("k.hip", kernel("VALUE", "#include <v.h>"))
    for number, place in enumerate(places(lab)):
        (lab.root / f"one{number}").mkdir()
        flags = (f"-I{place}/one{number}", "-Itwo")
        before = lab.warm(*flags)
        lab.write(f"one{number}/v.h", "#define VALUE 1\n")
        lab.changed(before, *flags)


def test_a_header_is_read_anew_and_served(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", "#include <v.h>"))
    for place in places(lab):
        lab.write("one/v.h", "#define VALUE 1\n")
        before = lab.warm(f"-I{place}/one", "-MD", "-g", env=BAZELS)
        lab.write("one/v.h", "#define VALUE 2\n")
        lab.changed(before, f"-I{place}/one", "-MD", "-g", env=BAZELS)


def test_the_same_command_in_another_directory_reads_its_own_header(lab: Lab) -> None:
    for name in "ab":
        lab.write(f"{name}/k.hip", "#include <v.h>\n")
        lab.write(f"{name}/one/v.h", f"int value = '{name}';\n")
    before = lab.warm("-I/proc/self/cwd/one", cwd=lab.root / "a", env=BAZELS)
    lab.changed(before, "-I/proc/self/cwd/one", cwd=lab.root / "b", env=BAZELS)


@pytest.mark.parametrize("flag", ["-I", "-iquote"])
def test_a_file_that_was_asked_for_comes_and_goes(lab: Lab, flag: str) -> None:
    asked = lab.write("q/other.h", "").with_name("x.h")
    lab.write("k.hip", kernel("VALUE", ASKS.format('"x.h"')))
    for place in places(lab):
        without = lab.warm(flag, f"{place}/q")
        asked.write_text("")
        present = lab.changed(without, flag, f"{place}/q")
        assert lab.compile(flag, f"{place}/q").outcome == HIT
        asked.unlink()
        assert lab.compile(flag, f"{place}/q").object != present.object


def test_what_was_asked_for_in_another_processs_directory_is_not_kept(lab: Lab) -> None:
    asked = lab.write("x.h", "")
    lab.write("k.hip", kernel("VALUE", ASKS.format('"x.h"')))
    flags = ("-iquote", f"/proc/{os.getpid()}/root{lab.root}/sub/..")
    (lab.root / "sub").mkdir()
    os.rename(lab.root / "k.hip", lab.root / "sub" / "k.hip")
    before = lab.compile(*flags, source="sub/k.hip")
    asked.unlink()
    lab.changed(before, *flags, source="sub/k.hip")


@only_19
@pytest.mark.parametrize("name", ["./own.cfg", "/proc/self/cwd/own.cfg"])
def test_a_configuration_file_is_read_anew(lab: Lab, name: str) -> None:
    """Clang puts PWD before a relative name."""
    lab.write("k.hip", kernel("VALUE"))
    lab.write("own.cfg", "-DVALUE=1\n")
    before = lab.compile(f"--config={name}", env=BAZELS)
    lab.write("own.cfg", "-DVALUE=2\n")
    lab.changed(before, f"--config={name}", env=BAZELS)


@only_19
def test_a_file_that_a_configuration_file_names_is_read_anew(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("own.cfg", "@inner.cfg\n")
    lab.write("inner.cfg", "-DVALUE=1\n")
    lab.compile("--config=./own.cfg", env=BAZELS)
    before = lab.compile("--config=./own.cfg", env=BAZELS)
    lab.write("inner.cfg", "-DVALUE=2\n")
    lab.changed(before, "--config=./own.cfg", env=BAZELS)


@only_19
def test_a_configuration_file_that_appears_is_seen(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    (lab.root / "settings").mkdir()
    before = lab.warm("--config-user-dir=/proc/self/cwd/settings")
    for name in ("clang++.cfg", "x86_64-pc-linux-gnu-clang++.cfg"):
        lab.write(f"settings/{name}", "-DVALUE=2\n")
    lab.changed(before, "--config-user-dir=/proc/self/cwd/settings")


def test_a_file_that_a_script_reads_is_read_anew(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    flags = lab.write("flags", "-DVALUE=1\n")
    compiler = f"{LLVM[lab.version]}/bin/clang++"
    lab.compiler = str(script(lab.root / "cxx", f'read flag </proc/self/cwd/flags\nexec {compiler} $flag "$@"\n'))
    before = lab.warm()
    flags.write_text("-DVALUE=2\n")
    lab.changed(before)


def test_a_script_that_reads_by_another_process_is_left_alone(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("flags", "-DVALUE=1\n")
    compiler = f"{LLVM[lab.version]}/bin/clang++"
    lab.compiler = str(script(lab.root / "cxx", f'read flag </proc/$$/cwd/flags\nexec {compiler} $flag "$@"\n'))
    made = lab.compile()
    assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "wrapper")


def test_the_observer_looks_where_the_process_works(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "below").write_text("")
    (tmp_path / "above").write_text("")
    asks = "test -e /proc/self/cwd/above; test -e /proc/self/root/proc/self/cwd/gone; test -e /proc/self/fd/0"
    asks += f"; test -e /proc/self/root{tmp_path}/above; cd sub; test -e /proc/self/cwd/below; test -e /proc/self/cwd"
    traced = SubprocessRunner().trace(["/bin/sh", "-c", asks], cwd=tmp_path, env={"PATH": "/bin"})
    assert traced.observed is not None
    found = observing.parse(traced.observed, "/nowhere")
    assert {"/proc/self/cwd/above", f"/proc/self/root{tmp_path}/above", f"{tmp_path}/sub/below"} <= found.there
    assert "/proc/self/root/proc/self/cwd/gone" in found.absent
    assert not any("/fd" in path for path in found.there)
    assert found.unclear == ("", "")
    listed = b"\0".join(row for row in traced.observed.split(b"\0") if row[:1] == b"s") + b"\0"
    seen = observations(listed, str(tmp_path), ignore="/nowhere", started=time.time() + 1)
    for path in ("above", "gone", "sub/below"):
        assert Observation(STAT, f"{tmp_path}/{path}", sign(STAT, f"{tmp_path}/{path}")) in seen


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/proc/self/cwd", "/w/."),
        ("/proc/self/cwd//x/../y", "/w/x/../y"),
        ("/proc/self/cwdx", "/proc/self/cwdx"),
        ("/proc/self/root", "/"),
        ("/proc/self/root/proc/self/root/dev/stdin", "/dev/stdin"),
        ("/proc/self/root/proc/self/cwd/x", "/w/x"),
        ("/proc/self/exe", "/proc/self/exe"),
        ("./x", "/w/./x"),
    ],
)
def test_the_names_that_a_process_has_for_itself_lead_where_it_works(path: str, named: str) -> None:
    assert absolute(path, "/w") == named
    assert is_own(path) == (path == "/proc/self/exe")
