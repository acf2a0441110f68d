"""The fuzzer's links of relocatable device code (`fuzz.py --links`).

A project has two to four HIP sources that use each other's device functions and variables, a main program, what stands
for HIP's runtime, and maybe a static library of such objects and of C++. All objects are made by plain clang. In steps
an object, the link's words or its surroundings change. Beside what a compile has to hold: where no device code and none
of the words that reach device links has changed since a link that was stored, no device link may run again.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable

from fuzz_case import LEVELS, Difference, Ended, neutral
from fuzz_link_flags import (
    ARCHS,
    ODD,
    OUTPUTS,
    THIN,
    VARIABLES,
)
from fuzz_link_project import SOURCES, LinkProject

# Texts that name temporary files, each in a directory that hipcache chooses.
_TEXTS = (".map", ".d", ".txt")
_TEMPORARY = re.compile(rb"[^\s\"']*/(?=[^/\s\"']*-[0-9a-f]{6}\.)")


class Link(LinkProject):
    """What happens to the project, step by step, and what a link has to hold."""

    def _edit(self) -> str:
        edits: list[Callable[[], str]] = [
            *(self._nothing,) * 3,
            *(self._host_edit,) * 3,
            *(self._device_edit, self._arch_edit) * 2,
            *(self._comment, self._touch, self._anew, self._compile_again, self._gone, self._damage, self._odd_object),
            *(self._flag, self._flag, self._host_flag, self._host_flag, self._link_archs, self._other_level),
            *(self._order, self._leave_out, self._name_twice, self._other_output, self._old_output, self._move),
            *(self._variable, self._response, self._archs_of_all),
            *((self._pack_otherwise, self._shadow, self._other_spelling) if self.members else ()),
        ]
        edit = self._mend if self.failed and self.random.random() < 0.7 else self.random.choice(edits)
        what = edit()
        self._write_response()
        return what

    def _mend(self) -> str:
        """After a link that failed: most of what follows would fail, too."""
        self.odd.clear()
        self.variables.clear()
        self.compiling = [word for word in self.compiling if word != THIN]
        self.library = ["-L.", "-ldev"] if self.members else []
        self.output, self.flags, self.host_flags, self.linked_archs = "-o program", [], [], [*self.archs]
        self.objects = [name for name in ("a", "b", "c") if name not in self.members] + ["main"]
        for path in (self.work / "first").iterdir():
            path.unlink()
        for name in self.texts:
            self._compile(name)
        self._pack()
        return "all is as it should be"

    def _some_object(self) -> str:
        return self.random.choice([*self.objects, *(name for name in self.members if name != "util")])

    def _some_source(self) -> str:
        return self.random.choice([name for name in (*self.objects, *self.members) if name in SOURCES] or ["a"])

    def _change(self, name: str, what: str) -> str:
        self.version += 1
        self.texts[name][what] = self.version + 10
        self._fresh(name)
        return f"{what} code of {name} is edited"

    def _host_edit(self) -> str:
        return self._change(self._some_object(), "host")

    def _device_edit(self) -> str:
        return self._change(self._some_source(), "device")

    def _arch_edit(self) -> str:
        return self._change(self._some_source(), "arch")

    def _comment(self) -> str:
        return self._change(self._some_source(), "comment")

    def _touch(self) -> str:
        path = self.work / f"{self._some_object()}.o"
        if path.exists():
            path.touch()
        return f"{path.name} is touched"

    def _anew(self) -> str:
        path = self.work / f"{self._some_object()}.o"
        if path.exists():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
        return f"{path.name} is written anew"

    def _compile_again(self) -> str:
        name = self._some_object()
        self._fresh(name)
        return f"{name} is compiled again"

    def _gone(self) -> str:
        """Or there again."""
        name = self._some_object()
        path = self.work / f"{name}.o"
        if not path.exists():
            self._compile(name)
            return f"{path.name} is there again"
        path.unlink()
        return f"{path.name} is gone"

    def _damage(self) -> str:
        path = self.work / self.random.choice([f"{self._some_object()}.o", *(["libdev.a"] if self.members else [])])
        if not path.exists():
            return "nothing changed"
        content = path.read_bytes()
        how = self.random.choice(["cut", "changed", "empty", "longer"])
        place = self.random.randrange(len(content) + 1)
        made = {"cut": content[:place], "empty": b"", "longer": content + b"\0more"}
        path.write_bytes(made.get(how, content[:place] + b"?" + content[place + 1 :]))
        if path.suffix == ".a":
            self.damaged_library = f"{how} {place}"
        return f"{path.name} is {how} at {place} of {len(content)}"

    def _odd_object(self) -> str:
        name = self._some_object()
        if self.odd.pop(name, None) is None:
            self.odd[name] = self.random.choice(ODD)
        self._fresh(name)
        return f"{name} is compiled with {self.odd.get(name, 'what all are')}"

    def _archs_of_all(self) -> str:
        self.archs = self.random.choice(ARCHS)
        self.linked_archs = [*self.archs]
        for name in self.texts:
            self._compile(name)
        self._pack()
        return f"all is compiled for {self.archs}"

    def _link_archs(self) -> str:
        """Some of those that objects are compiled for, in another order, or one more."""
        self.linked_archs = self.random.sample(self.archs, self.random.randrange(1, len(self.archs) + 1))
        if self.random.random() < 0.2:
            self.linked_archs.append(self.random.choice(["gfx1031", "gfx000", "gfx90a:xnack+", "gfx906"]))
        return f"linked for {self.linked_archs}"

    def _flag(self) -> str:
        return self._toggle(self.flags, self._some_flag)

    def _host_flag(self) -> str:
        return self._toggle(self.host_flags, self._some_host_flag)

    def _toggle(self, flags: list[list[str]], draw: Callable[[], list[str]]) -> str:
        if flags and self.random.random() < 0.5:
            return f"without {flags.pop(self.random.randrange(len(flags)))}"
        flags.append(draw())
        return f"with {flags[-1]}"

    def _other_level(self) -> str:
        self.level = [self.random.choice(LEVELS)]
        return f"level {self.level}"

    def _order(self) -> str:
        self.random.shuffle(self.objects)
        return f"in the order {self.objects}"

    def _leave_out(self) -> str:
        if len(self.objects) < 2:
            return "nothing changed"
        return f"without {self.objects.pop(self.random.randrange(len(self.objects)))}"

    def _name_twice(self) -> str:
        self.objects.append(self._some_object())
        return f"and {self.objects[-1]}"

    def _other_output(self) -> str:
        self.output = self.random.choice(OUTPUTS)
        return f"written to {self.output!r}"

    def _old_output(self) -> str:
        """An older program, or what may not be written, lies where the program goes."""
        path, kind = (
            self.work / "program",
            self.random.choice(["file", "program", "link", "directory", "fixed", "none"]),
        )
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if kind == "link":
            path.symlink_to("elsewhere")
        elif kind == "directory":
            path.mkdir()
        elif kind != "none":
            path.write_text("an old program\n")
            path.chmod({"file": 0o644, "program": 0o755, "fixed": 0o444}[kind])
        return f"there is a {kind} named program"

    def _variable(self) -> str:
        return self._toggle_variable(VARIABLES)

    def _response(self) -> str:
        self.responses = not self.responses
        return "objects in a response file, or no longer"

    def _pack_otherwise(self) -> str:
        kind = self.random.choice(["rcD", "rcU", "rcS", "rcT", "rcv"])
        self.random.shuffle(self.members)
        self._pack(kind)
        return f"the library is packed by ar {kind} of {self.members}"

    def _shadow(self) -> str:
        """Another library of that name, or the same, in a directory that is looked into before."""
        name, path = self.random.choice(["libdev.a", "libdev.so", "libruntime.a", "libruntime.so"]), self.work / "first"
        if (path / name).exists():
            (path / name).unlink()
            return f"first/{name} is gone"
        source = self.random.choice(["libdev.a", "libutil.a", "libruntime.a", "libhost.so", "notes.txt"])
        if not (self.work / source).exists():
            return "nothing changed"
        shutil.copy2(self.work / source, path / name)
        return f"first/{name} is a copy of {source}"

    def _other_spelling(self) -> str:
        self.library = self._some_library()
        return f"the library as {self.library}"

    # Both sides

    def _compare(self, what: str, store: str, *, must_hit: bool) -> str:
        outcome = super()._compare(what, store, must_hit=must_hit)
        state = self._device_state()
        kept = not (self._is_never_kept() or "HIPCACHE_MAX_SIZE" in self.variables)
        if kept and outcome in ("miss", "partial") and state in self.linked[store]:
            raise Difference("a device link ran again, though no device code has changed")
        if kept and outcome in ("hit", "miss", "partial"):
            self.linked[store].add(state)
        return outcome

    def _same(self, plain: Ended, cached: Ended) -> None:
        self.failed = plain.status != 0
        try:
            super()._same(plain, cached)
        except Difference as found:
            for _ in range(3):
                before = self._files()
                again = self._end(self.words(), before, "a")
                self._restore(before)
                try:
                    super()._same(plain, again)
                except Difference:
                    self.said[-1] += f"\n      (plain clang makes something else each time: {str(found)[:200]})"
                    return
            raise

    def _same_file(self, name: str, mine: bytes, other: bytes) -> None:
        if name.endswith(_TEXTS):
            mine, other = self._without_places(mine), self._without_places(other)
        super()._same_file(name, mine, other)

    def _without_places(self, text: bytes) -> bytes:
        for store in self.stores.values():
            text = text.replace(os.fsencode(store), b"")
        # A name that is too long for its column moves the next one.
        return b" ".join(neutral(_TEMPORARY.sub(b"", text)).split())
