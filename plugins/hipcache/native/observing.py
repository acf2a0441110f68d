"""The native observer (`observe.c`): runs a pass, and lists each path that it handed to the kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

from hipcache import native, shared

# Why there is no list.
_WHY = {
    shared.OBSERVED: "",
    shared.NO_FILTER: "the kernel has no seccomp user notification (needs Linux 5.5 or newer)",
    shared.NO_THREAD: "the observer has no thread or no directory",
    shared.NOT_READABLE: "the kernel does not let us read its memory (process_vm_readv)",
    shared.UNKNOWN_CALL: "it made a system call that a list of paths cannot describe",
    shared.TOO_MANY: "it used too many paths",
    shared.LEFT_BEHIND: "it left processes behind",
}
_NOT_RUN = shared.NO_THREAD


class Observing:
    """One pass. `kill` may be called from any thread, and at any time."""

    def __init__(self) -> None:
        """Raises LibraryError, MemoryError."""
        self._library = native.load()
        self._library.hipcache_observing.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._library.hipcache_observing())
        if not self._handle:
            raise MemoryError

    def __del__(self) -> None:
        if self._handle:
            self._library.hipcache_observing_free(self._handle)

    def kill(self) -> None:
        self._library.hipcache_observing_kill(self._handle)

    def run(
        self,
        program: str,
        argv: Sequence[str],
        directory: str,
        environ: Mapping[str, str],
        streams: tuple[int, int, int],
    ) -> tuple[int, float, bytes, str]:
        """(status of waitpid, seconds of processor time, list of what it looked at, why there is none). The program is
        a path. `streams`: where standard input comes from (negative: from nowhere), where output and error go. Other
        threads run meanwhile. Raises OSError if it did not run."""
        seen, status, used = native.Bytes(), ctypes.c_int(), ctypes.c_int64()
        ended = self._library.hipcache_observe(
            self._handle,
            os.fsencode(program),
            native.texts(argv),
            native.texts(f"{name}={value}" for name, value in environ.items()),
            os.fsencode(directory),
            (ctypes.c_int * 3)(*streams),
            ctypes.byref(seen),
            ctypes.byref(status),
            ctypes.byref(used),
        )
        looked = seen.take(self._library)
        if ended < 0 or ended == _NOT_RUN:
            raise OSError(-ended, os.strerror(-ended) if ended < 0 else _WHY[_NOT_RUN])
        return status.value, used.value / 1e6, looked, _WHY[ended]
