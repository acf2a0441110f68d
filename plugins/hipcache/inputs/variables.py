"""The variables of the environment that cannot reach a compile, so that a direct hit need not compare them.

Sessions and CI jobs set dozens of variables that differ each time (GITHUB_RUN_ID, BUILD_NUMBER, SSH_CONNECTION), and
any list of those that matter would be a guess. But a tool can only ask for a variable by its name: a name of which
not even the first eight bytes stand anywhere in the tool, or in a library that it loads, is never asked for. Eight
bytes, since a compiler may put a name together from constants of that size. Names that are shorter, and those of
families that are asked for by their parts (the dynamic loader's LD_...), always matter.

Programs that are scripts may make up any name: where one takes part, all variables matter.

LLVM takes the name of the working directory from PWD, and asks for PWD only for that (`current_path` in
llvm/lib/Support/Unix/Path.inc). So only a PWD that names it otherwise than the system does, through a link, matters:
`make -C` leaves it as it was, and a shell sets it.

To search a compiler takes 0.1 s. A build of one source need not pay for that: the first compile with a set of tools
compares all variables, and the next one searches.

Format of a memo (an action of the store, one for each set of tools): JSON {"asked": [name, ...], "never": [name, ...]},
what is known of the names that have been met.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import partial

from hipcache.base import interruptible, native
from hipcache.base.keys import make_key
from hipcache.inputs.identity import Memos
from hipcache.processes import encode

# Variables that a build tool or a shell changes with every command, and that no compiler reads.
VOLATILE = frozenset(
    [
        *("_", "OLDPWD", "SHLVL", "TMPDIR", "COLUMNS", "LINES"),
        *("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKE_TERMERR", "MAKE_TERMOUT", "NINJA_STATUS"),
    ]
)
_BEGINNING = 8
_FAMILIES = (
    *("LD_", "LC_", "LANG", "GLIBC", "MALLOC_", "HIPCACHE_"),
    *("HIP", "HSA_", "HCC_", "ROC", "AMD", "GPU_", "CLANG", "LLVM", "CCC_", "CC_", "GCC_"),
    "XDG_CONFIG_HOME",  # where our own settings are
)
_MOST = 1024
# Settings that say how, and from where, a compile is served: they do not change its output.
_OF_THE_WAY = {
    *("HIPCACHE_DIR", "HIPCACHE_NAMESPACE", "HIPCACHE_REMOTE", "HIPCACHE_EXECUTOR", "HIPCACHE_PREFETCH"),
    *("HIPCACHE_LOG", "HIPCACHE_LOG_FORMAT", "HIPCACHE_STATS_LOG", "HIPCACHE_RESIDENT", "HIPCACHE_VERIFY"),
    "HIPCACHE_READONLY",
}


def ignored(
    environ: Mapping[str, str], tools: Mapping[str, tuple[str, ...]], memos: Memos, *, terminal: bool, shared: bool
) -> tuple[str, ...]:
    """The names of all variables that a direct hit need not compare (PWD: see `compared`). `tools`: as below, empty if
    not all are known; `terminal`: did messages go to one? `shared`: will other machines use the record?"""
    foreign = {"PWD"} if tools else set()
    if tools and (shared or _have_been_met(tools, memos)):
        foreign |= never_asked(environ, tools, memos)
    return tuple(sorted((VOLATILE | foreign | _OF_THE_WAY) - ({"COLUMNS"} if terminal else set())))


def compared(environ: Mapping[str, str], ignored: Iterable[str], cwd: str) -> dict[str, str]:
    """The variables that a direct hit compares. PWD is one even if it is ignored, if it is another name of `cwd`."""
    names = set(environ) - set(ignored)
    if _renames(environ.get("PWD", ""), cwd):
        names.add("PWD")
    return {name: environ[name] for name in names}


def _renames(path: str, directory: str) -> bool:
    """Is it another absolute path of that directory, as LLVM compares them?"""
    try:
        return path.startswith("/") and path != directory and os.path.samefile(path, directory)
    except (OSError, ValueError):
        return False


def never_asked(names: Iterable[str], tools: Mapping[str, tuple[str, ...]], memos: Memos) -> set[str]:
    """All known names that none of the tools can ask for, those among `names` included. `tools`: digest -> files."""
    key = _key(tools)
    asked, never = _recall(memos.load(key))
    unknown = {name: encode(name)[:_BEGINNING] for name in names if _may_be_foreign(name)}
    unknown = {name: raw for name, raw in unknown.items() if name not in asked and name not in never}
    if unknown:
        found = _search(sorted(set(unknown.values())), tools)
        if found is None:
            return never
        asked |= {name for name, raw in unknown.items() if raw in found}
        never |= {name for name, raw in unknown.items() if raw not in found}
        if len(asked) + len(never) < _MOST:
            memos.keep(key, json.dumps({"asked": sorted(asked), "never": sorted(never)}).encode())
    return never


def _have_been_met(tools: Mapping[str, tuple[str, ...]], memos: Memos) -> bool:
    """Has an earlier compile had these tools?"""
    key = _key(tools)
    if memos.load(key) is not None:
        return True
    memos.keep(key, b"{}")
    return False


def _key(tools: Mapping[str, tuple[str, ...]]) -> str:
    return make_key("variables", [("tool", digest) for digest in sorted(tools)]).digest


def is_native(path: str) -> bool:
    """An ELF program; anything else may make up a name."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _may_be_foreign(name: str) -> bool:
    return len(encode(name)) >= _BEGINNING and not name.startswith(_FAMILIES)


def _search(beginnings: list[bytes], tools: Mapping[str, tuple[str, ...]]) -> set[bytes] | None:
    found: set[bytes] = set()
    for path in sorted({path for files in tools.values() for path in files}):
        try:
            found |= interruptible.run(partial(native.search, path, beginnings), size=interruptible.LARGE)
        except OSError:
            return None
    return found


def _recall(memo: bytes | None) -> tuple[set[str], set[str]]:
    try:
        data = json.loads(memo) if memo else {}
        return set(data.get("asked", ())), set(data.get("never", ()))
    except (ValueError, AttributeError, TypeError):
        return set(), set()
