"""What all share who take whole compiles into the store: searches in tools, and what is written later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hipcache.config import Config, basedir_at
from hipcache.remote.helper.adoption import Adoption, Searches
from hipcache.remote.helper.backlog import Behind
from hipcache.remote.helper.prefetch import Prefetch
from hipcache.store import Store
from hipcache.values import dataclass, field


@dataclass
class Adopting:
    config: Config
    store: Store
    behind: Behind = field(init=False)
    _searches: Searches = field(default_factory=Searches)

    def __post_init__(self) -> None:
        self.behind = Behind(self.store)

    def adoption(self, environ: Mapping[str, str], cwd: str) -> Adoption:
        """For a command with these variables."""
        base = basedir_at(self.config, environ, cwd)
        return Adoption(self.store, environ, base, self._searches, self.behind.content)

    def prefetch(
        self,
        adoption: Adoption,
        fetch: Callable[[Sequence[str], bool], tuple[int, str]],
        count: Callable[[Mapping[str, int]], object],
        note: Callable[[Sequence[str], str, str], object],
    ) -> Prefetch:
        return Prefetch(self.store, adoption, fetch, count, note, behind=self.behind)
