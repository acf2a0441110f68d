"""A directory with a source and headers, and the trace of a pass that read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipcache.inputs import outline
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.outline import Edit
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.recording import record
from hipcache.inputs.search import SearchPath

SEARCH = SearchPath((), ("inc", "later"))


class Tree:
    """Files whose change times are the real ones; the clock of the compiles is the test's own."""

    def __init__(self, root: Path, basedir: str = "") -> None:
        self.root = root
        self.basedir = Basedir(basedir)
        self.write("k.hip", '#include "x.h"\n')
        self.write("inc/x.h", "int x;\n")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def newest(self) -> float:
        return max(path.lstat().st_ctime for path in self.root.rglob("*"))

    def files(self, *, later: float = 100.0) -> FileManager:
        """The files of a compile that begins `later` seconds after the last change."""
        return FileManager(str(self.root), self.newest() + later, self.basedir)

    def record(
        self,
        *read: str,
        later: float = 100.0,
        macros: tuple[str, ...] = (),
        user: frozenset[str] | None = None,
        dated: bool = False,
        search: SearchPath = SEARCH,
    ) -> ReadSet:
        return record(
            self.files(later=later),
            read=list(read or ("k.hip", "inc/x.h")),
            user=user,
            first=[],
            macros=list(macros),
            search=search,
            started=self.newest() + later,
            dated=dated,
        )

    def differs(self, reads: ReadSet) -> str:
        return self.files().differs("key", reads)

    def edit(self, reads: ReadSet) -> Edit | None:
        return outline.edit(self.files(), reads)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)
