"""The parts of the keys of a plan's jobs: tools by content, options, and the contents of the files that they name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hipcache.errors import PassThrough
from hipcache.inputs import linked
from hipcache.inputs.identity import Identities
from hipcache.inputs.keys import make_key
from hipcache.inputs.trace import Files
from hipcache.patterns import pattern
from hipcache.planning import backend, inodes, lld
from hipcache.planning.cc1 import MERE_NAMES, Option, Role
from hipcache.planning.frontend import REPLACED, FrontEnd, keeps_directory
from hipcache.planning.jobs import Cc1Job, ToolJob

Parts = list[tuple[str, str]]

# Roles whose values clang puts before the names of files in dependency files.
_NAMES = {Role.INPUT, Role.SEARCH, Role.INCLUDE}
# Clang refuses another date: the last second of the year 9999 (lib/Frontend/CompilerInvocation.cpp).
_DATE = pattern(r"0*[0-9]{1,12}")
_LAST_DATE = 253402300799


class KeyParts:
    """All methods raise PassThrough if a tool, or a file that an option names, cannot be read."""

    def __init__(self, identities: Identities, files: Files) -> None:
        self._identities = identities
        self._files = files
        self._portable = files.basedir.portable
        self._named: dict[str, str] = {}

    def tool(self, program: str) -> str:
        return self._identities.tool(program, self._files.resolve(program))

    def link(self, job: ToolJob, names: dict[str, str]) -> Parts:
        """The parts for a device link, with the plan's temporary files renamed."""
        parts = [("linker", self.tool(job.program))]
        inputs = set(lld.inputs(job.arguments)).difference(names)
        for word, renamed in zip(job.arguments, job.renamed(names)[1:], strict=True):
            parts.append(("linker option", self._portable(renamed)))
            if word in inputs:
                parts.append((f"content of {self._portable(word)}", self._digest(word)))
                linked.check(word, self._files.resolve(word))
            else:
                parts += self._file(lld.value_of(word))
        return parts

    def back(self, job: Cc1Job) -> Parts:
        """The parts for the back end of a pass."""
        parts = [("compiler", self.tool(job.program))]
        for option in backend.options(job.options):
            parts += self._option(option, job)
        return parts

    def front(self, kind: str, job: Cc1Job, more: Iterable[tuple[str, str]]) -> FrontEnd:
        inputs = [("compiler", self.tool(job.program))]
        look = []
        for option in job.options:
            if option.role in _NAMES and "\\" in option.value:
                raise PassThrough("compiler_option", f"'{option.value}': clang treats a backslash in a name as a slash")
            if option.role is Role.PRESENTATION:
                look.append(" ".join(option.text))
            else:
                inputs += self._option(option, job)
        inputs += [*self._one_directory(job), *inodes.keyed(job, self._files)]
        if any(option.name == "-fdiagnostics-absolute-paths" for option in job.options):
            inputs.append(("directory of messages", self._portable(self._files.resolve(""))))
        unit = FrontEnd(job, make_key(kind, [*inputs, *more]), " ".join(look))
        return FrontEnd(
            job,
            make_key(kind, [*unit.key.inputs, ("dependencies", "all" if unit.all_headers else "user")]),
            unit.message_format,
        )

    def _one_directory(self, job: Cc1Job) -> Iterable[tuple[str, str]]:
        """Different names of one directory, which clang searches only once. If a symbolic link then points to another
        directory, clang finds other headers, although no path in a trace changed or appeared."""
        first: dict[object, str] = {}
        for option in job.options:
            if option.role is Role.SEARCH:
                name = first.setdefault(self._files.identity(option.value), option.value)
                if name != option.value:
                    yield "one directory", f"{self._portable(name)} {self._portable(option.value)}"

    def _option(self, option: Option, job: Cc1Job) -> list[tuple[str, str]]:
        role, value = option.role, option.value
        if role in REPLACED or role is Role.GPUBINARY:
            return []
        if option.name == "-source-date-epoch" and value == self._files.epoch and _is_date(value):
            return []  # in the read set of what may show that date
        if role is Role.AUXILIARY:
            return [("second output", option.name)]
        if role is Role.DIRECTORY and not keeps_directory(job):
            return []
        if role is Role.BITCODE:
            # Its content goes into the output, its path does not.
            return [(f"bitcode {os.path.basename(value)}", self._digest(value))]
        if role is Role.INPUT:
            return [("source", self._portable(value))]
        text = ("option", self._portable(" ".join(option.text)))
        if role is not Role.PLAIN or option.name in MERE_NAMES:
            return [text]
        return [text, *self._file(value.partition("=")[2] if option.name == "-mllvm" else value)]

    def _file(self, value: str) -> list[tuple[str, str]]:
        """The content of the file that an option's value names, if it names one."""
        for name in (value, value.partition("=")[2]):
            if name and self._files.is_there(name) and os.path.isfile(self._files.resolve(name)):
                return [(f"content of {self._portable(name)}", self._digest(name))]
        return []

    def _digest(self, name: str) -> str:
        if name not in self._named:
            try:
                self._named[name] = self._files.named(name)
            except OSError as error:
                raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
        return self._named[name]


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and int(value[-12:]) <= _LAST_DATE
