"""Conditions that keep hipcache from caching: each is said once for a build, by `stats`, by `doctor`, and by the build
tools' configure steps; a healthy set-up says nothing."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hipcache
import pytest
from hip import BARE, HIT, LAUNCHER, MISS, Ended, Lab, let_others_in, only_19

# A build is known by the process that started the engines.
pytestmark = [only_19, pytest.mark.archs(1)]
SOMEBODY = 54323


def as_somebody(lab: Lab, *argv: str | Path) -> Ended:
    """As another user than root, to whom the lab belongs (but not the store)."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    let_others_in(lab.root)
    for path in (lab.root, lab.root.parent / "run", lab.root.parent / "home"):
        os.chown(path, SOMEBODY, SOMEBODY)
    done = subprocess.run(
        [*map(str, argv)],
        cwd=lab.root,
        env=lab.environ,
        capture_output=True,
        check=False,
        timeout=60,
        user=SOMEBODY,
        group=SOMEBODY,
        extra_groups=[],
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# condition -> variables that bring it about, words of the message, and of the hint.
BY_SETTINGS = {
    "config file": ({"HIPCACHE_CONFIG": "{root}/bad.yaml"}, b"bad.yaml:2: unknown key 'max_sise'", b"'max_size'"),
    "no config file": ({"HIPCACHE_CONFIG": "{root}/none.yaml"}, b"there is no file", b"HIPCACHE_CONFIG"),
    "value": ({"HIPCACHE_MAX_SIZE": "much"}, b"'HIPCACHE_MAX_SIZE': 'much' is not a size", b"10GiB"),
    "base directory": ({"HIPCACHE_BASEDIR": "src"}, b"'HIPCACHE_BASEDIR': 'src' is not an absolute path", b"root"),
    "variable": ({"HIPCACHE_MAXSIZE": "1G"}, b"unknown environment variable 'HIPCACHE_MAXSIZE'", b"HIPCACHE_MAX_SIZE"),
    "no key": ({"HIPCACHE_KEY": "{root}/key"}, b"cannot read the key of the store, '{root}/key'", b"umask 077"),
    "key": ({"HIPCACHE_KEY": "{root}/k.hip"}, b"the key of the store, '{root}/k.hip', ", b"umask 077"),
    "line break": ({"HIPCACHE_DIR": "{root}/a\nb"}, b"/a\nb' has a line break", b"a directory without one"),
    "home": ({"HIPCACHE_DIR": "~/store", "HOME": "{root}/a\nb"}, b"variable 'HOME': '{root}/a\nb' has", b"without one"),
    "a file": ({"HIPCACHE_DIR": "{root}/k.hip"}, b"'{root}/k.hip' is not a directory", b"HIPCACHE_DIR"),
    "a link": ({"HIPCACHE_DIR": "{root}/linked"}, b"'{root}/linked/v2' is a symbolic link", b"HIPCACHE_DIR"),
}


@pytest.fixture(params=BY_SETTINGS)
def broken(request: pytest.FixtureRequest, lab: Lab) -> tuple[dict[str, str], bytes, bytes]:
    lab.write("bad.yaml", "resident: 0\nmax_sise: 3G\n")
    (lab.root / "linked").mkdir()
    (lab.root / "linked/v2").symlink_to(lab.root)
    environ, message, hint = BY_SETTINGS[request.param]
    root = str(lab.root)
    environ = {name: value.replace("{root}", root) for name, value in environ.items()}
    return environ, message.replace(b"{root}", os.fsencode(root)), hint


def test_a_condition_is_said_once_for_a_build(lab: Lab, broken: tuple[dict[str, str], bytes, bytes]) -> None:
    environ, message, hint = broken
    plain = lab.run(lab.words())
    for said in (1, 0):
        ended = lab.hipcache(*lab.words(), env={**environ, "HIPCACHE_RECACHE": "1"})
        assert (ended.status, ended.out) == (plain.status, plain.out)
        assert ended.err.count(message) == said
        assert len(ended.err.splitlines()) == (2 + message.count(b"\n")) * said
        assert (hint in ended.err) == bool(said)


def test_stats_and_doctor_say_it_each_time(lab: Lab, broken: tuple[dict[str, str], bytes, bytes]) -> None:
    environ, message, hint = broken
    for words, status in ((["stats"], None), (["doctor", "--brief"], 1)):
        for _ in range(2):
            ended = lab.hipcache(*words, env=environ)
            said = ended.out + ended.err
            assert message in said and hint in said
            assert b"Traceback" not in said
            assert status in (None, ended.status)


@pytest.mark.parametrize("kind", ["remote", "executor"])
def test_an_address_that_is_none_is_told_whatever_is_installed(lab: Lab, kind: str) -> None:
    env = {f"HIPCACHE_{kind.upper()}": "cache:9092"}
    for words in (["stats"], ["doctor", "--brief"], ["doctor"]):
        said = lab.hipcache(*words, env=env).out
        assert f"{kind} 'cache:9092' begins with none of grpc, ".encode() in said, words
        assert b"pip install" not in said


def test_a_healthy_set_up_says_nothing(lab: Lab) -> None:
    for expected in (MISS, HIT):
        assert lab.compile().outcome == expected  # with plain clang's bytes on standard error
    assert lab.hipcache("doctor", "--brief") == Ended(0, b"", b"")
    assert lab.stats()["conditions"] == []


def test_a_switched_off_hipcache_has_nothing_to_say(lab: Lab) -> None:
    lab.store.write_text("a file")
    ended = lab.hipcache(*lab.words(), env={"HIPCACHE_DISABLE": "1"})
    assert (ended.status, ended.err) == (0, b"")


def test_what_is_no_compile_of_hip_says_nothing(lab: Lab) -> None:
    """Configure scripts take each word on standard error for a warning about the flag that they try."""
    lab.write("plain.cpp", "int main() {}\n")
    for environ in ({"HIPCACHE_MAXSIZE": "1G"}, {"HIPCACHE_MAX_SIZE": "much"}):
        for words in (["-c", "plain.cpp"], ["plain.cpp", "-o", "program"], ["--version"], ["-E", "plain.cpp"]):
            assert lab.hipcache(lab.compiler, *words, env=environ).err == b""


def test_a_hit_is_clangs_bytes_whatever_the_conditions_are(lab: Lab) -> None:
    lab.warm()
    (lab.store / "v2/tmp").rmdir()
    (lab.store / "v2/tmp").write_text("no directory")
    assert lab.compile().outcome == HIT


# Stores


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")
@pytest.mark.parametrize("part", ["", "v2", "v2/tmp", "v2/blobs"])
def test_a_store_of_somebody_elses_is_told_with_its_owner(lab: Lab, part: str) -> None:
    lab.warm()
    place = lab.store / part
    for path in (lab.store, *lab.store.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY) if path != place else path.chmod(0o755)
    lab.write("k.hip", (lab.root / "k.hip").read_text() + "int changed;\n")
    ended = as_somebody(lab, *LAUNCHER, *lab.words(output="other.o"))
    assert ended.status == 0
    words = f"'{place}' may not be written (mode 0755, owned by 'root', and you are user {SOMEBODY})".encode()
    assert ended.err.count(words) == 1
    assert as_somebody(lab, *LAUNCHER, *lab.words(output="other.o")).err == b""
    stats = json.loads(as_somebody(lab, *LAUNCHER, "stats", "--json").out)
    assert [one["kind"] for one in stats["conditions"]] == ["store_not_writable"]
    assert words in as_somebody(lab, *LAUNCHER, "stats").out
    assert words in as_somebody(lab, *LAUNCHER, "doctor", "--brief").out


@pytest.mark.files
def test_root_in_the_store_of_another_user_is_noted_by_the_doctor(lab: Lab) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a store of another user's")
    lab.warm()
    os.chown(lab.store / "v2/blobs", SOMEBODY, SOMEBODY)
    assert f"'{lab.store}/v2/blobs' in the store belongs to user {SOMEBODY}".encode() in lab.hipcache("doctor").out


def test_a_store_that_cannot_be_created_is_told_by_compiles_and_by_the_doctor(lab: Lab) -> None:
    """Root's rights do not show it: nobody makes a directory in /proc, nor one with such a long name."""
    in_proc = b"No such file" if os.access("/proc", os.W_OK) else b"may not be written"
    for place, why in (("/proc/hipcache", in_proc), (str(lab.root / ("a" * 300)), b"File name too long")):
        env = {"HIPCACHE_DIR": place}
        for said in (1, 0):
            ended = lab.hipcache(*lab.words(), env=env)
            assert (ended.status, ended.err.count(b"nothing new is cached"), ended.err.count(why)) == (0, said, said)
        told = lab.hipcache("doctor", env=env)
        assert (told.status, os.fsencode(f"store '{place}' ") in told.out, why in told.out) == (1, True, True)


def test_a_link_to_a_store_that_is_gone_says_so(lab: Lab) -> None:
    (lab.root / "scratch").symlink_to("/none/at/all")
    for place in ("scratch", "scratch/store"):
        told = lab.hipcache("doctor", "--brief", env={"HIPCACHE_DIR": str(lab.root / place)}).out
        assert f"the target of link '{lab.root}/scratch', '/none/at/all', does not exist; create it".encode() in told


@pytest.mark.parametrize("target", ["/none/at/all", "/proc/version"])
def test_a_link_that_the_next_compile_replaces_is_no_condition(lab: Lab, target: str) -> None:
    lab.warm()
    (lab.store / "v2/tmp").rmdir()
    (lab.store / "v2/tmp").symlink_to(target)
    assert lab.hipcache("doctor", "--brief") == Ended(0, b"", b"")
    lab.write("k.hip", (lab.root / "k.hip").read_text() + "int changed;\n")
    plain = lab.run(lab.words(output="other.o"))
    assert lab.hipcache(*lab.words(output="other.o")).err == plain.err
    assert not (lab.store / "v2/tmp").is_symlink()


def test_a_read_only_file_system_is_told(lab: Lab, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = lab.hipcache(*lab.words(), env={"HIPCACHE_DIR": str(small_disk / "store")})
    assert ended.status == 0
    assert b"mounted read-only" in ended.err
    assert b"HIPCACHE_READONLY=1" in ended.err
    assert b"owner" not in ended.err


# The native library


def _checkout(lab: Lab) -> tuple[list[str], Path]:
    """A program with an engine of its own, and the library of that."""
    place = lab.root / "own"
    place.mkdir()
    shutil.copy(LAUNCHER[0], place)
    shutil.copytree(Path(hipcache.__file__).parent, place / "hipcache-package/hipcache")
    engine = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, '{place}/hipcache-package')\n"
    engine += "from hipcache.__main__ import main\nsys.exit(main())\n"
    (place / "hipcache-engine").write_text(engine)
    (place / "hipcache-engine").chmod(0o755)
    return [str(place / "hipcache")], place / "hipcache-package/hipcache/native/libhipcache.so"


def test_without_its_native_library_or_with_an_outdated_one_the_compiler_runs(lab: Lab) -> None:
    program, library = _checkout(lab)
    assert lab.run([*program, *lab.words()]).err == b""
    cached = (lab.root / "out.o").read_bytes()
    library.rename(library.with_name("another.so"))  # a name with more before .so is found, too

    def compile_anew() -> bytes:
        (lab.root / "out.o").unlink()
        ended = lab.run([*program, *lab.words()], env={"HIPCACHE_RECACHE": "1"})
        assert ended.status == 0
        assert (lab.root / "out.o").read_bytes() == cached
        return ended.err

    assert b"nothing is cached: the native library '" in compile_anew()
    assert compile_anew() == b"", "it is told once"
    assert b"fault  the native library '" in lab.run([*program, "doctor"]).out
    (lab.root / "old.c").write_text("int hipcache_hit(void) { return 1; }\n")
    assert lab.run(["cc", "-shared", "-fPIC", "old.c", "-o", library]).status == 0
    assert b"the native library does not match these sources" in compile_anew()
    said = lab.run([*program, "doctor", "--brief"]).out
    assert b"the native library does not match these sources" in said
    assert b"pip install -e ." in said
    assert lab.stats()["passed_through"] == {"native": 3}


# Builds


def _build(lab: Lab, name: str, count: int) -> Path:
    directory = lab.root / name
    directory.mkdir()
    command = " ".join([*LAUNCHER, lab.compiler, "--offload-arch=gfx906", *BARE, "-c"])
    rules = f"rule hip\n command = {command} $in -o $out\n"
    for number in range(count):
        (directory / f"{number}.hip").write_text((lab.root / "k.hip").read_text())
        rules += f"build {number}.o: hip {number}.hip\n"
    shutil.copy(lab.root / "hip_in_short.hpp", directory)
    (directory / "build.ninja").write_text(rules)
    targets = " ".join(f"{number}.o" for number in range(count))
    make = f"all: {targets}\n%.o: %.hip\n\t@cd . && {command} $< -o $@\n"
    (directory / "Makefile").write_text(make)
    return directory


@pytest.mark.parametrize("tool", ["ninja -j8", "make -j8 all", "sh -c 'make -j4 all; exit'"])
def test_each_of_two_builds_at_once_says_it_once(lab: Lab, tool: str) -> None:
    builds = [_build(lab, name, 3) for name in ("a", "b")]
    environ = {"HIPCACHE_MAX_SIZE": "much"}

    def build(directory: Path) -> bytes:
        ended = lab.run(["setsid", "-w", "sh", "-c", f"{tool}; true"], cwd=directory, env=environ)
        assert (directory / "2.o").exists(), ended.out + ended.err
        return ended.out + ended.err

    with ThreadPoolExecutor(2) as pool:
        assert [text.count(b"'much'") for text in pool.map(build, builds)] == [1, 1]
    for path in builds[0].glob("*.o"):
        path.unlink()
    assert build(builds[0]).count(b"'much'") == 1, "the next build says it again"


def test_what_was_said_is_noted_outside_of_the_store_in_a_place_of_the_users(lab: Lab) -> None:
    """Where anybody may write, another user's directory of our name is not taken."""
    (lab.root / "tmp").mkdir(mode=0o777)
    # The next place is /tmp, where an earlier run below the same shell may have said it.
    much = f"much {secrets.token_hex(8)}"
    env = {
        "HIPCACHE_MAX_SIZE": much,
        "XDG_RUNTIME_DIR": str(lab.root / "none/at/all"),
        "TMPDIR": str(lab.root / "tmp"),
    }
    lab.write("none", "")
    ours = lab.root / f"tmp/hipcache-{os.getuid()}"
    (lab.root / "tmp/theirs").mkdir()
    ours.symlink_to("theirs")
    for said in (1, 0):
        assert lab.hipcache(*lab.words(), env=env).err.count(much.encode()) == said
    assert not list((lab.root / "tmp/theirs").iterdir())
    ours.unlink()
    assert lab.hipcache(*lab.words(), env={**env, "HIPCACHE_MAX_SIZE": "more"}).status == 0
    assert list(ours.glob("said-*"))
    assert ours.stat().st_mode & 0o777 == 0o700


def test_a_compiler_whose_plan_is_not_understood_is_told_once(lab: Lab, tmp_path: Path) -> None:
    compiler = tmp_path / "clang++"
    shutil.copy("/bin/true", compiler)
    told = lab.hipcache("doctor", "--brief", "--compiler", str(compiler))
    assert told.status == 1
    assert told.out.startswith(f"compiles pass through: '{compiler}' is not understood (plan: ".encode())
    words = [str(compiler), "-x", "hip", "-c", "k.hip", "-o", "k.o"]
    for times in (1, 0):
        assert lab.hipcache(*words).err.count(b"is not understood") == times
        assert lab.counted().reason == "plan"
