"""A random project of `mutate`: what lies at each path, the flags, the variables; and the ways in which it is mutated.

A state is a value, so a step can be undone; the disk is made as the state says, and nothing else on it is touched. A
directory that is renamed is renamed on the disk, too.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import mutate_grammar as grammar
from fuzz_case import table
from mutate_grammar import DIRECTORIES, LINK, NAMES, SOURCE

FLAGS = tuple(map(tuple, table(grammar.FLAGS)))
SEARCH = tuple(flag for flag in FLAGS if flag[0].startswith(("-I", "-i")) and flag[-1] in grammar.SEARCHED)
#: Each way and its weight.
_WAYS = {
    **{"write": 6, "edit": 8, "source": 3, "delete": 3, "copy": 3, "link": 2, "rename": 2, "other_kind": 1},
    **{"flag": 4, "variable": 2, "other_side": 1, "times": 2, "same_times": 2, "nothing": 1},
}

#: A file's content or a link's target; None: a directory.
Entry = bytes | str | None


@dataclass(frozen=True, eq=False)
class State:
    """A project: what lies at each path, the flags, the variables."""

    tree: Mapping[str, Entry]
    flags: tuple[tuple[str, ...], ...]
    variables: tuple[tuple[str, str], ...]
    side: tuple[str, ...]


@dataclass
class Project:
    """A project in `work`. `failed`: does its last state not compile? Then it is likely to be undone."""

    random: random.Random
    work: Path
    failed: bool = False
    before: list[State] = field(default_factory=list)
    on_disk: dict[str, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A project from scratch."""
        tree: dict[str, Entry] = {name: None for name in DIRECTORIES if name}
        tree[LINK] = "inc2"
        tree["deep/deeper"] = None
        for rank, name in enumerate(NAMES):
            tree[f"inc/{name}"] = grammar.text(self.random, rank)
            for directory in DIRECTORIES:
                if self.random.random() < 0.15:
                    tree[f"{directory}/{name}".lstrip("/")] = grammar.text(self.random, rank)
        tree[SOURCE] = grammar.text(self.random, -1, is_source=True)
        flags = [("-Iinc",), *self.random.sample(SEARCH, 2), *self.random.sample(FLAGS, self.random.randrange(2))]
        self.random.shuffle(flags)
        self.state = State(tree, tuple(flags), (), self.random.choice(grammar.SIDES))
        self._sync()

    # Mutations

    @property
    def _ways(self) -> list[Callable[[], str]]:
        return [getattr(self, f"_{name}") for name in _WAYS]

    def mutate(self) -> str:
        """Do one thing; says what."""
        if self.before and self.random.random() < (0.8 if self.failed else 0.15):
            back = self.random.randrange(1, min(len(self.before), 3) + 1)
            self.state = self.before[-back]
            del self.before[-back:]
            self._sync()
            return f"undo {back}"
        self.before.append(self.state)
        told = self.random.choices(self._ways, tuple(_WAYS.values()))[0]()
        self._sync()
        return told

    def _put(self, path: str, entry: Entry) -> None:
        tree = {name: old for name, old in self.state.tree.items() if name != path and not name.startswith(path + "/")}
        self.state = replace(self.state, tree={**tree, path: entry})

    def _some_path(self) -> str:
        """A header's name in a directory that is there, mostly one that is included, where it is looked for."""
        there = [name for name in DIRECTORIES if not name or self.state.tree.get(name, b"") is None]
        words = " ".join(word for flag in self.state.flags for word in flag)
        near = [name for name in there if not name or name in words] if self.random.random() < 0.7 else there
        texts = b"".join(entry for entry in self.state.tree.values() if isinstance(entry, bytes))
        named = [name for name in NAMES if name.encode() in texts] or NAMES
        return f"{self.random.choice(near or there)}/{self.random.choice(named)}".lstrip("/")

    def _files(self) -> list[str]:
        return sorted(name for name, entry in self.state.tree.items() if isinstance(entry, bytes))

    def _write(self) -> str:
        path = self._some_path()
        self._put(path, grammar.text(self.random, NAMES.index(os.path.basename(path))))
        return f"new text in {path}"

    def _source(self) -> str:
        self._put(SOURCE, grammar.text(self.random, -1, is_source=True))
        return "new source"

    def _edit(self) -> str:
        read = [name for name in self._files() if name == SOURCE or name.startswith("inc/")]
        path = self.random.choice(read if self.random.random() < 0.7 else self._files())
        old = self.state.tree[path]
        assert isinstance(old, bytes)
        self._put(path, grammar.edited(self.random, old))
        return f"edit of {path}"

    def _delete(self) -> str:
        names = [name for name in self.state.tree if name != SOURCE]
        path = self.random.choice(sorted(names)) if names else SOURCE
        tree = {n: e for n, e in self.state.tree.items() if n != path and not n.startswith(path + "/")}
        self.state = replace(self.state, tree=tree)
        return f"{path} is removed"

    def _copy(self) -> str:
        """The same content elsewhere: it shadows, and differs in nothing."""
        source, path = self.random.choice(self._files()), self._some_path()
        if source == SOURCE:
            return "nothing"
        self._put(path, self.state.tree[source])
        return f"{source} copied to {path}"

    def _rename(self) -> str:
        directories = sorted(name for name, entry in self.state.tree.items() if entry is None)
        if not directories:
            return "nothing"
        old = self.random.choice(directories)
        free = [
            name for name in (*DIRECTORIES[1:], "spare") if name not in self.state.tree and not name.startswith(old)
        ]
        above = {"", *directories}
        free = [name for name in free if os.path.dirname(name) in above]
        if not free:
            return self._swap(directories)
        self._move(old, self.random.choice(free))
        return f"{old} renamed"

    def _swap(self, directories: Sequence[str]) -> str:
        pair = [name for name in directories if "/" not in name]
        if len(pair) < 2:
            return "nothing"
        one, other = self.random.sample(pair, 2)
        for old, new in ((one, "swapped"), (other, one), ("swapped", other)):
            self._move(old, new)
        return f"{one} and {other} change places"

    def _move(self, old: str, new: str) -> None:
        def moved(tree: Mapping[str, Entry]) -> dict[str, Entry]:
            return {
                (new + name[len(old) :] if name == old or name.startswith(old + "/") else name): entry
                for name, entry in tree.items()
            }

        (self.work / old).rename(self.work / new)
        self.on_disk = moved(self.on_disk)
        self.state = replace(self.state, tree=moved(self.state.tree))

    def _other_kind(self) -> str:
        """A file in the place of a directory, or the other way round."""
        path = self.random.choice(sorted(name for name in self.state.tree if name != SOURCE))
        self._put(path, b"// no directory\n" if self.state.tree[path] is None else None)
        return f"{path} is of another kind"

    def _link(self) -> str:
        path = LINK if self.random.random() < 0.5 else self._some_path()
        beside = sorted(set(NAMES) - {os.path.basename(path)})
        later = (
            [name for name in beside if NAMES.index(name) > NAMES.index(os.path.basename(path))] if path != LINK else []
        )
        target = self.random.choice(("inc", "inc2", "sub", "nowhere") if path == LINK else (*later, "nowhere"))
        self._put(path, target)
        return f"{path} -> {target}"

    def _flag(self) -> str:
        flags = list(self.state.flags)
        chance = self.random.random()
        if flags and chance < 0.4:
            flags.pop(self.random.randrange(len(flags)))
        elif len(flags) > 1 and chance < 0.5:
            self.random.shuffle(flags)
        else:
            flags.insert(self.random.randrange(len(flags) + 1), self.random.choice(FLAGS))
        self.state = replace(self.state, flags=tuple(flags))
        return f"flags {' '.join(word for flag in flags for word in flag)}"

    def _variable(self) -> str:
        name, value = self.random.choice(grammar.VARIABLES)
        variables = dict(self.state.variables)
        if variables.pop(name, None) is None:
            variables[name] = value
        self.state = replace(self.state, variables=tuple(variables.items()))
        return f"variables {variables}"

    def _other_side(self) -> str:
        self.state = replace(self.state, side=self.random.choice(grammar.SIDES))
        return f"side {self.state.side}"

    def _times(self) -> str:
        """Other times, content as before: the past, the future, or another file's."""
        path = self.random.choice(self._files())
        moment = time.time() + self.random.choice((-86400 * 365, -3600, -1, 0, 3600))
        os.utime(self.work / path, (moment, moment))
        return f"times of {path}"

    def _same_times(self) -> str:
        """Other content of the same size and the same times."""
        path = self.random.choice(self._files())
        old = self.state.tree[path]
        assert isinstance(old, bytes)
        new = bytes(self.random.choice(b"123456789") if one in b"123456789" else one for one in old)
        before = (self.work / path).stat()
        (self.work / path).write_bytes(new)
        os.utime(self.work / path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.on_disk[path] = new
        self._put(path, new)
        return f"edit of {path} with the same times"

    def _nothing(self) -> str:
        return "nothing"

    # The disk

    def _sync(self) -> None:
        """Make the disk what the state says, and touch nothing else."""
        wanted = self.state.tree
        for path in sorted(self.on_disk, reverse=True):
            if path not in wanted or type(wanted[path]) is not type(self.on_disk[path]):
                whole = self.work / path
                if self.on_disk[path] is None:
                    shutil.rmtree(whole, ignore_errors=True)
                else:
                    whole.unlink(missing_ok=True)
                del self.on_disk[path]
        for path in sorted(wanted):
            entry, whole = wanted[path], self.work / path
            if path in self.on_disk and self.on_disk[path] == entry and os.path.lexists(whole):
                continue
            if entry is None:
                whole.mkdir(parents=True, exist_ok=True)
            elif isinstance(entry, str):
                whole.unlink(missing_ok=True)
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.symlink_to(entry)
            else:
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_bytes(entry)
        self.on_disk = dict(wanted)
