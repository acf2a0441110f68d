"""The store as one compile reaches it: its results and read sets, and what of them a remote is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hipcache.cache.content import Shelf
from hipcache.cache.read_sets import ReadSets
from hipcache.engine import Engine
from hipcache.storage import LocalActions, LocalContents
from hipcache.values import dataclass, field, replace

if TYPE_CHECKING:
    from hipcache.storage import NotedActions


@dataclass
class Shelves:
    """`near`: the local store alone, of which no remote is told; `shelf`: the same with the records noted in `noted`
    that are put and asked for, where a remote is to have them; `reads`: read sets. `note`, `refusal`: as of `Shelf`;
    `serve` takes in words what was served from elsewhere."""

    engine: Engine
    note: Callable[[str], None]
    refusal: Callable[[], str]
    serve: Callable[[str], object]
    near: Shelf = field(init=False)
    shelf: Shelf = field(init=False)
    reads: ReadSets = field(init=False)
    noted: NotedActions | None = None

    def __post_init__(self) -> None:
        store, actions = self.engine.store, LocalActions(self.engine.store)
        self.near = self.shelf = Shelf(actions, LocalContents(store), self.note, self.refusal, self.engine.recache)
        if self.engine.remote:
            from hipcache.storage import NotedActions

            self.noted = NotedActions(actions)
            self.shelf = replace(self.near, actions=self.noted)
        self.reads = ReadSets(self.shelf)

    def queue(self) -> None:
        """Have sent to the remote what was put."""
        if self.engine.remote and self.noted and self.noted.put_keys:
            self.engine.remote().queue(list(self.noted.put_keys), list(self.noted.got_keys))
