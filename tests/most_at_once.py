"""How many hold a slot at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from hipcache.processes.slots import Slots


class Most:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.now -= 1


def most_at_once(slots: Slots, threads: int = 8, rounds: int = 5) -> int:
    inside = Most()

    def work() -> None:
        for _ in range(rounds):
            with slots.hold(), inside:
                time.sleep(0.001)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work) for _ in range(threads)]:
            future.result()
    return inside.most
