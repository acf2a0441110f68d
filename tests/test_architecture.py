"""The shape of the program: who imports whom, who touches the outside world, and that every ending has a sentence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hipcache
import pytest
from hipcache.loop.kinds import KINDS
from hipcache.planning.cc1 import _REASONS as REFUSED
from hipcache.planning.driver_options import _LEFT_PREFIXES as LEFT_PREFIXES
from hipcache.planning.driver_options import LEFT, why_left
from hipcache.report.advice import ADVICE
from hipcache.report.outcome import OUTCOMES, REASONS

ROOT = Path(hipcache.__file__).parent

# From the entries down to what stands on nothing. A module imports only from lines below its own; a new one
# is written into the lowest line that allows its imports. "hipcache" is the package itself, which holds the version.
LAYERS = r"""
    __main__
    cli.export cli.import_
    cli.carrying
    launcher.launch cli.verify cli.doctor cli.sync
    cli.servers cli.gc
    verify.delivered verify.compiles
    verify.served_by
    loop.several verify.fresh
    loop.front
    loop.kinds
    planners.program
    planners.object
    planners.failing
    planners.assembler planners.gate planners.iree planners.link loop.world
    planners.bundled_link planners.wrapped_link planners.source
    planners
    direct.remember loop.account
    direct.whole
    direct.surroundings
    execution.unbundling execution.passes
    execution.preamble_use
    execution.attempt execution.preambles
    execution.pass_trace planners.wrapper_tools execution.wrapper_link
    execution.processes
    execution.remote execution.holder execution.host_link planners.device_images execution.observed execution.read_files
    execution.local
    planning.asking planning.asking_links helper.start
    planning.driver execution.session planning.wrapper cache.manifest helper.process
    helper.fetching helper.uploading cli.prefetch
    helper.neighbours
    helper.ahead
    loop.build cache.spelled verify.entries helper.remotes cli.used
    verify.named helper.transfer
    cache.read_sets cache.translation helper.carried
    cache.entries cache.observed cache.pending
    planning.program_plan planning.iree_program planners.iree_surroundings planners.device_code
    cache.content
    delivery
    delivery.rules
    planning.answers
    engine planning.wrapper_plan planning.units
    engine.servers
    report.notices cache.shared
    cli.inspect
    delivery.files cache execution.inputs execution.in_process \
        launcher.ending planning.link_plan cli.explain report.telling execution planners.device_link
    model
    model.progress
    model.graph
    model.end model.turns
    model.passes
    storage.local storage.memory storage.tiered storage.noted model.action
    storage
    model.contents
    planning.preamble
    planning.frontend
    planning.inodes planning.auxiliary cli.report
    cli.page
    report.drawing cli.explain_build
    report.build
    report.history inputs.identity inputs.place inputs.recording cli.clear cli.config cli.ways cli.stats \
        cli.iree_check
    store.opening direct.contents direct.adopted
    direct.elsewhere direct.invocations
    direct.guards direct.variables direct.record inputs.trace store.local cli cli.toolchain planning.spelling
    remote.execution
    planning.iree remote.client
    inputs.observing inputs.search inputs.scans inputs.watched planning.command planning.plan processes.runner \
        store.upkeep store.notes
    store.entries
    making.bitcode processes.observe report.conditions report.logged inputs.quoted
    making.unnamed inputs.readset
    planning.backend planning.lld planning.jobs cli.config_file report.stats_log
    helper.executing
    remote.reapi_execution
    remote.workers remote.place helper.compilers
    inputs.includes planning.cc1 config planning.cuid processes.slots report.statistics processes.watch \
        store.faults store.ledger store.output store.scratch cli.directories verify.reports
    store.archive
    store.layout
    planning.assembler verify.difference cli.stats_text cli.markdown report.interval
    launcher.masquerade report.sums
    inputs.comments
    inputs.lexed planning.iree_checks planning.standard_input iree.dlpack
    iree.fit
    iree.module
    inputs.vocabulary inputs.lexer
    inputs.shown
    inputs.basedir remote.envelope remote.invocation remote.queue
    planning.responses
    planning.streams launcher.plain helper.connecting
    disk.atomic report.outcome store.seal inputs.packed inputs.directives inputs.embedded inputs.lexer_span \
        inputs.keys inputs.pasted \
        making.depfile making.splice planning.driver_options planning.tools \
        processes.room processes.ptrace processes.syscalls processes.together store.locks cli.arches cli.foreign \
        cli.screen native.observing store.space store.access disk.inflating remote.objects
    remote.reapi
    disk.confined
    disk.hashing iree.flatbuffer remote.credentials remote.needs helper.asks remote.sockets
    native.hashing remote.address
    inputs.portions
    settings_files
    processes.aside inputs.builders errors inputs.memos native
    report.advice report.targets direct store making planning inputs processes report verify hipcache disk.removal \
        disk.permissions settings iree
    helper remote disk launcher loop remote.backend remote.breaker remote.reapi_pb2 values shared
"""
_LINES = [line.split() for line in LAYERS.replace("\\\n", " ").strip().splitlines()]
LEVEL = {module: len(_LINES) - number for number, line in enumerate(_LINES) for module in line}

# The packages of the loop: none of them is in a circle of packages.
LOOP = ("model", "storage", "cache", "execution", "delivery", "planners")
MOST_IMPORTS = 12
# Those that are still to be cut, and how many they import: no more than that.
STILL_IMPORT = {
    "cli.doctor": 13,
    "direct.remember": 13,
    "engine": 15,
    "helper.remotes": 14,
    "launcher.launch": 20,
    "planning.units": 13,
    "execution.session": 20,
    "store.local": 15,
    "verify.delivered": 15,
}
MOST_LINES = 300

# `runner` starts processes, `watch` those for it that are watched. `ending` takes the user's own command over where the
# engine cannot go on, and `plain` where there is nothing for it to do.
STARTS_PROCESSES = {"processes.runner", "launcher.ending"}
READS_ENVIRONMENT = {"__main__"}
KNOWS_WORKING_DIRECTORY = {"launcher.launch", "cli.explain", "cli.config", "config", "inputs.builders"}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "hipcache"


SOURCES = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}


def _imports(tree: ast.AST) -> Iterator[str]:
    """Full names of all that is imported, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported_modules(module: str) -> set[str]:
    """The modules of hipcache that `module` imports: `hipcache.store.StoreSize` is a name of `store`."""
    found = set()
    for full in _imports(TREES[module]):
        if full.split(".")[0] != "hipcache":
            continue
        inner = full.removeprefix("hipcache").lstrip(".")
        while inner and inner not in SOURCES:
            inner = inner.rpartition(".")[0]
        found.add(inner or "hipcache")
    return found - {module}


def _strings(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be: a constant, or the two of `a if b else c`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)


def _reasons_given() -> dict[str, str]:
    """Each reason that the code gives -> a module that gives it."""
    given = dict.fromkeys([*LEFT.values(), *(reason for _, reason in LEFT_PREFIXES)], "planning.driver_options")
    given |= dict.fromkeys(REFUSED, "planning.cc1")
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "PassThrough" and node.args:
                given |= dict.fromkeys(_strings(node.args[0]), name)
            for keyword in node.keywords:
                if keyword.arg == "reason":
                    given |= dict.fromkeys(_strings(keyword.value), name)
    return given


def test_each_module_has_its_place_among_the_layers() -> None:
    assert sorted(LEVEL) == sorted(SOURCES), "write a new module into LAYERS, or take a gone one out"


@pytest.mark.parametrize("module", SOURCES)
def test_imports_run_only_downwards(module: str) -> None:
    wrong = [other for other in _imported_modules(module) if LEVEL[other] >= LEVEL[module]]
    assert not wrong, f"{module} imports {', '.join(wrong)}, which does not stand below it"


def _packages_below(package: str) -> set[str]:
    """All packages that it reaches by imports; a module of no package counts as one."""
    found: set[str] = set()
    left = {package}
    while left:
        this = left.pop()
        modules = [module for module in SOURCES if module.split(".")[0] == this]
        below = {other.split(".")[0] for module in modules for other in _imported_modules(module)} - {this}
        left |= below - found
        found |= below
    return found


@pytest.mark.parametrize("package", LOOP)
def test_a_package_of_the_loop_is_in_no_circle(package: str) -> None:
    assert package not in _packages_below(package)


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_imports_few_others(module: str) -> None:
    assert len(_imported_modules(module)) <= STILL_IMPORT.get(module, MOST_IMPORTS), "look for its second noun"


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_says_first_what_it_owns(module: str) -> None:
    assert ast.get_docstring(TREES[module])


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_has_300_lines_at_most(module: str) -> None:
    assert len(SOURCES[module].read_text().splitlines()) <= MOST_LINES, "look for its second noun"


def test_each_kind_of_command_has_its_planner_below_the_front() -> None:
    """They are imported by their names, which `_imports` does not see."""
    for kind in KINDS:
        assert LEVEL[f"planners.{kind.name}"] < LEVEL["loop.kinds"] < LEVEL["loop.front"]
        assert not kind.program or f"planning.{kind.name}" in SOURCES
        assert callable(kind.planner)


def test_only_the_runner_starts_processes_and_the_launcher_as_the_last_resort() -> None:
    wrong = {
        name
        for name, tree in TREES.items()
        if any(full.split(".")[0] in ("subprocess", "multiprocessing", "pty") for full in _imports(tree))
    }
    assert wrong == STARTS_PROCESSES


def _uses(module: str, attributes: set[str]) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in attributes
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(TREES[module])
    )


@pytest.mark.parametrize(
    "module", sorted(set(SOURCES) - {"__main__", "launcher.ending", "launcher.plain", "processes.watch"})
)
def test_no_module_starts_a_process_through_os(module: str) -> None:
    assert not _uses(module, {"system", "popen", "fork", "execvp", "execv", "execve", "posix_spawn", "spawnv"})


def test_only_the_entry_reads_the_environment() -> None:
    assert {name for name in SOURCES if _uses(name, {"environ", "getenv", "environb"})} == READS_ENVIRONMENT


@pytest.mark.parametrize("module", sorted(set(SOURCES) - KNOWS_WORKING_DIRECTORY))
def test_the_engine_does_not_know_the_working_directory_of_its_process(module: str) -> None:
    assert not _uses(module, {"getcwd", "getcwdb"})


@pytest.mark.parametrize("reason", sorted(_reasons_given()))
def test_a_reason_that_is_given_is_listed(reason: str) -> None:
    assert reason in REASONS, f"{_reasons_given()[reason]} gives a reason that outcome.REASONS does not have"


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_that_is_listed_is_given_somewhere(reason: str) -> None:
    assert reason in _reasons_given()


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_has_a_sentence(reason: str) -> None:
    sentence = REASONS[reason]
    assert sentence
    assert not sentence.endswith(".")


def test_each_reason_has_an_advice() -> None:
    assert list(ADVICE) == list(REASONS)


def test_no_two_reasons_say_the_same() -> None:
    assert len(set(REASONS.values())) == len(REASONS)


def test_endings_are_named_once() -> None:
    assert len(set(OUTCOMES)) == len(OUTCOMES)


@pytest.mark.parametrize("option", ["-save-temps=obj", "-fplugin=x.so", "-fmodules-ts", "-print-search-dirs"])
def test_an_option_with_a_value_is_left_for_its_prefix(option: str) -> None:
    assert why_left(option) in REASONS


@pytest.mark.parametrize("option", ["-c", "-O2", "-Sx", "-Ex", "-fgpu-rdc-not", "-MD", "-MMD", "-MT", "-g", "-flto"])
def test_an_option_that_only_begins_like_one_that_is_left_is_not_left(option: str) -> None:
    assert why_left(option) == ""
