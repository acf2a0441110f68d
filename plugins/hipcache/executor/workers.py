"""The address of an executor, as HIPCACHE_EXECUTOR has it: a server of the Remote Execution API that has workers.

    grpc://HOST:PORT[/INSTANCE]    grpcs:// and unix:/PATH as for a remote, with the options of one

or `none`: nothing is to run elsewhere, though a remote would. And besides, behind the `?`: `jobs` (how many actions all
compiles of this user have there at once), `limit` (seconds after which one is taken for lost), `prefer` (all goes there
that can, also while slots are free here), any number of `platform=NAME:VALUE`, the properties that workers are chosen
by, `installed` (workers have the compiler at the path that it has here, and are not given it), and `weight` (which part
of the actions it has, compared with other executors).

Others say the same so: distcc's list of hosts has `host/limit`, and is filled in its order; recc, reclient and Bazel
know one executor, with platform properties as NAME=VALUE; nginx and HAProxy have `weight=N` for each server of a list.
So `jobs` is the limit, and without weights the order counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote

from hipcache.base.errors import ConfigError
from hipcache.base.values import dataclass
from hipcache.config import Config
from hipcache.config.settings import NO_EXECUTOR
from hipcache.remote import address
from hipcache.remote.address import Address

JOBS, MOST_JOBS = 16, 1024
LIMIT, MOST_LIMIT = 600, 86400
MOST_WEIGHT = 1000
_SCHEMES = ("grpc", "grpcs", "unix")
_REMOTES = tuple(f"{scheme}:" for scheme in _SCHEMES)
_FLAGS = {"read-only", "write-only"}
_HINT = "write for example grpc://build.example.com:8980/main?jobs=32"


@dataclass(frozen=True)
class ExecutorAddress:
    """`weight`: 0 where none is given."""

    address: Address
    jobs: int = JOBS
    limit: int = LIMIT
    prefer: bool = False
    platform: tuple[tuple[str, str], ...] = ()
    weight: int = 0
    installed: bool = False

    @property
    def files(self) -> dict[str, str]:
        return self.address.files


@dataclass
class Watch:
    """What is known of an action that runs there. `at`: where it is; `cancel` ends it."""

    at: str = ""
    is_over: bool = False
    cancel: Callable[[], object] = bool

    def begin(self, cancel: Callable[[], object]) -> None:
        self.cancel = cancel
        if self.is_over:
            cancel()

    def end(self) -> None:
        """Nobody waits for it any more."""
        self.is_over = True
        self.cancel()


def named(config: Config) -> tuple[str, ...]:
    """The addresses of executors: those of the settings; else remotes, if they execute (see `is_implied`). With a key
    nothing counts that others have made, unless the user names them."""
    if config.executor == (NO_EXECUTOR,):
        return ()
    if config.executor or config.key:
        return config.executor
    return tuple(text for text in config.remote if text.startswith(_REMOTES) and not _FLAGS & set(_options(text)))


def is_implied(config: Config) -> bool:
    """Nobody has asked for them: that a server runs nothing is no fault."""
    return not config.executor


def _options(text: str) -> list[str]:
    return text.partition("?")[2].split("&")


def parse(text: str) -> ExecutorAddress:
    """Raises ConfigError."""
    place, _, options = text.partition("?")
    if ":" not in place:
        raise ConfigError(f"executor '{address.shown(text)}' is neither an address nor '{NO_EXECUTOR}'", _HINT)
    own, others = dict[str, str](), list[str]()
    platform = []
    for word in filter(None, options.split("&")):
        name, equals, value = word.partition("=")
        if name == "platform":
            platform.append(_property(text, unquote(value)))
        elif name in ("prefer", "installed") and equals:
            raise ConfigError(f"executor '{address.shown(text)}': '{name}' takes no value", f"write '{name}' alone")
        elif name in address.EXECUTORS:
            own[name] = unquote(value)
        else:
            others.append(word)
    rest = "?".join([place, "&".join(others)] if others else [place])
    found = address.parse(rest, "executor", address.EXECUTORS)
    if found.scheme not in _SCHEMES or not (found.reads and found.writes):
        raise ConfigError(f"executor '{found.name}' is not a Remote Execution API server", _HINT)
    jobs = _number(found, "jobs", own.get("jobs", str(JOBS)), MOST_JOBS)
    limit = _number(found, "limit", own.get("limit", str(LIMIT)), MOST_LIMIT)
    weight = _number(found, "weight", own["weight"], MOST_WEIGHT) if "weight" in own else 0
    return ExecutorAddress(found, jobs, limit, "prefer" in own, tuple(sorted(platform)), weight, "installed" in own)


def order(those: Sequence[ExecutorAddress], draw: Callable[[], float]) -> list[int]:
    """Their numbers in the order in which they are offered an action: as the settings have it, or, where one has a
    weight, drawn so that each is the first as often as its weight says (one without counts as 1). `draw` gives numbers
    above 0 and below 1.

    Weighted sampling without replacement: Efraimidis and Spirakis, Information Processing Letters 97 (2006)."""
    if not any(executor.weight for executor in those):
        return list(range(len(those)))
    drawn = [draw() ** (1 / (executor.weight or 1)) for executor in those]
    return sorted(range(len(those)), key=lambda number: -drawn[number])


def _number(found: Address, name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= most):
        what = f"executor '{found.name}': '{text}' is not a valid value of '{name}'"
        raise ConfigError(what, f"write a number from 1 to {most}")
    return int(text)


def _property(text: str, value: str) -> tuple[str, str]:
    name, colon, rest = value.partition(":")
    if not name or not colon:
        hint = "write platform=NAME:VALUE, such as platform=OSFamily:linux"
        raise ConfigError(f"executor '{address.shown(text)}': '{value}' is not a platform property", hint)
    return name, rest
