"""Front ends and host passes are shared between spellings of paths (CMake's, SCons', Meson's), and only where no path
gets into what they make. Every compile here is compared with plain clang's."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hip import HIP_IN_SHORT, HIT, LAUNCHER, MISS, Compiled, Lab, only_15, only_19, script
from hipcache.inputs.includes import scan
from hipcache.making import unnamed
from hipcache.planning.cuid import clangs_hash

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

SOURCE = """\
#include <hip_in_short.hpp>
#include "beside.hpp"
#if __has_include("none.hpp")
#endif
WHAT
__global__ void kernel(int* p) { p[0] = p[1] * BESIDE + (DEVICE); }
int host(int* p) { kernel<<<1, 1>>>(p); return (HOST) + VALUE; }
"""
# CUIDs whose hashes have all digits.
ONE, TWO = "first", "second"


@pytest.fixture(autouse=True)
def project(lab: Lab) -> None:
    write(lab)


def write(lab: Lab, what: str = "", *, device: str = "1", host: str = "1", **headers: str) -> None:
    text = SOURCE.replace("WHAT", what).replace("DEVICE", device).replace("HOST", host)
    lab.write("p/src/k.hip", text)
    lab.write("p/src/beside.hpp", '#include "../inc/value.hpp"\n#define BESIDE 2\n')
    lab.write("p/inc/value.hpp", "#define VALUE 3\n")
    lab.write("p/inc/hip_in_short.hpp", HIP_IN_SHORT)
    for name, content in headers.items():
        lab.write(f"p/inc/{name}.hpp", content)
    for name in ("build", "other/deep"):
        (lab.root / "p" / name).mkdir(parents=True, exist_ok=True)


def spelled(lab: Lab, way: str) -> tuple[str, str, str]:
    """(working directory, source, directory of the headers) below and as each front writes them."""
    top = str(lab.root / "p")
    return {
        "cmake": ("p/build", f"{top}/src/k.hip", f"{top}/inc"),
        "cmake elsewhere": ("p/other/deep", f"{top}/src/k.hip", f"{top}/inc"),
        "scons": ("p", "src/k.hip", "inc"),
        "meson": ("p/build", "../src/k.hip", "../inc"),
        "meson elsewhere": ("p/other/deep", "../../src/k.hip", "../../inc"),
        "make": ("p/src", "k.hip", "../inc"),
    }[way]


WAYS = ("cmake", "cmake elsewhere", "scons", "meson", "meson elsewhere", "make")


def compile_as(lab: Lab, way: str, *flags: str, cuid: str = ONE, env: dict[str, str] | None = None) -> Compiled:
    """The object and the dependency file are plain clang's."""
    cwd, source, include = spelled(lab, way)
    output = f"{way.replace(' ', '-')}.o"
    words = ["--offload-arch=gfx906", f"-cuid={cuid}", "-MD", "-I", include, *flags]
    made = lab.compile(*words, source=source, cwd=lab.root / cwd, output=output, env=env)
    assert made.status == 0, made.messages
    assert made.dependencies == made.plain_dependencies
    return made


def differ(lab: Lab, *flags: str, ways: tuple[str, ...] = ("cmake", "scons")) -> None:
    """The objects are plain clang's, which are not the same in each way: the test would show a wrong one."""
    assert len({compile_as(lab, way, *flags).object for way in ways}) > 1


# What is shared


@pytest.mark.parametrize("first", ["cmake", "scons", "make"])
def test_a_pass_serves_every_spelling(lab: Lab, first: str) -> None:
    assert compile_as(lab, first).outcome == MISS
    for way in WAYS:
        assert compile_as(lab, way).outcome == HIT, way


@pytest.mark.parametrize(
    "flags",
    [("-O3", "-fPIC", "-std=c++17", "-DNDEBUG", "-Wall"), ("-O0",), ("-MMD",), ("-isystem", "src")],
    ids=" ".join,
)
def test_it_is_shared_under_usual_flags(lab: Lab, flags: tuple[str, ...]) -> None:
    write(lab, "#include <value.hpp>", host="[](int a) { return a; }(VALUE)")
    top = str(lab.root / "p")
    compile_as(lab, "cmake", *(word.replace("src", f"{top}/src") for word in flags))
    assert compile_as(lab, "scons", *flags).outcome == HIT


@only_15
def test_another_cuid_is_no_other_pass_for_a_clang_that_writes_it_nowhere(lab: Lab) -> None:
    compile_as(lab, "cmake", cuid=ONE)
    assert compile_as(lab, "scons", cuid=TWO).outcome == HIT


@only_19
def test_of_another_cuid_the_device_front_ends_are_shared(lab: Lab) -> None:
    compile_as(lab, "cmake", cuid=ONE)
    other = compile_as(lab, "scons", cuid=TWO)
    assert other.counted.missed == {"host"}
    assert (other.counted.front_ends, other.counted.back_ends) == (0, 0)
    assert compile_as(lab, "meson", cuid=TWO).outcome == HIT
    assert compile_as(lab, "make", cuid=ONE).outcome == HIT


@only_19
def test_a_cuid_whose_hash_is_short_is_compiled_for(lab: Lab) -> None:
    short = next(f"cuid{number}" for number in range(1000) if len(clangs_hash(f"cuid{number}")) < 16)
    for way, cuid in (("cmake", ONE), ("scons", short), ("meson", short), ("make", ONE)):
        compile_as(lab, way, cuid=cuid)


@only_19
def test_a_program_that_has_a_hash_itself_is_right(lab: Lab) -> None:
    write(lab, f'__device__ char text[] = "{clangs_hash(TWO)}";\nconst char* name() {{ return "{clangs_hash(ONE)}"; }}')
    for way, cuid in (("cmake", ONE), ("scons", TWO), ("meson", ONE), ("make", TWO), ("cmake elsewhere", "third")):
        compile_as(lab, way, cuid=cuid)


@pytest.mark.archs(2)
def test_what_was_shared_is_a_direct_hit_afterwards(lab: Lab, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(LAUNCHER[0], alone)
    script(alone / "hipcache-engine", "exit 99\n")
    compile_as(lab, "cmake")
    made = compile_as(lab, "scons")
    cwd, source, include = spelled(lab, "scons")
    words = lab.words("--offload-arch=gfx906", f"-cuid={ONE}", "-MD", "-I", include, source=source, output="scons.o")
    (lab.root / cwd / "scons.o").unlink()
    assert lab.run([str(alone / "hipcache"), *words], cwd=lab.root / cwd).status == 0
    assert (lab.root / cwd / "scons.o").read_bytes() == made.object
    assert (lab.root / cwd / "scons.d").read_text() == made.plain_dependencies
    lab.write("p/inc/value.hpp", "#define VALUE 4\n")
    assert lab.run([str(alone / "hipcache"), *words], cwd=lab.root / cwd).status == 99


def test_explain_tells_of_it_as_of_any_hit_and_of_the_next_miss(lab: Lab) -> None:
    compile_as(lab, "cmake")
    compile_as(lab, "scons")
    cwd = lab.root / "p"
    said = lab.hipcache("explain", "scons.o", cwd=cwd).out.decode()
    assert ": hit" in said
    lab.write("p/inc/value.hpp", "#define VALUE 4\n")
    compile_as(lab, "scons")
    said = lab.hipcache("explain", "scons.o", cwd=cwd).out.decode()
    assert "file 'src/../inc/value.hpp' changed" in said
    assert "now read" not in said


def test_with_a_base_directory_another_checkout_shares_in_its_own_spelling(lab: Lab) -> None:
    compile_as(lab, "cmake", env={"HIPCACHE_BASEDIR": str(lab.root / "p")})
    other = Lab(lab.root / "copy", lab.version, lab.compiler, lab.environ)
    shutil.copytree(lab.root / "p", other.root / "p")
    other.counted()
    assert compile_as(other, "scons", env={"HIPCACHE_BASEDIR": str(other.root / "p")}).outcome == HIT
    assert compile_as(other, "meson").outcome != HIT


def test_settings_that_take_or_keep_nothing(lab: Lab) -> None:
    compile_as(lab, "cmake")
    compile_as(lab, "scons", env={"HIPCACHE_READONLY": "1"})
    assert compile_as(lab, "scons", env={"HIPCACHE_RECACHE": "1"}).outcome == MISS


def test_code_that_the_store_has_lost_is_compiled_again(lab: Lab) -> None:
    compile_as(lab, "cmake")
    for blob in [path for path in (lab.store / "v1" / "blobs").rglob("*") if path.is_file()]:
        blob.unlink()
    assert compile_as(lab, "scons").outcome == MISS


# Paths in the output

PRETTY = "template <class T> constexpr const char* name(T) { return __PRETTY_FUNCTION__; }\n"
LENGTH = "constexpr int length(const char* s) { int n = 0; while (s[n]) ++n; return n; }\n"
UNNAMED = "struct { int a; } nothing; constexpr int size = length(name(decltype(nothing){}));"
SHOWN: dict[str, tuple[str, str, str]] = {
    "a file": ("", "(int)sizeof(__FILE__)", ""),
    "a file in a macro of a header": ("#include <more.hpp>", "SIZE", "#define SIZE (int)sizeof(__FILE__)\n"),
    "a file in a header": ("#include <more.hpp>", "size", "constexpr int size = sizeof(__FILE__);\n"),
    "the base file": ("#include <more.hpp>", "size", "constexpr int size = sizeof(__BASE_FILE__);\n"),
    "a macro over two lines": ("", "(int)sizeof(__FI\\\nLE__)", ""),
    "pieces": ("#define PASTE(a, b) a##b", "(int)sizeof(PASTE(__FI, LE__))", ""),
    "a builtin": (
        f"{LENGTH}constexpr int here(const char* s = __builtin_FILE()) {{ return length(s); }}",
        "here()",
        "",
    ),
    "a lambda": (f"{PRETTY}{LENGTH}const auto nothing = [] {{}};", "length(name(nothing))", ""),
    "a type without a name": (PRETTY + LENGTH + UNNAMED, "size", ""),
}


@pytest.mark.parametrize("how", SHOWN)
def test_a_path_that_is_computed_with_is_right(lab: Lab, how: str) -> None:
    what, value, header = SHOWN[how]
    write(lab, what, device=value, more=header)
    differ(lab, "-std=c++17")
    write(lab, what, host=value, more=header)
    differ(lab, "-std=c++17")


def test_a_path_that_a_flag_computes_with_is_right(lab: Lab) -> None:
    write(lab, device="SIZE", host="SIZE")
    differ(lab, "-DSIZE=sizeof(__FILE__)")


def test_a_path_that_is_the_name_of_a_header_is_right(lab: Lab) -> None:
    text = (lab.root / "p/src/k.hip").read_text()
    names = "const char* name() { return HERE; }"
    lab.write("p/src/k.hip", f"#ifndef HERE\n#define HERE __FILE__\n#include HERE\n#else\n{text}{names}\n#endif\n")
    differ(lab, ways=("cmake", "make"))


ASSERTS = "#include <assert.h>\nint checked(int a) { assert(a > 2); return a; }"


def test_assert_names_the_file_where_it_is_used(lab: Lab) -> None:
    write(lab, ASSERTS)
    differ(lab)
    compile_as(lab, "cmake", "-DNDEBUG")
    assert compile_as(lab, "scons", "-DNDEBUG").outcome == HIT
    differ(lab, "-DNDEBUG", "-UNDEBUG")
    write(lab, "#undef NDEBUG\n" + ASSERTS)
    differ(lab, "-DNDEBUG")


def test_assert_in_a_macro_names_the_file_that_uses_that(lab: Lab) -> None:
    more = "#pragma once\n#include <assert.h>\n#define CHECK(a) \\\n assert(a)\n"
    write(lab, "#include <more.hpp>\nint checked(int a) { CHECK(a > 2); return a; }", more=more)
    differ(lab)


@only_15  # whose <optional> the other one does not take in HIP without HIP's headers
def test_a_checked_library_names_a_lambda_by_its_place(lab: Lab) -> None:
    use = "int checked(int b) { std::optional o{[] { return 3; }}; if (b) o.reset(); return (*o)(); }"
    write(lab, f"#ifndef __HIP_DEVICE_COMPILE__\n#include <optional>\n{use}\n#endif")
    differ(lab, "-std=c++17", "-O0", "-D_GLIBCXX_ASSERTIONS")


def test_a_header_of_the_system_names_a_lambda_by_its_place(lab: Lab) -> None:
    """In device code, too, whose bitcode has its strings at any bit."""
    checks = "template <class T> CHECKS int checks(T t, int a) { assert(a); return t(a); }\n"
    lab.write("system/checks.hpp", f"#include <assert.h>\n{checks}")
    text = "#define __host__ __attribute__((host))\n#define CHECKS __device__ __host__\n"
    says = "(const char*, const char*, unsigned, const char* name) noexcept"
    fail = f'__device__ const char* volatile seen;\nextern "C" __device__ void __assert_fail{says} {{ seen = name; }}\n'
    write(lab, text + fail + "#include <checks.hpp>", device="checks([] __device__ (int a) { return a; }, p[2])")
    differ(lab, "-Xclang", "-internal-isystem", "-Xclang", str(lab.root / "system"), "-O1")


@pytest.mark.parametrize(
    "flags", [("-g",), ("-gline-tables-only",), ("-funique-internal-linkage-names",)], ids=" ".join
)
def test_an_option_that_puts_a_path_into_the_output_is_not_shared(lab: Lab, flags: tuple[str, ...]) -> None:
    quiet = "static __attribute__((noinline)) int quiet(int a) { return a > 3 ? a * 7 : a + 1; }"
    write(lab, quiet, host="quiet(p[1]) * quiet(p[2])")
    # In one working directory, which is in the key of debug information.
    differ(lab, *(word for flag in flags for word in ("-Xarch_host", flag)), ways=("cmake", "meson"))


def test_messages_name_the_path_as_it_is_spelled(lab: Lab) -> None:
    write(lab, "static int unused(int a) { return a; }")
    said = {compile_as(lab, way, "-Wall").messages for way in ("cmake", "scons", "meson", "scons")}
    assert len(said) == 3


def test_messages_of_the_back_end_name_the_path_as_it_is_spelled(lab: Lab) -> None:
    loop = '#pragma unroll\nfor (int i = 0; i < n; i++) if (p[i] == n) asm volatile("s_nop 1");\n'
    write(lab, f"__global__ void loop(int* p, int n) {{\n{loop}}}")
    for way in ("cmake", "scons", "scons"):
        assert "loop not unrolled" in compile_as(lab, way).messages


@pytest.mark.parametrize("flags", [(), ("-fgpu-rdc",)], ids=" ".join)
def test_a_static_variable_that_the_host_finds_by_the_cuid_is_its_own(lab: Lab, flags: tuple[str, ...]) -> None:
    find = "void* at() { return (void*)&table; }"
    write(lab, f"static __device__ int table[4];\n{find}", device="table[p[2] & 3]")
    one, two = (compile_as(lab, way, *flags, cuid=cuid) for way, cuid in (("cmake", ONE), ("scons", TWO)))
    assert one.object != two.object or (lab.version == "15" and not flags)
    assert compile_as(lab, "meson", *flags, cuid=ONE).object == one.object or flags


# Files


@pytest.mark.parametrize("name", ["p/src/k.hip", "p/src/beside.hpp", "p/inc/value.hpp"])
def test_an_edit_is_seen_in_every_spelling(lab: Lab, name: str) -> None:
    before = compile_as(lab, "cmake")
    path = lab.root / name
    text = path.read_text()
    path.write_text(text.replace("VALUE 3", "VALUE 4").replace("BESIDE 2", "BESIDE 5").replace("+ (1)", "+ (6)"))
    after = compile_as(lab, "scons")
    assert after.outcome != HIT
    assert after.object != before.object


@pytest.mark.parametrize("name", ["p/src/hip_in_short.hpp", "p/inc/none.hpp", "p/src/none.hpp"])
def test_a_header_that_appears_is_seen_in_every_spelling(lab: Lab, name: str) -> None:
    text = (lab.root / "p/src/k.hip").read_text()
    text = text.replace("<hip_in_short.hpp>", '"hip_in_short.hpp"').replace("#endif", "#define NONE\n#endif")
    lab.write("p/src/k.hip", text + "#ifdef NONE\nint more() { return 1; }\n#endif\n")
    before = compile_as(lab, "cmake")
    lab.write(name, HIP_IN_SHORT + "int appeared() { return 1; }\n" if "short" in name else "")
    for way in ("scons", "meson"):
        assert compile_as(lab, way).object != before.object


def test_a_directory_that_went_does_not_hide_what_appeared(lab: Lab) -> None:
    """A path that goes through the other command's directory would be absent for good."""
    write(lab, "#if __has_include(<asked.hpp>)\n#define ASKED 1\n#else\n#define ASKED 0\n#endif", host="ASKED")
    before = compile_as(lab, "meson elsewhere")
    shutil.rmtree(lab.root / "p/other")
    lab.write("p/inc/asked.hpp", "")
    assert compile_as(lab, "scons").object != before.object


def test_the_order_of_directories_matters(lab: Lab) -> None:
    for number in (1, 2):
        lab.write(f"p/{number}/which.hpp", f"#define WHICH {number}\n")
    write(lab, "#include <which.hpp>", device="WHICH", host="WHICH")
    top = lab.root / "p"
    one = compile_as(lab, "cmake", f"-I{top}/1", f"-I{top}/2")
    two = compile_as(lab, "scons", "-I2", "-I1")
    assert one.object != two.object
    assert compile_as(lab, "scons", "-I1", "-I2").outcome == HIT
    assert compile_as(lab, "meson", "-I../2", "-I../1").outcome == HIT
    assert compile_as(lab, "meson", "-isystem", "../2", "-I../1").object == one.object


def test_the_order_of_macros_matters_where_one_is_defined_twice(lab: Lab) -> None:
    write(lab, "#ifndef A\n#define A 3\n#endif", device="A + B", host="A")
    one = compile_as(lab, "cmake", "-DA=1", "-DB=2")
    assert compile_as(lab, "scons", "-DB=2", "-DA=1").outcome == HIT
    for flags in (["-DB=2", "-DA=1", "-UA"], ["-UA", "-DB=2", "-DA=1"], ["-UA", "-DB=2"]):
        made = compile_as(lab, "scons", *flags)
        assert (made.object == one.object) == (flags[0] == "-UA" and len(flags) == 3)


def test_a_header_of_the_working_directory_is_its_own(lab: Lab) -> None:
    write(lab, "#ifndef FORCED\n#define FORCED 0\n#endif", device="FORCED", host="FORCED")
    lab.write("p/inc/forced.hpp", "#define FORCED 1\n")
    top = compile_as(lab, "cmake", "-include", "forced.hpp")
    assert compile_as(lab, "meson", "-include", "forced.hpp").outcome == HIT
    lab.write("p/forced.hpp", "#define FORCED 2\n")
    assert compile_as(lab, "scons", "-include", "forced.hpp").object != top.object
    lab.write("p/other/deep/forced.hpp", "#define FORCED 3\n")
    assert compile_as(lab, "cmake elsewhere", "-include", "forced.hpp").object != top.object
    assert compile_as(lab, "make", "-include", "forced.hpp").object == top.object
    lab.write("p/src/forced.hpp", "#define FORCED 4\n")
    assert compile_as(lab, "make", "-include", "forced.hpp").object != top.object


def test_a_header_that_is_named_from_the_working_directory_is_its_own(lab: Lab) -> None:
    for number, directory in enumerate(("p", "p/build", "p/other/deep")):
        lab.write(f"{directory}/sub/forced.hpp", f"#define FORCED {number}\n")
    write(lab, device="FORCED", host="FORCED")
    differ(lab, "-include", "sub/forced.hpp", ways=("cmake", "scons", "cmake elsewhere"))


@pytest.mark.archs(2)
def test_a_directory_behind_a_link_is_not_taken_for_another_one(lab: Lab) -> None:
    """`../inc` of a working directory that is a link is another directory than its name says."""
    lab.write("far/inc/value.hpp", "#define VALUE 7\n")
    lab.write("far/inc/hip_in_short.hpp", HIP_IN_SHORT)
    lab.write("far/build/src/beside.hpp", "#define BESIDE 2\n#include <value.hpp>\n")
    lab.write("far/src/beside.hpp", "#define BESIDE 2\n#include <value.hpp>\n")
    shutil.copy(lab.root / "p/src/k.hip", lab.root / "far/src/k.hip")
    (lab.root / "p" / "link").symlink_to(lab.root / "far" / "build")
    (lab.root / "far" / "build").mkdir(exist_ok=True)
    before = compile_as(lab, "meson")
    made = lab.compile(
        *("--offload-arch=gfx906", f"-cuid={ONE}", "-MD", "-I", "../inc"),
        source="../src/k.hip",
        cwd=lab.root / "p" / "link",
        env={"PWD": str(lab.root / "p" / "link")},
    )
    assert made.object != before.object
    assert made.dependencies == made.plain_dependencies


def test_a_link_to_the_source_directory_is_spelled_as_it_is(lab: Lab) -> None:
    shutil.move(lab.root / "p/src", lab.root / "p/real")
    (lab.root / "p/src").symlink_to("real")
    compile_as(lab, "cmake")
    for way in ("scons", "meson"):
        assert compile_as(lab, way).outcome == HIT
    compile_as(lab, "make")


# Dependency files: each is compared with plain clang's


def test_a_name_that_could_be_spelled_in_two_ways_is_spelled_as_clang_does(lab: Lab) -> None:
    write(lab, "#include <src/beside.hpp>\n#include <inc/value.hpp>")
    top = str(lab.root / "p")
    compile_as(lab, "cmake", f"-I{top}")
    compile_as(lab, "scons", "-I.")
    compile_as(lab, "scons", f"-I{top}")
    compile_as(lab, "cmake", f"-I{top}/build", f"-I{top}")
    compile_as(lab, "meson", "-I.", "-I..")
    compile_as(lab, "make", "-I..", "-I.")


@pytest.mark.archs(2)
@pytest.mark.parametrize("include", ["inc/", "./inc", "inc//", ".//inc", "src/../inc", "../p/inc", "./inc/."])
def test_a_directory_in_an_odd_spelling(lab: Lab, include: str) -> None:
    compile_as(lab, "cmake")
    made = lab.compile(
        "--offload-arch=gfx906", f"-cuid={ONE}", "-MD", "-I", include, source="src/k.hip", cwd=lab.root / "p"
    )
    assert made.dependencies == made.plain_dependencies
    compile_as(lab, "meson")


@pytest.mark.parametrize("name", ["./beside.hpp", ".//beside.hpp", "./../src/beside.hpp", "../inc/./value.hpp"])
def test_a_name_that_begins_with_dots(lab: Lab, name: str) -> None:
    write(lab, f'#include "{name}"')
    for ways in (("cmake", "scons", "make"), ("make", "cmake")):
        for way in ways:
            compile_as(lab, way, "-I.")
        shutil.rmtree(lab.store)


def test_a_name_from_the_root_stays_one(lab: Lab) -> None:
    write(lab, f'#include "{lab.root}/p/inc/value.hpp"\n#include <value.hpp>')
    for way in ("cmake", "scons"):
        compile_as(lab, way)


def test_a_name_from_the_root_in_a_macro_stays_one(lab: Lab) -> None:
    write(lab, "#include CONFIG")
    for way in ("cmake", "scons"):
        compile_as(lab, way, f'-DCONFIG="{lab.root}/p/inc/value.hpp"')


def test_a_forced_header_from_the_root_stays_one(lab: Lab) -> None:
    for way in ("cmake", "scons"):
        compile_as(lab, way, "-include", f"{lab.root}/p/inc/value.hpp")
        compile_as(lab, way, "-include", f"{lab.root}/p/other/../inc/value.hpp")


def test_a_list_of_headers_in_the_place_of_a_directory(lab: Lab) -> None:
    lab.write("p/headers.hmap", b"no list of headers")
    for way in ("cmake", "scons"):
        compile_as(lab, way, f"-I{lab.root}/p/headers.hmap")


# The parts


@pytest.mark.parametrize("width", [7, 8, 12])
@pytest.mark.parametrize("shift", range(8))
def test_a_type_without_a_name_is_found_at_any_bit(width: int, shift: int) -> None:
    def vbr6(char: int) -> int:
        return (char & 31 | 32) | (char >> 5) << 6

    text = b"int f(T) [T = (lambda at src/k.hip:1:2)]"
    bits = sum((vbr6(char) if width == 12 else char) << (width * number) for number, char in enumerate(text))
    content = b"\xff" * 5 + (bits << shift).to_bytes(len(text) * 2, "little") + b"\xff" * 5
    assert unnamed.in_bitcode(content)
    assert not unnamed.in_bitcode(content.replace(b"\xff", b"")[30:])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"int f();\n", set()),
        (b"// __FILE__ and assert()\n/* __PRETTY_FUNCTION__ */\n", set()),
        (b"static_assert(1); int my_assert; __assert_fail();", set()),
        (b"assert(1);", {"assert"}),
        (b"#define X(a) /*\n*/ \\\n  assert(a)\n", {"assert", "assert in a macro"}),
        (b"  # undef /**/ NDEBUG\n", {"#undef NDEBUG"}),
        (b"#ifdef NDEBUG\n#endif\n", set()),
        (b"#define _GLIBCXX_ASSERTIONS 1\n", {"__glibcxx"}),
        (b"__glibcxx_assert(1);", {"__glibcxx"}),
        (b"f(__builtin_FILE());", {"__builtin_FILE"}),
        (b"__sanitizer_annotate_contiguous_container();", set()),
        (b"[[clang::annotate(1)]] __attribute__((__annotate__(1)))", {"annotate"}),
    ],
)
def test_names_that_show_paths(text: bytes, found: set[str]) -> None:
    assert scan(text).shown == found


@pytest.mark.parametrize("name", [b"(lambda at ", b"(unnamed ", b"(anonymous "])
def test_a_name_is_found_wherever_it_begins(name: bytes) -> None:
    """In C and in Python alike."""
    noise = random.Random(1)
    for row in unnamed.rows([name]):
        content = noise.randbytes(noise.randrange(300)) + row + noise.randbytes(noise.randrange(300))
        assert unnamed.in_bitcode(content)
        assert not unnamed.in_bitcode(content.replace(row, b""))
