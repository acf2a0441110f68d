"""Never a wrong object: files that flags name.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import struct

import pytest
from hip import BARE, DEVICE_LIBRARIES, HIT, LLVM, PASSED_THROUGH, Lab, kernel, only_15, rewrite

pytestmark = pytest.mark.archs(1)


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


def header_map(name: str, place: str) -> bytes:
    """A map (clang/include/clang/Lex/HeaderMapTypes.h) of one header to the one in that directory."""
    texts = f"\0{name}\0{place}/\0{name}\0".encode()
    rows = [(0, 0, 0)] * 8
    rows[sum(13 * ord(letter) for letter in name) & 7] = (1, len(name) + 2, texts.rindex(name.encode()))
    head = struct.pack("<4sHHIIII", b"pamh", 1, 0, 24 + 12 * len(rows), 1, len(rows), 0)
    return head + b"".join(struct.pack("<III", *row) for row in rows) + texts


@pytest.mark.parametrize("flag", ["-I", "-I./", "-iquote"])
def test_a_placeholder_that_becomes_a_header_map_is_read_anew(lab: Lab, flag: str) -> None:
    lab.write("k.hip", kernel("VALUE", '#include "v.h"'))
    placeholder = lab.write("m.hmap", "")
    lab.write("real/v.h", "#define VALUE 1\n")
    lab.write("two/v.h", "#define VALUE 2\n")
    before = lab.warm(f"{flag}m.hmap", "-Itwo")
    placeholder.write_bytes(header_map("v.h", f"{lab.root}/real"))
    lab.changed(before, f"{flag}m.hmap", "-Itwo")


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
