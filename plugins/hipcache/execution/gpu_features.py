"""What a compiler makes of a GPU's name: the features of functions and the macros, told by an empty kernel
(`planning.alike.probes`). It is asked once for each GPU and set of options."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution.session import Session
from hipcache.inputs.keys import digest_bytes
from hipcache.making import bitcode, retarget
from hipcache.planning import alike
from hipcache.planning.frontend import FrontEnd

_NAME = "probe of a GPU"  # in messages
_NOBODY = "gfx"


class GpuFeatures:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, str] = {}
        self._source: Path | None = None

    def of(self, front: FrontEnd, arch: str) -> str:
        """Digests of them, the same for GPUs that differ in their name alone; empty if it is not known."""
        key = alike.probe_key(front, arch).digest
        with self._lock:
            alone = self._locks.setdefault(key, threading.Lock())
        with alone:
            if key not in self._known:
                self._known[key] = self._stored(key) or self._probed(front, arch, key)
            return self._known[key]

    def known(self, front: FrontEnd, arch: str) -> str:
        """The same, if it was asked for before."""
        return self._known.get(alike.probe_key(front, arch).digest, "")

    def _stored(self, key: str) -> str:
        record = self.session.shelves.near.actions.get([key]).get(key)
        try:
            return str(json.loads(record)["features"]) if record else ""
        except (ValueError, TypeError, KeyError):
            return ""

    def _probed(self, front: FrontEnd, arch: str, key: str) -> str:
        jobs = self.session.jobs
        with self._lock:  # one for all: bitcode names it
            self._source = source = self._source or jobs.scratch("probe.hip", alike.PROBE)
        output, nobody = jobs.scratch(f"probe-{key}.out"), _NOBODY.ljust(len(arch), "0")
        found = []
        for number, argv in enumerate(alike.probes(front, str(source), str(output))):
            try:
                jobs.run(_NAME, argv)
            except JobFailed:
                return ""
            made = output.read_bytes()
            if number == 0:
                found.append(bitcode.read(retarget.for_gpu(made, arch, nobody) or made, "").digest)
            else:
                found.append(digest_bytes(made.replace(arch.encode(), nobody.encode())))
        features = " ".join(found)
        self.session.shelves.near.put(key, json.dumps({"outputs": [], "features": features}).encode())
        return features
