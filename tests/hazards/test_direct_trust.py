"""Direct hits in a store that others write to: a record writes only what its command names, and never for long."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import LAUNCHER, Lab, only_19, settle
from hipcache.base import native
from hipcache.direct.record import _list as packed_list
from hipcache.direct.record import _string as packed
from hipcache.direct.record import key
from hipcache.store.local import LocalStore

pytestmark = pytest.mark.archs(1)

__all__ = ["direct"]


# Bytes of the parts that are no strings: two digests, an age; three digests of what is of the system.
FIXED = {0: 32, 1: 32, 2: 8, 11: 32, 12: 32, 13: 32}


class Record:
    """A record of the store, taken apart; written with a right digest, which anybody can compute."""

    def __init__(self, direct: Direct, *flags: str) -> None:
        self.store = LocalStore(direct.lab.store, max_bytes=0)
        self.key = key(direct.lab.words(*flags), str(direct.lab.root))
        rest = self.store.get_action(self.key) or b""
        self.parts: list[bytes] = []
        for number in range(15):
            size = FIXED[number] if number in FIXED else 4 + struct.unpack_from("<I", rest)[0]
            self.parts.append(rest[:size])
            rest = rest[size:]
        assert not rest

    def write(self, number: int, part: bytes, *, more: bool = False) -> None:
        """`more`: in addition to what is there."""
        parts = list(self.parts)
        parts[number] = packed((parts[number][4:] if more else b"") + part)
        self.store.put_action(self.key, b"".join(parts))

    def output(self, path: str, content: bytes) -> bytes:
        digest = bytes.fromhex(self.store.put_blob(content))
        return b"-" + digest + struct.pack("<Q", len(content)) + packed(path.encode())


OUTPUTS, MESSAGES, HISTORY, SYSTEM_LIST, RULES = 4, 5, 7, 12, 14


@only_19
def test_a_record_with_an_output_more_writes_nothing(direct: Direct) -> None:
    lab = direct.lab
    lab.warm()
    record = Record(direct)
    for place in ("{home}/.bash_login", "{root}/k.hip", "{root}/out.o.d"):
        path = place.format(home=lab.environ["HOME"], root=lab.root)
        before = Path(path).read_bytes() if os.path.exists(path) else None
        record.write(OUTPUTS, record.output(path, b"touch /tmp/owned"), more=True)
        assert not direct.ask(), place
        assert (Path(path).read_bytes() if os.path.exists(path) else None) == before
    record.write(OUTPUTS, b"", more=True)
    assert direct.ask()


@only_19
def test_a_dependency_file_elsewhere_is_not_written(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD",)
    lab.warm(*flags)
    record = Record(direct, *flags)
    for place in ("{home}/.bash_login", "{root}/Makefile", "{root}/k.d"):
        path = place.format(home=lab.environ["HOME"], root=lab.root)
        record.write(RULES, packed(path.encode()) + packed(packed_list([(b"all:\n", (b"",))])))
        assert not direct.ask(*flags), place
        assert not os.path.exists(path)


RULE = "out.o: k.hip \\\n  hip_in_short.hpp\n"
EVIL = {
    "a recipe": RULE + "\ttouch owned\n",
    "a recipe on its line": "out.o: k.hip; touch owned\n",
    "a function": "out.o: $(shell touch owned)\n",
    "an assignment": "X != touch owned\n",
    "a variable of a target": "out.o: SHELL=./evil\n",
    "another file": "include evil.mk\n",
    "another file after a line that goes on": "out.o: \\\n  k.hip\ninclude evil.mk\n",
    "a plugin": "load evil.so\n",
    "no whole line": "out.o: k.hip",
}


@only_19
def test_a_dependency_file_that_makes_make_run_something_is_not_written(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD",)
    lab.warm(*flags)
    record = Record(direct, *flags)
    for text in EVIL.values():
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        record.write(
            RULES, packed(f"{lab.root}/out.d".encode()) + packed(packed_list((line, (b"",)) for line in lines))
        )
        (lab.root / "out.d").unlink(missing_ok=True)
        assert not direct.ask(*flags), text
        assert not (lab.root / "out.d").exists()
    record.write(RULES, packed(f"{lab.root}/out.d".encode()) + packed(packed_list([(RULE.encode(), (b"",))])))
    assert direct.ask(*flags)


@only_19
def test_a_header_whose_name_make_would_run_is_left_to_the_compiler(lab: Lab) -> None:
    """A trace of the store may say that it was read, where it lies ready elsewhere."""
    lab.write("a;b.hpp", "")
    lab.write("k.hip", (lab.root / "k.hip").read_text() + '#include "a;b.hpp"\n')
    assert lab.compile("-MD").counted.reason == "side_output"


@only_19
def test_a_history_name_that_leads_elsewhere_is_not_touched(direct: Direct) -> None:
    lab = direct.lab
    lab.warm()
    file = Path(lab.environ["HOME"]) / "file"
    file.write_text("")
    os.utime(file, (1, 1))
    linked = lab.store / "v2/history" / ("0" * 32) / "linked"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(file)
    for name in ("../../home/file", "history/../../../home/file", f"history/{'0' * 32}/linked"):
        Record(direct).write(HISTORY, name.encode() + b"\0")
        assert direct.ask()
        assert file.stat().st_mtime == 1, name


# What a command names, by its words alone


def allowed(command: str, path: str, *, rule: bool = False) -> bool:
    class Places(ctypes.Structure):
        _fields_ = (("texts", ctypes.c_void_p * 6), ("flags", ctypes.c_bool * 5))

    library = native.load()
    assert library is not None
    library.places_of.restype = Places
    words = [word.encode() for word in shlex.split(command)]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    places = library.places_of(b"/w", argv)
    allow = library.places_allow_rule if rule else library.places_allow_output
    allow.restype = ctypes.c_bool
    return bool(allow(ctypes.byref(places), path.encode()))


NAMED: list[tuple[str, Sequence[str], Sequence[str]]] = [
    ("clang++ -c k.hip -o d/x.o", ["/w/d/x.o"], ["/w/x.o", "/w/d/x", "/w/d/x.s", "/w/k.o", "/w/d/x.dwo", "/w/d/x.d"]),
    ("clang++ -c k.hip -od/x.o -o /a/y.o", ["/a/y.o"], ["/w/d/x.o", "/w//a/y.o"]),
    ("clang++ -c k.hip --output=x", ["/w/x"], ["/w/k.o"]),
    ("clang++ -c a/k.hip", ["/w/k.o", "/w/k.s", "/w/k-hip-amdgcn-amd-amdhsa-gfx90a:xnack+.out"], ["/w/a/k.o", "/w/.o"]),
    ("clang++ -c k.hip l.hip", ["/w/k.o", "/w/l.o"], ["/w/kl.o", "/w/k-l.o", "/w/k-hip-amdgcn-/../../x.o", "/w/k.hip"]),
    ("clang++ -c k.hip", ["/w/k.hip-hip-amdgcn-amd-amdhsa.hipfb"], ["/w/clang.o", "/w/k_gfx906.dwo", "/k.o"]),
    ("clang++ -include pre.h -I inc -x hip -c k.cc", ["/w/k.o"], ["/w/pre.o", "/w/inc.o", "/w/hip.o"]),
    ("clang++ -gsplit-dwarf -c k.hip -o d/x.o", ["/w/d/x.dwo", "/w/d/x_gfx906.dwo"], ["/w/x.dwo", "/w/d/xy.dwo"]),
    ("clang++ --coverage -c k.hip -o d/x.y.o", ["/w/d/x.y.gcno"], ["/w/d/x.gcno", "/w/d/x.y.gcda"]),
    ("clang++ -fstack-usage -fsave-optimization-record -c k.hip", ["/w/k.su", "/w/k.opt.yaml"], ["/w/k.yaml"]),
    ("clang++ -c k.hip --serialize-diagnostics m.dia -o x.o", ["/w/m.dia"], ["/w/x.dia"]),
    ("clang++ @rsp -c", [], ["/w/rsp.o", "/w/k.o"]),
]


@pytest.mark.parametrize(("command", "good", "bad"), NAMED)
def test_outputs_that_a_command_names(command: str, good: Sequence[str], bad: Sequence[str]) -> None:
    assert [path for path in good if not allowed(command, path)] == []
    assert [path for path in bad if allowed(command, path)] == []


RULED: list[tuple[str, Sequence[str], Sequence[str]]] = [
    ("clang++ -c k.hip -o d/x.o", [], ["/w/d/x.d", "/w/k.d"]),
    ("clang++ -MD -c k.hip -o d/x.o", ["/w/d/x.d"], ["/w/d/x.o.d", "/w/k.d"]),
    ("clang++ -MMD -c a/k.hip", ["/w/k.d"], ["/w/a/k.d"]),
    ("clang++ -MD -MF y.dep -c k.hip -o x.o", ["/w/y.dep"], ["/w/x.d"]),
    ("clang++ -Wp,-MD,y.dep -c k.hip -o x.o", ["/w/y.dep"], ["/w/x.d"]),
]


@pytest.mark.parametrize(("command", "good", "bad"), RULED)
def test_dependency_files_that_a_command_names(command: str, good: Sequence[str], bad: Sequence[str]) -> None:
    assert [path for path in good if not allowed(command, path, rule=True)] == []
    assert [path for path in bad if allowed(command, path, rule=True)] == []


# Sizes


@pytest.mark.files
@only_19
@pytest.mark.parametrize("huge", ["record", "object", "list of the system's files"])
def test_a_file_that_was_made_huge_is_a_miss(direct: Direct, huge: str) -> None:
    lab = direct.lab
    before = lab.warm()
    path = direct.record()
    if huge != "record":
        listed = Record(direct).parts[SYSTEM_LIST].hex()
        name = blake3(before.object).hexdigest() if huge == "object" else listed
        path = lab.store / "v2/blobs" / name
    os.truncate(path, 20 << 30)
    ended = lab.run([str(direct.program), *lab.words()], seconds=100)
    assert ended.status == 99
    path.unlink()
    settle()
    assert lab.run([*LAUNCHER, *lab.words()]).status == 0


@only_19
def test_without_memory_for_a_record_the_engine_is_asked(direct: Direct) -> None:
    """It ended by SIGABRT, each time."""
    lab = direct.lab
    lab.warm()
    Record(direct).write(MESSAGES, b"?" * (15 << 20))
    command = shlex.join([str(direct.program), *lab.words()])
    ended = lab.run(["sh", "-c", f"ulimit -v 12000; exec {command}"])
    assert ended.status == 99, ended


@only_19
def test_a_config_file_of_30_megabytes_costs_no_time(lab: Lab) -> None:
    file = lab.write("big.yaml", "# x\n" * (30 << 18))
    ended = lab.run([*LAUNCHER, "config"], env={"HIPCACHE_CONFIG": str(file)}, seconds=60)
    assert ended.status != 0
    assert b"more than 65536 bytes" in ended.err
    assert lab.run([*LAUNCHER, *lab.words()], env={"HIPCACHE_CONFIG": str(file)}, seconds=100).status == 0


# Who runs it


@only_19
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give directories away")
def test_the_runtime_directory_of_another_user_is_left_alone(direct: Direct, tmp_path: Path) -> None:
    """`sudo hipcache` left a directory of root's there. (In a package's build, no resident is started.)"""
    direct.lab.environ["DEB_BUILD_ARCH"] = "amd64"
    direct.lab.warm()
    os.chown(tmp_path / "run", 4711, -1)
    shutil.rmtree(tmp_path / "run/hipcache", ignore_errors=True)
    assert direct.ask(env={"HIPCACHE_RESIDENT": "1"})
    assert list((tmp_path / "run").iterdir()) == []
