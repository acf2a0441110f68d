"""Every outcome of a compile, and every reason why one passes through.

Each has a name, a sentence and a counter.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.values import dataclass, field, replace

HIT = "hit"
PARTIAL = "partial"
MISS = "miss"
PASSED_THROUGH = "passed_through"
FAILED = "failed"
OUTCOMES = (HIT, PARTIAL, MISS, PASSED_THROUGH, FAILED)
# The words for people, of one and of several.
WORDS = {
    HIT: ("hit", "hits"),
    PARTIAL: ("partial hit", "partial hits"),
    MISS: ("miss", "misses"),
    PASSED_THROUGH: ("passed through", "passed through"),
    FAILED: ("failed", "failed"),
}

# A hit compared with a fresh compile (HIPCACHE_VERIFY). VARYING: the compiler's own output differs each time.
SAME, DIFFERENT, VARYING = "same", "different", "varying"
VERDICTS = (SAME, DIFFERENT, VARYING)

# Units that are no offload arch.
HOST, LINK = "host", "link"


@dataclass(frozen=True)
class UnitOutcome:
    """One unit of a compile: `name` is an offload arch ("gfx90a:xnack+"), "host" or "link".

    `frontend` and `backend` are True for a hit, False for a miss, None if the job was not needed
    or does not exist (a host unit has no back end of its own). `hit` is True when the product
    (a code object, the host object) was served. `why` says in words why it missed.
    """

    name: str
    hit: bool
    frontend: bool | None = None
    backend: bool | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_hit(self) -> UnitOutcome:
        front, back = None if self.frontend is None else True, None if self.name == HOST else True
        return replace(self, hit=True, frontend=front, backend=back, why=())


@dataclass(frozen=True)
class CompileOutcome:
    """The end of one compile. `seconds_saved`: compiler seconds that hits made unnecessary; `preambles`: what
    became of how many precompiled headers; `took`: seconds of the whole compile, 0 if that is not known;
    `check`: is it one of a configure check? `direct`: was it a direct hit?"""

    outcome: str
    reason: str = ""
    detail: str = ""
    units: tuple[UnitOutcome, ...] = ()
    seconds_saved: float = 0.0
    notes: tuple[str, ...] = field(default=())
    preambles: tuple[tuple[str, int], ...] = ()
    took: float = 0.0
    check: bool = False
    direct: bool = False

    def as_hit(self) -> CompileOutcome:
        """The outcome of the same compile when nothing has changed."""
        units = tuple(unit.as_hit() for unit in self.units)
        return replace(self, outcome=HIT, units=units, seconds_saved=sum(unit.seconds for unit in units))


def counted(ends: Sequence[str]) -> str:
    """ "10 misses, 1 partial hit": compiles by how they ended, in the order of OUTCOMES."""
    numbers = {end: ends.count(end) for end in OUTCOMES if end in ends}
    return ", ".join(f"{number} {WORDS[end][number != 1]}" for end, number in numbers.items())


# Why a command passes through: reason -> sentence.
REASONS = {
    "not_hip": "the command has no HIP source",
    "cxx_cache": "it has no HIP source, and went to the cache that HIPCACHE_CXX_CACHE names",
    "link_or_not_hip": "the command has no HIP source, or it links",
    "link": "it links",
    "preprocess": "it preprocesses to standard output",
    "dependencies_only": "it only lists dependencies",
    "no_object": "it makes no object",
    "asks_driver": "it asks the driver something",
    "save_temps": "it keeps intermediate files",
    "new_driver": "it links with the new offload driver, and the clang is not version 19 or 21 to 24",
    "target_id": "it links with the new offload driver, and its target IDs are linked together",
    "lto": "it is a link with host LTO, or one step of it",
    "side_output": "it writes a second output that hipcache does not cache, or lists headers",
    "temporary_names": "it prints or writes the names of temporary files",
    "command_line": "its output contains the command line or its own bitcode",
    "assembler": "it uses another assembler than clang's own",
    "assembler_files": "it assembles a source that may read other files",
    "pch": "it uses a precompiled header",
    "coverage": "it instruments bitcode for coverage",
    "modules": "it uses modules",
    "plugin": "it loads a compiler plugin",
    "random_cuid": "it asks for a random CUID",
    "not_compiler": "its program is no compiler, but one that starts a compiler",
    "several_sources": "it has several sources that hipcache cannot compile one by one",
    "standard_streams": "it reads standard input or another stream, or writes standard output",
    "linked_output": "its output is a link, and the bundler writes to the link's target",
    "output": "an output cannot be written",
    "response_file": "a response file cannot be read",
    "iree_output": "this iree-compile command writes something other than one module",
    "wrapper": "hipcc, or another script in the compiler's place, does more than run clang",
    "scons_spawn": "SCons must run the command itself (SPAWN, SHELL, SHELL_ENV_GENERATORS, chdir, words for the shell)",
    "driver": "the driver prints no plan (-###)",
    "plan": "hipcache does not know this kind of driver plan",
    "compiler_option": "hipcache does not know an option of the compiler proper (cc1)",
    "linker_option": "hipcache does not know an option of the device linker",
    "tool": "a program that the driver would run cannot be read",
    "named_file": "a file that an option names cannot be read",
    "job_output": "a job printed something unexpected",
    "object_layout": "hipcache does not know the layout of the host object",
    "unobserved": "compiled, not stored: hipcache cannot observe here which files the compiler reads",
    "store": "the store cannot be used",
    "store_full": "the disk of the store is full",
    "native": "the native library of hipcache cannot be used",
    "limits": "the process has reached a limit (open files, processes, memory)",
    "temporary_directory": "the directory for temporary files (TMPDIR) cannot be used",
    "internal": "an error in hipcache itself",
    "job_failed_alone": "a job failed when hipcache ran it, but the whole command succeeded",
}
