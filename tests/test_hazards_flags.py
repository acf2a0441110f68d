"""Never a wrong object, part 3: flags, the files that they name, architectures, directories, CUIDs.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hip import (
    BARE,
    CUID,
    DEVICE_LIBRARIES,
    HIT,
    LAUNCHER,
    LLVM,
    MISS,
    PARTIAL,
    PASSED_THROUGH,
    Compiled,
    Lab,
    kernel,
    only_15,
    only_19,
    rewrite,
)
from hipcache.planning.cuid import make_cuid

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

# Flags


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["-DVALUE=1"], ["-DVALUE=2"]),
        (["-D", "VALUE=1"], ["-D", "VALUE=2"]),
        (["-DVALUE=1", "-UVALUE", "-DVALUE=3"], ["-DVALUE=1"]),
        (["-DVALUE=1", "-O1"], ["-DVALUE=1", "-O3"]),
        (["-DVALUE=1", "-fPIC"], ["-DVALUE=1", "-fno-pic", "-fno-pie"]),
        (["-DVALUE=1", "-mllvm", "-inline-threshold=1", "-g"], ["-DVALUE=1", "-mllvm", "-inline-threshold=2"]),
        (["-DVALUE=__cplusplus", "-std=c++14"], ["-DVALUE=__cplusplus", "-std=c++17"]),
    ],
)
def test_another_flag_is_another_object(lab: Lab, one: list[str], other: list[str]) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.changed(lab.warm(*one), *other)


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    ("flag", "missed"),
    [
        (["-Xarch_host", "-DVALUE=2"], {"host"}),
        (["-Xarch_device", "-DVALUE=2"], {"gfx906", "gfx90a"}),
        (["-Xarch_gfx906", "-DVALUE=2"], {"gfx906"}),
    ],
    ids=["host", "device", "gfx906"],
)
def test_a_flag_for_one_side_compiles_that_side_alone(lab: Lab, flag: list[str], missed: set[str]) -> None:
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    after = lab.changed(lab.warm(), *flag)
    assert after.counted.missed == missed
    assert lab.compile(*flag).object == after.object


def test_absolute_paths_in_messages_are_those_of_this_directory(lab: Lab) -> None:
    for name in ("one", "two", "one"):
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_bytes())
        lab.write(f"{name}/k.hip", kernel("1", "#warning said"))
        made = lab.compile("-fdiagnostics-absolute-paths", "-ffile-compilation-dir=.", cwd=lab.root / name)
        assert f"/{name}/k.hip" in made.messages
    assert made.outcome == HIT


def test_a_format_of_messages_is_not_served_for_another_one(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", "#warning said"))
    usual = lab.warm()
    other = lab.warm("-fdiagnostics-format=msvc")
    assert other.messages != usual.messages
    assert lab.compile("-fdiagnostics-format=sarif").counted.reason == "compiler_option"


@pytest.mark.parametrize("flag", ["-fprofile-use=runs", "-fprofile-instr-use=runs/default.profdata"])
def test_another_profile_is_another_object(lab: Lab, flag: str) -> None:
    lab.write(
        "k.hip", kernel("1") + 'extern "C" int many(int n) { int s = 0; while (n-- > 0) s += n * n; return s; }\n'
    )
    (lab.root / "runs").mkdir()
    _write_profile(lab, 1, 0)
    before = lab.warm(flag)
    _write_profile(lab, 1, 100000)
    after = lab.changed(before, flag)
    assert "host" in after.counted.missed
    (lab.root / "runs/default.profdata").unlink()
    gone = lab.compile(flag)
    assert (gone.status, gone.outcome) == (1, "failed")


def _write_profile(lab: Lab, calls: int, rounds: int) -> None:
    """As if a program had called the function so often, and gone round its loop."""
    hashes = lab.run(
        [lab.compiler, *BARE, "--offload-host-only", "-fprofile-instr-generate", "-S", "-emit-llvm", "k.hip", "-o", "-"]
    ).out.decode()
    (found,) = set(re.findall(r"@__profd_many = .*?i64 -?\d+, i64 (\d+)", hashes))
    text = f"many\n{found}\n2\n{calls}\n{rounds}\n"
    (lab.root / "runs/text").write_text(text)
    merge = [LLVM[lab.version] / "bin/llvm-profdata", "merge", "runs/text", "-o", "runs/default.profdata"]
    assert lab.run(merge).status == 0


@pytest.mark.archs(2)
def test_a_flag_for_one_arch_compiles_that_arch_alone(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    before = lab.warm("-O2")
    after = lab.changed(before, "-O2", "-Xarch_gfx906", "-O0")
    assert after.counted.missed == {"gfx906"}


def test_another_output_name_is_a_hit(lab: Lab) -> None:
    lab.warm()
    assert lab.compile(output="other.o").outcome == HIT


def test_a_response_file_that_changed_is_read_anew(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("inner.rsp", "-DVALUE=1\n")
    response = lab.write("flags.rsp", "@inner.rsp -DOTHER='a b'\n")
    before = lab.warm("@flags.rsp")
    lab.write("inner.rsp", "-DVALUE=2\n")
    between = lab.changed(before, "@flags.rsp")
    response.write_text("-DVALUE=3\n")
    lab.changed(between, "@flags.rsp")


# Files that flags name


def test_an_included_file_that_changed_is_seen(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    for flag in ("-include", "-imacros"):
        header = lab.write("first.hpp", "#define VALUE 1\n")
        before = lab.warm(flag, "first.hpp")
        header.write_text("#define VALUE 2\n")
        lab.changed(before, flag, "first.hpp")


@pytest.mark.parametrize("flag", ["-fsanitize-ignorelist=", "-fsanitize-blacklist="])
def test_a_list_of_what_a_sanitizer_leaves_out_is_read_anew(lab: Lab, flag: str) -> None:
    lab.write("k.hip", kernel("1") + "int divide(int a, int b) { return a / b; }\n")
    listed = lab.write("list.txt", "fun:nothing\n")
    flags = ("-fsanitize=integer-divide-by-zero", "-fno-gpu-sanitize", flag + str(listed))
    before = lab.compile(*flags)
    assert before.status == 0, before.messages
    lab.compile(*flags)
    listed.write_text("fun:*divide*\n")
    lab.changed(before, *flags)


@pytest.mark.archs(2)
@only_15  # whose device library for AddressSanitizer is here
def test_a_sanitizer_that_writes_the_modules_name_into_the_code_writes_the_sources(lab: Lab) -> None:
    """A back end that reads bitcode has the name of a temporary file."""
    lab.write(
        "k.hip", kernel("table[p[1] & 3]", "__device__ int table[4];").replace("return (table[p[1] & 3])", "return 0")
    )
    flags = ("--offload-arch=gfx90a:xnack+", "-fsanitize=address", "-fgpu-sanitize")
    libraries = ("-nogpuinc", "--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}")
    command = [word for word in lab.words(*flags, *libraries) if word != "-nogpulib"]
    first = lab.same(command)
    assert first.status == 0, first.messages
    assert [lab.same(command).outcome for _ in range(2)] == [HIT, HIT]


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("-fprofile-use=p.profdata", "p.profdata"),
        ("-fprofile-instr-use=p.profdata", "p.profdata"),
        ("-fprofile-use=profiles", "profiles/default.profdata"),
        ("-fprofile-use", "default.profdata"),
    ],
)
def test_a_profile_that_changed_is_read_anew(lab: Lab, flag: str, name: str) -> None:
    (lab.root / "profiles").mkdir()
    lab.write("k.hip", kernel("1") + 'extern "C" int often(int a) { if (a > 3) return host() * a; return a; }\n')

    tools = LLVM[lab.version] / "bin"
    lab.write(
        "plain.cpp", 'extern "C" int host(); extern "C" int often(int a) { if (a > 3) return host() * a; return a; }'
    )
    instrumented = [lab.compiler, "-fprofile-instr-generate", "-c", "plain.cpp", "-o", "plain.o"]
    assert lab.run(instrumented).status == 0
    extract = [tools / "llvm-objcopy", "-O", "binary", "--only-section=__llvm_prf_data", "--set-section-flags"]
    assert lab.run([*extract, "__llvm_prf_data=alloc", "plain.o", "data.bin"]).status == 0
    (digest,) = struct.unpack_from("<Q", (lab.root / "data.bin").read_bytes(), 8)

    def profile(taken: int) -> None:
        counters = f"# Num Counters:\n2\n# Counter Values:\n1000\n{taken}\n"
        text = lab.write("p.proftext", f"often\n# Func Hash:\n{digest}\n{counters}\n")
        assert lab.run([tools / "llvm-profdata", "merge", text, "-o", name]).status == 0

    profile(1)
    before = lab.compile(flag)
    assert before.status == 0, before.messages
    assert lab.compile(flag).object == before.object
    profile(999)
    lab.changed(before, flag)


LISTS = {
    "-fprofile-instr-generate -fprofile-list=": ("[clang]\nfun:*\n", "[clang]\n!fun:*divide*\nfun:*\n"),
    "-fsanitize-coverage=trace-pc-guard -fsanitize-coverage-allowlist=": ("src:*\nfun:*\n", "src:*\nfun:nothing\n"),
    "-fsanitize-coverage=trace-pc-guard -fsanitize-coverage-ignorelist=": ("fun:nothing\n", "fun:*\n"),
}


@pytest.mark.parametrize("flags", LISTS)
def test_a_list_of_what_is_instrumented_is_read_anew(lab: Lab, flags: str) -> None:
    lab.write("k.hip", kernel("1") + "int divide(int a, int b) { return a / b; }\n")
    old, new = LISTS[flags]
    listed = lab.write("list.txt", old)
    words = [word for flag in f"{flags}list.txt".split() for word in ("-Xarch_host", flag)]
    before = lab.warm(*words)
    listed.write_text(new)
    assert lab.changed(before, *words).counted.missed == {"host"}


def test_a_plugin_is_left_to_the_compiler(lab: Lab) -> None:
    ended = lab.compile("-fplugin=./none.so")
    assert ended.status != 0
    assert ended.outcome == PASSED_THROUGH


PLUGIN = """
#include <unistd.h>
struct info { unsigned version; const char *name, *its; void (*add)(void*); };
static void add(void* builder) {}
struct info llvmGetPassPluginInfo(void) { struct info mine = {1, "mine", "1", add}; return mine; }
__attribute__((constructor)) static void loaded(void) { (void)!write(2, "loaded\\n", 7); }
"""


LOADS = [
    "-fplugin=./plugin.so",
    "-fpass-plugin=./plugin.so",
    "-Xarch_host -fpass-plugin=./plugin.so",
    "-Xclang -load -Xclang ./plugin.so",
    "@plugin.rsp",
    "--config ./plugin.cfg",
]


@pytest.mark.parametrize("flags", LOADS)
def test_a_real_plugin_runs_in_the_compiler_each_time_as_it_is_then(lab: Lab, flags: str) -> None:
    lab.write("plugin.rsp", "-fplugin=./plugin.so\n")
    lab.write("plugin.cfg", f"-fpass-plugin={lab.root}/plugin.so\n")
    for said in ("loaded", "LOADED"):
        lab.write("plugin.c", PLUGIN.replace("loaded", said))
        assert lab.run([lab.compiler, "-x", "c", "plugin.c", "-shared", "-fPIC", "-o", "new.so"]).status == 0
        made = (lab.root / "new.so").read_bytes()
        if said == "loaded":
            lab.write("plugin.so", made)
        else:
            rewrite(lab.root / "plugin.so", made)
        for _ in range(2):
            ended = lab.compile(*flags.split())
            assert ended.status == 0, ended.messages
            assert said in ended.messages
            assert ended.counted.reason == "plugin"


WAYS_TO_A_PCH = [
    ("-include-pch", "first.pch"),
    ("-Xclang", "-include-pch", "-Xclang", "first.pch"),
    ("-include", "named.hpp"),
    ("-include", "several.hpp"),
]


def test_a_real_precompiled_header_is_left_to_the_compiler(lab: Lab) -> None:
    """Clang takes one for each side of a HIP compile: with one alone it ends in an error, or compiles one side."""
    lab.write("k.hip", 'extern "C" int guest() { return VALUE; }\nvoid launch() { in_header<<<1, 2>>>(nullptr); }\n')
    lab.write("named.hpp", "")
    one_side = ("-x", "hip", "--cuda-host-only", *BARE, "-O2")
    found = []
    for value in (1, 2):
        lab.write("first.hpp", kernel(str(value)).replace("kernel", "in_header") + f"#define VALUE {value}\n")
        make = [lab.compiler, *one_side, "-Xclang", "-emit-pch", "-c", "first.hpp", "-o", "first.pch"]
        assert lab.run(make).status == 0
        made = (lab.root / "first.pch").read_bytes()
        lab.write("named.hpp.pch", made)
        lab.write("several.hpp.pch/one.pch", made)
        for flags in WAYS_TO_A_PCH:
            for side, works in ((), False), (("--cuda-host-only",), True):
                for _ in range(2):
                    ended = lab.compile(*flags, *side)
                    assert (ended.status == 0) == works, ended.messages
                    assert ended.counted.reason == "pch"
                found.append((flags, side, ended.object))
    half = len(found) // 2
    assert all((one == other) == (not one[2]) for one, other in zip(found[:half], found[half:], strict=True))


def test_a_precompiled_header_is_left_to_the_compiler(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("first.hpp", "#define VALUE 1\n")
    before = lab.warm("-include", "first.hpp")
    # One that is no precompiled header: clang alone says so, and both say the same.
    lab.write("first.hpp.pch", "nonsense")
    after = lab.compile("-include", "first.hpp")
    assert (after.status, after.object) != (before.status, before.object)
    assert after.outcome != HIT


@pytest.mark.parametrize("flag", ["-frecord-command-line", "-grecord-command-line"])
def test_a_recorded_command_line_is_the_users_own(lab: Lab, flag: str) -> None:
    for _ in range(2):
        lab.compile("-g", flag)


@pytest.mark.parametrize("flag", ["-frecord-command-line", "-grecord-command-line"])
def test_a_recorded_command_line_names_the_users_file_for_messages(lab: Lab, flag: str) -> None:
    for _ in range(2):
        made = lab.compile("-g", flag, "--serialize-diagnostics", "messages.dia")
        assert b"messages.dia" in made.object
        assert made.outcome == PASSED_THROUGH
    assert lab.stats()["passed_through"] == {"command_line": 2}


@pytest.mark.parametrize("flag", ["-fdebug-prefix-map={}=/x", "-ffile-prefix-map={}=/x", "-fmacro-prefix-map={}=/x"])
def test_a_prefix_map_is_part_of_the_key(lab: Lab, flag: str) -> None:
    lab.write("k.hip", kernel("sizeof(__FILE__)") + "const char* file() { return __FILE__; }\n")
    source = lab.root / "k.hip"
    before = lab.warm("-g", source=source)
    lab.changed(before, "-g", flag.format(lab.root), source=source)


@pytest.mark.archs(2)
@pytest.mark.parametrize("option", ["--version-script=list.txt", "-Map=map.txt", "--time-trace=trace.json"])
def test_an_option_of_the_users_own_for_the_device_link_is_left_to_the_compiler(lab: Lab, option: str) -> None:
    lab.write("list.txt", "{ global: kernel; local: *; };\n")
    for _ in range(2):
        words = lab.words("--offload-arch=gfx906", "-Xoffload-linker", option)
        assert lab.hipcache(*words).status == 0
        counted = lab.counted()
        assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "linker_option")
    for name in ("map.txt", "trace.json"):
        assert (lab.root / name).exists() == (name in option)


# Directories


def test_debug_information_names_the_directory_of_this_compile(lab: Lab) -> None:
    for name in ("one", "two"):
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
        lab.write(f"{name}/k.hip", kernel("1"))
    before = lab.warm("-g", cwd=lab.root / "one")
    after = lab.changed(before, "-g", cwd=lab.root / "two")
    assert str(lab.root / "two").encode() in after.object


def test_without_debug_information_the_directory_does_not_matter(lab: Lab) -> None:
    for name in ("one", "two"):
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
        lab.write(f"{name}/k.hip", kernel("1"))
    lab.warm(cwd=lab.root / "one")
    assert lab.compile(cwd=lab.root / "two").outcome == HIT


def test_the_same_command_in_another_directory_reads_its_own_files(lab: Lab) -> None:
    for number, name in enumerate(("one", "two")):
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
        lab.write(f"{name}/k.hip", kernel(str(number)))
    before = lab.warm(cwd=lab.root / "one")
    lab.changed(before, cwd=lab.root / "two")


def test_a_directory_reached_through_a_link_is_named_as_clang_names_it(lab: Lab) -> None:
    lab.write("real/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
    lab.write("real/k.hip", kernel("1"))
    link = lab.root / "link"
    link.symlink_to("real")
    real = lab.root / "real"
    before = lab.warm("-g", cwd=real, env={"PWD": str(real)})
    lab.changed(before, "-g", cwd=link, env={"PWD": str(link)})
    lab.compile("-g", cwd=real, env={"PWD": str(real)})


def test_the_name_of_the_source_is_in_the_object(lab: Lab) -> None:
    text = kernel("1") + "const char* file() { return __FILE__; }\n"
    lab.write("k.hip", text)
    lab.write("l.hip", text)
    before = lab.warm()
    lab.changed(before, source="l.hip")
    lab.changed(before, source=lab.root / "k.hip")


# Base directory


def checkout(lab: Lab, name: str, value: str = "1") -> Path:
    root = lab.root / name
    lab.write(f"{name}/include/value.hpp", f"#define VALUE {value}\n")
    lab.write(f"{name}/include/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
    lab.write(f"{name}/src/k.hip", kernel("VALUE", "#include <value.hpp>"))
    (root / ".git").mkdir(exist_ok=True)
    return root


def compile_in(lab: Lab, root: Path, *flags: str) -> Compiled:
    """A compile as CMake writes it: every path absolute."""
    build = root / "build"
    build.mkdir(exist_ok=True)
    flags = ("-I", str(root / "include"), *flags)
    return lab.compile(*flags, source=root / "src" / "k.hip", cwd=build, env={"HIPCACHE_BASEDIR": str(root)})


def test_two_checkouts_share_below_their_base_directories(lab: Lab) -> None:
    compile_in(lab, checkout(lab, "one"))
    assert compile_in(lab, checkout(lab, "two")).outcome == HIT


def test_a_checkout_that_differs_does_not_get_the_others_object(lab: Lab) -> None:
    one = compile_in(lab, checkout(lab, "one"))
    two = compile_in(lab, checkout(lab, "two", "2"))
    assert one.object != two.object


@pytest.mark.parametrize("flags", [("-g",), ("-g", "-gz"), ("-gline-tables-only",)], ids=" ".join)
def test_debug_information_names_its_own_checkout_under_a_base_directory(lab: Lab, flags: tuple[str, ...]) -> None:
    one = compile_in(lab, checkout(lab, "one"), *flags)
    two = compile_in(lab, checkout(lab, "two"), *flags)
    assert one.object != two.object
    assert compile_in(lab, lab.root / "one", *flags).object == one.object


def test_a_file_name_in_the_source_is_right_under_a_base_directory(lab: Lab) -> None:
    objects = []
    for name in ("one", "two"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("1") + "const char* file() { return __FILE__; }\n")
        objects.append(compile_in(lab, root).object)
    assert objects[0] != objects[1]


LAMBDA = "template <class T> constexpr unsigned size() { return sizeof(__PRETTY_FUNCTION__); }"
BUILTIN = """constexpr int length(const char* name = __builtin_FILE()) {
    int length = 0;
    while (name[length]) ++length;
    return length;
}
"""
COMPUTED = {
    "in the source": ("sizeof(__FILE__)", "", ""),
    "of the base file": ("sizeof(__BASE_FILE__)", "", ""),
    "by a builtin": ("length()", BUILTIN, ""),
    "in a header of the checkout": ("SIZE", "#include <value.hpp>", "#define SIZE sizeof(__FILE__)\n"),
    "by a macro from elsewhere": ("SIZE", '#include "elsewhere.hpp"', ""),
    "from pieces": ("sizeof(PASTE(__FI, LE__))", "#define PASTE(a, b) a##b", ""),
    "over two lines": ("sizeof(__FI\\\nLE__)", "", ""),
    "of a lambda": ("size<decltype(nothing)>()", LAMBDA + "\nconst auto nothing = [] {};", ""),
}


@pytest.mark.parametrize("how", COMPUTED)
def test_what_is_computed_from_a_file_name_is_right_under_a_base_directory(lab: Lab, how: str) -> None:
    value, before, header = COMPUTED[how]
    lab.write("elsewhere/elsewhere.hpp", "#define SIZE sizeof(__FILE__)\n")
    objects = []
    for name in ("one", "longer", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("(int)here", before + f"\nconstexpr auto here = {value};"))
        if header:
            lab.write(f"{name}/include/value.hpp", header)
        made = compile_in(lab, root, "-std=c++17", "-I", str(lab.root / "elsewhere"))
        objects.append(made.object)
    assert made.outcome == HIT
    assert objects[0] != objects[1], "the length of the name is not in the object: the test shows nothing"


HASHED = ["-fprofile-generate", "-fprofile-instr-generate", "-funique-internal-linkage-names"]


@pytest.mark.parametrize("flag", HASHED)
def test_a_path_that_is_hashed_into_a_name_is_right_under_a_base_directory(lab: Lab, flag: str) -> None:
    quiet = "static __attribute__((noinline)) int quiet(int a) { return a > 3 ? a * 7 : a + 1; }\n"
    for name in ("one", "longer", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("1") + quiet + "int loud(int a) { return quiet(a) * quiet(a + 1); }\n")
        made = compile_in(lab, root, "-Xarch_host", flag)
        made = compile_in(lab, root, flag) if made.status else made
    assert made.outcome == HIT


def test_a_length_given_by_a_flag_is_right_under_a_base_directory(lab: Lab) -> None:
    for name in ("one", "longer"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("(int)SIZE"))
        compile_in(lab, root, "-DSIZE=sizeof(__FILE__)")


CHECK = """
int print(const char*, int);
#define CHECK(call) do { if (call) print(__FILE__, __LINE__); } while (0)
void check() { CHECK(1); }
"""


def test_two_checkouts_share_all_where_file_names_are_mapped(lab: Lab) -> None:
    for name in ("one", "two"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("(int)sizeof(__FILE__)", CHECK))
        made = compile_in(lab, root, f"-ffile-prefix-map={root}=.")
    assert made.outcome == HIT


def test_a_map_that_leaves_a_part_of_the_base_directory_does_not_make_it_shared(lab: Lab) -> None:
    for name in ("one", "longer"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("(int)sizeof(__FILE__)"))
        compile_in(lab, root, f"-fmacro-prefix-map={lab.root}=.")


def test_warnings_name_their_own_checkout_under_a_base_directory(lab: Lab) -> None:
    for name in ("one", "two", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("1") + "int f() { int unused = 1; return 0; }\n")
        assert f"/{name}/src/k.hip" in compile_in(lab, root, "-Wall").messages


def test_the_dependency_file_names_its_own_checkout_under_a_base_directory(lab: Lab) -> None:
    for name in ("one", "two"):
        made = compile_in(lab, checkout(lab, name), "-MD")
        assert f"/{name}/include/value.hpp" in made.dependencies
    assert made.outcome == HIT
    assert "/one/" not in made.dependencies


# Architectures


@pytest.mark.archs(2)
def test_order_and_repetition_of_architectures_do_not_change_a_unit(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906", "--offload-arch=gfx90a")
    for archs in (
        ["--offload-arch=gfx90a", "--offload-arch=gfx906"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx906"],
        ["--cuda-gpu-arch=gfx90a", "--offload-arch=gfx906"],
        ["--offload-arch=gfx906,gfx90a"],
        ["--offload-arch=gfx906", "--offload-arch=gfx1030", "--no-offload-arch=gfx1030", "--offload-arch=gfx90a"],
    ):
        again = lab.compile(*archs)
        assert (again.status, again.counted.missed) == (0, frozenset()), archs


@pytest.mark.archs(2)
def test_an_architecture_added_is_compiled_alone(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906")
    more = lab.compile("--offload-arch=gfx906", "--offload-arch=gfx90a")
    assert more.outcome == PARTIAL
    assert more.counted.missed == {"gfx90a"}
    assert more.counted.served == {"gfx906", "host"}


@pytest.mark.archs(2)
def test_a_subset_of_the_architectures_is_a_hit(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
    for archs in (["gfx90a"], ["gfx1030", "gfx906"]):
        assert lab.compile(*(f"--offload-arch={arch}" for arch in archs)).outcome == HIT


@pytest.mark.archs(2)
def test_feature_suffixes_are_architectures_of_their_own(lab: Lab) -> None:
    found = {}
    for arch in ("gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-"):
        made = lab.compile(f"--offload-arch={arch}")
        assert made.outcome != HIT
        found[arch] = made.object
    assert len(set(found.values())) == len(found)
    both = lab.compile("--offload-arch=gfx90a:xnack+", "--offload-arch=gfx90a:xnack-")
    assert both.outcome == HIT
    assert both.counted.served == {"gfx90a:xnack+", "gfx90a:xnack-", "host"}


@pytest.mark.archs(2)
@only_19
def test_a_generic_architecture_is_one_of_its_own(lab: Lab) -> None:
    before = lab.compile("--offload-arch=gfx9-generic", "-mcode-object-version=6")
    again = lab.compile("--offload-arch=gfx9-generic", "-mcode-object-version=6")
    assert again.object == before.object
    assert (before.status, before.outcome, again.outcome) == (0, MISS, HIT)


# CUIDs

STATIC = """\
#include "hip_in_short.hpp"
static __device__ int counter = START;
__global__ void NAME(int* p) { p[0] = counter; }
void* NAME_address() { return (void*)&counter; }
"""


def plain_with(lab: Lab, words: list[str], cuid: str) -> bytes:
    assert lab.run([*words, f"-cuid={cuid}"]).status == 0
    return (lab.root / words[words.index("-o") + 1]).read_bytes()


@pytest.mark.archs(2)
def test_without_a_cuid_of_the_user_the_object_has_one_that_does_not_name_the_architectures(lab: Lab) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    for archs in (["--offload-arch=gfx906"], ["--offload-arch=gfx90a", "--offload-arch=gfx906"]):
        words = [lab.compiler, *archs, *BARE, "-c", "k.hip", "-o", "out.o"]
        assert lab.hipcache(*words).status == 0
        made = (lab.root / "out.o").read_bytes()
        cuid = make_cuid(str(lab.root / "k.hip"), str(lab.root / "out.o"), [])
        assert made == plain_with(lab, words, cuid)


@pytest.mark.archs(2)
def test_two_objects_of_one_source_link_together(lab: Lab) -> None:
    objects = []
    for name in ("one", "two"):
        lab.write("k.hip", STATIC)
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, f"-DNAME={name}", f"-DNAME_address={name}_address"]
        assert lab.hipcache(*words, "-DSTART=1", "-c", "k.hip", "-o", f"{name}.o").status == 0
        objects.append(f"{name}.o")
    ended = lab.run([lab.compiler, "-nostdlib", "-r", *objects, "-o", "both.o"])
    assert ended.status == 0, ended.err


@pytest.mark.archs(2)
def test_two_objects_of_one_source_that_differ_only_in_their_names_link_together(lab: Lab) -> None:
    text = "static __global__ void f(int* p) { p[0] = 1; }\nstatic void* volatile address = (void*)f;\n"
    lab.write("k.hip", '#include "hip_in_short.hpp"\n' + text)
    for name in ("one.o", "two.o"):
        ended = lab.hipcache(lab.compiler, "--offload-arch=gfx906", *BARE, "-c", "k.hip", "-o", name)
        assert ended.status == 0, ended.err
    ended = lab.run([lab.compiler, "-nostdlib", "-r", "one.o", "two.o", "-o", "both.o"])
    assert ended.status == 0, ended.err


@pytest.mark.archs(2)
def test_two_sources_of_one_name_in_two_directories_link_together(lab: Lab) -> None:
    for name in ("one", "two"):
        lab.write(f"{name}/k.hip", STATIC.replace("NAME", name).replace("START", "1"))
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, "-I", str(lab.root), "-c", "k.hip", "-o", "k.o"]
        assert lab.hipcache(*words, cwd=lab.root / name).status == 0
    ended = lab.run([lab.compiler, "-nostdlib", "-r", "one/k.o", "two/k.o", "-o", "both.o"])
    assert ended.status == 0, ended.err


PROGRAM = """
#include <hip/hip_runtime.h>
#include <cstdio>
static __device__ int counter = 1;
static __global__ void count(int* p) { p[0] = counter + NUMBER; }
MORE
const void* WHICH() { return (const void*)count; }
#ifdef MAIN
const void* other();
int main() {
    int devices = 0;
    const char* said = hipGetErrorName(hipGetDeviceCount(&devices));
    return std::printf("%d %s\\n", WHICH() != other(), said) < 0;
}
#endif
"""


MANAGED = """__attribute__((managed)) int WHICH_shared = 3;
__global__ void WHICH_change(int* p) { WHICH_shared = p[0]; }
"""


@pytest.mark.archs(2)
@pytest.mark.parametrize("more", ["", MANAGED], ids=["device", "managed"])
def test_two_objects_of_one_source_are_one_program_with_the_real_library(lab: Lab, more: str) -> None:
    """As far as a machine without a GPU can show: it starts, and ends as plain clang's (with a managed variable that
    is a fault in the library)."""
    lab.write("k.hip", PROGRAM.replace("MORE", more))
    flags = ["--offload-arch=gfx906", "--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-O1"]
    ends = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        for name, number, main in (("first", "1", ["-DMAIN"]), ("other", "2", [])):
            names = [f"-DWHICH={name}", f"-DWHICH_shared={name}_shared", f"-DWHICH_change={name}_change"]
            words = [lab.compiler, *flags, *names, f"-DNUMBER={number}", *main, "-c", "k.hip", "-o", f"{name}.o"]
            ended = lab.run([*launcher, *words])
            assert ended.status == 0, ended.err
            outcome = lab.counted().outcome
        linked = lab.run([lab.compiler, "first.o", "other.o", "-o", "program", "-lamdhip64"])
        assert linked.status == 0, linked.err
        ends.append(lab.run(["./program"]))
    assert outcome == HIT
    assert ends[1:] == [ends[0]] * 2
    assert more or ends[0].out == b"1 hipErrorNoDevice\n"


@pytest.mark.parametrize("choice", ["-cuid=mine", "-fuse-cuid=none"])
def test_a_cuid_that_the_user_chose_is_kept(lab: Lab, choice: str) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    lab.compile(choice)
    assert lab.compile(choice).outcome == HIT


@pytest.mark.archs(2)
@only_19
def test_a_cuid_that_is_to_be_a_hash_is_the_one_that_does_not_name_the_architectures(lab: Lab) -> None:
    objects = []
    for flags in ([], ["-fuse-cuid=hash"]):
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, *flags, "-c", "k.hip", "-o", "out.o"]
        assert lab.hipcache(*words).status == 0
        objects.append((lab.root / "out.o").read_bytes())
    assert objects[0] == objects[1]


@only_19
def test_another_cuid_is_another_object(lab: Lab) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    lab.changed(lab.warm("-cuid=mine"), "-cuid=yours")


RDC = ["-fgpu-rdc", "-fuse-cuid=none"]
COUNTER = """\
#include "hip_in_short.hpp"
static __device__ int counter = 3;
void* address() { return (void*)&counter; }
"""


@pytest.mark.archs(2)
def test_without_a_cuid_all_passes_have_seen_the_same_file(lab: Lab) -> None:
    lab.write("k.hip", COUNTER)
    first = lab.compile(*RDC)
    # The same content in another file, as in a second checkout: names of static variables have its inode.
    (lab.root / "k.hip").rename(lab.root / "old.hip")
    lab.write("k.hip", COUNTER)
    made = lab.compile(*RDC, "--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
    assert made.counted.missed == {"gfx906", "gfx90a", "gfx1030", "host"}
    assert made.object != first.object
    assert lab.compile(*RDC).outcome == HIT


@pytest.mark.archs(2)
def test_without_a_cuid_what_names_a_headers_inode_is_not_kept(lab: Lab) -> None:
    header = "static __device__ int more = 4;\nstatic void* there() { return (void*)&more; }\n"
    lab.write("more.hpp", header)
    # (One variable: clang writes several in the order of their addresses in memory.)
    lab.write("k.hip", '#include "hip_in_short.hpp"\n#include "more.hpp"\nvoid* other() { return there(); }\n')
    lab.compile(*RDC)
    (lab.root / "more.hpp").rename(lab.root / "old.hpp")
    lab.write("more.hpp", header)
    assert lab.compile(*RDC).counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.archs(2)
def test_a_random_cuid_is_left_to_the_compiler(lab: Lab) -> None:
    words = [lab.compiler, "--offload-arch=gfx906", *BARE, "-fuse-cuid=random", "-c", "k.hip", "-o", "out.o"]
    assert lab.hipcache(*words).status == 0
    counted = lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "random_cuid")


@pytest.mark.archs(2)
def test_the_first_compile_of_all_is_a_miss_of_every_unit(lab: Lab) -> None:
    first = lab.compile(CUID)
    assert first.outcome == MISS
    assert first.counted.missed == {"gfx906", "gfx90a", "host"}
    assert (first.counted.front_ends, first.counted.back_ends) == (2, 2)
