"""SCons rebuilds for each header that the compiler reads or would find, also those that no scanner of SCons sees."""

from __future__ import annotations

import os
import time

import pytest
from scons_project import Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")


def test_a_header_that_only_a_device_pass_reads_rebuilds(project: Project) -> None:
    """No scanner of SCons sees it: a system header behind a macro. It counts in the next run, not the one after."""
    project.write(
        {
            "system/only_device.h": "#define VALUE 1\n",
            "one.hip": "#include <hip_in_short.hpp>\n#ifdef __HIP_DEVICE_COMPILE__\n#define NAME <only_device.h>\n"
            "#include NAME\n#else\n#define VALUE 0\n#endif\n__global__ void k(int* p) { *p = VALUE; }\n",
        }
    )
    project.construct(f'env.Append(HIPFLAGS=["-I.", "-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")')
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    project.write({"system/only_device.h": "#define VALUE 2\n"})
    again = project.build("--debug=explain")
    assert again.compiled == ["one.o"]
    assert "because `system/only_device.h' changed" in again.out
    assert project.build().up_to_date
    assert project.outcomes == {"miss": 1, "partial": 1}


def test_a_header_that_a_changed_header_now_includes_counts_at_once(project: Project) -> None:
    project.write(
        {
            "inc/a.hpp": "#define VALUE 1\n",
            "inc/b.hpp": "#define VALUE 2\n",
            "one.hip": '#include "hip_in_short.hpp"\n#include <a.hpp>\n__global__ void k(int* p) { *p = VALUE; }\n',
        }
    )
    project.construct(f'env.Append(HIPFLAGS=["-isystem", "{project.root}/inc"])\nenv.HipObject("one.hip")')
    project.build()
    project.write({"inc/a.hpp": '#include "b.hpp"\n'})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    project.write({"inc/b.hpp": "#define VALUE 3\n"})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    # The one that is no longer read may go.
    project.write({"inc/a.hpp": "#define VALUE 1\n"})
    (project.root / "inc" / "b.hpp").unlink()
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date


@pytest.mark.parametrize(
    ("line", "appears"),
    [
        ("#include <value.hpp>", "first/value.hpp"),
        ('#include "value.hpp"', "sub/value.hpp"),
        ("#define NAME <value.hpp>\n#include NAME", "first/value.hpp"),
        ('#if __has_include("asked.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif', "sub/asked.hpp"),
    ],
)
def test_a_header_that_appears_and_would_be_found_first_rebuilds(project: Project, line: str, appears: str) -> None:
    """No scanner knows these directories: they come by options of the compiler."""
    source = f'#include "hip_in_short.hpp"\n{line}\n__global__ void k(int* p) {{ *p = VALUE; }}\n'
    project.write({"sub/one.hip": source, "second/value.hpp": "#define VALUE 1\n", "first/other.hpp": ""})
    system = [f"-isystem{project.root}/{name}" for name in ("first", "second")]
    project.construct(f'env.Append(HIPFLAGS=["-I.", *{system}])\nenv.HipObject("sub/one.hip")')
    assert project.build().compiled == ["sub/one.o"]
    before = (project.root / "sub/one.o").read_bytes()
    assert project.build().up_to_date
    project.write({appears: "#define VALUE 2\n"})
    assert project.build().compiled == ["sub/one.o"]
    assert (project.root / "sub/one.o").read_bytes() != before
    assert project.build().up_to_date
    (project.root / appears).unlink()
    assert project.build().compiled == ["sub/one.o"]
    assert (project.root / "sub/one.o").read_bytes() == before
    assert project.build().up_to_date


def test_with_the_cache_off_nothing_rebuilds_and_headers_count_as_before(project: Project) -> None:
    project.write({"system/deep.h": "#define VALUE 1\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#ifdef __HIP_DEVICE_COMPILE__\n#include <deep.h>\n#endif\n'}
    )
    text = f'env.Append(HIPFLAGS=["-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")'
    project.construct(text)
    project.build()
    project.construct('env["HIPCACHE"] = False\n' + text)
    assert project.build().up_to_date
    project.environ["HIPCACHE_DISABLE"] = "1"
    project.construct(text)
    assert project.build().up_to_date
    project.write({"system/deep.h": "#define VALUE 2\n"})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    del project.environ["HIPCACHE_DISABLE"]
    assert project.build().up_to_date
    assert project.outcomes == {"miss": 1}


def test_a_generated_header_is_made_first_and_counts(project: Project) -> None:
    project.write({"template.txt": "#define VALUE 1\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#include "made.hpp"\n__global__ void k(int* p) { *p = VALUE; }\n'}
    )
    project.construct("""
env.Append(CPPPATH=["gen"])
env.HipObject("one.hip")
env.Command("gen/made.hpp", "template.txt", Copy("$TARGET", "$SOURCE"))
""")
    project.build("-j2")
    assert project.build("-j2").up_to_date
    project.write({"template.txt": "#define VALUE 2\n"})
    assert project.build("-j2").compiled == ["one.o"]
    assert project.build("-j2").up_to_date


@pytest.mark.parametrize("duplicate", [0, 1])
def test_variant_directories_work(project: Project, duplicate: int) -> None:
    project.write({"src/inc/value.hpp": "#define VALUE 1\n"})
    project.write(
        {"src/k.hip": '#include "hip_in_short.hpp"\n#include "value.hpp"\n__global__ void k(int* p) { *p = VALUE; }\n'}
    )
    project.construct(f"""
env.Append(CPPPATH=["#", "#out/inc", "#src/inc"])
VariantDir("out", "src", duplicate={duplicate})
env.HipObject("out/k.hip")
""")
    assert project.build().compiled == ["out/k.o"]
    assert project.build().up_to_date
    project.write({"src/inc/value.hpp": "#define VALUE 2\n"})
    assert project.build().compiled == ["out/k.o"]
    assert project.build().up_to_date


def test_what_the_engine_leaves_is_compiled_by_scons_itself(project: Project) -> None:
    """-H is not cached; its headers count all the same, those of the device alone too."""
    project.write({"system/deep.h": "\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#ifdef __HIP_DEVICE_COMPILE__\n#include <deep.h>\n#endif\n'}
    )
    project.construct(f'env.Append(HIPFLAGS=["-H", "-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")')
    project.build()
    assert project.build().up_to_date
    assert project.outcomes == {"passed_through": 1}
    project.write({"system/deep.h": "#define MORE\n"})
    assert project.build().compiled == ["one.o"]


@pytest.mark.parametrize("flags", ["", "-H"], ids=["direct hit", "passed through"])
def test_a_header_counts_whatever_its_name_has_in_it(project: Project, flags: str) -> None:
    project.write({"caf\x85/only\f.h": "#define VALUE 1\n"})
    project.write(
        {
            "one.hip": '#include "hip_in_short.hpp"\n#define NAME "caf\x85/only\f.h"\n#include NAME\n'
            "__global__ void k(int* p) { *p = VALUE; }\n",
        }
    )
    project.construct(f'env.Append(HIPFLAGS="{flags}".split())\nenv.HipObject("one.hip")')
    project.build()
    (project.root / "one.o").unlink()
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    project.write({"caf\x85/only\f.h": "#define VALUE 2\n"})
    assert project.build().compiled == ["one.o"]


@pytest.mark.parametrize("cache", [True, False])
def test_actions_before_and_after_a_compile_leave_it_up_to_date(project: Project, cache: bool) -> None:
    """Their programs are among what the object depends on, in SCons' order."""
    project.write({"src/one.hip": "int one;\n", "src/two.hip": "int two;\n"})
    project.construct(f"""
env["HIPCACHE"] = {cache}
env.VariantDir("build", "src", duplicate=0)
env.StaticLibrary("build/abc", ["build/one.hip", "build/two.hip"])
env.AddPreAction("build/one.o", ["cp $SOURCE copy", lambda target, source, env: None])
env.AddPostAction("build/one.o", "touch $TARGET")
env.AddPreAction("build/two.o", "echo before")
""")
    assert project.build().compiled == ["build/one.o", "build/two.o"]
    assert project.build().up_to_date
    (project.root / "build/one.o").unlink()
    assert project.build().compiled == ["build/one.o"]
    assert project.build().up_to_date


def test_a_header_that_changes_while_the_compiler_runs_rebuilds(project: Project) -> None:
    """Also if another object reads it afterwards, for which SCons signs it as it is then."""
    compiler = 'clang "$@"; status=$?\ncase "$*" in *-c*/a.hip | *-c*" a.hip")\n'
    compiler += "  [ -e edit ] && rm edit && echo '#define VALUE 2' >inc/v.h;; esac\nexit $status\n"
    project.write({"inc/v.h": "#define VALUE 1\n", "edit": "", "my-clang": "#!/bin/sh\n" + compiler})
    project.write({f"{name}.hip": f"#include <v.h>\nint {name} = VALUE;\n" for name in "ab"})
    (project.root / "my-clang").chmod(0o755)
    project.construct(
        """
text = open("my-clang").read()
if "clang " in text:
    open("my-clang", "w").write(text.replace("clang ", env.WhereIs(env["HIPCXX"]) + " "))
env["HIPCXX"] = File("my-clang").abspath
env.Append(HIPFLAGS=["-isystem", Dir("inc").abspath])
env.HipObject("a.hip")
env.HipObject("b.hip")
"""
    )
    assert project.build().compiled == ["a.o", "b.o"]
    assert not (project.root / "edit").exists()
    assert "a.o" in project.build().compiled
    assert project.build().up_to_date


def test_links_in_variant_directories_and_times_to_come_are_no_changes(newest: Project) -> None:
    """SCons links the sources of two variants to the same files, while others compile."""
    newest.write(
        {"src/h.h": "#define N 4\n"} | {f"src/{name}.hip": f'#include "h.h"\nint {name} = N;\n' for name in "abc"}
    )
    os.utime(newest.root / "src/h.h", (time.time() + 86400, time.time() + 86400))
    newest.construct(
        """
for variant in "debug", "release":
    VariantDir(variant, "src")
    for name in "abc":
        env.Clone(CPPDEFINES=[variant]).HipObject(f"{variant}/{name}.hip")
"""
    )
    assert len(newest.build("-j2").compiled) == 6
    assert newest.build("-j2").up_to_date
    assert newest.build("-j2").up_to_date
