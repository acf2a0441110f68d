"""Never a wrong object: working directories and base directories.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hip import BARE, HIT, LAUNCHER, MISS, Compiled, Lab, kernel, since_18

pytestmark = pytest.mark.archs(1)

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


def under_a_system(lab: Lab, header: str, text: str, value: str) -> list[Compiled]:
    """Compiles in checkouts whose names are of different lengths, with a header in a system directory."""
    lab.write(f"system/usr/include/{header}", text)
    made = []
    for name in ("one", "longer", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel(value, f"#include <{header}>\ninline void tell(const char*) {{}}\n"))
        made.append(compile_in(lab, root, f"--sysroot={lab.root}/system"))
    return made


@pytest.mark.parametrize("header", ["library.h", "library/hip/library.h", "local/c++/library.h"])
def test_what_a_macro_of_a_library_in_a_system_directory_computes_is_right(lab: Lab, header: str) -> None:
    one, other, again = under_a_system(lab, header, "#define SIZE sizeof(__FILE__)\n", "(int)SIZE")
    assert again.outcome == HIT
    assert one.object != other.object, "the length of the name is not in the object: the test shows nothing"


@pytest.mark.parametrize("header", ["assert.h", "hip/check.h", "hipcub/config.hpp"])
def test_macros_of_libc_and_rocm_that_lend_a_file_name_for_messages_are_shared(lab: Lab, header: str) -> None:
    _, other, _ = under_a_system(lab, header, "#define CHECK(x) ((x) ? (void)0 : tell(__FILE__))\n", "1")
    assert other.outcome == HIT


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


MACROS = {
    "its length": ("", "sizeof(ROOT)"),
    "of another macro": ("", "LENGTH"),
    "pasted": ("#define PASTE(a, b) a##b", "sizeof(PASTE(RO, OT))"),
    "pasted from a letter": ("#define PASTE(a, b) a##b", "sizeof(PASTE(R, OOT))"),
    "over two lines": ("", "sizeof(RO\\\nOT)"),
    "as a string": ("#define STRING_OF(a) #a\n#define STRING(a) STRING_OF(a)", "sizeof(STRING(PLACE))"),
}


@pytest.mark.parametrize("how", MACROS)
def test_what_is_computed_from_a_macro_is_right_under_a_base_directory(lab: Lab, how: str) -> None:
    before, value = MACROS[how]
    objects = []
    for name in ("one", "longer", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel(f"(int){value}", before))
        made = compile_in(lab, root, f'-DROOT="{root}"', f"-DPLACE={root}/src", "-DLENGTH=sizeof(ROOT)")
        objects.append(made.object)
    assert made.outcome == HIT
    assert objects[0] != objects[1], "the length of the name is not in the object: the test shows nothing"


def test_a_macro_with_the_base_directory_that_nobody_uses_keeps_nothing_from_being_shared(lab: Lab) -> None:
    for name in ("one", "two"):
        root = checkout(lab, name)
        made = compile_in(lab, root, f'-DROOT="{root}"', f"-DPLACE={root}/src")
    assert made.outcome == HIT


def test_a_source_beside_the_base_directory_has_the_macro_of_its_command(lab: Lab) -> None:
    lab.write("k.hip", kernel("(int)sizeof(ROOT)"))
    for name in ("one", "longer"):
        root = checkout(lab, name)
        lab.compile(f'-DROOT="{root}"', source=lab.root / "k.hip", env={"HIPCACHE_BASEDIR": str(root)})


@pytest.mark.parametrize("components", ["-3", "1"])
def test_a_path_of_which_a_sanitizer_shows_a_part_is_right_under_a_base_directory(lab: Lab, components: str) -> None:
    flags = ("-fsanitize=undefined", f"-fsanitize-undefined-strip-path-components={components}")
    objects = []
    for name in ("one", "second", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/include/value.hpp", "#define VALUE 1\ninline int twice(int a) { return a * 2; }\n")
        lab.write(f"{name}/src/k.hip", kernel("1", "#include <value.hpp>") + "int loud(int a) { return twice(a); }\n")
        made = compile_in(lab, root, *(word for flag in flags for word in ("-Xarch_host", flag)))
        objects.append(made.object)
    assert made.outcome == HIT
    assert objects[0] != objects[1], "the part holds nothing of the base directory: the test shows nothing"


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


CUT = ("-ffile-prefix-map={}=/usr/src", "-fdebug-prefix-map={}=Q", "-ffile-prefix-map={}/=")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("debug", ["-g", "-gline-tables-only"])
@pytest.mark.parametrize("flag", CUT)
def test_a_map_that_leaves_a_part_of_the_base_directory_leaves_each_checkout_its_own(
    lab: Lab, flag: str, debug: str
) -> None:
    objects = []
    for name in ("one", "second", "one"):
        root = checkout(lab, name)
        made = compile_in(lab, root, debug, flag.replace("{}", str(lab.root)))
        objects.append(made.object)
    assert made.outcome == HIT
    assert objects[0] != objects[1], "the map leaves nothing of the base directory: the test shows nothing"


def test_warnings_name_their_own_checkout_under_a_base_directory(lab: Lab) -> None:
    outcomes = []
    for name in ("one", "two", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("1") + "int f() { int unused = 1; return 0; }\n")
        compiled = compile_in(lab, root, "-Wall")
        assert f"/{name}/src/k.hip" in compiled.messages
        outcomes.append(compiled.outcome)
    assert outcomes == [MISS, HIT, HIT]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("-fmessage-length=40",), "unused"),
        (("-DTEXT=<basedir>",), "<basedir>"),
        (("-DTEXT={}-more/k",), "-more/k"),
    ],
    ids=["wrapped behind the path", "a mark of the user's", "a path that begins like it"],
)
def test_messages_that_may_be_others_in_another_checkout_are_not_shared(
    lab: Lab, flags: tuple[str, ...], said: str
) -> None:
    for name in ("one", "a-longer-name"):
        root = checkout(lab, name)
        told = '#define S(X) #X\n#define Q(X) S(X)\n#pragma message(Q(TEXT))\n#pragma message("unused")\n'
        lab.write(f"{name}/src/k.hip", told + kernel("1"))
        compiled = compile_in(lab, root, *(flag.replace("{}", str(root)) for flag in flags))
        assert said in compiled.messages
        assert compiled.outcome != HIT


def test_the_dependency_file_names_its_own_checkout_under_a_base_directory(lab: Lab) -> None:
    for name in ("one", "two"):
        made = compile_in(lab, checkout(lab, name), "-MD")
        assert f"/{name}/include/value.hpp" in made.dependencies
    assert made.outcome == HIT
    assert "/one/" not in made.dependencies


# Source directories that a build tool's module has noted


def compile_noted(lab: Lab, root: Path, *flags: str, env: dict[str, str] | None = None) -> Compiled:
    lab.write(root / "build/.hipcache-source", f"{root}\n")
    flags = ("-I", str(root / "include"), *flags)
    return lab.compile(*flags, source=root / "src" / "k.hip", cwd=root / "build", env=env)


def test_checkouts_share_below_the_source_directories_that_are_noted(lab: Lab) -> None:
    compile_noted(lab, checkout(lab, "one"))
    assert compile_noted(lab, checkout(lab, "two")).outcome == HIT
    assert compile_noted(lab, checkout(lab, "three", "2")).outcome != HIT


@pytest.mark.parametrize(
    "flags", [("-g", "-DSIZE=1"), ("-DSIZE=sizeof(__FILE__)",), ("-DSIZE=length()",)], ids=" ".join
)
def test_what_names_a_source_directory_that_is_noted_is_its_own(lab: Lab, flags: tuple[str, ...]) -> None:
    objects = []
    for name in ("one", "longer", "one"):
        root = checkout(lab, name)
        lab.write(f"{name}/src/k.hip", kernel("(int)here", BUILTIN + "\nconstexpr auto here = SIZE;"))
        objects.append(compile_noted(lab, root, "-std=c++17", *flags).object)
    assert objects[0] and objects[0] == objects[2] != objects[1]


def test_a_base_directory_wins_over_a_source_directory_that_is_noted(lab: Lab) -> None:
    compile_noted(lab, checkout(lab, "one"), env={"HIPCACHE_BASEDIR": str(lab.root / "one")})
    two, three = checkout(lab, "two"), checkout(lab, "three")
    assert compile_noted(lab, two, env={"HIPCACHE_BASEDIR": "/nowhere"}).outcome != HIT
    assert compile_noted(lab, three, env={"HIPCACHE_BASEDIR": ""}).outcome != HIT


@since_18
def test_objects_of_two_source_directories_have_two_cuids(lab: Lab) -> None:
    """They may meet in one link: of external projects, each of which is configured by itself."""
    names = set()
    for name in ("one", "two", "one", "two"):
        root = checkout(lab, name)
        (root / ".git").rmdir()
        lab.write(root / "build/.hipcache-source", f"{root}\n")
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, "-I", str(root / "include")]
        words += ["-c", str(root / "src/k.hip"), "-o", "out.o"]
        assert lab.run([*LAUNCHER, *words], cwd=root / "build").status == 0
        names.update(re.findall(rb"__hip_cuid_\w+", (root / "build/out.o").read_bytes()))
    assert len(names) == 2
