"""A file without a change time of its own (squashfs, FAT, some of FUSE) is known by its content, not by its status."""

from __future__ import annotations

import ctypes
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from stat import S_ISREG

import pytest
from direct_lab import Direct, direct
from hip import LAUNCHER, Lab, only_19, rewrite, settle
from hipcache.base import native, shared
from hipcache.base.keys import digest_bytes
from hipcache.base.times import file_systems, keeps_change_time, keeps_times
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.readset import OtherFile, ReadFile, ReadSet, status_of
from hipcache.inputs.scans import Scans
from hipcache.inputs.watched import FILE, Watched, are_old, states
from hipcache.processes import READ, observe
from hipcache.processes.observe import Observation
from hipcache.remote.helper.start import Compilers
from hipcache.remote.invocation import Searches
from hipcache.store.local import LocalStore
from squashfs import image
from test_identity_tools import Loader, digest
from toolchains import LLVM
from traced_tree import Tree, tree

__all__ = ["direct", "tree"]

pytestmark = pytest.mark.archs(1)

SECOND = 10**9
MODIFIED = 1_000_000_000
NONE = [(5 * SECOND, 5 * SECOND), (0, 0), (-SECOND, -SECOND)]
OWN = [(5 * SECOND + 1, 5 * SECOND + 1), (5 * SECOND, 6 * SECOND), (6 * SECOND, 5 * SECOND), (SECOND, SECOND + 1)]


@pytest.mark.parametrize("place", ["/proc", "/dev/shm", "/var/tmp"])
def test_the_rule_is_the_same_in_c(place: str) -> None:
    """Local file systems are believed whatever their times are."""
    library = native.load()
    assert library is not None
    library.look_keeps_change_time.restype = ctypes.c_bool
    device = os.stat(place).st_dev
    believed = keeps_times(device, file_systems())
    assert not (believed and place == "/proc")
    for modified, changed in (*NONE, *OWN):
        times = (*divmod(modified, SECOND), *divmod(changed, SECOND))
        status = bytes(88) + struct.pack("<4q", *times) + bytes(24)  # struct stat of x86-64 and of AArch64
        expected = believed or (modified, changed) in OWN
        assert library.look_keeps_change_time(os.fsencode(place), status) is expected
        assert keeps_change_time(device, modified, changed) is expected


def test_what_is_mounted_later_is_seen() -> None:
    """By a process that lives on."""
    script = """import os, subprocess
from hipcache.base.times import file_systems, keeps_change_time, keeps_times
kept = []
for kind in ("tmpfs", "ramfs", "tmpfs"):
    subprocess.run(["mount", "-t", kind, "none", "/mnt"], check=True)
    kept.append(keeps_change_time(os.stat("/mnt").st_dev, 0, 0))
print(*kept)"""
    words = ["unshare", "--mount", "--map-root-user", sys.executable, "-E", "-c", script]
    ended = subprocess.run(words, capture_output=True, timeout=60, check=False)
    if ended.returncode:
        pytest.skip(f"this machine lets nobody mount: {ended.stderr.decode()}")
    assert ended.stdout.split() == [b"True", b"False", b"True"]


# The engine


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Regular files of the test have one time, whatever happens to them, and are on an unknown device."""
    usual = os.stat

    def stat(path: str | Path, **how: object) -> os.stat_result:
        found = usual(path, **how)  # type: ignore[arg-type]
        if not os.fspath(path).startswith(str(tmp_path)) or not S_ISREG(found.st_mode):
            return found
        times = dict.fromkeys(("st_mtime_ns", "st_ctime_ns"), MODIFIED * SECOND)
        numbers = (*found[:2], os.makedev(0, 1 << 15), *found[3:8], MODIFIED, MODIFIED)
        return os.stat_result(numbers, {"st_blksize": found.st_blksize, **times})

    def status(path: str, seen: native.PathStatus | None) -> native.PathStatus | None:
        return seen and native.PathStatus(status_of(stat(path)), seen.mode, seen.readable)

    def look(paths: bytes, *, links: bool = False) -> bytes:
        found = native_look(paths, links=links)
        looked_at.update({} if links else {found: paths})
        return found

    def statuses_in(found: bytes) -> list[native.PathStatus | None]:
        paths = os.fsdecode(looked_at.get(found, b"")).split("\0")
        seen = native_statuses_in(found)
        return [*map(status, paths, seen)] if found in looked_at else seen

    looked_at: dict[bytes, bytes] = {}
    native_look, native_statuses_in = native.look, native.statuses_in
    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(native, "look", look)
    monkeypatch.setattr(native, "statuses_in", statuses_in)


@pytest.mark.usefixtures("without")
def test_a_trace_holds_by_content(tree: Tree) -> None:
    reads = tree.record()
    assert {file.status for file in reads.files} == {None}
    assert tree.differs(reads) == ""
    tree.write("inc/x.h", "int y;\n")
    assert tree.differs(reads) == "file 'inc/x.h' changed"


@pytest.mark.usefixtures("without")
def test_the_status_in_a_read_set_of_another_version_does_not_count(tree: Tree) -> None:
    path = str(tree.root / "inc/x.h")
    status, hash = status_of(os.stat(path)), digest_bytes(b"int x;\n")
    file, other = ReadFile("inc/x.h", hash, status, False, ""), OtherFile("inc/x.h", hash, status)
    for reads in (ReadSet((file,), (), ()), ReadSet((), (), (), besides=(other,))):
        assert tree.differs(ReadSet.unpack(reads.pack())) == ""
        tree.write("inc/x.h", "int y;\n")
        assert tree.differs(ReadSet.unpack(reads.pack())) == "file 'inc/x.h' changed"
        tree.write("inc/x.h", "int x;\n")


@pytest.mark.usefixtures("without")
def test_what_was_found_in_a_file_is_found_anew(tree: Tree) -> None:
    kept: dict[str, bytes] = {}

    def read() -> str:
        scans = Scans(kept.get, kept.__setitem__)
        found = FileManager(str(tree.root), tree.newest() + 100, tree.basedir, scans).read("inc/x.h")
        scans.save()
        return found[1]

    assert read() == digest_bytes(b"int x;\n")
    tree.write("inc/x.h", "int y;\n")
    assert read() == digest_bytes(b"int y;\n")


@pytest.mark.usefixtures("without")
def test_a_tool_is_read_anew(tmp_path: Path) -> None:
    tool, kept = tmp_path / "tool", dict[str, bytes]()
    tool.write_text("#!/no/sh\n# 1")
    first = digest(tool, Loader(), kept)
    tool.write_text("#!/no/sh\n# 2")
    assert digest(tool, Loader(), kept) != first


@pytest.mark.usefixtures("without")
def test_what_a_driver_answered_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "x.cfg").write_text("-O1")
    seen = Observation(READ, str(tmp_path / "x.cfg"), observe.sign(READ, str(tmp_path / "x.cfg")))
    assert observe.young([seen], 2.0 * MODIFIED, 2.0)


@pytest.mark.usefixtures("without")
def test_a_direct_record_has_no_state_of_it(tmp_path: Path) -> None:
    (tmp_path / "x.h").write_text("1")
    found = states([Watched(FILE, str(tmp_path / "x.h"))])
    assert found
    assert not are_old(found, 2.0 * MODIFIED)


@pytest.mark.usefixtures("without")
def test_the_helper_claims_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(bytes(shared.LARGE_CONTENT))
    store = LocalStore(tmp_path / "store", max_bytes=0)
    Compilers(store, {"XDG_RUNTIME_DIR": str(tmp_path)}).read([str(tmp_path / "tool")])
    assert not list((tmp_path / "store").rglob("actions/*"))


@pytest.mark.usefixtures("without")
def test_its_variables_are_searched_anew(tmp_path: Path) -> None:
    tool, searches = tmp_path / "tool", Searches()
    tool.write_bytes(b"\x7fELF ASKED_FIRST \0")
    assert searches.never_asked(frozenset({"ASKED_FIRST", "ASKED_LATER"}), (str(tool),)) == {"ASKED_LATER"}
    tool.write_bytes(b"\x7fELF ASKED_LATER \0")
    assert searches.never_asked(frozenset({"ASKED_FIRST", "ASKED_LATER"}), (str(tool),)) == {"ASKED_FIRST"}


# Direct hits

_ASK = """import sys
from hipcache.base import native
store, directory, *words = sys.argv[1:]
environ = dict(pair.split("=", 1) for pair in sys.stdin.read().split("\\0"))
sys.exit(0 if native.hit(store, directory, words, environ, terminal=False, resident=False) else 99)"""


@pytest.fixture
def preloaded(tmp_path: Path) -> Path:
    library = tmp_path / "no_change_times.so"
    words = [LLVM["19"] / "bin/clang", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-DMODIFIED={MODIFIED}"]
    source = Path(__file__).parents[1] / "no_change_times.c"
    subprocess.run([*words, source, "-o", library], check=True, timeout=60)
    return library


def _ask(lab: Lab, preloaded: Path) -> bool:
    (lab.root / "out.o").unlink(missing_ok=True)
    words = [sys.executable, "-E", "-c", _ASK, str(lab.store), str(lab.root), *lab.words()]
    told = "\0".join(f"{name}={value}" for name, value in lab.environ.items())
    environ = {**lab.environ, "LD_PRELOAD": str(preloaded)}
    ended = subprocess.run(words, env=environ, input=told.encode(), cwd=lab.root, check=False, timeout=60)
    assert ended.returncode in (0, 99)
    return ended.returncode == 0


@only_19
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("of_system", [False, True])
def test_a_direct_hit_compares_its_content(direct: Direct, preloaded: Path, large: bool, of_system: bool) -> None:
    """`large`: what was found to be in the file is noted for all records; `of_system`: and the state of the whole."""
    lab = direct.lab
    header = lab.root.parent / "inc/number.hpp"
    if of_system:
        lab.environ["HIPCACHE_SYSTEM_PATHS"] = f"{header.parent}:/usr:/lib:/etc:/bin"
    lab.write(str(header), "#define NUMBER 1\n" + "\n" * (shared.LARGE_CONTENT if large else 0))
    os.utime(header, (MODIFIED, MODIFIED))
    lab.write("value.hpp", f'#include "hip_in_short.hpp"\n#include "{header}"\n#define VALUE NUMBER\n')
    lab.warm()
    for _ in range(2):
        assert _ask(lab, preloaded)
    rewrite(header, header.read_text().replace("1", "2", 1))
    assert not _ask(lab, preloaded)
    rewrite(header, header.read_text().replace("2", "1", 1))
    assert _ask(lab, preloaded)


# A real one

SWAP = """\
ask() {{ env PWD={pwd} "$@"; }}
mount -t squashfs -o loop,ro {place}/1 {mounted} || exit 77
ask {hipcache} {words} && ask {direct} {words} || exit 90
umount {mounted} && mount -t squashfs -o loop,ro {place}/2 {mounted} || exit 91
ask {direct} {words} ; [ $? = 99 ] || exit 92
ask {hipcache} {others} && mv other.o one.o && ask {hipcache} {words} || exit 93
mv out.o two.o; ask {words} && cmp out.o one.o && cmp out.o two.o"""


@only_19
def test_another_image_in_the_place_of_one_is_seen(direct: Direct) -> None:
    lab = direct.lab
    mounted, place = lab.root / "inc", lab.root.parent
    mounted.mkdir()
    for number in (1, 2):
        content = b"#define NUMBER %d\n" % number
        (place / str(number)).write_bytes(image({"number.hpp": content}, MODIFIED))
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#include "inc/number.hpp"\n#define VALUE NUMBER\n')
    settle()
    words, others = (shlex.join(lab.words(output=name)) for name in ("out.o", "other.o"))
    commands = {"hipcache": LAUNCHER[0], "direct": direct.program, "words": words, "others": others}
    text = SWAP.format(pwd=lab.environ.get("PWD", lab.root), place=place, mounted=mounted, **commands)
    ended = lab.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", text])
    if ended.status in (1, 77) and (b"unshare" in ended.err or ended.status == 77):
        pytest.skip(f"this machine lets nobody mount a squashfs: {ended.err.decode()}")
    assert ended.status == 0, (ended.status, ended.out, ended.err)
