"""Direct hits: a whole compile that nothing has changed for is served by the native launcher, without the engine."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3
from hip import HIT, LAUNCHER, Lab, apart, in_terminal, only_19, replace, rewrite, script, settle, toolchain
from hipcache import native
from hipcache.direct import variables
from hipcache.direct.record import key
from hipcache.inputs.memos import Memos
from hipcache.store.local import LocalStore

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

VALUE = (
    '#include "value.hpp"\nextern "C" __global__ void kernel(int* p) { p[0] = VALUE; }\nint host() { return VALUE; }\n'
)


@pytest.fixture
def direct(lab: Lab, tmp_path: Path) -> Direct:
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 1\n')
    lab.write("k.hip", VALUE + '#if __has_include("value.h")\n#endif\n')
    return Direct(lab, tmp_path / "alone")


class Direct:
    """A lab, and the launcher with an engine that only says that it was started."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab = lab
        place.mkdir()
        shutil.copy(LAUNCHER[0], place)
        self.program = place / "hipcache"
        (place / "hipcache-engine").write_text("#!/bin/sh\nexit 99\n")
        (place / "hipcache-engine").chmod(0o755)

    def ask(self, *flags: str, env: dict[str, str] | None = None) -> bool:
        """Is the compile a direct hit? Nothing is compiled where it is none."""
        (self.lab.root / "out.o").unlink(missing_ok=True)
        ended = self.lab.run([str(self.program), *self.lab.words(*flags)], env=env)
        assert ended.status in (0, 99), ended.err
        assert (self.lab.root / "out.o").exists() == (ended.status == 0)
        self.lab.counted()
        return ended.status == 0

    def ask_with_wrong_records(self, seed: int) -> None:
        """Each has a few other bytes than the record of the compile, and a right digest."""
        lab, dice = self.lab, random.Random(seed)
        store = LocalStore(lab.store, max_bytes=0)
        name = key(lab.words(), str(lab.root))
        payload = store.get_action(name) or b""
        for _ in range(150):
            raw = bytearray(payload)
            while bytes(raw) == payload:
                for _ in range(dice.randrange(1, 4)):
                    raw[dice.randrange(len(raw))] = dice.choice([0, 1, 0x7F, 0xFF, dice.randrange(256)])
            store.put_action(name, bytes(raw))
            ended = lab.run([str(self.program), *lab.words()])
            assert ended.status in (0, 99), (ended.status, bytes(raw))

    def record(self, *flags: str) -> Path:
        """The file of the record of a compile."""
        name = key(self.lab.words(*flags), str(self.lab.root))
        return self.lab.store / "v1/actions" / name[:2] / name[2:]


def at_once(number: int, task: Callable[[], None]) -> None:
    threads = [threading.Thread(target=task) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.archs(2)
def test_a_warm_compile_starts_no_engine_and_writes_what_the_compiler_would(direct: Direct) -> None:
    lab = direct.lab
    flags = ("-MD", "-MF", "out.d", "-Wall")
    lab.write("k.hip", VALUE + "static int unused;\n")
    before = lab.warm(*flags)
    rule = (lab.root / "out.d").read_text()
    for name in ("out.o", "out.d"):
        (lab.root / name).unlink()
    ended = lab.run([str(direct.program), *lab.words(*flags)])
    assert (ended.status, ended.out, ended.err.decode()) == (0, b"", before.messages)
    assert "unused" in before.messages
    assert (lab.root / "out.o").read_bytes() == before.object
    assert (lab.root / "out.d").read_text() == rule
    assert (lab.root / "out.o").stat().st_mode & 0o777 == 0o666 & ~_umask()
    counted = lab.counted()
    assert (counted.outcome, counted.missed, counted.served) == (HIT, frozenset(), {"gfx906", "gfx90a", "host"})


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_messages_on_a_terminal_are_those_for_that_terminal(direct: Direct) -> None:
    lab = direct.lab
    lab.write("k.hip", VALUE + "static int a_variable_with_a_rather_long_name_that_nobody_has_ever_used;\n")
    words, colours = lab.words("-Wall"), lab.environ | {"TERM": "xterm-256color"}
    plain = in_terminal(words, lab.root, colours | {"COLUMNS": "60"})
    assert b"\x1b[" in plain[1]
    lab.warm("-Wall")
    served, narrow = colours | {"COLUMNS": "60"}, colours | {"COLUMNS": "30"}
    for _ in range(2):
        settle()
        assert in_terminal([*LAUNCHER, *words], lab.root, served) == plain
    assert in_terminal([str(direct.program), *words], lab.root, served) == plain
    for other in (narrow, served | {"TERM": "dumb"}):
        assert in_terminal([str(direct.program), *words], lab.root, other)[0] == 99
        assert in_terminal([*LAUNCHER, *words], lab.root, other) == in_terminal(words, lab.root, other)
    # Those that go elsewhere have a record of their own.
    lab._seen = lab.stats()
    assert direct.ask("-Wall")
    assert b"\x1b[" not in lab.run([str(direct.program), *words]).err
    lab.write("k.hip", VALUE + "static int another;\n")
    assert in_terminal([str(direct.program), *words], lab.root, served)[0] == 99


def test_explain_tells_of_a_direct_hit(direct: Direct) -> None:
    direct.lab.warm()
    assert direct.ask()
    told = direct.lab.hipcache("explain", "out.o").out.decode()
    assert ": hit" in told.splitlines()[0]
    assert direct.lab.hipcache("explain").out.decode() == told


@only_19
def test_only_an_option_that_says_native_asks_the_machine(direct: Direct) -> None:
    """Not a project by that name."""
    lab = direct.lab
    (lab.root / "native").mkdir()
    for flag, known in ((f"-I{lab.root}/native", True), ("-march=native", False)):
        lab.compile(flag)
        lab.compile(flag)
        assert direct.ask(flag) is known


# What makes it none

Change = Callable[[Lab], object]

CHANGES: dict[str, Change] = {
    "a header has other text": lambda lab: lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 2\n'),
    "a header of the same size and time": lambda lab: rewrite(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_text().replace("1", "3")
    ),
    "a file in its place with the same size and time": lambda lab: replace(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_bytes().replace(b"1", b"4")
    ),
    "a file that was looked for in vain": lambda lab: lab.write("first/value.h", "#error\n"),
    "a file by the name of an option's value": lambda lab: lab.write("225", ""),
    "the source is gone": lambda lab: (lab.root / "k.hip").unlink(),
    "a config file": lambda lab: lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", "jobs: 1\n"),
}


@only_19
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_no_direct_hit_after(direct: Direct, change: str) -> None:
    (direct.lab.root / "first").mkdir()
    lab, flags = direct.lab, ("-Ifirst", "-mllvm", "-inline-threshold=225")
    lab.warm(*flags)
    assert direct.ask(*flags)
    CHANGES[change](lab)
    assert not direct.ask(*flags)
    if change != "the source is gone":
        lab.compile(*flags)
        settle()


@only_19
def test_a_working_copy_that_begins_elsewhere_is_another_cuid(direct: Direct) -> None:
    lab = direct.lab
    words = [word for word in lab.words() if "cuid" not in word]
    for _ in range(2):
        settle()
        assert lab.run([*LAUNCHER, *words]).status == 0
    assert lab.run([str(direct.program), *words]).status == 0
    (lab.root / ".git").mkdir()
    assert lab.run([str(direct.program), *words]).status == 99


@only_19
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CPATH", "/nowhere"),
        ("SOURCE_DATE_EPOCH", "1"),
        ("LD_LIBRARY_PATH", "/nowhere"),
        ("ROCM_PATH", "/x"),
        ("HOME", "/"),
    ],
)
def test_a_variable_that_a_tool_can_ask_for_matters(direct: Direct, name: str, value: str) -> None:
    direct.lab.warm()
    assert direct.ask()
    assert not direct.ask(env={name: value})
    assert direct.ask()


@only_19
def test_a_variable_that_no_tool_can_ask_for_does_not_matter(direct: Direct) -> None:
    job = "BUILD_NUMBER_OF_THIS_JOB"
    for number in (1, 2):
        direct.lab.compile(env={job: str(number)})
    assert direct.ask(env={job: "3"})
    assert direct.ask()
    assert not direct.ask(env={"HIPCHECK_NUMBER": "1"}), "the name begins as one of HIP's own"


def test_pwd_matters_only_where_it_names_the_working_directory(direct: Direct) -> None:
    """Debug information has the directory's name as PWD has it; `make -C` leaves PWD as it was."""
    lab, here = direct.lab, str(direct.lab.root)
    link = lab.root.with_name("link")
    link.symlink_to(lab.root)
    stale = ["/", "/nowhere", "k.hip", ".", str(lab.root.parent), here + "\n"]
    before = lab.warm("-g", env={"PWD": stale[0]})
    for pwd in stale:
        assert direct.ask("-g", env={"PWD": pwd}), pwd
        assert (lab.root / "out.o").read_bytes() == before.object
    assert not direct.ask("-g", env={"PWD": str(link)})
    after = lab.changed(before, "-g", env={"PWD": str(link)})
    assert direct.ask("-g", env={"PWD": str(link)})
    assert (lab.root / "out.o").read_bytes() == after.object
    for pwd in (here, here + "/.", *stale):
        assert not direct.ask("-g", env={"PWD": pwd}), pwd


def test_pwd_matters_to_a_compiler_that_is_a_script(direct: Direct) -> None:
    lab = direct.lab
    real, lab.compiler = lab.compiler, str(lab.root / "clang++")
    script(lab.root / "clang++", f'exec {real} "$@"\n')
    settle()
    for pwd in ("/", "/nowhere"):
        lab.compile(env={"PWD": pwd})
        assert not direct.ask(env={"PWD": "/tmp"})


@only_19
def test_a_tool_that_changes_ends_direct_hits(lab: Lab, tmp_path: Path) -> None:
    compiler = toolchain(tmp_path / "llvm", lab.version)
    lab.compiler = str(compiler)
    direct = Direct(lab, tmp_path / "alone")
    settle()
    lab.warm()
    assert direct.ask()
    content = compiler.with_name("lld").read_bytes()
    replace(compiler.with_name("lld"), content[:-1] + bytes([content[-1] ^ 1]))
    assert not direct.ask()


def test_an_edit_and_back_within_one_tick_is_seen(direct: Direct) -> None:
    lab, header = direct.lab, direct.lab.root / "value.hpp"
    before = lab.warm()
    text = header.read_text()
    for value in range(2, 10):  # each right after the compile, without a wait
        rewrite(header, text.replace("1", str(value)))
        ended = lab.run([*LAUNCHER, *lab.words()])
        made = (lab.root / "out.o").read_bytes()
        lab.run(lab.words())
        assert (ended.status, made) == (0, (lab.root / "out.o").read_bytes())
    assert made != before.object


@only_19
def test_a_directory_that_became_a_link_to_another_one_is_seen(direct: Direct) -> None:
    lab = direct.lab
    lab.write("one/value.hpp", (lab.root / "value.hpp").read_bytes())
    lab.write("two/value.hpp", (lab.root / "value.hpp").read_text().replace("1", "2"))
    (lab.root / "value.hpp").unlink()
    before = lab.warm("-Ione", "-I.")
    assert direct.ask("-Ione", "-I.")
    (lab.root / "one").rename(lab.root / "old")
    (lab.root / "one").symlink_to("two")
    assert not direct.ask("-Ione", "-I.")
    assert lab.compile("-Ione", "-I.").object != before.object


@only_19
def test_a_file_system_mounted_over_a_directory_is_seen(direct: Direct) -> None:
    lab = direct.lab
    lab.write("one/value.hpp", (lab.root / "value.hpp").read_bytes())
    lab.write("two/value.hpp", (lab.root / "value.hpp").read_bytes().replace(b"1", b"2"))
    (lab.root / "value.hpp").unlink()
    lab.warm("-Ione", "-I.")
    assert direct.ask("-Ione", "-I.")
    argv = [direct.program, *lab.words("-Ione", "-I.")]
    assert apart(lab, "", argv).status == 0  # all but the mount is as here
    lab.counted()
    assert apart(lab, "mount --bind two one || exit 1", argv).status == 99
    assert direct.ask("-Ione", "-I.")


# A store that is damaged, and outputs that are no files


@only_19
def test_a_record_cut_or_changed_anywhere_is_none(direct: Direct) -> None:
    direct.lab.warm()
    path = direct.record()
    whole = path.read_bytes()
    for length in [*range(0, 120), *range(120, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert not direct.ask(), length
        if length % 11 == 0:
            path.write_bytes(whole[:length] + bytes([whole[length] ^ 0x10]) + whole[length + 1 :])
            assert not direct.ask(), length
    path.write_bytes(whole + b"\0")
    assert not direct.ask()
    path.write_bytes(whole)
    assert direct.ask()


@only_19
def test_a_record_that_says_anything_with_a_right_digest_harms_nothing(direct: Direct) -> None:
    """Lengths and lists that lead out of the record: what a fault of another version could leave."""
    direct.lab.warm()
    direct.ask_with_wrong_records(5)


@only_19
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_object_is_never_served(direct: Direct, damage: str) -> None:
    lab = direct.lab
    before = lab.warm()
    name = blake3(before.object).hexdigest()
    blob = lab.store / "v1/blobs" / name[:2] / name[2:]
    whole = blob.read_bytes()
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(whole[:-1] if damage == "cut" else whole[:200] + b"?" + whole[201:])
    assert not direct.ask()
    assert [path.name for path in lab.root.iterdir() if "tmp" in path.name] == []
    assert lab.compile().object == before.object
    lab.compile()
    assert direct.ask()


@only_19
def test_an_object_or_dependency_file_that_is_no_plain_file_is_the_engines_affair(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD", "-MF", "out.d")
    before = lab.warm(*flags)
    target = lab.write("target", "kept")
    for name in ("out.o", "out.d"):
        (lab.root / name).unlink()
        (lab.root / name).symlink_to(target)
        ended = lab.run([*LAUNCHER, *lab.words(*flags)])
        assert ended.status == 0
        assert (lab.root / "out.o").read_bytes() == before.object
        assert not (lab.root / "out.o").is_symlink()
        assert (lab.root / "out.d").is_symlink() == (name == "out.d")
    assert target.read_text().startswith("out.o:")


def test_a_tool_that_writes_into_the_object_does_not_reach_the_store(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD",)
    before = lab.warm(*flags)
    for _ in range(3):
        assert direct.ask(*flags)
        assert (lab.root / "out.o").read_bytes() == before.object
        for name in ("out.o", "out.d"):
            assert (lab.root / name).stat().st_nlink == 1
            with (lab.root / name).open("r+b") as file:
                file.write(b"changed in place")


@only_19
def test_many_direct_hits_at_once_are_all_right_and_all_counted(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    counted = lab.stats()["compiles"]["hit"]  # type: ignore[index]
    wrong = []

    def build() -> None:
        for _ in range(10):
            if lab.run([str(direct.program), *lab.words()]).status != 0:
                wrong.append("engine")
            if (lab.root / "out.o").read_bytes() != before.object:
                wrong.append("object")

    at_once(4, build)
    assert not wrong
    assert lab.stats()["compiles"]["hit"] == counted + 40  # type: ignore[index]


@only_19
def test_a_store_that_cannot_be_written_serves_all_the_same(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.getuid() == 0 else []
    for path in [lab.store, *lab.store.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    lab.root.chmod(0o777)
    (lab.root / "out.o").unlink()
    ended = lab.run([*as_nobody, str(direct.program), *lab.words()])
    for path in [lab.store, *lab.store.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert ended.status == 0, ended
    assert (lab.root / "out.o").read_bytes() == before.object


# Settings, and what is no HIP


@only_19
@pytest.mark.parametrize("setting", ["HIPCACHE_RECACHE", "HIPCACHE_READONLY"])
def test_settings_that_ask_for_more_are_the_engines_affair(direct: Direct, setting: str) -> None:
    env = {setting: "1"}
    direct.lab.warm()
    for _ in range(2):
        direct.lab.compile(env=env)
        assert not direct.ask(env=env)


@only_19
@pytest.mark.parametrize(
    ("text", "found"), [("dir: {}\n", True), ("# mine\n\ndir: '{}'\n", False), ("max_size: 1G\n", False)]
)
def test_a_store_that_a_config_file_names(direct: Direct, text: str, found: bool) -> None:
    """One that is not of the plainest kind is left to the engine."""
    lab = direct.lab
    lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", text.format(lab.store))
    env = {"HIPCACHE_DIR": "", "XDG_CACHE_HOME": str(lab.root.parent / "nowhere")}
    if "max_size" in text:
        env["XDG_CACHE_HOME"] = str(lab.root / "cache")
        found = True
    for _ in range(2):
        settle()
        assert lab.run([*LAUNCHER, *lab.words()], env=env).status == 0
        lab._seen = lab.stats()
    assert direct.ask(env=env) is found


@only_19
def test_plain_cpp_goes_to_the_compiler_without_the_engine(direct: Direct) -> None:
    lab = direct.lab
    lab.warm()
    lab.write("k.cpp", "int f() { return 1; }\n")
    ended = lab.run([str(direct.program), lab.compiler, "-c", "k.cpp", "-o", "k.o"])
    assert (ended.status, ended.err) == (0, b"")
    assert lab.counted().reason == "not_hip"
    assert lab.run([str(direct.program), lab.compiler, "-x", "hip", "-c", "k.cpp"]).status == 99
    assert lab.run([str(direct.program), "no-such-compiler", "-c", "k.cpp"]).status == 99


def test_without_its_engine_the_build_goes_on(lab: Lab, tmp_path: Path) -> None:
    shutil.copy(LAUNCHER[0], tmp_path / "hipcache")
    ended = lab.run([str(tmp_path / "hipcache"), *lab.words()])
    assert ended.status == 0
    assert b"reinstall hipcache" not in ended.err
    assert b"hipcache-engine" in ended.err
    assert (lab.root / "out.o").exists()
    assert lab.run([str(tmp_path / "hipcache"), "stats"]).status == 127


def test_pythons_own_variables_do_not_reach_the_engine(lab: Lab) -> None:
    env = {"PYTHONHOME": "/nowhere", "PYTHONINSPECT": "1", "PYTHONIOENCODING": "no-such", "PYTHONPATH": "/nowhere"}
    lab.compile(env=env)
    assert lab.compile(env=env).outcome == HIT


# In this process


def _hit(lab: Lab) -> native.DirectHit | None:
    return native.hit(str(lab.store), str(lab.root), lab.words(), lab.environ, terminal=False, resident=False)


@only_19
def test_a_library_call_serves_the_same(direct: Direct) -> None:
    lab = direct.lab
    assert _hit(lab) is None
    before = lab.warm()
    (lab.root / "out.o").unlink()
    hit = _hit(lab)
    assert hit is not None
    assert (lab.root / "out.o").read_bytes() == before.object
    assert hit.messages == b""


SIZES = [*range(0, 70), 127, 128, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193, 9216, 65536, 100_001]
SIZES += [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) + 1025, 3 << 20, 5_000_000]


@pytest.mark.parametrize("sizes", [SIZES])
def test_the_digest_in_c_is_blake3(sizes: list[int]) -> None:
    library = native.load()
    assert library is not None, "the native library was not built: run `make setup`"
    content = random.Random(1).randbytes(max(sizes))
    digest = ctypes.create_string_buffer(32)
    for size in sizes:
        library.blake3(content, ctypes.c_size_t(size), digest)
        assert digest.raw == blake3(content[:size]).digest(), size


def test_names_are_searched_in_whole_files(tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_bytes(b"\x7fELF" + b"x" * 5000 + b"FIRST_ON" + b"y" * 5000 + b"LAST_ONE")
    assert native.search(str(file), [b"FIRST_ON", b"LAST_ONE", b"LAST_ONF"]) == {b"FIRST_ON", b"LAST_ONE"}
    assert native.search(str(tmp_path / "none"), [b"FIRST_ON"]) is None
    tools = {"digest": (str(file),)}
    names = ["FIRST_ONE_IS_ASKED", "SECOND_ONE_IS_NOT", "SHORT", "LD_SOMETHING_ELSE"]
    kept: dict[str, bytes] = {}
    memos = Memos(kept.get, kept.__setitem__)
    for _ in range(2):  # found out, and remembered
        assert variables.never_asked(names, tools, memos) == {"SECOND_ONE_IS_NOT"}
    assert variables.never_asked(["ANOTHER_NAME"], tools, memos) == {"SECOND_ONE_IS_NOT", "ANOTHER_NAME"}


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 31, 32, 33, 40, 100, 1000])
def test_the_search_finds_what_is_there_and_nothing_else(tmp_path: Path, length: int) -> None:
    """Few letters, so that texts overlap and nearly match; each place of the file is the only one of some text."""
    chosen, file = random.Random(length), tmp_path / "tool"
    for _ in range(20):
        content = bytes(chosen.choices(b"ab", k=length))
        file.write_bytes(content)
        texts = [bytes(chosen.choices(b"ab", k=8)) for _ in range(30)]
        texts += [content[at : at + 8] for at in chosen.sample(range(length), k=min(length, 10)) if at + 8 <= length]
        assert native.search(str(file), texts) == {text for text in texts if text in content}


ONE_OUTPUT = [
    "--offload-compress",
    "--offload-new-driver",
    "--offload-new-driver -fgpu-rdc",
    "-fgpu-rdc",
    "-emit-llvm",
    "--offload-device-only",
    "--offload-device-only --gpu-bundle-output -emit-llvm",
    "--offload-host-only",
]


@pytest.mark.sampled(2)
@only_19
@pytest.mark.parametrize("flags", [*ONE_OUTPUT, "-S", "-S --offload-host-only"])
def test_whatever_has_one_output_is_a_direct_hit(direct: Direct, flags: str) -> None:
    words, lab = flags.split(), direct.lab
    before = lab.warm(*words)
    assert direct.ask(*words)
    assert (lab.root / "out.o").read_bytes() == before.object
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 2\n')
    assert not direct.ask(*words)
