"""Units are cut out of a plan: what each key has, what it leaves out, and the command that makes the unit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import recordings
from hipcache.base.errors import PassThrough
from hipcache.clang import plan, units
from hipcache.clang.frontend import graph_file
from hipcache.clang.units import Units
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.identity import Identities
from hipcache.processes.runner import SubprocessRunner

CLANGS = ["clang15", "clang19", "clang22"]


class ByName(Identities):
    """Takes a tool's path for its identity."""

    def __init__(self, other: str = "") -> None:
        super().__init__(SubprocessRunner(), {}, None, 0.0)
        self._other = other

    def digest(self, tool: str) -> str:
        if tool.startswith("/gone/"):
            raise FileNotFoundError(tool)
        return f"another {tool}" if self._other and tool.endswith(self._other) else tool


def cut(text: str, cwd: Path | str = "/src/demo", *, other: str = "", basedir: str = "") -> Units:
    return units.cut(plan.parse(text), ByName(other), FileManager(str(cwd), 0.0, Basedir(basedir)), {})


def fronts(found: Units) -> list[str]:
    return [unit.front.key.digest for unit in found.devices]


def backs(found: Units) -> list[tuple[tuple[str, str], ...]]:
    return [unit.inputs for unit in found.devices]


# What changes no key


@pytest.mark.parametrize("clang", CLANGS)
def test_names_of_temporary_files_are_in_no_key(clang: str) -> None:
    text = recordings.text(f"{clang}-three-archs")
    one, other = cut(text), cut(re.sub(r"/tmp/k-", "/var/tmp/other-", text))
    assert fronts(one) == fronts(other)
    assert backs(one) == backs(other)
    assert one.host.key == other.host.key
    assert one.object.way == other.object.way


@pytest.mark.parametrize("clang", CLANGS)
def test_the_host_does_not_depend_on_the_archs(clang: str) -> None:
    one = recordings.text(f"{clang}-one-arch")
    several = recordings.text(f"{clang}-three-archs")
    several = re.sub(r'"-cuid=\w+"', re.findall(r'"-cuid=\w+"', one)[0], several)
    assert cut(one).host.key == cut(several).host.key


@pytest.mark.parametrize("clang", CLANGS)
def test_an_arch_does_not_depend_on_the_others(clang: str) -> None:
    one = recordings.text(f"{clang}-one-arch")
    several = recordings.text(f"{clang}-three-archs")
    several = re.sub(r'"-cuid=\w+"', re.findall(r'"-cuid=\w+"', one)[0], several)
    assert set(fronts(cut(one))) < set(fronts(cut(several)))
    assert set(backs(cut(one))) < set(backs(cut(several)))


@pytest.mark.parametrize("clang", CLANGS)
def test_the_output_is_in_no_key(clang: str) -> None:
    text = recordings.text(f"{clang}-one-arch")
    other = text.replace('"k.o"', '"elsewhere.o"')
    assert cut(text).host.key == cut(other).host.key


@pytest.mark.parametrize("clang", CLANGS)
def test_colours_are_how_it_looks_and_in_no_key(clang: str) -> None:
    plain, coloured = (cut(recordings.text(f"{clang}-{kind}")) for kind in ("one-arch", "colours"))
    assert "-fcolor-diagnostics" in coloured.host.message_format
    assert "-fcolor-diagnostics" not in plain.host.message_format
    assert not any("color" in value for _, value in coloured.host.key.inputs)


def test_the_directory_counts_only_where_debug_information_has_it() -> None:
    for kind, counts in (("one-arch", False), ("debug", True)):
        text = recordings.text(f"clang15-{kind}")
        other = text.replace("-dir=/src/demo", "-dir=/src/other")
        assert (cut(text).host.key != cut(other).host.key) == counts


# What changes one


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize(
    ("old", "new"), [('"-O2"', '"-O3"'), ('"-cuid=', '"-cuid=0'), ('"hip" "k.hip"', '"hip" "l.hip"')]
)
def test_an_option_of_all_passes_is_in_the_key_of_each(clang: str, old: str, new: str) -> None:
    text = recordings.text(f"{clang}-three-archs")
    one, other = cut(text), cut(text.replace(old, new))
    assert not set(fronts(one)) & set(fronts(other))
    assert one.host.key != other.host.key


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize(("old", "new"), [('"-cuid=', '"-cuid=0'), ('"hip" "k.hip"', '"hip" "l.hip"')])
def test_what_the_bitcode_holds_is_not_in_the_back_ends_key(clang: str, old: str, new: str) -> None:
    text = recordings.text(f"{clang}-one-arch")
    assert backs(cut(text)) == backs(cut(text.replace(old, new).replace('file-name" "l.hip"', 'file-name" "k.hip"')))


@pytest.mark.parametrize("tool", ["/clang", "/lld"])
def test_another_tool_changes_the_keys_of_what_it_makes(tool: str) -> None:
    text = recordings.text("clang15-three-archs")
    one, other = cut(text), cut(text, other=tool)
    assert not set(backs(one)) & set(backs(other))
    assert (one.host.key == other.host.key) == (tool == "/lld")


def test_the_order_and_the_names_of_archs_are_in_the_objects_key() -> None:
    text = recordings.text("clang15-three-archs")
    found = cut(text).object.way
    assert found != cut(text.replace("--gfx906,", "--gfx90a,")).object.way
    assert found != cut(recordings.text("clang15-one-arch")).object.way


def test_the_content_of_a_file_that_an_option_names_is_in_the_key(tmp_path: Path) -> None:
    text = recordings.text("clang15-one-arch").replace('"-O2"', '"-O2" "-fsanitize-ignorelist=list.txt"')
    (tmp_path / "list.txt").write_text("one")
    one = cut(text, tmp_path).host.key
    (tmp_path / "list.txt").write_text("other")
    assert cut(text, tmp_path).host.key != one


def test_device_libraries_count_by_content_and_not_by_path(tmp_path: Path) -> None:
    found = []
    for place, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "ocml.bc").write_text(content)
        library = f'"-fcuda-is-device" "-mlink-builtin-bitcode" "{tmp_path / place / "ocml.bc"}"'
        text = recordings.text("clang15-one-arch").replace('"-fcuda-is-device"', library)
        found.append(fronts(cut(text)))
    assert found[0] == found[1] != found[2]


def test_paths_below_the_base_directory_are_keyed_without_it() -> None:
    text = recordings.text("clang15-one-arch").replace('"hip" "k.hip"', '"hip" "/src/demo/k.hip"')
    one = cut(text, basedir="/src/demo")
    other = cut(text.replace("/src/demo", "/home/other"), "/home/other", basedir="/home/other")
    assert fronts(one) == fronts(other)
    assert one.host.key == other.host.key


# What cannot be cut


def test_a_tool_that_cannot_be_read_is_left() -> None:
    with pytest.raises(PassThrough) as left:
        cut(recordings.text("clang15-one-arch").replace("/usr/lib/llvm-15/bin/lld", "/gone/lld"))
    assert left.value.reason == "tool"


def test_a_device_library_that_is_gone_is_left(tmp_path: Path) -> None:
    library = f'"-fcuda-is-device" "-mlink-builtin-bitcode" "{tmp_path}/gone.bc"'
    with pytest.raises(PassThrough) as left:
        cut(recordings.text("clang15-one-arch").replace('"-fcuda-is-device"', library))
    assert left.value.reason == "named_file"


def test_a_tool_named_by_a_relative_path_is_that_of_the_compiles_directory() -> None:
    text = recordings.text("clang15-one-arch").replace("/usr/lib/llvm-15/bin/lld", "bin/lld")
    assert ("linker", "/src/demo/bin/lld") in cut(text).devices[0].inputs


# Commands


@pytest.mark.parametrize("clang", CLANGS)
def test_a_front_end_writes_bitcode_and_its_own_dependency_file(clang: str) -> None:
    device = cut(recordings.text(f"{clang}-dependencies")).devices[0]
    words = device.front.argv(Path("/w/k.bc"), Path("/w/k.d"), bitcode=True)
    assert words[1] == "-cc1"
    assert words.count("-cc1") == words.count("-o") == words.count("-dependency-file") == 1
    assert {"-emit-llvm-bc", "-disable-llvm-passes"} <= set(words)
    assert "-emit-obj" not in words
    assert words[words.index("-o") + 1] == "/w/k.bc"
    assert "k d.d" not in words


@pytest.mark.parametrize("clang", CLANGS)
def test_a_back_end_reads_bitcode_alone(clang: str) -> None:
    device = cut(recordings.text(f"{clang}-debug")).devices[0]
    words = device.back_argv(Path("/w/k.bc"), Path("/w/k.o"))
    assert words[-3:] == ["-x", "ir", "/w/k.bc"]
    assert words[words.index("-o") + 1] == "/w/k.o"
    assert "-emit-obj" in words
    assert not {"-D", "-include", "-internal-isystem", "-dependency-file"} & set(words)
    assert not any(word.startswith("-cuid=") for word in words)


@pytest.mark.parametrize("clang", CLANGS)
def test_the_host_embeds_what_it_is_given(clang: str) -> None:
    words = cut(recordings.text(f"{clang}-one-arch")).host.argv(
        Path("/w/k.o"), Path("/w/k.d"), bitcode=False, gpubinary=Path("/w/fat")
    )
    assert words[words.index("-fcuda-include-gpubinary") + 1] == "/w/fat"
    assert "-emit-obj" in words


@pytest.mark.parametrize("clang", CLANGS)
def test_link_and_bundle_get_the_names_of_their_files(clang: str) -> None:
    found = cut(recordings.text(f"{clang}-three-archs"))
    words = found.devices[0].link_argv(Path("/w/k.o"), Path("/w/k.out"))
    assert words[words.index("-o") + 1] == "/w/k.out"
    assert "/w/k.o" in words
    bundle = found.object.bundle_argv([Path("/w/1"), Path("/w/2"), Path("/w/3")], None, Path("/w/fat"))
    assert [word for word in bundle if word.startswith("-input=/w")] == ["-input=/w/1", "-input=/w/2", "-input=/w/3"]
    assert "-output=/w/fat" in bundle
    assert not any("/tmp/" in word for word in [*words, *bundle])


@pytest.mark.parametrize(
    ("kind", "everything"), [("one-arch", True), ("dependencies", True), ("user-dependencies", False)]
)
def test_system_headers_are_listed_by_another_file_where_the_user_leaves_them_out(kind: str, everything: bool) -> None:
    front = cut(recordings.text(f"clang15-{kind}")).host
    words = front.argv(Path("/w/k.o"), Path("/w/k.d"), bitcode=False)
    assert front.job.all_headers == everything == ("-sys-header-deps" in words)
    assert (str(graph_file(Path("/w/k.d"))) in words) != everything


@pytest.mark.parametrize(("standard", "old"), [("c++98", True), ("gnu++03", True), ("c++17", False), ("c++20", False)])
def test_rules_of_a_standard_hold_for_both_of_its_spellings(standard: str, old: bool) -> None:
    text = recordings.text("clang19-one-arch")
    for option in (f"-std={standard}", f"--std={standard}"):
        front = cut(text.replace('"-fcuda-is-device"', f'"-fcuda-is-device" "{option}"')).devices[0].front
        assert front.comments_matter == old, option


def test_remarks_make_a_unit_of_one_step() -> None:
    assert cut(recordings.text("clang15-remarks")).devices[0].in_one_step
    assert not cut(recordings.text("clang15-one-arch")).devices[0].in_one_step


@pytest.mark.parametrize("more", [[], ['"-Rpass=inline"']])
def test_by_device_lto_the_link_is_the_back_end(more: list[str]) -> None:
    text = recordings.text("clang19-one-arch")
    as_bitcode = text.replace('"-emit-obj"', " ".join(['"-emit-llvm-bc"', *more]), 1)
    assert cut(as_bitcode).devices[0].by_lto
    assert cut(as_bitcode).devices[0].in_one_step == bool(more)
    assert not cut(text).devices[0].by_lto


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize(
    ("kind", "all_headers"), [("one-arch", True), ("dependencies", True), ("user-dependencies", False)]
)
def test_system_headers_are_left_out_of_all_passes_rules_or_of_none(clang: str, kind: str, all_headers: bool) -> None:
    """Clang 22 has the host's pass alone write a file."""
    found = cut(recordings.text(f"{clang}-{kind}"))
    assert {front.job.all_headers for front in (found.host, *(one.front for one in found.devices))} == {all_headers}
