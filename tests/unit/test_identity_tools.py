"""A tool is its content and that of the libraries that it loads."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hipcache.build.context import open_context
from hipcache.config import Config
from hipcache.inputs import identity
from hipcache.inputs.file_manager import RACY
from hipcache.inputs.identity import Identities, Memos
from hipcache.processes.runner import Completed, Runner, SubprocessRunner
from hipcache.store.local import LocalStore
from hipcache.verify import verb


class Loader:
    """A Runner for tools that are no dynamic programs: nothing may be run for them."""

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        raise AssertionError(f"ran {argv}")

    def kill(self) -> None:
        pass

    def check(self) -> None:
        pass

    def group(self, servers: object = None) -> Runner:
        return self


class Counting(SubprocessRunner):
    """Real processes, counted."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        self.count += 1
        return super().run(argv, cwd=cwd, env=env)


def much_later() -> float:
    """A clock at which all files of the test are old."""
    return os.stat("/proc/self").st_ctime + 1000 * RACY


def in_memory(kept: dict[str, bytes]) -> Memos:
    return Memos(kept.get, kept.__setitem__)


def digest(
    tool: Path, runner: Runner, kept: dict[str, bytes] | None = None, environ: dict[str, str] | None = None
) -> str:
    remembered = None if kept is None else in_memory(kept)
    return Identities(runner, environ or {}, remembered, much_later()).digest(str(tool))


# Scripts and static programs


def test_a_script_is_its_content_and_is_not_run(tmp_path: Path) -> None:
    one, same, other = tmp_path / "one", tmp_path / "same", tmp_path / "other"
    for path, text in ((one, "#!/no/sh\n"), (same, "#!/no/sh\n"), (other, "#!/no/sh\n:")):
        path.write_text(text)
    assert digest(one, Loader()) == digest(same, Loader()) != digest(other, Loader())


@pytest.mark.parametrize("named", ["{inner}", "exec inner", '"${{0%/*}}"/inner'])
def test_a_script_is_what_it_names_too(tmp_path: Path, named: str) -> None:
    inner = tmp_path / "inner"
    one = tmp_path / "one"
    one.write_text(f"#!/no/sh\n{named.format(inner=inner)}\n{one}\n")
    environ = {"PATH": str(tmp_path)}
    found = set()
    for content in ("#!/no/sh\n", "#!/no/sh\n:"):
        inner.write_text(content)
        inner.chmod(0o755)
        found.add(digest(one, Loader(), environ=environ))
    assert len(found) == 2


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\0" * 58, b"\x7fELF\x01\x01" + b"\0" * 58])
def test_a_file_of_any_content_has_an_identity(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(content)
    assert digest(tmp_path / "tool", Loader())


def test_a_tool_that_is_gone_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        digest(tmp_path / "gone", Loader())


def test_one_compile_looks_at_a_tool_once(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("one")
    identities = Identities(Loader(), {}, None, much_later())
    first = identities.digest(str(tool))
    tool.write_text("two")
    assert identities.digest(str(tool)) == first


# What is remembered


def replaced(path: Path, content: bytes) -> None:
    """Another content of the same size, with the old modification time."""
    old = path.stat()
    assert len(content) == old.st_size
    path.write_bytes(content)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def test_a_tool_replaced_by_one_of_the_same_size_and_time_is_another(tmp_path: Path) -> None:
    tool, kept = tmp_path / "tool", dict[str, bytes]()
    tool.write_bytes(b"one")
    first = digest(tool, Loader(), kept)
    assert len(kept) == 1
    replaced(tool, b"two")
    assert digest(tool, Loader(), kept) != first


def test_a_tool_that_is_too_young_is_not_remembered(tmp_path: Path) -> None:
    tool, kept = tmp_path / "tool", dict[str, bytes]()
    tool.write_bytes(b"one")
    now = tool.stat().st_ctime + RACY / 2
    Identities(Loader(), {}, in_memory(kept), now).digest(str(tool))
    assert not kept


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 1, "watch": 3, "digest": "x"}']
)
def test_a_memo_that_does_not_read_is_made_anew(damage: bytes, tmp_path: Path) -> None:
    tool, kept = tmp_path / "tool", dict[str, bytes]()
    tool.write_bytes(b"one")
    first = digest(tool, Loader(), kept)
    assert digest(tool, Loader(), dict.fromkeys(kept, damage)) == first


@pytest.mark.parametrize("read_only", [True, False])
def test_a_memo_that_cannot_be_written_costs_only_speed(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "tool").write_bytes(b"one")
    (tmp_path / "store").touch()
    context = open_context(Config(dir=tmp_path / "store", readonly=read_only), {})
    assert Identities(Loader(), {}, context.memos, much_later()).digest(str(tmp_path / "tool"))


# Dynamic programs


class Program:
    """A program that loads `libpart.so` from a directory in its RUNPATH."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept, self.runner = root, dict[str, bytes](), Counting()
        for name in ("first", "second", "elsewhere"):
            (root / name).mkdir()
        (root / "main.c").write_text("int part(void); int main(void) { return part(); }\n")
        self.library(root / "second/libpart.so", 1)
        self.tool = root / "tool"
        flags = [f"-Wl,-rpath,{root}/first:{root}/second", "-Wl,--enable-new-dtags"]
        self._gcc("-o", self.tool, root / "main.c", f"-L{root}/second", "-lpart", *flags)

    def _gcc(self, *words: str | Path) -> None:
        subprocess.run(["gcc", *words], check=True)

    def library(self, path: Path, value: int) -> None:
        source = self.root / "part.c"
        source.write_text(f"int part(void) {{ return {value}; }}\n")
        self._gcc("-shared", "-fPIC", "-Wl,--build-id=none", "-o", path, source)

    def digest(self, **environ: str) -> str:
        return digest(self.tool, self.runner, self.kept, environ)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_memo_is_used_where_nothing_changed(program: Program) -> None:
    first = program.digest()
    assert program.runner.count == 1
    assert program.digest() == first
    assert program.runner.count == 1


def test_another_library_makes_another_tool(program: Program) -> None:
    first = program.digest()
    program.library(program.root / "second/libpart.so", 2)
    assert program.digest() != first


def test_a_library_replaced_by_one_of_the_same_size_and_time_is_another(program: Program) -> None:
    first = program.digest()
    library = program.root / "second/libpart.so"
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    replaced(library, bytes(content))
    assert program.digest() != first


def test_a_library_that_appears_earlier_in_the_runpath_is_seen(program: Program) -> None:
    first = program.digest()
    program.library(program.root / "first/libpart.so", 2)
    assert program.digest() != first


def test_a_library_that_appears_in_ld_library_path_is_seen(program: Program) -> None:
    elsewhere = str(program.root / "elsewhere")
    first = program.digest(LD_LIBRARY_PATH=elsewhere)
    assert first == program.digest()
    program.library(program.root / "elsewhere/libpart.so", 2)
    assert program.digest(LD_LIBRARY_PATH=elsewhere) != first
    assert program.digest() == first


def test_a_library_in_a_directory_that_appears_is_seen(program: Program) -> None:
    late = program.root / "late"
    first = program.digest(LD_LIBRARY_PATH=str(late))
    late.mkdir()
    program.library(late / "libpart.so", 2)
    assert program.digest(LD_LIBRARY_PATH=str(late)) != first


def loads(tool: Path, library: Path) -> bool:
    """Does the loader of this machine take that library for the tool?"""
    told = subprocess.run([tool], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, check=True, text=True)
    return str(library) in told.stdout


@pytest.mark.parametrize("there", ["", "tls", "tls/x86_64", "glibc-hwcaps", "glibc-hwcaps/x86-64-v2"])
@pytest.mark.parametrize("place", ["tls", "x86_64", "tls/x86_64", "glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3"])
def test_a_library_for_this_processor_is_seen(program: Program, place: str, there: str) -> None:
    """`there`: a directory that exists before."""
    (program.root / "second" / there).mkdir(parents=True, exist_ok=True)
    first = program.digest()
    late = program.root / "second" / place / "libpart.so"
    late.parent.mkdir(parents=True, exist_ok=True)
    program.library(late, 2)
    assert (program.digest() != first) == loads(program.tool, late)


@pytest.mark.parametrize("token", ["$LIB", "${LIB}", "$PLATFORM"])
def test_a_library_where_the_loader_puts_another_word_is_seen(program: Program, token: str) -> None:
    path = f"{program.root}/elsewhere/{token}"
    first = program.digest(LD_LIBRARY_PATH=path)
    words = ("lib", "lib64", "lib/x86_64-linux-gnu", "x86_64", "haswell")
    for word in words:
        late = program.root / "elsewhere" / word / "libpart.so"
        late.parent.mkdir(parents=True, exist_ok=True)
        program.library(late, 2)
    assert program.digest(LD_LIBRARY_PATH=path) != first


def test_a_library_that_is_gone_is_told_as_an_oserror(program: Program) -> None:
    (program.root / "second/libpart.so").unlink()
    with pytest.raises(OSError, match="tool"):
        program.digest()


def test_the_same_program_elsewhere_has_the_same_identity(program: Program) -> None:
    copy = program.root / "copy"
    copy.write_bytes(program.tool.read_bytes())
    copy.chmod(0o755)
    assert digest(copy, program.runner) == program.digest()


# In a store


def test_a_memo_in_the_store_is_sound_to_verify_and_never_unpacks_to_more_than_it_may(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"one")
    context = open_context(Config(dir=tmp_path / "store"), {})
    assert Identities(Loader(), {}, context.memos, much_later()).digest(str(tmp_path / "tool"))
    store = LocalStore(tmp_path / "store", max_bytes=0)
    assert [verb.check(store).records, verb.check(store).damaged] == [1, []]
    bomb = zlib.compress(bytes(identity.MOST_MEMO + 1))
    store.put_action("0" * 64, bomb)
    assert context.memos.load("0" * 64) is None
