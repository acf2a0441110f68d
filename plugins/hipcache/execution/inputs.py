"""The inputs of an action, wherever their contents lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hipcache.model.action import Action, File, Literal, Output
from hipcache.model.contents import Held
from hipcache.model.end import End, Lost
from hipcache.storage import ContentStore
from hipcache.values import dataclass


@dataclass(frozen=True)
class Contents:
    """`ends`: of all actions that it needs."""

    action: Action
    ends: Mapping[str, End]
    contents: ContentStore

    def of(self, name: str) -> Held:
        source = dict(self.action.inputs)[name]
        if isinstance(source, File):
            return Held(path=Path(source.path))
        if isinstance(source, Literal):
            return Held(content=source.content())
        end = self.ends[source.action]
        if source.name in end.held:
            return end.held[source.name]
        content = self.contents.read(end.hash(source.name))
        if content is None:
            raise Lost({source.action})
        return Held(content=content)

    def said(self, name: str) -> str:
        source = dict(self.action.inputs)[name]
        return self.ends[source.action].result.text if isinstance(source, Output) else ""
