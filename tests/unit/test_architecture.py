"""The shape of the program: who imports whom, who touches the outside world, that every ending has a sentence, and how
long a Python file may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import hipcache
import pytest
from hipcache.app.kinds import KINDS
from hipcache.base.features import FEATURES
from hipcache.clang.cc1 import _REASONS as REFUSED
from hipcache.clang.driver_options import _PREFIXES, PASSED_THROUGH, why_passed_through
from hipcache.report.outcome import OUTCOMES
from hipcache.report.reasons import ADVICE, REASONS

ROOT = Path(hipcache.__file__).parent

# The packages, from the entries down to what stands on nothing. One imports only from those behind it, in its row and
# below.
LAYERS = """
    iree verify executor remote driver_header link
    __main__ cli app
    direct execution
    cache clang
    build
    report store
    config inputs processes
    base hipcache
"""
ORDER = LAYERS.split()

MOST_LINES = 600

# `runner` starts processes, `ptrace` those for it that are watched. `ending` takes the command over where the
# engine cannot go on.
STARTS_PROCESSES = {"processes.runner", "app.ending"}
READS_ENVIRONMENT = {"__main__"}
KNOWS_WORKING_DIRECTORY = {
    "app.launch",
    "cli.explain",
    "cli.config",
    "remote.prefetch",
    "config",
    "config.builders",
}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "hipcache"


SOURCES = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}
CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("bench", "meson", "packaging", "plugins", "scripts", "tests")
FILES = {
    path.relative_to(CHECKOUT).as_posix(): path
    for pattern in ("*.py", *(f"{folder}/**/*.py" for folder in FOLDERS))
    for path in sorted(CHECKOUT.glob(pattern))
}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text())


@cache
def _nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(module)))


def _imports(module: str) -> Iterator[str]:
    """Full names of all that is imported, in functions and under TYPE_CHECKING too."""
    for node in _nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _imported_modules(module: str) -> frozenset[str]:
    """The modules of hipcache that `module` imports: `hipcache.store.StoreSize` is a name of `store`."""
    found = set()
    for full in _imports(module):
        if full.split(".")[0] != "hipcache":
            continue
        inner = full.removeprefix("hipcache").lstrip(".")
        while inner and inner not in SOURCES:
            inner = inner.rpartition(".")[0]
        found.add(inner or "hipcache")
    return frozenset(found - {module})


def _strings(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be: a constant, or the two of `a if b else c`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)


@cache
def _reasons_given() -> dict[str, str]:
    """Each reason that the code gives -> a module that gives it."""
    given = dict.fromkeys([*PASSED_THROUGH.values(), *(reason for _, reason in _PREFIXES)], "clang.driver_options")
    given |= dict.fromkeys(REFUSED, "clang.cc1")
    nodes = {name: _nodes(name) for name in SOURCES}
    for path in (ROOT.parent / "hipcache_scons").glob("*.py"):
        nodes[f"hipcache_scons.{path.stem}"] = tuple(ast.walk(ast.parse(path.read_text())))
    for name, of_module in nodes.items():
        for node in of_module:
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "PassThrough" and node.args:
                given |= dict.fromkeys(_strings(node.args[0]), name)
            for keyword in node.keywords:
                if keyword.arg == "reason":
                    given |= dict.fromkeys(_strings(keyword.value), name)
    return given


def _package(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def test_each_package_has_its_place_among_the_layers() -> None:
    assert sorted(ORDER) == sorted(set(map(_package, SOURCES)))


def _edges() -> Iterator[tuple[str, str]]:
    """(module, module that it imports)"""
    return ((module, other) for module in SOURCES for other in _imported_modules(module))


def test_imports_run_only_downwards() -> None:
    places = {package: place for place, package in enumerate(ORDER)}
    assert not [edge for edge in _edges() if places[_package(edge[1])] < places[_package(edge[0])]]


def test_a_module_imports_no_feature_but_its_own() -> None:
    """It asks `features` for what their doors add; only the executors stand on another one."""
    own = [(name, name) for name in FEATURES] + [("executor", "remote")]
    asked = [edge for edge in _edges() if _package(edge[1]) in FEATURES]
    assert not [edge for edge in asked if (_package(edge[0]), _package(edge[1])) not in own]


def test_a_door_imports_nothing_of_the_program_until_it_is_asked() -> None:
    first = [node for door in FEATURES for node in _tree(door).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [one for one in first if isinstance(one, ast.Import) or str(one.module).startswith("hipcache")]


def test_no_modules_import_each_other_in_a_circle() -> None:
    tuple(TopologicalSorter({module: _imported_modules(module) for module in SOURCES}).static_order())


def test_a_module_says_first_what_it_owns() -> None:
    assert not [module for module in SOURCES if not ast.get_docstring(_tree(module))]


def test_a_module_has_600_lines_at_most() -> None:
    """A longer one has a second noun."""
    assert not [name for name, file in FILES.items() if len(file.read_text().splitlines()) > MOST_LINES]


def test_each_kind_of_command_has_its_planner() -> None:
    """They are imported by their names, which `_imports` does not see."""
    for kind in KINDS:
        assert not kind.program or kind.parser.removeprefix("hipcache.") in SOURCES
        assert callable(kind.planner)


def test_only_the_runner_starts_processes_and_the_launcher_as_the_last_resort() -> None:
    wrong = {
        name
        for name in SOURCES
        if any(full.split(".")[0] in ("subprocess", "multiprocessing", "pty") for full in _imports(name))
    }
    assert wrong == STARTS_PROCESSES


def _users(*attributes: str) -> set[str]:
    """The modules that use one of these of `os`."""
    return {
        module
        for module in SOURCES
        for node in _nodes(module)
        if isinstance(node, ast.Attribute)
        and node.attr in attributes
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }


def test_no_module_starts_a_process_through_os() -> None:
    start = _users("system", "popen", "fork", "execvp", "execv", "execve", "posix_spawn", "spawnv")
    assert start <= {"__main__", "app.ending", "processes.ptrace"}


def test_only_the_entry_reads_the_environment() -> None:
    assert _users("environ", "getenv", "environb") == READS_ENVIRONMENT


def test_the_engine_does_not_know_the_working_directory_of_its_process() -> None:
    assert _users("getcwd", "getcwdb") <= KNOWS_WORKING_DIRECTORY


def test_the_reasons_that_modules_give_are_those_that_are_listed() -> None:
    given = _reasons_given()
    assert not {reason: module for reason, module in given.items() if reason not in REASONS}
    assert set(REASONS) == set(given)


def test_a_reason_has_a_sentence() -> None:
    assert not [reason for reason, sentence in REASONS.items() if not sentence or sentence.endswith(".")]


def test_each_reason_has_an_advice() -> None:
    assert list(ADVICE) == list(REASONS)


def test_no_two_reasons_say_the_same() -> None:
    assert len(set(REASONS.values())) == len(REASONS)


def test_endings_are_named_once() -> None:
    assert len(set(OUTCOMES)) == len(OUTCOMES)


@pytest.mark.parametrize("option", ["-save-temps=obj", "-fplugin=x.so", "-fmodules-ts", "-print-search-dirs"])
def test_an_option_with_a_value_is_left_for_its_prefix(option: str) -> None:
    assert why_passed_through(option) in REASONS


@pytest.mark.parametrize("option", ["-c", "-O2", "-Sx", "-Ex", "-fgpu-rdc-not", "-MD", "-MMD", "-MT", "-g", "-flto"])
def test_an_option_that_only_begins_like_one_that_is_left_is_not_left(option: str) -> None:
    assert why_passed_through(option) == ""
