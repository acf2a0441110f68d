"""Front ends and host passes are shared between spellings of paths (CMake's, SCons', Meson's). Every compile here is
compared with plain clang's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, MISS, Lab, only_15, only_19, script, since_18
from hipcache.clang.cuid import clangs_hash
from spelled_lab import ONE, TWO, WAYS, compile_as, project, spelled, write

__all__ = ["project"]
pytestmark = pytest.mark.archs(1)


@pytest.mark.parametrize("first", ["cmake", "scons", "make"])
def test_a_pass_serves_every_spelling(lab: Lab, first: str) -> None:
    assert compile_as(lab, first).outcome == MISS
    for way in WAYS:
        assert compile_as(lab, way).outcome == HIT, way


@pytest.mark.parametrize(
    "flags",
    [("-O3", "-fPIC", "-std=c++17", "-DNDEBUG", "-Wall"), ("-O0", "--std=c++17"), ("-MMD",), ("-isystem", "src")],
    ids=" ".join,
)
def test_it_is_shared_under_usual_flags(lab: Lab, flags: tuple[str, ...]) -> None:
    write(lab, "#include <value.hpp>", host="[](int a) { return a; }(VALUE)")
    top = str(lab.root / "p")
    compile_as(lab, "cmake", *(word.replace("src", f"{top}/src") for word in flags))
    assert compile_as(lab, "scons", *flags).outcome == HIT


@only_15
def test_another_cuid_is_no_other_pass_for_a_clang_that_writes_it_nowhere(lab: Lab) -> None:
    if int(lab.version) >= 18:
        pytest.skip("this clang writes it")
    compile_as(lab, "cmake", cuid=ONE)
    assert compile_as(lab, "scons", cuid=TWO).outcome == HIT


@since_18
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


@pytest.mark.files
def test_code_that_the_store_has_lost_is_compiled_again(lab: Lab) -> None:
    compile_as(lab, "cmake")
    for blob in [path for path in (lab.store / "v2" / "blobs").rglob("*") if path.is_file()]:
        blob.unlink()
    assert compile_as(lab, "scons").outcome == MISS
