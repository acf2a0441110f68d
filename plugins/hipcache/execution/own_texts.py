"""The texts of a pass that are no standard headers: the source, and headers of the user and of libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hipcache.execution.session import Session
from hipcache.model import Dependency
from hipcache.planning import deferred, gpu_names, header_rules, standard_headers
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field


@dataclass(frozen=True)
class OwnTexts:
    """Of the passes of one compile, which read most of them several times."""

    session: Session
    _texts: dict[str, bytes] = field(default_factory=dict)
    _compute: dict[str, bool] = field(default_factory=dict)

    def paths(self, front: FrontEnd, files: Iterable[Dependency]) -> Iterator[str]:
        """`files`: all that the pass has read."""
        search, known = front.search, self.session.files
        return (file.path for file in files if not standard_headers.is_standard(file.path, search, known))

    def text(self, path: str) -> bytes:
        """Raises OSError."""
        if path not in self._texts:
            with open(self.session.files.resolve(path), "rb") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def may_compute(self, front: FrontEnd, files: Iterable[Dependency]) -> bool:
        """See `deferred.may_compute`: may one of them, or a macro of the command line?"""
        return deferred.may_compute(header_rules.macros(front)) or any(
            self._may_compute(path) for path in self.paths(front, files)
        )

    def may_hide_gpus(self, front: FrontEnd, files: Sequence[Dependency]) -> bool:
        """May one of them name a GPU where the text behind the preprocessor does not show it (`planning.gpu_names`)?
        Raises OSError."""
        own = {path: self.text(path) for path in self.paths(front, files)}
        standard = (self.text(file.path) for file in files if file.path not in own)
        return gpu_names.may_hide([*own.values()], header_rules.macros(front)) or any(
            map(gpu_names.may_hide_in_standard_header, standard)
        )

    def _may_compute(self, path: str) -> bool:
        if path not in self._compute:
            try:
                self._compute[path] = deferred.may_compute(self.text(path))
            except OSError:  # it is gone, or clang lists it by another name
                self._compute[path] = True
        return self._compute[path]
