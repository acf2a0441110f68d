"""The fuzzer's compiles with precompiled preambles, of sources that warn and that fail (`fuzz.py --preambles`).

A project has a HIP of its own, whose headers are standard ones, and a header of the user. Its sources begin with
includes of these, in several orders and with comments of any kind between them, and go on with lines that are right,
that warn, or that are wrong, in all passes or in one. In steps another source, another head, other lines, a header or a
flag takes the place of what was there. Most compiles may use preambles; the others show that sources that warn and that
fail are told as they are without.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from fuzz_case import BARE, LEVELS, SHORT_HEADER, Case, numbered
from fuzz_preamble_lines import (
    ARCHS,
    EDGES,
    FLAGS,
    FROM_HEADERS,
    GAPS,
    HEADERS,
    IN_HEADERS,
    LEFT,
    RIGHT,
    RULES,
    SEARCH,
    SOURCES,
    WARN,
    WRONG,
)

#: The names by which lines of headers are used.
STEMS = (
    *("kept_", "olden_", "narrow_", "on_device_", "twice_", "undefined_", "Tall_", "PASTED_", "deprecated_", "Kind_"),
    *("times_", "Trait_", "Shown_", "Hidden_"),
)


def _names(use: str, line: str) -> bool:
    """Does the use name what the header's line declares?"""
    return any(stem in use and stem in line for stem in STEMS)


def _place(name: str) -> str:
    """The directory of a header: of the project's HIP, or of the user."""
    return "own" if name.startswith("hip/") else "lead"


def rows(text: str) -> list[str]:
    return [line.replace("@", "\n") for line in text.strip().replace("@\\\n", "@").splitlines()]


# So many sources are compiled before anything is edited.
_FIRST = 3


@dataclass
class Preambled(Case):
    """Sources that begin alike."""

    STEPS = (8, 14)
    SAME_STORE = 0.97
    lines: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    step: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        some = self.random
        if some.random() < 0.85:
            self.variables |= {
                "HIPCACHE_PREAMBLES": "1",
                "HIPCACHE_PREAMBLE_CHECKS": some.choice(("3", "1000000", "1000000")),
            }
        self.flags = [self._some_flag() for _ in range(some.randrange(4))]
        self.level, self.rule = some.choice(LEVELS), some.choice(RULES)
        self.search = [some.choice(SEARCH), "-I"]
        self.archs = some.sample(sorted(set(ARCHS)), 2) if some.random() < 0.3 else [some.choice(ARCHS)]
        self.side = some.choice(([], [], [], ["--cuda-device-only"]))
        self.source = SOURCES[0]
        self.heads: dict[str, str] = {}
        head = self._some_head()
        self._write("own/hip/hip_runtime.h", "")
        self._write("own/hip/base.h", f"#pragma once\n{SHORT_HEADER}extern int host_1000(int);\n")
        self._write("lead/late.h", "#pragma once\ninline int late() { return 1; }\n")
        for name in HEADERS:
            self._new_header(name)
        for name in SOURCES:
            self.heads[name] = head if some.random() < 0.9 else self._some_head()
            self._new_source(name)

    def words(self) -> list[str]:
        surroundings = [self.search[0], f"{self.work}/first", self.search[1], f"{self.work}/lead", f"-I{self.work}"]
        surroundings += ["-Xclang", "-internal-isystem", "-Xclang", f"{self.work}/own"]
        flags = [word for flag in self.flags for word in flag]
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        options = [*archs, *BARE, "-cuid=5eed", self.level, *surroundings, *flags, *self.rule, *self.side]
        return [self.compiler, *options, "-o", "out.o", "-c", self.source]

    def _edit(self) -> str:
        self.step += 1
        if self.step < _FIRST:
            self.source = SOURCES[self.step]
            return f"now {self.source}"
        ways = (
            *(self._other_source,) * 4,
            *(self._other_lines,) * 10,
            *(self._nothing, self._head, self._header, self._flag, self._comment, self._number, self._shadow),
            *(self._touch, self._move, self._option),
        )
        return self.random.choice(ways)()

    # Texts

    def _some_head(self) -> str:
        some = self.random
        names = ["hip/base.h", *some.sample(HEADERS, some.randrange(1, len(HEADERS) + 1))]
        parts = [f"// head {some.randrange(3)}\n"]
        for name in names:
            parts += [some.choice(GAPS).replace("#", str(some.randrange(100))) if some.random() < 0.4 else ""]
            parts += [f"#include <{name}>\n"]
        if some.random() < 0.1:
            edge = some.choice(EDGES)
            parts.insert(0 if edge == "\ufeff" else some.randrange(1, len(parts)), edge)
            parts += ["#endif\n"] if edge == "#if 1\n" else []
        return "".join(parts)

    def _some_lines(self) -> str:
        some = self.random
        declared = [one for lines in self.lines.values() for one in lines]
        uses = [(use, number) for use in rows(FROM_HEADERS) for line, number in declared if _names(use, line)]
        found = []
        for _ in range(some.randrange(1, 6)):
            chance = some.random()
            if 0.75 < chance < 0.97 and uses:
                found.append(numbered(*uses.pop(some.randrange(len(uses)))))
            else:
                kind = RIGHT if chance < 0.5 else WARN if chance < 0.97 else WRONG
                found.append(numbered(some.choice(rows(kind)), some.randrange(1, 1000)))
        return "\n".join(found) + "\n"

    def _new_header(self, name: str) -> None:
        some = self.random
        chosen = [line for line in rows(IN_HEADERS) if some.random() < 0.15] or ["// none"]
        odd = ("__COUNTER__", "pragma", "_Pragma")
        chosen = [line for line in chosen if not any(word in line for word in odd) or some.random() < 0.15]
        self.lines[name] = [(line, some.randrange(1, 1000)) for line in chosen]
        self._write_header(name)

    def _write_header(self, name: str) -> None:
        text = "".join(numbered(line, number) + "\n" for line, number in self.lines[name])
        self._write(f"{_place(name)}/{name}", f"#pragma once\n{text}")

    def _new_source(self, name: str) -> None:
        text = self.heads[name] + self._some_lines()
        path = os.path.join(self.work, name)
        with open(path, "wb") as file:
            bad = b"// \xff\n" if self.random.random() < 0.02 else b""
            file.write(bad + text.encode())

    # Edits

    def _other_source(self) -> str:
        self.source = self.random.choice(SOURCES)
        return f"now {self.source}"

    def _other_lines(self) -> str:
        self._new_source(self.source)
        return f"other lines in {self.source}"

    def _head(self) -> str:
        self.heads[self.source] = self._some_head()
        self._new_source(self.source)
        return f"another head of {self.source}"

    def _header(self) -> str:
        name = self.random.choice(HEADERS)
        self._new_header(name)
        return f"{name} is other text"

    def _number(self) -> str:
        """Other content of a header of the same size and the same times."""
        name = self.random.choice(HEADERS)
        path = self.work / _place(name) / name
        status, text = path.stat(), path.read_text()
        path.write_text(text.replace("return 2", "return 3") if "return 2" in text else text.replace("int y", "int v"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return f"{path.name} says otherwise with the same times"

    def _comment(self) -> str:
        path = self.work / self.source
        path.write_bytes(path.read_bytes() + b"// more\n")
        return f"a comment more in {self.source}"

    def _shadow(self) -> str:
        name = self.random.choice((*HEADERS, "late.h"))
        path = self.work / "first" / name
        if path.exists():
            path.unlink()
            return f"first/{name} is gone"
        more = (
            "" if self.random.random() < 0.3 else f"inline int shadows_{self.random.randrange(99)}() {{ return 1; }}\n"
        )
        self._write(f"first/{name}", (self.work / _place(name) / name).read_text() + more)
        return f"first/{name} is there"

    def _touch(self) -> str:
        name = self.random.choice(HEADERS)
        (self.work / _place(name) / name).touch()
        return "a header is touched"

    def _flag(self) -> str:
        if self.flags and self.random.random() < 0.6:
            return f"without {self.flags.pop(self.random.randrange(len(self.flags)))}"
        self.flags.append(self._some_flag())
        return f"with {self.flags[-1]}"

    def _some_flag(self) -> list[str]:
        return self.random.choice(FLAGS if self.random.random() < 0.9 else LEFT)

    def _option(self) -> str:
        self.level = self.random.choice(LEVELS)
        return f"now {self.level}"
