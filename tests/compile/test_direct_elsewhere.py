"""Direct hits in another checkout: served with no engine where the engine would share all of it, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import SOURCE, Checkouts, checkouts
from direct_lab import direct
from hip import HIT, LAUNCHER, only_15, only_19, settle
from hipcache.build import depfile
from hipcache.direct import elsewhere

__all__ = ["checkouts", "direct"]

pytestmark = pytest.mark.archs(1)

MAPPED = ("-ffile-prefix-map={}=.",)
LONG = "another_checkout/with_a_name/that_is_much_longer_than_the_first"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["two", LONG])
@pytest.mark.parametrize(
    "flags",
    [
        (),
        MAPPED,
        (*MAPPED, "-g"),
        ("-fdebug-prefix-map={}=/src", "-fmacro-prefix-map={}=/src", "-g"),
        ("-MD", "-MF", "out.d"),
        ("-MD", "-MT", "out.o", "-MF", "{}/build/out.d", "-MP"),
        ("-MMD", "-MF", "out.d", "-MT", "a", "-MT", "{}/b"),
    ],
    ids=" ".join,
)
def test_another_checkout_is_served_with_no_engine(checkouts: Checkouts, place: str, flags: tuple[str, ...]) -> None:
    checkouts.warm(*flags)
    checkouts.add(place, like="one")
    assert checkouts.is_served(place, *flags)


@only_15
def test_a_relative_source_is_served_too(checkouts: Checkouts) -> None:
    flags, source = ("-MD", "-MF", "out.d", *MAPPED), "../src/k.hip"
    checkouts.warm(*flags, source=source)
    checkouts.add(LONG, like="one")
    assert checkouts.is_served(LONG, *flags, source=source)


@only_19
def test_it_counts_as_a_hit_each_time(checkouts: Checkouts) -> None:
    checkouts.warm()
    checkouts.add("two", like="one")
    for _ in range(2):
        assert checkouts.run("two", checkouts.words("two"), *LAUNCHER).status == 0
        assert checkouts.lab.counted().outcome == HIT


@only_19
def test_explain_tells_of_it(checkouts: Checkouts) -> None:
    checkouts.warm()
    checkouts.add("two", like="one")
    assert checkouts.run("two", checkouts.words("two"), str(checkouts.direct.program)).status == 0
    made, origin = (checkouts.place(name) / "build/out.o" for name in ("two", "one"))
    told = checkouts.lab.hipcache("explain", made).out.decode().splitlines()
    assert told[0].startswith(f"'{made}', ")
    assert told[0].endswith(": hit")
    assert told[-1] == f"  note: taken from the compile of '{origin}'"
    made.write_bytes(b"another one")
    assert "no record of a compile" in checkouts.lab.hipcache("explain", made).err.decode()


Change = Callable[[Path], object]
CHANGES: dict[str, Change] = {
    "the source": lambda place: (place / "src/k.hip").write_text(SOURCE.replace("7", "8")),
    "a header": lambda place: (place / "inc/value.hpp").write_text("#define VALUE 42\n"),
    "a header that shadows": lambda place: (place / "first/value.hpp").write_text("#define VALUE 43\n"),
    "a header beside the source": lambda place: (place / "src/value.hpp").write_text("#define VALUE 44\n"),
    "a link in the place of a directory": lambda place: (
        (place / "inc").rename(place / "other"),
        (place / "inc").symlink_to("other"),
        (place / "other/value.hpp").write_text("#define VALUE 45\n"),
    ),
}


@only_19
@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_in_one_checkout_is_the_engines_affair(checkouts: Checkouts, change: str) -> None:
    checkouts.warm("-MD", "-MF", "out.d")
    CHANGES[change](checkouts.add("two", like="one"))
    settle()
    assert not checkouts.is_served("two", "-MD", "-MF", "out.d")
    checkouts.add("three", like="one")
    assert checkouts.is_served("three", "-MD", "-MF", "out.d")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("-g",), ""),
        ((), 'extern "C" const char* name() { return __FILE__; }\n'),
        ((), 'extern "C" int size() { return sizeof(__FILE__); }\n'),
        (("-Wall",), "static int unused;\n"),
        (('-DROOT="{}"',), 'extern "C" const char* name() { return ROOT; }\n'),
        (('-DROOT="{}"',), ""),
        (("-fuse-cuid=hash",), ""),
        (("-cuid={}",), ""),
    ],
    ids=["debug", "file", "size", "messages", "macro", "unused macro", "cuid of the path", "own cuid"],
)
def test_what_may_show_the_checkout_is_the_engines_affair(
    checkouts: Checkouts, flags: tuple[str, ...], text: str
) -> None:
    checkouts.lab.write(checkouts.place("one") / "src/k.hip", SOURCE + text)
    settle()
    checkouts.warm(*flags)
    checkouts.add("two", like="one")
    # (The driver hashes its words for a CUID: ours and plain clang's are others.)
    if "-fuse-cuid=hash" in flags:
        words = checkouts.words("two", *flags)
        assert checkouts.run("two", words, str(checkouts.direct.program)).status == 99
    else:
        assert not checkouts.is_served("two", *flags)


@only_19
def test_without_a_base_directory_nothing_is_shared(checkouts: Checkouts) -> None:
    checkouts.warm(env={"HIPCACHE_BASEDIR": ""})
    checkouts.add("two", like="one")
    assert not checkouts.is_served("two")
    assert not checkouts.is_served("two", env={"HIPCACHE_BASEDIR": ""})


@only_19
@pytest.mark.parametrize("spelled", ["{}/", "{}/../one", "{}/link", "{}/./"])
def test_a_base_directory_that_is_not_spelled_plainly_is_none(checkouts: Checkouts, spelled: str) -> None:
    place = checkouts.place("one")
    (place / "link").symlink_to(place)
    env = {"HIPCACHE_BASEDIR": spelled.replace("{}", str(place))}
    checkouts.warm(env=env)
    checkouts.add("two", like="one")
    assert not checkouts.is_served("two")


@only_19
def test_another_variable_is_the_engines_affair(checkouts: Checkouts) -> None:
    checkouts.warm()
    checkouts.add("two", like="one")
    assert not checkouts.is_served("two", env={"CPATH": str(checkouts.place("two") / "first")})
    checkouts.add("three", like="one")
    assert checkouts.is_served("three")


@only_19
def test_a_variable_that_names_the_checkout_is_as_it_was_there(checkouts: Checkouts) -> None:
    checkouts.warm(env={"CPATH": str(checkouts.place("one") / "first")})
    checkouts.add("two", like="one")
    assert checkouts.is_served("two", env={"CPATH": str(checkouts.place("two") / "first")})
    checkouts.add("three", like="one")
    assert not checkouts.is_served("three", env={"CPATH": str(checkouts.place("one") / "first")})


@only_19
def test_pwd_matters_only_where_it_is_another_name_of_the_working_directory(checkouts: Checkouts) -> None:
    checkouts.warm(env={"PWD": str(checkouts.place("one") / "build")})
    two = checkouts.add("two", like="one")
    (checkouts.lab.root / "link").symlink_to(two / "build")
    for pwd in ("/", str(checkouts.place("one")), str(two), str(two / "build")):
        assert checkouts.is_served("two", env={"PWD": pwd})
    assert not checkouts.is_served("two", env={"PWD": str(checkouts.lab.root / "link")})


@only_15
def test_a_build_that_was_started_beside_all_checkouts_is_served(checkouts: Checkouts) -> None:
    """`ninja -C` leaves PWD as it was. What lies there is no more of the checkout than before."""
    checkouts.warm(env={"PWD": str(checkouts.lab.root)})
    two = checkouts.add("two", like="one")
    for pwd in (str(checkouts.lab.root), str(two / "build")):
        assert checkouts.is_served("two", env={"PWD": pwd})


@only_15
@pytest.mark.parametrize("pwd", ["beside", ""])
def test_a_header_where_the_build_was_started_is_not_taken_for_that_of_another(checkouts: Checkouts, pwd: str) -> None:
    beside = checkouts.lab.root / "beside"
    beside.mkdir()
    (beside / "other.hpp").write_text("#define VALUE 43\n")
    (checkouts.place("one") / "inc/value.hpp").write_text('#include "../../beside/other.hpp"\n')
    settle()
    checkouts.warm(env={"PWD": str(checkouts.lab.root / pwd)})
    checkouts.add("apart/two", like="one")
    (checkouts.lab.root / "apart/beside").mkdir()
    (checkouts.lab.root / "apart/beside/other.hpp").write_text("#define VALUE 44\n")
    assert not checkouts.is_served("apart/two", env={"PWD": str(checkouts.lab.root / pwd)})


@only_15
@pytest.mark.parametrize("way", ["name", "link"])
def test_a_header_beside_the_checkout_is_not_taken_for_that_of_another(checkouts: Checkouts, way: str) -> None:
    """Each has its own there."""
    lab, one = checkouts.lab, checkouts.place("one")
    lab.write("a/beside.hpp", "#define MORE 1\n")
    lab.write("b/beside.hpp", "#define MORE 2\n")
    shutil.copytree(one, lab.root / "a/one")
    name = "../../beside.hpp" if way == "name" else "../link/beside.hpp"
    lab.write("a/one/src/k.hip", f'#include "{name}"\n' + SOURCE.replace("7", "MORE"))
    if way == "link":
        (lab.root / "a/one/link").symlink_to("..")
    shutil.copytree(lab.root / "a/one", lab.root / "b/one", symlinks=True)
    settle()
    for place in ("a/one", "b/one"):
        for _ in range(2):
            assert checkouts.run(place, checkouts.words(place), *LAUNCHER).status == 0
            assert checkouts.lab.counted().outcome == "miss" or place == "a/one"
            break
    assert checkouts.files("a/one")["out.o"] != checkouts.files("b/one")["out.o"]
    assert checkouts.run("b/one", checkouts.words("b/one")).status == 0
    plain = checkouts.files("b/one")["out.o"]
    checkouts.run("b/one", checkouts.words("b/one"), *LAUNCHER)
    assert checkouts.files("b/one")["out.o"] == plain


@only_19
def test_a_mark_that_a_word_has_is_no_checkout(checkouts: Checkouts) -> None:
    checkouts.warm("-I{}/first/../first")
    checkouts.add("two", like="one")
    words = [word.replace("-I" + str(checkouts.place("two")) + "/first/..", "-I<basedir>/first/..")
             for word in checkouts.words("two", "-I{}/first/../first")]  # fmt: skip
    assert checkouts.run("two", words, str(checkouts.direct.program)).status == 99


@pytest.mark.files
@only_19
def test_a_record_that_is_cut_or_changed_is_no_hit(checkouts: Checkouts) -> None:
    checkouts.warm("-MD", "-MF", "out.d")
    checkouts.add("two", like="one")
    place, flags = checkouts.place("one"), ("-MD", "-MF", "out.d")
    name = elsewhere.key(checkouts.words("one", *flags), str(place / "build"), str(place))
    file = checkouts.lab.store / "v2/actions" / name
    whole = file.read_bytes()
    words = checkouts.words("two", *flags)
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        for damaged in (whole[:size], whole[:size] + bytes([whole[size] ^ 1]) + whole[size + 1 :]):
            file.write_bytes(damaged)
            assert checkouts.run("two", words, str(checkouts.direct.program)).status == 99
            assert checkouts.files("two") == {}
    file.write_bytes(whole)
    assert checkouts.run("two", words, str(checkouts.direct.program)).status == 0


@pytest.mark.parametrize("name", ["a b.hip", "a$b.hip", "a#b.hip", "a\\b.hip", "a\tb.hip"])
def test_a_rule_whose_names_are_quoted_is_not_broken_anew(name: str) -> None:
    assert depfile.wrapped(depfile.write(["out.o"], ["k.hip", name], phony=False)) == ""


@pytest.mark.parametrize("length", [1, 10, 40, 70, 90])
@pytest.mark.parametrize("phony", [False, True])
def test_a_plain_rule_is_broken_as_it_was(length: int, phony: bool) -> None:
    for targets in (["t"], ["t" * length, "u" * length]):
        text = depfile.write(targets, [f"{number}{'n' * length}" for number in range(30)], phony=phony)
        assert depfile.wrapped(text) == text
