"""Preprocessed text (-E to a file): cached for each pass, and plain clang's to the last blank line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hip import (
    ARCHS,
    BARE,
    CUID,
    FAILED,
    HIT,
    MISS,
    PARTIAL,
    PASSED_THROUGH,
    Compiled,
    Lab,
    kernel,
    only_19,
    same_times,
)

TEXT = '#include "value.hpp" // the number\n\n\n#ifdef __HIP_DEVICE_COMPILE__\n#define SIDE 1\n#endif\n'


@pytest.fixture
def text(lab: Lab) -> Lab:
    lab.write("inc/value.hpp", "#pragma once\n/* a comment */\n#define VALUE 3\n")
    lab.write("k.hip", kernel("VALUE", TEXT))
    return lab


def preprocess(lab: Lab, *flags: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Compiled:
    archs = () if any("-arch=" in flag for flag in flags) else ARCHS
    include = () if any(flag.startswith("-I") for flag in flags) else ("-Iinc",)
    words = [lab.compiler, *archs, *BARE, CUID, *include, *flags, "-E", "k.hip", "-o", "out.ii"]
    return lab.same(words, output="out.ii", cwd=cwd, env=env)


def warm(lab: Lab, *flags: str) -> bytes:
    assert preprocess(lab, *flags).outcome == MISS
    second = preprocess(lab, *flags)
    assert second.outcome == HIT, lab.hipcache("explain").out.decode()
    return second.object


@pytest.mark.parametrize(
    "flags",
    [[], ["--cuda-host-only"], ["--cuda-device-only", "--offload-arch=gfx906"], ["-P"], ["-C"], ["-dD"], ["-dM"]],
    ids=" ".join,
)
def test_the_text_is_plain_clangs_and_the_next_one_runs_no_compiler(text: Lab, flags: list[str]) -> None:
    made = warm(text, *flags)
    assert (b"kernel" in made) != ("-dM" in flags)


@pytest.mark.parametrize("flags", [["-CC", "-dI"], ["-fminimize-whitespace", "-P"], ["-fuse-line-directives"], ["-g"]])
@only_19
def test_other_forms_of_the_text_are_plain_clangs(text: Lab, flags: list[str]) -> None:
    warm(text, *flags)


def test_what_changed_in_one_pass_is_preprocessed_alone(text: Lab) -> None:
    before = warm(text)
    assert preprocess(text, *ARCHS, "--offload-arch=gfx1030").counted.missed == {"gfx1030"}
    text.write("inc/value.hpp", "#pragma once\n/* a comment */\n#define VALUE 4\n")
    after = preprocess(text)
    assert after.outcome == MISS
    assert after.object != before


@pytest.mark.parametrize("flags", [[], ["-C"]], ids=" ".join)
@pytest.mark.parametrize(
    ("old", "new"),
    [("a comment", "another"), ("/* a comment */", ""), ("*/\n", "*/\n\n\n\n\n\n\n\n\n"), ("#define", "  #  define")],
)
@only_19
def test_comments_and_blank_lines_count(text: Lab, flags: list[str], old: str, new: str) -> None:
    """In a compile that does not have them in its output they would not."""
    warm(text, *flags)
    for name in ("inc/value.hpp", "k.hip"):
        path = text.root / name
        path.write_text(path.read_text().replace(old, new).replace("the number", f"the {len(new)}th"))
    assert preprocess(text, *flags).outcome == MISS


@only_19
def test_a_header_by_another_name_is_another_text(text: Lab) -> None:
    before = warm(text)
    for other in ("-I./inc", f"-I{text.root}/inc"):
        assert preprocess(text, other).object != before
    text.write("new/value.hpp", (text.root / "inc/value.hpp").read_bytes())
    same_times(text.root / "new/value.hpp", (text.root / "inc/value.hpp").stat())
    warm(text, "-Inew", "-Iinc")
    (text.root / "new/value.hpp").unlink()
    assert preprocess(text, "-Inew", "-Iinc").outcome != HIT


@only_19
def test_a_text_that_names_its_checkout_belongs_to_that_one(text: Lab, tmp_path: Path) -> None:
    """The one with the name of the directory in it, and the one without."""
    for include, shared in (("@/inc", False), ("inc", True)):
        outcomes = []
        for number in "12":
            checkout = tmp_path / number
            shutil.copytree(text.root, checkout, dirs_exist_ok=True)
            env = {"HIPCACHE_BASEDIR": str(checkout)}
            outcomes.append(preprocess(text, f"-I{include}".replace("@", str(checkout)), cwd=checkout, env=env).outcome)
        assert outcomes == [MISS, HIT if shared else MISS]


def test_messages_and_the_dependency_file_are_plain_clangs(text: Lab) -> None:
    text.write("k.hip", "#warning said\n" + kernel("VALUE", TEXT))
    for flags in (["-MD"], ["-MMD", "-MP"]):
        for expected in (MISS, HIT):
            found = preprocess(text, *flags)
            assert found.outcome == expected
            assert found.messages.count("#warning said") >= 3
            assert found.dependencies == found.plain_dependencies


def test_the_time_is_not_kept(text: Lab) -> None:
    text.write("k.hip", "const char* when = __TIME__;\n")
    words = [text.compiler, *ARCHS, *BARE, CUID, "-E", "k.hip", "-o", "out.ii"]
    for _ in range(2):
        assert text.hipcache(*words).status == 0
        assert text.counted().outcome == MISS


def test_a_text_that_cannot_be_made_ends_as_plain_clang_ends_it(text: Lab) -> None:
    warm(text)
    text.write("k.hip", "#error no\n")
    assert preprocess(text).outcome == FAILED


@only_19
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["-frewrite-includes"], "compiler_option"),
        (["-o", "-"], "standard_streams"),
    ],
)
def test_what_is_not_understood_is_left_to_the_compiler(text: Lab, flags: list[str], reason: str) -> None:
    words = [text.compiler, *ARCHS, *BARE, CUID, "-Iinc", "-E", "k.hip", "-o", "out.ii", *flags]
    plain, cached = text.run(words), text.hipcache(*words)
    assert cached == plain
    found = text.counted()
    assert (found.outcome, found.reason) == (PASSED_THROUGH, reason)


def test_standard_output_is_the_compilers(text: Lab) -> None:
    words = [text.compiler, *ARCHS, *BARE, CUID, "-Iinc", "-E", "k.hip"]
    assert text.hipcache(*words) == text.run(words)
    assert text.counted().reason == "preprocess"


@only_19
def test_an_output_that_is_a_link_is_written_as_plain_clang_writes_it(text: Lab) -> None:
    for flags, reason in (([], "linked_output"), (["--cuda-host-only"], "")):
        kinds = []
        for launcher in (text.run, lambda words: text.hipcache(*words)):
            text.write("elsewhere", "old")
            (text.root / "out.ii").unlink(missing_ok=True)
            (text.root / "out.ii").symlink_to("elsewhere")
            words = [text.compiler, *ARCHS, *BARE, CUID, "-Iinc", *flags, "-E", "k.hip", "-o", "out.ii"]
            assert launcher(words).status == 0
            kinds.append(((text.root / "out.ii").is_symlink(), (text.root / "elsewhere").read_bytes()))
        assert kinds[1] == kinds[0]
        assert text.counted().reason == reason


@pytest.mark.skipif(not shutil.which("hipcc"), reason="no hipcc here")
def test_hipcc_preprocesses_too(text: Lab) -> None:
    if text.version != "15":
        pytest.skip("Debian's hipcc runs clang 15")
    text.compiler = "hipcc"
    warm(text)
    assert text.hipcache("hipcc", *ARCHS, *BARE, "-Iinc", "-E", "k.hip").status == 0
    assert text.counted().reason == "preprocess"
    text.write("inc/value.hpp", "#define VALUE 5\n")
    assert preprocess(text).outcome in (MISS, PARTIAL)
