"""The remotes that the settings name, each with its protocol, its breaker, and what is wrong with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from hipcache.base.errors import ConfigError
from hipcache.base.values import dataclass, field
from hipcache.config import Config
from hipcache.remote import address
from hipcache.remote.address import Address
from hipcache.remote.backend import DENIED, GARBAGE, SETTINGS, Backend, RemoteError, blob_of, connect
from hipcache.remote.breaker import Breaker
from hipcache.remote.envelope import Envelope, action_of, pack
from hipcache.remote.helper.transfer import Transfer, TransferCounts
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal

# Damaged results in a row after which nothing is asked for any more.
_MOST_DAMAGED = 200
_HINTS = {
    DENIED: "check its token-file or header-file, or the variables of the cloud, and that this user may use it",
    SETTINGS: "correct HIPCACHE_REMOTE",
}
# Seconds, of two clocks.
_MOST_APART = 60
# The key of the result with which the doctor tries an action cache, and its content's name there.
_DOCTORS = "d" * 64
_HINT = "the build continues without it; 'hipcache doctor' checks it"


@dataclass
class Remote:
    """`connect` gives the protocol, and is called when it is first needed. `kind` and `hint`, of the last fault;
    `received`: bytes, so far; `compilers`: see `Transfer`."""

    address: Address
    store: LocalStore
    connect: Callable[[], Backend]
    breaker: Breaker
    kind: str = ""
    hint: str = ""
    received: int = 0
    compilers: Callable[[Sequence[str]], object] = bool
    _transfer: Transfer | None = None
    _damaged: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> Transfer:
        """Load the protocol. Nothing is sent. Raises RemoteError."""
        with self._lock:
            if self._transfer is None:
                self._transfer = Transfer(self.store, self.connect(), self.store.seal, self.compilers)
            return self._transfer

    def failed(self, error: BaseException) -> None:
        """A fetch did: nothing is asked for until it is well."""
        self.kind, self.hint = (error.kind, error.hint) if isinstance(error, RemoteError) else ("", "")
        self.breaker.open(_words(error))

    def failed_upload(self, error: BaseException) -> str:
        return f"remote '{self.address.name}': {_words(error)}"

    def judge(self, tally: TransferCounts) -> None:
        """Count what came. One that gives nothing but garbage is not asked any more."""
        with self._lock:
            self.received += tally.received
            self._damaged = 0 if tally.hits else self._damaged + tally.errors
            is_garbage = self._damaged >= _MOST_DAMAGED
        if is_garbage:
            self.kind = GARBAGE
            self.breaker.open("its data is damaged, or does not come from hipcache")

    def fault(self) -> list[str] | None:
        """In words what is wrong with it, and what to do."""
        why = self.breaker.why
        # Settings are wrong until they are corrected; a server may be well again when that is read.
        hint = (self.kind == SETTINGS and self.hint) or _HINTS.get(self.kind, _HINT)
        return [f"remote '{self.address.name}': {why}", hint] if why else None

    def probe(self) -> None:
        """Is it well again? Asked in the background."""
        try:
            self.open().backend.results([action_of("0" * 64, self.store.seal)], lambda size: None)
        except Exception:
            return
        self._damaged = 0
        self.breaker.close()


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, RemoteError) else f"{type(error).__name__}: {error}"


def examine(
    text: str, clock: Callable[[], float] = time.time, *, sends: bool = True
) -> Iterator[tuple[bool, str, str]]:
    """Is the remote with that address well? (yes or no, in words, what to do) for each thing that was looked at.
    `sends`: may something be sent to it?"""
    try:
        found = address.parse(text)
    except ConfigError as error:
        yield False, error.message, error.hint
        return
    name = f"remote '{found.name}'"
    try:
        backend = connect(found)
        described = backend.describe()
        backend.results([action_of("0" * 64, Seal())], _no_progress)
        began = time.monotonic()
        backend.results([action_of("1" * 64, Seal())], _no_progress)
        milliseconds = (time.monotonic() - began) * 1000
        only = "" if found.writes else "; nothing is sent to it ('read-only')"
        yield True, f"{name} answers within {milliseconds:.0f} ms ({described}){only}", ""
        if found.writes and sends:
            yield from _examine_sending(name, backend, reads=found.reads, clock=clock)
    except ImportError as error:
        yield False, f"{name} needs {error.name}", address.install()
    except RemoteError as error:
        yield False, f"{name}: {error}", error.hint or _HINTS.get(error.kind, "check the server and its address")


def _examine_sending(
    name: str, backend: Backend, *, reads: bool, clock: Callable[[], float]
) -> Iterator[tuple[bool, str, str]]:
    """Raises RemoteError."""
    content, now, denied = b"hipcache doctor", clock(), "denies writing"
    blob, action = blob_of(content), action_of(_DOCTORS, Seal())
    try:
        backend.put_contents([(blob, content)])
        denied = "stores contents, but denies writing to its action cache"
        backend.put_result(action, pack(Envelope(_DOCTORS, content, {_DOCTORS: blob}), Seal()))
    except RemoteError as error:
        if error.kind != DENIED:
            raise
        yield False, f"{name} {denied}", "if this user may only read, write ?read-only after the address"
        return
    lost = ""
    if reads and backend.contents([blob], _no_progress).get(blob) != content:
        lost = "contents"
    elif reads and action not in backend.results([action], _no_progress):
        lost = "results"
    yield (
        not lost,
        f"{name} {f'does not return the {lost} it was sent' if lost else 'stores contents and results'}",
        _HINT,
    )
    at = None if lost else backend.stored_at(blob)
    if at is not None:
        off = round(abs(at - now))
        apart = f"the clock of {name} differs from this machine's by {off} s"
        hint = "set both clocks with NTP: clouds deny access if they differ by 15 minutes"
        yield off <= _MOST_APART, apart, hint


def _no_progress(size: int) -> None:
    """Nobody waits for it."""


def open_remotes(config: Config, store: LocalStore, begun: Mapping[str, Backend] = {}) -> list[Remote]:
    """`begun`: those that are loaded already. Raises ConfigError."""
    return [_remote(address.parse(text), store, begun.get(text)) for text in config.remote]


def _remote(found: Address, store: LocalStore, begun: Backend | None) -> Remote:
    return Remote(found, store, lambda: begun or connect(found), Breaker(found.timeout))
