"""Units: what is cached on its own, cut out of a plan, with the commands to make each and the keys to find it.

    device unit   front end: cc1 -> bitcode      back end: cc1 on the bitcode -> lld -> code object
    host unit     cc1 with a placeholder for the fat binary -> object with a gap
    object        clang-offload-bundler on the code objects, spliced into the host's object

Where the host's output is bitcode or assembly (-flto), there is no gap in it: then the host unit takes the fat binary,
and its key has the code objects.

Where a device pass ends in bitcode or assembly (-fgpu-rdc, -emit-llvm, -S) it is one step: made in two, its output
differs in names and numbers of values. Then the object is the bundle of all passes' outputs. By device LTO
(-foffload-lto) the plan's own pass ends in bitcode, and lld alone is the back end.

The command that is run is the command that is keyed: what a key leaves out (where output goes, headers of a back
end that reads bitcode) is also left out of the command, or cannot reach the output.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.inputs.identity import Identities
from hipcache.inputs.keys import Key, make_key
from hipcache.inputs.trace import Files
from hipcache.planning import backend, inodes
from hipcache.planning.cc1 import MERE_NAMES, Option, Role
from hipcache.planning.frontend import REPLACED, FrontEnd, keeps_directory
from hipcache.planning.jobs import Cc1Job, ToolJob
from hipcache.planning.lld import file_in
from hipcache.planning.plan import DevicePass, Plan
from hipcache.planning.tools import which
from hipcache.values import dataclass

_USUAL = "-fcuda-include-gpubinary"
_OBJCOPY = "llvm-objcopy"
# Roles whose values clang puts before the names of files in dependency files.
_NAMES = {Role.INPUT, Role.SEARCH, Role.INCLUDE}


@dataclass(frozen=True)
class DeviceUnit:
    """The code of one offload arch. `by_lto`: its link is the back end; `in_one_step`: bitcode between would show."""

    arch: str
    front: FrontEnd
    link: ToolJob | None
    obj: str
    code: str
    in_one_step: bool
    by_lto: bool
    back: tuple[tuple[str, str], ...]
    linking: tuple[tuple[str, str], ...]

    @property
    def silent(self) -> bool:
        """Does the user read no warnings?"""
        return not backend.warns(self.front.job.options)

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """What the keys of the back end and of the link have besides what they read."""
        return (*self.back, *self.linking)

    def back_argv(self, bitcode: Path, obj: Path) -> list[str]:
        words = [self.front.job.program]
        for option in backend.options(self.front.job.options):
            words += option.text
        return [*words, "-o", str(obj), "-x", "ir", str(bitcode)]

    def link_argv(self, obj: Path, code: Path) -> list[str]:
        assert self.link
        return _renamed(self.link, {self.obj: str(obj), self.code: str(code)})


@dataclass(frozen=True)
class ObjectUnit:
    """What all passes come to together: their code bundled, and that put into the host's object; where `host` is named
    (as the plan names its output), that is in the bundle instead. `tools_beside`: are the programs that the bundler
    starts beside it, and so not looked for on PATH?"""

    bundle: ToolJob
    codes: tuple[str, ...]
    bundled: str
    host: str
    tools_beside: bool
    tools: tuple[tuple[str, str], ...]

    @property
    def way(self) -> Key:
        """How the bundler is run, but for what it reads."""
        named = {code: f"code object {number}" for number, code in enumerate(self.codes)}
        named |= {self.host: "host"} if self.host else {}
        words = _renamed(self.bundle, {**named, self.bundled: "fat binary"})[1:]
        return make_key("bundle", [*self.tools, *(("bundler option", word) for word in words)])

    def bundle_argv(self, codes: Iterable[Path], host: Path | None, bundled: Path) -> list[str]:
        named = dict(zip(self.codes, map(str, codes), strict=True)) | ({self.host: str(host)} if self.host else {})
        return _renamed(self.bundle, {**named, self.bundled: str(bundled)})


@dataclass(frozen=True)
class Units:
    """`object` is None where nothing is to be done with what the passes have made: each has an output of its own, or
    the host's pass took the others'."""

    devices: tuple[DeviceUnit, ...]
    host: FrontEnd | None
    object: ObjectUnit | None

    @property
    def host_is_last(self) -> bool:
        """Does the host's pass take the fat binary, and so follow all others?"""
        return self.host is not None and self.object is not None and self.host.embeds and not self.host.has_gap


def cut(plan: Plan, identities: Identities, files: Files, environ: Mapping[str, str]) -> Units:
    """Raises PassThrough where a tool or a file that an option names cannot be read."""
    cutter = _Cutter(identities, files)
    return Units(
        tuple(cutter.device(one) for one in plan.devices),
        cutter.host(plan) if plan.host else None,
        cutter.object(plan, plan.bundle, environ) if plan.bundle else None,
    )


def _bundler_variables(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What the bundler is told by the environment, since 18 (OFFLOAD_BUNDLER_COMPRESS)."""
    return [(f"variable {name}", environ[name]) for name in sorted(environ) if name.startswith("OFFLOAD_BUNDLER_")]


class _Cutter:
    def __init__(self, identities: Identities, files: Files) -> None:
        self._identities = identities
        self._files = files
        self._portable = files.basedir.portable
        self._named: dict[str, str] = {}

    def host(self, plan: Plan) -> FrontEnd:
        assert plan.host
        # The option that embeds a fat binary is in no key, since it names a temporary file.
        embeds = [option.name for option in plan.host.options if option.role is Role.GPUBINARY] or ["none"]
        return self.front("host", plan.host, [] if embeds == [_USUAL] else [("fat binary", " ".join(embeds))])

    def object(self, plan: Plan, bundle: ToolJob, environ: Mapping[str, str]) -> ObjectUnit:
        tools = [("bundler", self.tool(bundle.program)), *_bundler_variables(environ)]
        host = plan.host.value(Role.OUTPUT) if plan.host and not plan.embeds else ""
        is_beside = True
        if host:
            # The bundler has an object's sections written by llvm-objcopy: the one beside it, else the one on PATH.
            beside = os.path.join(os.path.dirname(os.path.realpath(self._files.resolve(bundle.program))), _OBJCOPY)
            is_beside = os.access(beside, os.X_OK)
            objcopy = beside if is_beside else which(_OBJCOPY, self._files.resolve(""), environ)
            tools += [("objcopy", self.tool(objcopy))] if objcopy else []
        codes = tuple(one.code for one in plan.devices)
        return ObjectUnit(bundle, codes, plan.bundled, host, is_beside, tuple(tools))

    def device(self, one: DevicePass) -> DeviceUnit:
        link = []
        if one.link:
            link.append(("linker", self.tool(one.link.program)))
            for word in _renamed(one.link, {one.obj: "object", one.code: "code object"})[1:]:
                link += [("linker option", self._portable(word)), *self._file(file_in(word))]
        back: list[tuple[str, str]] = [("compiler", self.tool(one.compile.program))]
        for option in backend.options(one.compile.options):
            back += self._option(option, one.compile)
        auxiliary = any(option.role is Role.AUXILIARY for option in one.compile.options)
        by_option = auxiliary or backend.shows_bitcode(one.compile.options)
        by_lto = one.by_lto and not auxiliary
        in_one_step = not by_lto and (by_option or one.compile.emits != "-emit-obj")
        steps = [("steps", "one")] if in_one_step else []
        # The linker's part is in the front end's key too: its messages are kept there.
        front = self.front("device", one.compile, [*link, *steps])
        return DeviceUnit(one.arch, front, one.link, one.obj, one.code, in_one_step, by_lto, tuple(back), tuple(link))

    def front(self, kind: str, job: Cc1Job, more: Iterable[tuple[str, str]]) -> FrontEnd:
        inputs = [("compiler", self.tool(job.program))]
        look = []
        for option in job.options:
            if option.role in _NAMES and "\\" in option.value:
                raise PassThrough("compiler_option", f"'{option.value}': clang takes a backslash in a name for a slash")
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
            unit.look,
        )

    def _one_directory(self, job: Cc1Job) -> Iterable[tuple[str, str]]:
        """Names of one directory, which clang searches at one of its places alone: where a link is set to another
        directory, other headers are found, without one that changed or appeared where a trace has looked."""
        first: dict[object, str] = {}
        for option in job.options:
            if option.role is Role.SEARCH:
                name = first.setdefault(self._files.identity(option.value), option.value)
                if name != option.value:
                    yield "one directory", f"{self._portable(name)} {self._portable(option.value)}"

    def tool(self, program: str) -> str:
        try:
            return self._identities.digest(self._files.resolve(program))
        except OSError as error:
            raise PassThrough("tool", f"'{program}': {error}") from error

    def _option(self, option: Option, job: Cc1Job) -> list[tuple[str, str]]:
        role, value = option.role, option.value
        if role in REPLACED or role is Role.GPUBINARY:
            return []
        if option.name == "-source-date-epoch" and value == self._files.epoch:
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


def _renamed(job: ToolJob, names: dict[str, str]) -> list[str]:
    """The job's words with the temporary files of the driver's plan under other names."""
    return [job.program, *(_rename(word, names) for word in job.arguments)]


def _rename(word: str, names: dict[str, str]) -> str:
    option, equals, value = word.partition("=")
    if equals and option.lstrip("-") in ("input", "output"):
        return option + equals + names.get(value, value)
    if option == "--image":
        fields = [field.partition("=") for field in value.split(",")]
        return "--image=" + ",".join(name + is_ + names.get(file, file) for name, is_, file in fields)
    if equals and option.lstrip("-") in ("inputs", "outputs"):
        return option + equals + ",".join(names.get(part, part) for part in value.split(","))
    return names.get(word, word)
