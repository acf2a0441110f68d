"""The inputs of an action, wherever their contents are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hipcache.model import Action, ActionOutput, End, File, Held, Literal, Lost
from hipcache.storage import ContentStore
from hipcache.values import dataclass


@dataclass(frozen=True)
class Contents:
    """`ends`: of the actions that it needs, but for those that nobody has asked for yet."""

    action: Action
    ends: Mapping[str, End]
    contents: ContentStore

    def of(self, name: str) -> Held:
        source = dict(self.action.inputs)[name]
        if isinstance(source, File):
            return Held(path=Path(source.path))
        if isinstance(source, Literal):
            return Held(content=source.content())
        end = self.ends.get(source.action)
        if end and source.name in end.held:
            return end.held[source.name]
        content = self.contents.read(end.result.outputs[source.name].hash) if end and self._is_stored(source) else None
        if content is None:
            raise Lost({source.action})
        return Held(content=content)

    def _is_stored(self, source: ActionOutput) -> bool:
        return source.name in self.ends[source.action].result.outputs

    def said(self, name: str) -> str:
        end = self._end(name)
        return end.result.text if end else ""

    def seconds(self, name: str) -> float:
        end = self._end(name)
        return end.result.seconds if end else 0.0

    def _end(self, name: str) -> End | None:
        source = dict(self.action.inputs)[name]
        return self.ends.get(source.action) if isinstance(source, ActionOutput) else None
