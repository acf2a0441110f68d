"""How the resident starts, what it does not outlive, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
from hip import LAUNCHER, rewrite
from hipcache import __version__
from resident_lab import HOLDS, NAME, TELL, Fake, System, home, residents, system

__all__ = ["home", "system"]


@pytest.mark.parametrize("how", ["killed", "stopped", "its socket is removed", "another takes its name"])
def test_without_it_builds_go_on(system: System, how: str) -> None:
    system.warm()
    (process,) = residents(system.home) or [0]
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
    before = residents(system.home)
    shutil.rmtree(system.lab.store)
    assert not system.served()
    assert system.ask(system.warm()) == HOLDS
    assert residents(system.home) == before


def test_a_killed_one_is_replaced(system: System) -> None:
    system.warm()
    (process,) = residents(system.home) or [0]
    os.kill(process, signal.SIGKILL)
    (system.address.parent / f"{NAME}.started").unlink(missing_ok=True)
    system.wait_for(lambda: system.served() and system.answers())
    assert system.ask(system.warm()) == HOLDS


def test_one_that_did_not_come_up_is_tried_again_after_a_minute_by_any_clock(system: System) -> None:
    """A mark from the future, made before the clock was set back, does not keep it from being started for ever."""
    system.lab.warm(*system.flags)
    system.address.parent.mkdir(mode=0o700, exist_ok=True)
    mark = system.address.parent / f"{NAME}.started"
    for ahead in (0, -30, 30, -90, 90, -(10**6), 10**8):
        mark.touch()
        marked = int(time.time()) + ahead
        os.utime(mark, (marked, marked))
        assert system.served()
        started = mark.stat().st_mtime != marked
        assert started == (abs(ahead) > 60), ahead
        if started:
            system.wait_for(system.answers)
            assert abs(mark.stat().st_mtime - time.time()) < 50
            for process in residents(system.home):
                os.kill(process, signal.SIGKILL)
            system.wait_for(lambda: not residents(system.home))


def test_two_are_never_there(system: System) -> None:
    system.start()
    second = subprocess.run(
        [LAUNCHER[0], "--resident"], env={"XDG_RUNTIME_DIR": str(system.home)}, timeout=60, check=False
    )
    assert second.returncode == 1
    assert system.answers()


def test_it_is_not_started_where_nothing_may_run_on_as_in_any_builder_of_packages(system: System) -> None:
    builders = {
        "HIPCACHE_RESIDENT": "off",
        "DEB_BUILD_ARCH": "amd64",
        "DH_INTERNAL_OPTIONS": "",
        "RPM_BUILD_ROOT": "/var/tmp/root",
        "NIX_BUILD_TOP": "/build",
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
    assert residents(system.home) == []
    assert not system.address.exists()


def test_a_config_file_can_say_so(system: System) -> None:
    system.lab.write(system.home / "home/.config/hipcache/hipcache.yaml", "resident: no\n")
    del system.lab.environ["HIPCACHE_RESIDENT"]
    system.lab.warm(*system.flags)
    assert system.direct.ask(*system.flags)
    time.sleep(0.3)
    assert residents(system.home) == []


def test_a_directory_that_others_can_enter_is_not_used(system: System) -> None:
    system.lab.warm(*system.flags)
    (system.home / "hipcache").mkdir(exist_ok=True)
    with Fake(system.home, HOLDS) as fake:
        for mode in (0o755, 0o770, 0o777):
            (system.home / "hipcache").chmod(mode)
            assert system.served()
    assert fake.heard == []


def test_packets_that_make_no_sense_harm_nothing(system: System) -> None:
    question = system.warm()
    for packet in (
        *(b"", b"?", b"?" * 63, b"?" * 65, b"x" * 64, b"+", b"+" * 32, b"+" * 34),
        *(b"!" * 33, b"!" + bytes(32) + b"\xff" * 40, b"!" + bytes(200_000)),
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(str(system.address))
            asking.send(packet)
        assert system.ask(question) == HOLDS, packet[:65]


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


def test_it_ends_when_nobody_asks(system: System) -> None:
    system.start("1")
    system.wait_for(lambda: not system.address.exists())
    system.wait_for(lambda: residents(system.home) == [])


def test_it_ends_when_its_place_is_gone(system: System) -> None:
    system.start("14")  # the longest time of idleness with which it looks each second
    shutil.rmtree(system.address.parent)
    system.wait_for(lambda: residents(system.home) == [], seconds=12)


def test_another_version_has_another_resident(system: System) -> None:
    """What an upgraded hipcache asks, an old resident is never asked: the version is in the name."""
    assert system.address.name.endswith(f"-{__version__}")
    with Fake(system.home, HOLDS, name="resident-3-0.0.9") as old:
        system.lab.warm(*system.flags)
        assert system.served()
    assert old.heard == []
