"""Never a wrong object, part 5: a plan that is remembered is made anew when what the driver looked at has changed.

A plan is remembered once all that the driver looked at is older than two seconds, so these tests wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import HIT, LLVM, Lab, kernel, rocm, script, toolchain
from toolchains import another

pytestmark = pytest.mark.archs(1)

VALUE = "#ifndef VALUE\n#define VALUE 1\n#endif"


def gcc(root: Path, version: int) -> None:
    base = root / "lib" / "gcc" / "x86_64-linux-gnu" / str(version)
    base.mkdir(parents=True)
    (base / "crtbegin.o").touch()
    include = root / "include" / "c++" / str(version)
    include.mkdir(parents=True)
    (include / "value.hpp").write_text(f"#define VALUE {version}\n")


def config_beside_the_compiler(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    toolchain(top / "llvm", lab.version)
    own = top / "llvm" / "bin" / "own-clang++"
    own.symlink_to("clang")

    def change() -> None:
        for name in ("own-clang++.cfg", "own.cfg", "clang++.cfg"):
            own.with_name(name).write_text("-DVALUE=2\n")

    return with_changes(lab, compiler=str(own)), ["-target", "x86_64-pc-linux-gnu"], change


def config_that_is_named(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    config = lab.write("own.cfg", "-DVALUE=5\n")
    return lab, ["--config", str(config)], lambda: config.write_text("-DVALUE=2\n")


def config_that_another_names(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    inner = lab.write("inner.cfg", "-DVALUE=5\n")
    outer = lab.write("outer.cfg", "@inner.cfg\n")
    return lab, ["--config", str(outer)], lambda: inner.write_text("-DVALUE=2\n")


def config_in_the_users_directory(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    (top / "users").mkdir()
    (top / "systems").mkdir()
    (top / "systems" / "own.cfg").write_text("-DVALUE=5\n")
    flags = [f"--config-user-dir={top}/users", f"--config-system-dir={top}/systems", "--config", "own.cfg"]
    return lab, flags, lambda: (top / "users" / "own.cfg").write_text("-DVALUE=2\n")


def sanitizers_own_list(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    """The one that the driver takes by itself where it is there."""
    real = lab.run([lab.compiler, "-print-resource-dir"]).out.decode().strip()
    shares = top / "resources" / "share"
    shares.mkdir(parents=True)
    (top / "resources" / "include").symlink_to(f"{real}/include")
    lab.write("k.hip", kernel("1") + "int written(int* p, int i) { return p[i] = 1; }\n")
    flags = [f"-resource-dir={top}/resources", "-fsanitize=address", "-fno-gpu-sanitize"]
    return lab, flags, lambda: (shares / "asan_ignorelist.txt").write_text("fun:*\n")


def nested_response_file(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    inner = lab.write("inner.rsp", "-DVALUE=5\n")
    lab.write("outer.rsp", "@inner.rsp\n")
    return lab, ["@outer.rsp"], lambda: inner.write_text("-DVALUE=2\n")


def newer_gcc(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    gcc(top / "gcc", 11)
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    return lab, [f"--gcc-toolchain={top}/gcc"], lambda: gcc(top / "gcc", 12)


def switched_link(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    link = top / "cxx"
    link.symlink_to(LLVM[lab.version] / "bin" / "clang++")

    def change() -> None:
        link.unlink()
        link.symlink_to(LLVM[another(lab.version)] / "bin" / "clang++")

    return with_changes(lab, compiler=str(link)), [], change


def script_in_place_of_a_compiler(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    real = LLVM[lab.version] / "bin" / "clang++"
    flags = top / "flags"
    flags.write_text("-DVALUE=5\n")
    compiler = script(top / "cxx", f'read more <{flags}\nexec {real} $more "$@"\n')
    return with_changes(lab, compiler=str(compiler)), [], lambda: flags.write_text("-DVALUE=2\n")


def linker_in_a_prefix(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    compiler = toolchain(top / "llvm", lab.version)
    lld = top / "llvm" / "bin" / "lld"
    real = LLVM[lab.version] / "bin" / "lld"
    lab = with_changes(lab, compiler=str(compiler))
    return lab, [], lambda: script(lld, f'exec {real} "$@" --build-id=0xab\n')


def precompiled_header(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    lab.write("first.hpp", "#define VALUE 1\n")
    return lab, ["-include", "first.hpp"], lambda: lab.write("first.hpp.pch", "nonsense")


def rocm_tree(lab: Lab, top: Path) -> tuple[Lab, list[str], Callable[[], object]]:
    for number in (1, 2):
        rocm(top / f"rocm{number}", number)
    link = top / "rocm"
    link.symlink_to("rocm1")
    lab.write("k.hip", kernel("VALUE", "#include <hip/value.h>"))

    def change() -> None:
        link.unlink()
        link.symlink_to("rocm2")

    return lab, ["-idirafter", f"{link}/include", f"--rocm-path={link}"], change


WAYS = [
    config_beside_the_compiler,
    config_that_is_named,
    config_that_another_names,
    config_in_the_users_directory,
    sanitizers_own_list,
    nested_response_file,
    newer_gcc,
    switched_link,
    script_in_place_of_a_compiler,
    linker_in_a_prefix,
    precompiled_header,
    rocm_tree,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_remembered_plan_is_made_anew_after_a_change(
    lab: Lab, tmp_path: Path, way: Callable[[Lab, Path], tuple[Lab, list[str], Callable[[], object]]]
) -> None:
    lab.write("k.hip", kernel("VALUE", VALUE))
    lab, flags, change = way(lab, tmp_path)
    before = lab.compile(*flags)
    assert before.status == 0, before.messages
    for _ in range(2):
        assert lab.compile(*flags).outcome == HIT
    change()
    after = lab.compile(*flags)
    assert (after.status, after.object) != (0, before.object), "the change shows nothing"
    assert after.outcome != HIT
