"""Every way in which a compile can end, and every reason why one is left to the compiler.

Each ending has a name, a sentence and a counter: what is not listed here cannot be counted.
"""

from __future__ import annotations

from hipcache.values import dataclass, field, replace

HIT = "hit"
PARTIAL = "partial"
MISS = "miss"
PASSED_THROUGH = "passed_through"
FAILED = "failed"
OUTCOMES = (HIT, PARTIAL, MISS, PASSED_THROUGH, FAILED)

# How a hit compares with a compile anew (HIPCACHE_VERIFY); the compiler makes a varying one differently each time.
SAME, DIFFERENT, VARYING = "same", "different", "varying"
VERDICTS = (SAME, DIFFERENT, VARYING)

# Units that are no offload arch.
HOST, LINK = "host", "link"


@dataclass(frozen=True)
class UnitOutcome:
    """One unit of a compile: `name` is an offload arch ("gfx90a:xnack+"), "host" or "link".

    `frontend` and `backend` are True for a hit, False for a miss, None where the job was not needed
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
    became of how many precompiled preambles; `took`: seconds of the whole compile, 0 where that is not known;
    `check`: is it one of a configure check?"""

    outcome: str
    reason: str = ""
    detail: str = ""
    units: tuple[UnitOutcome, ...] = ()
    seconds_saved: float = 0.0
    notes: tuple[str, ...] = field(default=())
    preambles: tuple[tuple[str, int], ...] = ()
    took: float = 0.0
    check: bool = False

    def as_hit(self) -> CompileOutcome:
        """The outcome of the same compile when nothing has changed."""
        units = tuple(unit.as_hit() for unit in self.units)
        return replace(self, outcome=HIT, units=units, seconds_saved=sum(unit.seconds for unit in units))


# Why a compile is left to the compiler: reason -> sentence.
REASONS = {
    "not_hip": "no HIP source in the command",
    "link_or_not_hip": "no HIP source in the command, or a link",
    "link": "it links",
    "preprocess": "it preprocesses to standard output",
    "dependencies_only": "it only lists dependencies",
    "no_object": "it makes no object",
    "asks_driver": "it asks the driver something",
    "save_temps": "it keeps the intermediate files",
    "new_driver": "a link by the new offload driver of another clang than 19",
    "target_id": "a link by the new offload driver of target IDs that are linked together",
    "lto": "a link with link-time optimization of the host's code, or a part of one",
    "side_output": "it writes a second output that is not cached, or lists headers",
    "temporary_names": "it writes the names of temporary files",
    "command_line": "its output holds the command line, or its own bitcode",
    "assembler": "an assembler other than clang's own",
    "assembler_files": "a source of the assembler that may read other files",
    "pch": "a precompiled header",
    "coverage": "coverage instrumentation of bitcode",
    "modules": "modules",
    "plugin": "a plugin runs in the compiler",
    "random_cuid": "a random CUID",
    "several_sources": "several sources, not all of them HIP or with something odd about them",
    "standard_streams": "it reads standard input or writes standard output",
    "linked_output": "its output is a link, through which the bundler writes",
    "response_file": "a response file that cannot be read",
    "iree_output": "a command of iree-compile that writes no module, or more than that",
    "wrapper": "hipcc, or a script in place of the compiler, does more than run clang",
    "driver": "the driver gives no plan",
    "plan": "a plan of a shape that hipcache does not know",
    "compiler_option": "an option of the compiler proper that hipcache does not know",
    "linker_option": "an option of the device linker that hipcache does not know",
    "tool": "a tool of the plan that cannot be read",
    "named_file": "a file named by an option that cannot be read",
    "job_output": "a job printed something unexpected",
    "object_layout": "a host object of a layout that hipcache does not know",
    "unobserved": "compiled and not kept: what its texts read can only be observed, and that is not possible here",
    "store": "the store cannot be used",
    "store_full": "the store's disk has no room",
    "limits": "a limit of this process (open files, processes, memory) leaves no room for the cache",
    "temporary_directory": "the directory for temporary files (TMPDIR) cannot be used",
    "internal": "an error in hipcache itself",
    "job_failed_alone": "a job failed, but the whole command did not",
}
