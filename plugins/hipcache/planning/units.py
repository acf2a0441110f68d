"""Units: what is cached on its own, cut out of a plan, with the commands to make each and the keys to find it.

    device unit   front end: cc1 -> bitcode      back end: cc1 on the bitcode -> lld -> code object
    host unit     cc1 with a placeholder for the fat binary -> object with a gap
    object        clang-offload-bundler on the code objects, spliced into the host's object

Where a device pass ends in bitcode or assembly (-fgpu-rdc, -foffload-lto, -emit-llvm, -S) it is one step: made in two,
its output differs in names and numbers of values. Then the object is the bundle of all passes' outputs.

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
from hipcache.planning import inodes
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.plan import Cc1Job, DevicePass, Plan, ToolJob
from hipcache.planning.tools import which
from hipcache.values import dataclass

# Roles that concern the front end alone: a back end that reads bitcode is run without them.
_FRONT_ONLY = {
    Role.OUTPUT,
    Role.DEPENDENCIES,
    Role.DEPENDENCY_STYLE,
    Role.BITCODE,
    Role.CUID,
    Role.SEARCH,
    Role.INCLUDE,
    Role.MACRO,
    Role.LANGUAGE,
    Role.INPUT,
}
# Warnings about comments or about the end of a file, beyond those that `comments.py` steers clear of.
_ABOUT_COMMENTS = (
    "-Weverything",
    "-Wdocumentation",
    "-Wnewline-eof",
    "-pedantic",
    "-Wpedantic",
    "-fparse-all-comments",
    "-E",  # Text has a line for each that there was.
)
# Options whose value may look like a file's name, but nothing is read from it.
_MERE_NAMES = {"-main-file-name", "-record-command-line", "-dwarf-debug-flags", "-object-file-name="}
# Names of static functions get a hash of the source's path, or are listed with it in a compressed section.
_HASHES_PATHS = (
    "-fprofile-instr",
    "-fcs-profile",
    "-fcoverage-mapping",
    "-funique-internal-linkage-names",
    "-fpseudo-probe",
)
_USUAL = "-fcuda-include-gpubinary"
_OBJCOPY = "llvm-objcopy"
_REPLACED = {Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE}
# A back end that reads bitcode has no source lines for remarks, and its module is named after the bitcode's file:
# AddressSanitizer writes that name into the code.
_IN_ONE_STEP = ("-R", "-fsanitize", "-fprofile")


@dataclass(frozen=True)
class FrontEnd:
    """A pass over the source (of a device unit or the host). `look`: how its messages are to look; that is not
    part of the key, since most passes say nothing."""

    job: Cc1Job
    key: Key
    look: str

    @property
    def all_headers(self) -> bool:
        """Does the user's dependency file list system headers too (-MD, or none is asked for)?"""
        wants = self.job.value(Role.DEPENDENCIES, "-dependency-file")
        return not wants or any(o.role is Role.DEPENDENCY_STYLE for o in self.job.options)

    @property
    def dated(self) -> bool:
        return any(option.name == "-source-date-epoch" for option in self.job.options)

    @property
    def comments_matter(self) -> bool:
        """Can an edit of a comment change the output or the messages? Debug information has digests of files."""
        names = {option.name for option in self.job.options}
        return _keeps_directory(self.job) or any(name.startswith(_ABOUT_COMMENTS) for name in names)

    @property
    def hides_paths(self) -> bool:
        """May a path be in the output where nobody sees it: in compressed debug information, hashed into a name, or (in
        bitcode) as no row of bytes?"""
        names = [option.name for option in self.job.options]
        hidden = any(name.startswith(_HASHES_PATHS) or "-compress-debug-sections" in name for name in names)
        return hidden or self.job.emits == "-emit-llvm-bc"

    @property
    def embeds(self) -> bool:
        """Does its output have a gap for the fat binary?"""
        return any(option.role is Role.GPUBINARY for option in self.job.options)

    @property
    def macro_prefix_maps(self) -> list[str]:
        return [option.value for option in self.job.options if option.name == "-fmacro-prefix-map="]

    @property
    def source(self) -> str:
        return self.job.source

    def argv(self, output: Path, dependencies: Path, *, bitcode: bool, gpubinary: Path | None = None) -> list[str]:
        """The command that writes `output` and make's `dependencies` (and, where those leave out system headers, a
        graph of all headers to `graph_file(dependencies)`: -header-include-file would leave them out too)."""
        words = [self.job.program, "-cc1", "-dependency-file", str(dependencies), "-MT", "output", "-o", str(output)]
        words += ["-sys-header-deps"] if self.all_headers else ["-dependency-dot", str(graph_file(dependencies))]
        for option in self.job.options:
            if option.role in _REPLACED or option.text == ("-cc1",):
                continue
            if option.role is Role.EMIT and bitcode:
                # With the order of uses kept, the back end sees the very IR that it would have had in one step.
                words += ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes"]
            elif option.role is Role.GPUBINARY:
                words += [option.name + str(gpubinary)] if option.name.endswith("=") else [option.name, str(gpubinary)]
            else:
                words += option.text
        return words


def graph_file(dependencies: Path) -> Path:
    return dependencies.with_suffix(".dot")


@dataclass(frozen=True)
class DeviceUnit:
    """The code of one offload arch. `in_one_step`: bitcode between front and back end would show."""

    arch: str
    front: FrontEnd
    link: ToolJob | None
    obj: str
    code: str
    in_one_step: bool
    _back: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """What the back end's key has besides the bitcode."""
        return self._back

    def back_key(self, bitcode: str) -> Key:
        """`bitcode`: digest of the front end's output."""
        return make_key("backend", [*self._back, ("bitcode", bitcode)])

    def back_argv(self, bitcode: Path, obj: Path) -> list[str]:
        words = [self.front.job.program]
        for option in self.front.job.options:
            if option.role not in _FRONT_ONLY:
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
    _tools: tuple[tuple[str, str], ...]

    def key(self, codes: Iterable[str], host: str) -> Key:
        """`codes`: digests of the code objects in the plan's order; `host`: digest of the host's object, if any."""
        named = dict(zip(self.codes, codes, strict=True)) | ({self.host: "host"} if self.host else {})
        words = _renamed(self.bundle, {**named, self.bundled: "fat binary"})[1:]
        return make_key("object", [*self._tools, *(("bundler option", word) for word in words), ("host", host)])

    def bundle_argv(self, codes: Iterable[Path], host: Path | None, bundled: Path) -> list[str]:
        named = dict(zip(self.codes, map(str, codes), strict=True)) | ({self.host: str(host)} if self.host else {})
        return _renamed(self.bundle, {**named, self.bundled: str(bundled)})


@dataclass(frozen=True)
class Units:
    """`object` is None where each pass has an output of its own."""

    devices: tuple[DeviceUnit, ...]
    host: FrontEnd | None
    object: ObjectUnit | None


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
                link += [("linker option", self._portable(word)), *self._file(word.removeprefix("-plugin-opt="))]
        back: list[tuple[str, str]] = [("compiler", self.tool(one.compile.program))]
        for option in one.compile.options:
            if option.role not in _FRONT_ONLY and option.role is not Role.PRESENTATION:
                back += self._option(option, one.compile)
        by_option = any(option.name.startswith(_IN_ONE_STEP) for option in one.compile.options)
        in_one_step = by_option or one.compile.emits != "-emit-obj"
        steps = [("steps", "one")] if in_one_step else []
        # The linker's part is in the front end's key too: its messages are kept there.
        front = self.front("device", one.compile, [*link, *steps])
        return DeviceUnit(one.arch, front, one.link, one.obj, one.code, in_one_step, (*back, *link))

    def front(self, kind: str, job: Cc1Job, more: Iterable[tuple[str, str]]) -> FrontEnd:
        inputs = [("compiler", self.tool(job.program))]
        look = []
        for option in job.options:
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
        if role in _REPLACED or role is Role.GPUBINARY:
            return []
        if role is Role.DIRECTORY and not _keeps_directory(job):
            return []
        if role is Role.BITCODE:
            # Its content goes into the output, its path does not.
            return [(f"bitcode {os.path.basename(value)}", self._digest(value))]
        if role is Role.INPUT:
            return [("source", self._portable(value))]
        text = ("option", self._portable(" ".join(option.text)))
        names = role is Role.PLAIN and value and option.name not in _MERE_NAMES
        return [text, *self._file(value)] if names else [text]

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


def _keeps_directory(job: Cc1Job) -> bool:
    """Does the working directory get into the output? With debug information or coverage it does."""
    names = ("-debug-info-kind", "-fcoverage-mapping", "-fprofile", "-gembed", "-debug-info-macro")
    return any(option.name.startswith(names) for option in job.options)


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
