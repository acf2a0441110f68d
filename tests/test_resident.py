"""The resident: a process that watches the system's files and answers for them, and must never say what is not so."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from blake3 import blake3
from hip import FULL, LAUNCHER, Lab, apart, replace, rewrite, same_times
from hipcache import __version__
from hipcache.direct.record import is_of_system
from test_direct import Direct

HOLDS, TELL, CANNOT_SAY = b"y", b"t", b"n"
NAME = f"resident-3-{__version__}"
# After an event it learns nothing for a moment (`QUIET` in resident.c).
QUIET = 2.1


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: the name of a socket has 107 characters at most."""
    place = Path(tempfile.mkdtemp(prefix="hc-", dir="/tmp"))
    yield place
    for process in _residents(place):
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def system(home: Path) -> System:
    (home / "lab").mkdir()
    lab = Lab.make(home / "lab", "19")
    lab.write("k.hip", '#include "value.hpp"\nextern "C" __global__ void kernel(int* p) { p[0] = VALUE; }\n')
    tree = home / "system"
    for name in ("first", "include"):
        (tree / name).mkdir(parents=True)
    (tree / "include/value.hpp").write_text('#include "hip_in_short.hpp"\n#define VALUE 1\n')
    (lab.root / "hip_in_short.hpp").rename(tree / "include/hip_in_short.hpp")
    lab.environ |= {"HIPCACHE_SYSTEM_PATHS": f"{tree}:/usr:/lib:/etc:/bin", "XDG_RUNTIME_DIR": str(home)}
    if subprocess.run(["stat", "-f", "-c", "%T", home], capture_output=True, check=True).stdout.strip() in (
        b"overlayfs",
        b"nfs",
    ):
        pytest.skip("files here cannot be watched")
    return System(lab, home, tree, Direct(lab, home / "alone"))


def _residents(place: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"hipcache", b"--resident"] and f"XDG_RUNTIME_DIR={place}".encode() in variables:
                found.append(int(process.name))
    return found


def _has_ended(process: int) -> bool:
    """Its memory goes first, and its name with that; its files take longer."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@dataclass
class System:
    """A lab whose headers are the system's, and the resident of `home`."""

    lab: Lab
    home: Path
    tree: Path
    direct: Direct

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"-I{self.tree}/first", f"-I{self.tree}/include")

    @property
    def header(self) -> Path:
        return self.tree / "include/value.hpp"

    @property
    def address(self) -> Path:
        return self.home / "hipcache" / NAME

    def start(self, *words: str) -> None:
        subprocess.Popen(
            ["hipcache", "--resident", *words],
            executable=LAUNCHER[0],
            env={"XDG_RUNTIME_DIR": str(self.home)},
            stdin=subprocess.DEVNULL,
            cwd="/",
        )
        self.wait_for(self.answers)

    def answers(self) -> bool:
        try:
            self.ask(b"?" + bytes(63))
        except OSError:
            return False
        return True

    def ask(self, question: bytes) -> bytes:
        """What is said of the system's files."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(str(self.address))  # waits its turn, where many ask
            asking.settimeout(60)
            asking.send(question)
            return asking.recv(2)

    @staticmethod
    def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it never came"
            time.sleep(0.02)

    def served(self, resident: bool = True) -> bool:
        """Is the compile a direct hit?"""
        return self.direct.ask(*self.flags, env={"HIPCACHE_RESIDENT": "1" if resident else "0"})

    def warm(self) -> bytes:
        """Served from now on, with a resident that knows it. Gives the question that is put to it."""
        self.lab.warm(*self.flags)
        question = self.question()
        if not self.answers():
            self.start()

        def known() -> bool:
            assert self.served()
            return self.ask(question) == HOLDS

        self.wait_for(known)
        return question

    def question(self) -> bytes:
        """What the next hit asks."""
        with Fake(self.home / "fake", CANNOT_SAY) as fake:
            assert self.direct.ask(*self.flags, env={"HIPCACHE_RESIDENT": "1", "XDG_RUNTIME_DIR": str(fake.home)})
        (question,) = fake.heard
        return question

    def blob(self) -> Path:
        """Of the object."""
        assert self.served()
        name = blake3((self.lab.root / "out.o").read_bytes()).hexdigest()
        return self.lab.store / "v1/blobs" / name[:2] / name[2:]


class Fake:
    """A resident that says the same to everyone. `heard`: the first packet of each that asked."""

    def __init__(self, home: Path, says: bytes, name: str = NAME) -> None:
        self.home, self._says = home, says
        self.heard: list[bytes] = []
        (home / "hipcache").mkdir(parents=True, mode=0o700, exist_ok=True)
        (home / "hipcache" / name).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(home / "hipcache" / name))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Fake:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            with asking:
                asking.settimeout(60)
                try:
                    self.heard.append(asking.recv(1 << 18))
                    if self._says:
                        asking.send(self._says)
                    asking.recv(1 << 18)
                except OSError:  # who asked has waited long enough
                    continue


# What is asked and answered


def test_a_hit_starts_it_and_it_answers_from_then_on(system: System) -> None:
    system.lab.warm(*system.flags)
    assert _residents(system.home) == []
    assert system.served()
    system.wait_for(system.answers)
    (process,) = _residents(system.home)
    assert (system.address.stat().st_mode & 0o777, system.address.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    # It holds nothing of the build's: neither its pipes nor its directory nor its group of processes.
    for number in (0, 1, 2):
        assert os.readlink(f"/proc/{process}/fd/{number}") == "/dev/null"
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert os.getsid(process) == process
    question = system.warm()
    assert system.ask(question) == HOLDS
    assert _residents(system.home) == [process]


def test_its_word_is_taken(system: System) -> None:
    """So the tests below show something: a resident that lies brings a stale object."""
    system.lab.warm(*system.flags)
    rewrite(system.header, system.header.read_text().replace("1", "3"))
    assert not system.served()
    with Fake(system.home, HOLDS):
        system.wait_for(system.served)  # nobody waits for long for an answer


@pytest.mark.parametrize("says", [b"", CANNOT_SAY, TELL, b"?", b"\0"])
def test_where_it_cannot_say_the_files_are_looked_at(system: System, says: bytes) -> None:
    system.lab.warm(*system.flags)
    with Fake(system.home, says) as fake:
        assert system.served()
        rewrite(system.header, system.header.read_text().replace("1", "3"))
        assert not system.served()
    assert len(fake.heard) == 2


# What happens to the system's files

Change = Callable[[System], object]


def _in_place(system: System) -> None:
    with system.header.open("r+b") as file:
        file.write(system.header.read_bytes().replace(b"1", b"2"))


def _mapped(system: System) -> None:
    import mmap

    with system.header.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        content[:] = content[:].replace(b"1", b"7")


def _directory_for_a_link(system: System) -> None:
    shutil.copytree(system.tree / "include", system.tree / "other")
    _text(system.tree / "other/value.hpp", "9")
    (system.tree / "include").rename(system.tree / "old")
    (system.tree / "include").symlink_to("other")


def _text(path: Path, value: str) -> None:
    path.write_text(path.read_text().replace("VALUE 1", f"VALUE {value}"))


def _link_in_its_place(system: System) -> None:
    system.header.rename(system.tree / "include/other.hpp")
    system.header.symlink_to("other.hpp")


CHANGES: dict[str, Change] = {
    "other text": lambda system: _text(system.header, "12"),
    "same size and time": lambda system: rewrite(system.header, system.header.read_text().replace("1", "3")),
    "another file of the same size and time": lambda system: replace(
        system.header, system.header.read_bytes().replace(b"1", b"4")
    ),
    "written in place": _in_place,
    "written through memory": _mapped,
    "a header of that name earlier on the path": lambda system: shutil.copy(system.header, system.tree / "first"),
    "a header that is gone": lambda system: system.header.unlink(),
    "a link to another text": lambda system: (
        _link_in_its_place(system),
        _text(system.tree / "include/other.hpp", "7"),
    ),
    "a directory became a link": _directory_for_a_link,
    "a directory moved away": lambda system: (system.tree / "include").rename(system.tree / "old"),
    "a directory moved away and back": lambda system: (
        (system.tree / "include").rename(system.tree / "old"),
        _text(system.tree / "old/value.hpp", "2"),
        (system.tree / "old").rename(system.tree / "include"),
    ),
    "the tree moved away": lambda system: system.tree.rename(system.home / "old"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_says_nothing_old_after(system: System, change: str) -> None:
    question = system.warm()
    CHANGES[change](system)
    assert not system.served()
    assert system.ask(question) != HOLDS
    if system.header.exists():
        system.lab.compile(*system.flags, env={"HIPCACHE_RESIDENT": "1"})


def test_a_link_to_the_same_text_is_served_by_its_content(system: System) -> None:
    question = system.warm()
    before = (system.lab.root / "out.o").read_bytes()
    _link_in_its_place(system)
    assert system.ask(question) != HOLDS
    assert system.served()
    assert (system.lab.root / "out.o").read_bytes() == before
    system.lab.run(system.lab.words(*system.flags))
    assert (system.lab.root / "out.o").read_bytes() == before


def test_edits_without_a_pause_are_all_seen(system: System) -> None:
    """Each in the file that is there, with its size and time."""
    system.warm()
    lab, text = system.lab, system.header.read_text()
    for value in "1234512":
        rewrite(system.header, text.replace("VALUE 1", f"VALUE {value}"))
        ended = lab.run([*LAUNCHER, *lab.words(*system.flags)], env={"HIPCACHE_RESIDENT": "1"})
        made = (lab.root / "out.o").read_bytes()
        lab.run(lab.words(*system.flags))
        assert (ended.status, made) == (0, (lab.root / "out.o").read_bytes())


def test_a_file_written_by_another_of_its_names_is_seen(system: System) -> None:
    other = system.home / "other.hpp"
    os.link(system.header, other)
    question = system.warm()
    status = other.stat()
    with other.open("r+b") as file:
        file.write(other.read_bytes().replace(b"1", b"5"))
    same_times(other, status)
    assert not system.served()
    assert system.ask(question) != HOLDS


def test_links_on_the_way_are_watched_too(system: System) -> None:
    """`tree/include` is a link to a link in another directory, which then points elsewhere."""
    for name, value in (("one", "1"), ("two", "2")):
        shutil.copytree(system.tree / "include", system.home / name / "include")
        _text(system.home / name / "include/value.hpp", value)
    (system.home / "links").mkdir()
    (system.home / "links/current").symlink_to("../one")
    shutil.rmtree(system.tree / "include")
    (system.tree / "include").symlink_to("../links/current/include")
    question = system.warm()
    (system.home / "links/next").symlink_to("../two")
    (system.home / "links/next").rename(system.home / "links/current")
    assert not system.served()
    assert system.ask(question) != HOLDS
    system.lab.compile(*system.flags, env={"HIPCACHE_RESIDENT": "1"})


def test_what_happens_elsewhere_costs_nothing(system: System) -> None:
    question = system.warm()
    system.lab.write("new.hpp", "")
    (system.home / "unrelated").mkdir()
    (system.home / "unrelated/file").write_text("")
    system.header.read_bytes()
    # The home of the tree is on the way, so what is made there counts; what is made deeper does not.
    system.ask(question)
    time.sleep(QUIET)
    assert system.served()
    system.wait_for(lambda: system.served() and system.ask(question) == HOLDS)
    (system.home / "unrelated/more").write_text("")
    system.lab.write("newer.hpp", "")
    assert system.ask(question) == HOLDS


def test_a_change_and_back_is_known_again(system: System) -> None:
    question = system.warm()
    before, text = system.header.stat(), system.header.read_bytes()
    system.header.write_bytes(text)
    same_times(system.header, before)
    assert system.ask(question) != HOLDS
    # Its change time is another one: the engine compares the text, and the record is made anew.
    time.sleep(QUIET)
    assert system.warm() != question


def test_more_events_than_the_kernel_keeps(system: System) -> None:
    """An event of which the kernel kept nothing but that it was lost. Those before it do not matter by themselves."""
    question = system.warm()
    (system.tree / "unrelated").touch()
    assert system.ask(question) == HOLDS
    (process,) = _residents(system.home) or [0]
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        for number in range(most // 2 + 64):
            path = system.tree / f"{number}"
            path.touch()
            path.unlink()
        _in_place(system)
        assert not system.served()
    finally:
        os.kill(process, signal.SIGCONT)
    assert system.ask(question) != HOLDS


def test_a_file_system_mounted_over_a_directory_is_seen(system: System) -> None:
    shutil.copytree(system.tree / "include", system.home / "other")
    _text(system.home / "other/value.hpp", "2")
    question = system.warm()
    argv, env = [system.direct.program, *system.lab.words(*system.flags)], {"HIPCACHE_RESIDENT": "1"}
    mount = f"mount --bind {system.home}/other {system.tree}/include || exit 1"
    # Another process may see other files than the resident does: it is not asked.
    assert apart(system.lab, "", argv, env).status == 0
    system.lab.counted()
    assert apart(system.lab, mount, argv, env).status == 99
    assert system.ask(question) == HOLDS
    assert system.served()


def test_a_mount_where_it_lives_itself_makes_it_forget(system: System) -> None:
    """A resident in a namespace of its own, in which a mount is made after it has learned."""
    shutil.copytree(system.tree / "include", system.home / "other")
    _text(system.home / "other/value.hpp", "2")
    system.lab.warm(*system.flags)
    serve = "env PWD='" + system.lab.environ.get("PWD", "") + "' "
    serve += " ".join([str(system.direct.program), *system.lab.words(*system.flags)])
    steps = f"""
        env -i XDG_RUNTIME_DIR={system.home} {LAUNCHER[0]} --resident </dev/null >/dev/null 2>&1 &
        for i in 1 2 3 4 5; do {serve} || exit 90; sleep 0.2; done
        mount --bind {system.home}/other {system.tree}/include || exit 91
        {serve}; test $? = 99 || exit 92
        umount {system.tree}/include || exit 93
        {serve} || exit 94
        kill %1
    """
    system.lab.environ.setdefault("PWD", "")
    assert apart(system.lab, steps, ["true"], {"HIPCACHE_RESIDENT": "1"}).status == 0


# Its own life


@pytest.mark.parametrize("how", ["killed", "stopped", "its socket is removed", "another takes its name"])
def test_without_it_builds_go_on(system: System, how: str) -> None:
    system.warm()
    (process,) = _residents(system.home) or [0]
    if how == "killed":
        os.kill(process, signal.SIGKILL)
    elif how == "stopped":
        os.kill(process, signal.SIGSTOP)
    else:
        system.address.unlink()
        if how == "another takes its name":
            system.address.write_text("no socket")
    assert system.served()
    rewrite(system.header, system.header.read_text().replace("1", "3"))
    assert not system.served()
    system.lab.compile(*system.flags, env={"HIPCACHE_RESIDENT": "1"})


def test_a_store_that_is_removed_is_filled_again(system: System) -> None:
    system.warm()
    before = _residents(system.home)
    shutil.rmtree(system.lab.store)
    assert not system.served()
    assert system.ask(system.warm()) == HOLDS
    assert _residents(system.home) == before


def test_a_killed_one_is_replaced(system: System) -> None:
    system.warm()
    (process,) = _residents(system.home) or [0]
    os.kill(process, signal.SIGKILL)
    (system.address.parent / f"{NAME}.started").unlink(missing_ok=True)
    system.wait_for(lambda: system.served() and system.answers())
    assert system.ask(system.warm()) == HOLDS


@pytest.mark.parametrize("ahead", [0, -30, 30, -90, 90, -(10**6), 10**8])
def test_one_that_did_not_come_up_is_tried_again_after_a_minute_by_any_clock(system: System, ahead: int) -> None:
    """A mark from the future, made before the clock was set back, does not keep it from being started for ever."""
    system.lab.warm(*system.flags)
    system.address.parent.mkdir(mode=0o700, exist_ok=True)
    mark = system.address.parent / f"{NAME}.started"
    mark.touch()
    marked = int(time.time()) + ahead
    os.utime(mark, (marked, marked))
    assert system.served()
    started = mark.stat().st_mtime != marked
    assert started == (abs(ahead) > 60)
    if started:
        system.wait_for(system.answers)
        assert abs(mark.stat().st_mtime - time.time()) < 50


def test_two_are_never_there(system: System) -> None:
    system.start()
    second = subprocess.run(
        [LAUNCHER[0], "--resident"], env={"XDG_RUNTIME_DIR": str(system.home)}, timeout=60, check=False
    )
    assert second.returncode == 1
    assert system.answers()


@pytest.mark.parametrize(
    "env",
    [
        {"HIPCACHE_RESIDENT": "0"},
        {"HIPCACHE_RESIDENT": "off"},
        {"HIPCACHE_RESIDENT": "1", "DEB_BUILD_ARCH": "amd64"},
        {"HIPCACHE_RESIDENT": "1", "RPM_BUILD_ROOT": "/var/tmp/root"},
        {"HIPCACHE_RESIDENT": "1", "NIX_BUILD_TOP": "/build"},
    ],
    ids=lambda env: next(reversed(env)),
)
def test_it_is_not_started_where_nothing_may_run_on(system: System, env: dict[str, str]) -> None:
    system.lab.warm(*system.flags, env=env)
    assert system.direct.ask(*system.flags, env=env)
    time.sleep(0.3)
    assert _residents(system.home) == []
    assert not system.address.exists()


def test_nor_in_any_builder_of_packages(system: System) -> None:
    builders = {
        "DH_INTERNAL_OPTIONS": "",
        "RPM_PACKAGE_NAME": "rocprim",
        "PORTAGE_BUILDDIR": "/var/tmp/portage/x",
        "CONDA_BUILD": "1",
        "SPACK_SHORT_SPEC": "rocprim@6",
        "TEXTDOMAIN": "pacman-scripts",
    }
    for name, value in builders.items():
        env = {"HIPCACHE_RESIDENT": "1", name: value}
        system.lab.warm(*system.flags, env=env)
        assert system.direct.ask(*system.flags, env=env)
    time.sleep(0.3)
    assert _residents(system.home) == []
    assert not system.address.exists()


def test_a_config_file_can_say_so(system: System) -> None:
    system.lab.write(system.home / "lab/home/.config/hipcache/hipcache.yaml", "resident: no\n")
    del system.lab.environ["HIPCACHE_RESIDENT"]
    system.lab.warm(*system.flags)
    assert system.direct.ask(*system.flags)
    time.sleep(0.3)
    assert _residents(system.home) == []


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_directory_that_others_can_enter_is_not_used(system: System, mode: int) -> None:
    system.lab.warm(*system.flags)
    (system.home / "hipcache").mkdir(exist_ok=True)
    with Fake(system.home, HOLDS) as fake:
        (system.home / "hipcache").chmod(mode)
        assert system.served()
    assert fake.heard == []


@pytest.mark.parametrize(
    "packet",
    [
        *(b"", b"?", b"?" * 63, b"?" * 65, b"x" * 64, b"+", b"+" * 32, b"+" * 34),
        *(b"!" * 33, b"!" + bytes(32) + b"\xff" * 40, b"!" + bytes(200_000)),
    ],
    ids=range(11),
)
def test_packets_that_make_no_sense_harm_nothing(system: System, packet: bytes) -> None:
    question = system.warm()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(str(system.address))
        asking.send(packet)
    assert system.ask(question) == HOLDS


def test_those_who_ask_and_then_say_nothing_keep_nobody_waiting(system: System) -> None:
    question = system.warm()
    silent = []
    for _ in range(80):
        silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        silent[-1].connect(str(system.address))
    assert system.ask(question) == HOLDS
    for one in silent:
        one.close()


def test_what_is_told_is_looked_at_before_it_is_believed(system: System) -> None:
    """Somebody says of a digest what is not so: it is not taken over."""
    question = system.warm()
    made_up = question[:32] + bytes(range(32)) + question[64:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(str(system.address))
        asking.send(made_up)
        assert asking.recv(2)[:1] == TELL
        text = b"f" + os.fsencode(system.header)
        asking.send(b"!" + made_up[32:64] + len(b"").to_bytes(2, "little") + len(text).to_bytes(2, "little") + text)
    time.sleep(0.2)
    assert system.ask(made_up) == TELL
    assert system.ask(question) == HOLDS


# Blobs are hashed each time: nobody's word is taken for them


def _flip(blob: Path) -> None:
    times = blob.stat()
    rewrite(blob, blob.read_bytes()[:-1] + b"?")
    os.utime(blob, ns=(times.st_atime_ns, times.st_mtime_ns))


def _swap(blob: Path) -> None:
    copy = blob.with_name("copy")
    shutil.copy2(blob, copy)
    _flip(copy)
    copy.replace(blob)


def _link(blob: Path) -> None:
    other = blob.with_name("other")
    blob.rename(other)
    _flip(other)
    blob.symlink_to("other")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a byte, and its time set back": _flip,
    "another file in its place": _swap,
    "cut off": lambda blob: os.truncate(blob, blob.stat().st_size - 1),
    "empty": lambda blob: os.truncate(blob, 0),
    "a link to another": _link,
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_blob_that_changed_is_hashed(system: System, damage: str) -> None:
    system.warm()
    assert system.served()
    DAMAGES[damage](system.blob())
    assert not system.served()


def test_a_blob_that_changes_through_a_mapping_without_another_time_is_hashed(system: System) -> None:
    """A page that was written before is written again: the file system learns of the first time alone."""
    system.warm()
    blob = system.blob()
    content = blob.read_bytes()
    with blob.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-1] = content[-1]
        assert system.served()
        before = blob.stat()
        mapped[-1] = content[-1] ^ 1
        after = blob.stat()
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns), "it shows nothing"
        assert not system.served()


# What is the system's

ROOTS = ("/usr", "/opt")


@pytest.mark.parametrize(
    ("path", "working", "expected"),
    [
        ("/usr/include/hip/hip_runtime.h", "/home/me/build", True),
        ("/usr", "/home/me/build", True),
        ("/usrlocal/x", "/home/me/build", False),
        ("/home/me/include/x.h", "/home/me/build", False),
        ("/opt/project/include/x.h", "/opt/project/build/deep", False),
        ("/opt/rocm/include/x.h", "/opt/project/build", True),
        ("/usr/src/packages/BUILD/x/x.h", "/usr/src/packages/BUILD/x", False),
        ("/usr/include/x.h", "/usr/src/packages/BUILD/x", True),
    ],
)
def test_what_somebody_works_on_is_not_the_systems(path: str, working: str, expected: bool) -> None:
    assert is_of_system(path, ROOTS, [working]) is expected


# How it ends


def test_it_ends_when_nobody_asks(system: System) -> None:
    system.start("1")
    system.wait_for(lambda: not system.address.exists())
    system.wait_for(lambda: _residents(system.home) == [])


def test_it_ends_when_its_place_is_gone(system: System) -> None:
    system.start("14")  # the longest time of idleness with which it looks each second
    shutil.rmtree(system.address.parent)
    system.wait_for(lambda: _residents(system.home) == [], seconds=12)


def test_another_version_has_another_resident(system: System) -> None:
    """What an upgraded hipcache asks, an old resident is never asked: the version is in the name."""
    assert system.address.name.endswith(f"-{__version__}")
    with Fake(system.home, HOLDS, name="resident-3-0.0.9") as old:
        system.lab.warm(*system.flags)
        assert system.served()
    assert old.heard == []


@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_whatever_happens_it_says_so_only_of_what_is_so(system: System, seed: int) -> None:
    """Random changes, some of which do not matter: where the resident says that all is as it was, a look agrees."""
    random_ = random.Random(seed)
    question = system.warm()
    include, first = system.tree / "include", system.tree / "first"

    def fresh() -> Path:
        return system.tree / f"away{random_.random()}"

    changes: list[Callable[[], object]] = [
        lambda: (system.tree / "unrelated").write_text("text"),
        lambda: (include / "unrelated.hpp").write_text("text"),
        lambda: (include / "unrelated.hpp").unlink(missing_ok=True),
        lambda: (system.tree / "unrelated").chmod(0o600) if (system.tree / "unrelated").exists() else None,
        lambda: (system.tree / "deep/er").mkdir(parents=True, exist_ok=True),
        system.header.read_bytes,
        lambda: list(include.iterdir()),
        lambda: (first / "value.hpp").write_text("#define VALUE 3\n"),
        lambda: (first / "value.h").write_text("#define VALUE 3\n"),
        lambda: system.header.chmod(random_.choice([0o600, 0o644])),
        lambda: os.utime(system.header),
        lambda: os.link(system.header, system.home / f"link{random_.random()}"),
        lambda: os.truncate(system.header, random_.randrange(40)),
        lambda: (include.rename(away := fresh()), away.rename(include)),
        lambda: (include.rename(away := fresh()), shutil.copytree(away, include)),
        lambda: (first.rmdir(), first.symlink_to("include")) if not any(first.iterdir()) else None,
        lambda: first.chmod(random_.choice([0o700, 0o755])),
    ]
    said = []
    for _ in range(12):
        random_.choice(changes)()
        said.append(system.ask(question))
        if said[-1] == HOLDS:
            assert system.served(resident=False)
        elif random_.random() < 0.3:
            break
    assert said
