"""Why a unit missed, in words: what differs from the last compile of its object."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipcache.base.compression import unpack_json
from hipcache.base.values import replace
from hipcache.inputs.readset import ReadFile, ReadSet
from hipcache.report.causes import differences, why
from hipcache.report.history import History, Record, UnitRecord
from hipcache.store.local import LocalStore

INPUTS = (("compiler", "c1"), ("option", "-O2"), ("bitcode ocml.bc", "b1"), ("content of a b.txt", "t1"))
CUID = "the CUID changed (different options, or a different source or object name)"


def history_in(root: Path) -> History:
    return History(LocalStore(root, max_bytes=0).notes())


def unit(name: str = "gfx906", inputs: tuple[tuple[str, str], ...] = INPUTS, reads: str = "") -> UnitRecord:
    return UnitRecord(name, False, False, None, (), inputs, reads)


def record(*units: UnitRecord, variables: dict[str, str] | None = None, object: str = "/b/k.o") -> Record:
    return Record(object, 1.5, ("clang++", "-c"), "/b", "miss", "", "", ("a note",), variables or {}, units)


def reads(**digests: str) -> ReadSet:
    return ReadSet(tuple(ReadFile(f"{name}.h", digest, None, False, "") for name, digest in digests.items()), (), ())


def changed(name: str, value: str) -> list[str]:
    return differences(INPUTS, [(n, value if n == name else v) for n, v in INPUTS])


# Inputs


def test_the_same_inputs_differ_in_nothing() -> None:
    assert differences(INPUTS, INPUTS) == []


def test_options_in_another_order_are_told() -> None:
    assert differences(INPUTS, INPUTS[::-1]) == ["the order of the options changed"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("compiler", ["the compiler changed, or a library that it loads"]),
        ("option", ["option 'new' is new", "option '-O2' is gone"]),
        ("bitcode ocml.bc", ["device library 'ocml.bc' changed"]),
        ("content of a b.txt", ["file 'a b.txt', which an option names, changed"]),
    ],
)
def test_a_changed_input_is_named(name: str, words: list[str]) -> None:
    assert changed(name, "new") == words


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("option", ["option '-O2' is gone"]),
        ("bitcode ocml.bc", ["'ocml.bc' is no longer used"]),
        ("content of a b.txt", ["'a b.txt' is no longer used"]),
    ],
)
def test_an_input_that_is_gone_is_named(gone: str, words: list[str]) -> None:
    assert differences(INPUTS, [pair for pair in INPUTS if pair[0] != gone]) == words


@pytest.mark.parametrize(
    ("come", "words"),
    [
        (("option", "-g"), ["option '-g' is new"]),
        (("linker option", "-x"), ["linker option '-x' is new"]),
        (("bitcode ockl.bc", "1"), ["device library 'ockl.bc' is new"]),
        (("content of f", "1"), ["file 'f', which an option names, is new"]),
        (("option", "-cuid=2"), [CUID]),
        (("source", "l.hip"), ["the source is now named 'l.hip'"]),
        (("dependencies", "user"), ["the kind of dependency file changed (-MD or -MMD)"]),
    ],
)
def test_an_input_that_came_is_named(come: tuple[str, str], words: list[str]) -> None:
    assert differences(INPUTS, [*INPUTS, come]) == words


def test_another_cuid_is_not_told_where_something_else_explains_it() -> None:
    assert differences([("option", "-cuid=1")], [("option", "-cuid=2"), ("option", "-DA")]) == ["option '-DA' is new"]


def test_an_option_given_twice_is_told() -> None:
    assert differences([("option", "-g")], [("option", "-g"), ("option", "-g")]) == ["option '-g' is new"]


# Why


def no_reads(digest: str) -> ReadSet | None:
    return None


def test_a_first_compile_says_so() -> None:
    assert why(unit(), "nothing is stored", None, {}, no_reads) == (
        "first compile of this object with this store; nothing is stored",
    )


def test_where_another_object_has_the_same_command_the_look_up_has_the_word() -> None:
    assert why(unit(), "file '/a.h' changed", None, {}, no_reads) == ("file '/a.h' changed",)


def test_an_arch_that_was_not_compiled_before_is_new() -> None:
    assert why(unit("gfx90a"), "found", record(unit()), {}, no_reads) == ("gfx90a is new for this object",)


def test_after_a_compile_without_units_the_look_up_has_the_word() -> None:
    assert why(unit(), "what was found", record(), {}, no_reads) == ("what was found",)


def test_where_nothing_differs_the_look_up_has_the_word() -> None:
    assert why(unit(), "the store no longer has it", record(unit()), {}, no_reads) == ("the store no longer has it",)


def test_a_variable_that_changed_an_input_is_told_first() -> None:
    old = record(unit(), variables={"ROCM_PATH": "/a"})
    words = why(unit(inputs=INPUTS[:1]), "found", old, {"ROCM_PATH": "/b"}, no_reads)
    assert words[0] == "variable 'ROCM_PATH' was '/a', now '/b'"


def test_a_variable_that_was_not_set_is_told_so() -> None:
    words = why(unit(inputs=(*INPUTS, ("option", "-I/b"))), "found", record(unit()), {"CPATH": "/b"}, no_reads)
    assert words[0] == "variable 'CPATH' was not set, now '/b'"


def test_a_variable_that_changed_nothing_is_not_told() -> None:
    old = record(unit(), variables={"PATH": "/a"})
    assert why(unit(), "found", old, {"PATH": "/b"}, no_reads) == ("found",)


@pytest.mark.parametrize(
    ("name", "now", "differs", "told"),
    [
        ("PATH", "/a:/opt/tools", ("option", "-DX=1"), False),
        ("PATH", "/a:/opt/tools", ("compiler", "c2"), True),
        ("PATH", "/a:/", ("option", "-DX=1"), False),
        ("LD_PRELOAD", "/b.so", ("compiler", "c2"), True),
        ("ROCM_PATH", "/opt/rocm", ("option", "-DX=1"), False),
        ("ROCM_PATH", "/opt/rocm/", ("option", "-internal-isystem /opt/rocm/include"), True),
        ("ROCM_PATH", "/opt/rocm", ("bitcode ocml.bc", "b2"), True),
        ("CPATH", "/a:/b", ("option", "-I/a"), False),
        ("CPATH", "/a:", ("option", "-I."), True),
        ("CCC_OVERRIDE_OPTIONS", "+-DX=1", ("option", "-D X=1"), True),
    ],
)
def test_a_variable_is_told_only_where_what_differs_can_come_from_it(
    name: str, now: str, differs: tuple[str, str], told: bool
) -> None:
    old = record(unit(), variables={name: "/a"})
    words = why(unit(inputs=(*INPUTS, differs)), "found", old, {name: now}, no_reads)
    assert any(word.startswith(f"variable '{name}'") for word in words) == told


def test_of_a_unit_whose_variables_are_inputs_those_are_told_and_no_others() -> None:
    before = (("option", "a"), ("variable A", "1"), ("variable B", "1"), ("variable C", "1"))
    now = (("option", "a"), ("variable A", "1"), ("variable B", "2"), ("variable D", "1"))
    words = why(unit(inputs=now), "found", record(unit(inputs=before), variables={"PATH": "/a"}), {}, no_reads)
    assert sorted(words) == [
        "variable 'B' was '1', now '2'",
        "variable 'C' was '1', now not set",
        "variable 'D' was not set, now '1'",
    ]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (("", ""), ("n1", ""), ["the namespace was not set, now 'n1' (HIPCACHE_NAMESPACE)"]),
        (("n1", "k"), ("", "k"), ["the namespace was 'n1', now not set (HIPCACHE_NAMESPACE)"]),
        (("n1", ""), ("n1", "k"), ["the key of the store changed (HIPCACHE_KEY)"]),
        (("n1", "k"), ("n1", "k"), ["found"]),
    ],
)
def test_a_namespace_or_key_that_changed_is_the_cause(
    before: tuple[str, str], now: tuple[str, str], words: list[str]
) -> None:
    namespace, key = before
    old = replace(record(unit()), namespace=namespace, key=key)
    assert list(why(unit(), "found", old, {}, no_reads, *now)) == words


def test_files_are_compared_with_the_last_compile() -> None:
    sets = {"old": reads(a="1", b="1", c="1"), "new": reads(a="1", b="2", d="1")}
    words = why(unit(reads="new"), "found", record(unit(reads="old")), {}, sets.get)
    assert words == ("file 'b.h' changed", "file 'd.h' is now read", "file 'c.h' is no longer read")


def test_many_files_are_cut_short() -> None:
    sets = {
        "old": ReadSet(tuple(ReadFile(f"{n}.h", "1", None, False, "") for n in range(10)), (), ()),
        "new": ReadSet(tuple(ReadFile(f"{n}.h", "2", None, False, "") for n in range(10)), (), ()),
    }
    words = why(unit(reads="new"), "found", record(unit(reads="old")), {}, sets.get)
    assert len(words) == 5
    assert words[-1] == "and 6 more files"


# On disk


def test_a_record_comes_back(tmp_path: Path) -> None:
    kept = record(unit(reads="r"), unit("host"), variables={"PATH": "/a"})
    assert history_in(tmp_path).save(kept)
    assert history_in(tmp_path).load("/b/k.o") == history_in(tmp_path).load("/b/../b/k.o") == kept
    assert history_in(tmp_path).last() == kept


def test_a_record_without_namespace_and_key_is_one_that_1_0_0_knows(tmp_path: Path) -> None:
    history_in(tmp_path).save(record(unit()))
    (path,) = (tmp_path / "v2/history").glob("*/*")
    assert {"namespace", "key"}.isdisjoint(unpack_json(path.read_bytes()))


def test_the_last_one_is_that_of_any_object(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    for name in ("/b/1.o", "/b/2.o", ""):
        history.save(record(object=name))
        assert history.last() == record(object=name)
    assert history.load("/b/1.o") == record(object="/b/1.o")


def test_an_object_that_is_not_known_has_none(tmp_path: Path) -> None:
    assert history_in(tmp_path).load("/b/k.o") is None
    assert history_in(tmp_path).last() is None


def test_a_record_cut_at_any_length_counts_as_none(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    history.save(record(unit()))
    (path,) = (tmp_path / "v2/history").glob("*/*")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert history.load("/b/k.o") is None


def test_a_place_that_cannot_be_written_loses_only_the_explanation(tmp_path: Path) -> None:
    (tmp_path / "v2").touch()
    assert not history_in(tmp_path).save(record())


# After compiles that failed or were left to the compiler


def left(when: float, *command: str, end: str = "failed") -> Record:
    return Record("/b/k.o", when, command, "/b", end, "", "host ended with status 1", (), {}, ())


@pytest.mark.parametrize("end", ["failed", "passed_through"])
@pytest.mark.parametrize("command", [("clang++", "-c"), ("clang++", "-c", "-other")])
def test_a_miss_is_explained_by_the_last_compile_that_hipcache_did(
    tmp_path: Path, end: str, command: tuple[str, ...]
) -> None:
    history, failed = history_in(tmp_path), left(2.5, *command, end=end)
    for one in (record(unit()), failed):
        assert history.save(one)
    assert history.load("/b/k.o") == history.last() == failed
    assert history.compared("/b/k.o") == record(unit())


def test_many_failed_commands_do_not_push_out_what_the_next_miss_is_compared_with(tmp_path: Path) -> None:
    history = history_in(tmp_path)
    history.save(record(unit()))
    for number in range(9):
        history.save(left(2.5 + number, "clang++", f"-D{number}"))
    assert history.compared("/b/k.o") == record(unit())
    assert len(list((tmp_path / "v2/history").glob("*/*"))) == 5


def test_a_miss_is_explained_within_its_namespace_if_possible(tmp_path: Path) -> None:
    history, ours = history_in(tmp_path), record(unit())
    theirs = replace(ours, namespace="n1", when=2.5)
    for one in (ours, theirs):
        history.save(one)
    assert history.load("/b/k.o") == theirs
    assert history.compared("/b/k.o") == ours
    assert history.compared("/b/k.o", "n2") == theirs


def test_a_direct_hit_after_a_failure_of_the_same_command_is_a_hit_with_its_units(tmp_path: Path) -> None:
    """It sets the time of the record that the direct record names (`History.name`)."""
    history, kept = history_in(tmp_path), record(unit())
    for one in (kept, left(2.5, *kept.command)):
        history.save(one)
    os.utime(tmp_path / "v2" / History.name(kept), (3.5, 3.5))
    found = history.load("/b/k.o")
    assert found is not None
    assert (found.when, found.outcome, found.detail, [one.hit for one in found.units]) == (3.5, "hit", "", [True])
