"""Units: the separately cached parts of a plan, with the commands to make them and the keys to find them.

    device unit   front end: cc1 -> bitcode      back end: cc1 on the bitcode -> lld -> code object
    host unit     cc1 with a placeholder for the fat binary -> object with a gap
    object        clang-offload-bundler on the code objects, spliced into the host's object

Host output that is bitcode or assembly (-flto) has no gap. The host unit then takes the fat binary, and its key has the
code objects.

A device pass that ends in bitcode or assembly (-fgpu-rdc, -emit-llvm, -S) is one step, because two steps would change
names and numbers of values in its output. The object is then the bundle of all passes' outputs. With device LTO (the
new offload driver, -foffload-lto) the back end ends in bitcode, too, and lld makes the code.

hipcache runs exactly the command that it keys. Whatever is not in a key (output paths, headers of a back end that reads
bitcode) is not in the command, either, or cannot affect the output.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.keys import Key, make_key
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.clang import jobs
from hipcache.clang.cc1 import MERE_NAMES, Option, Role
from hipcache.clang.frontend import REPLACED, FrontEnd, keeps_directory
from hipcache.clang.jobs import Cc1Job, ToolJob
from hipcache.clang.plan import DevicePass, Plan
from hipcache.clang.tools import which
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.identity import Identities, is_script

# Names with the number of a file in them: static device variables of an object without a CUID.
#
# With -fgpu-rdc the host's code names them, so each object needs a name of its own. Where it has no CUID (the new
# offload driver up to clang 19, -fuse-cuid=none), clang takes the inode and the device of the file that the variable
# stands in: `.static.<inode><device>_<hash of macros>` (`printPostfixForExternalizedDecl`,
# clang/lib/CodeGen/CodeGenModule.cpp). All passes of an object must have seen the same file then, not only the same
# content: the source's number is in their keys, and what names another file (a header) is not kept.

_NUMBER = pattern(rb"\.(?:static|intern)\.([0-9a-f]+)_")
_WIDTH = 0xFFFFFFFF  # they are printed with %x


def keyed(job: Cc1Job, files: FileManager) -> Iterable[tuple[str, str]]:
    """The inode of the source, as a part of a pass's key; nothing if no name depends on it."""
    number = _number(job, files)
    return [("number of the source's file", number)] if number else []


def names_another_file(job: Cc1Job, files: FileManager, output: bytes) -> bool:
    """Does the output have a name by another file than the source in it?"""
    number = _number(job, files)
    return bool(number) and any(found != number.encode() for found in _NUMBER.findall(output))


def _number(job: Cc1Job, files: FileManager) -> str:
    """Empty if no name depends on it."""
    if job.value(Role.CUID) or all(option.name != "-fgpu-rdc" for option in job.options):
        return ""
    try:
        device, inode, *_ = files.numbered(job.value(Role.INPUT))
    except OSError:
        return "none"  # the compiler says why
    return f"{inode & _WIDTH:x}{device & _WIDTH:x}"


# The options of a device pass that its back end needs.
#
# A back end reads bitcode. For bitcode, clang uses almost no language options (`CompilerInvocation`, ParseLangArgs):
# they have had their effect already. The same holds for directories and prefix maps, which clang applies when it writes
# debug information, coverage and `__FILE__`. A back end's warnings only show that it has messages; the user reads them
# from a pass in one step with all options (`execution/source`). None of these can affect the code object, so a back
# end runs without them: a change of `-Wall` or `-std=` starts no back end. Each option was tested with clang 15 and 19:
# the code object is the same with and without it. Options that are not listed stay.

# Roles that only concern the front end.
_FRONT_ONLY = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.BITCODE, Role.CUID, Role.SEARCH, Role.INCLUDE),
    *(Role.MACRO, Role.LANGUAGE, Role.INPUT, Role.PRESENTATION, Role.DIRECTORY),
}

# Options that only the front end uses (-fX and -fno-X, with or without a value).
_LANGUAGE = (
    *("access-control", "aligned-allocation", "blocks", "borland-extensions", "char8_t", "check-new", "concepts-ts"),
    *("coroutines", "coroutines-ts", "cuda-allow-variadic-functions", "cxx-exceptions", "declspec"),
    *("delayed-template-parsing", "deprecated-macro", "digraphs", "dollars-in-identifiers"),
    *("double-square-bracket-attributes", "elide-constructors", "exceptions", "gnu-keywords", "gnuc-version"),
    *(
        "hip-new-launch-api",
        "implicit-modules",
        "ms-compatibility",
        "ms-compatibility-version",
        "ms-extensions",
        "operator-names",
    ),
    *("pascal-strings", "relaxed-template-template-args", "rtti", "rtti-data", "short-wchar", "signed-char"),
    *("signed-wchar", "sized-deallocation", "skip-odr-check-in-gmf", "strict-enums", "threadsafe-statics"),
    *("trigraphs", "use-cxa-atexit", "wchar", "wchar-type"),
)
# The look of messages, and the point where a front end gives up. (A back end reports hot code.)
_MESSAGES = (
    *("ansi-escape-codes", "bracket-depth", "caret-diagnostics", "color-diagnostics", "constexpr-backtrace-limit"),
    *("constexpr-depth", "constexpr-steps", "error-limit", "macro-backtrace-limit", "message-length"),
    *("operator-arrow-depth", "show-column", "show-source-location", "spell-checking", "spell-checking-limit"),
    *("template-backtrace-limit", "template-depth"),
)
_SWITCHES = frozenset((*_LANGUAGE, *_MESSAGES))
_SWITCH = pattern(r"-f(?:no-)?([\w-]+)(?:=.*)?")
# The groups of warnings of which any is a back end's (clang's DiagnosticFrontendKinds.td).
_OWN_WARNINGS = (
    *("everything", "attribute-warning", "backend-plugin", "frame-larger-than", "inline-asm", "linker-warnings"),
    *("misexpect", "override-module", "pass-failed", "source-mgr", "unsupported-floating-point-opt"),
)
_DROPPED = pattern(
    rf"-(aux-(triple|target-cpu|target-feature)|-?std=.*|pthread|w|pedantic(-errors)?|source-date-epoch"
    rf"|f(?:debug|macro|coverage)-prefix-map=.*"
    rf"|W(?!(?:no-)?(?:error=)?(?:no-)?(?:{'|'.join(_OWN_WARNINGS)})).*)"
)
# A back end that reads bitcode has no source lines for remarks, and its module is named after the bitcode's file:
# AddressSanitizer writes that name into the code.
_IN_ONE_STEP = ("-R", "-fsanitize", "-fprofile", "-ffat-lto-objects")
# By ThinLTO the module gets a summary and a hash of the source's text.
# With -ffp-contract=fast (by clang 19 also -ffast-math) the code generator fuses what the pragma or a device library
# keeps apart. That is one of the language options: a back end that reads bitcode does not fuse them.
_WHOLE = {("-flto=thin",), ("-ffp-contract=fast",), ("-ffp-contract", "fast")}


def options(given: Iterable[Option]) -> list[Option]:
    """The options of a pass that its back end keeps, in its command and in its key."""
    return [option for option in given if option.role not in _FRONT_ONLY and not _is_dropped(option.text[0])]


def _shows_bitcode(option: Option) -> bool:
    """Would two steps with bitcode in between change the code object or the messages?"""
    return option.role is Role.AUXILIARY or option.name.startswith(_IN_ONE_STEP) or option.text in _WHOLE


def _is_dropped(word: str) -> bool:
    if _DROPPED.fullmatch(word):
        return True
    switch = _SWITCH.fullmatch(word)
    if not switch:
        return False
    name = switch[1]
    if name.startswith("diagnostics-"):
        return name != "diagnostics-" and "hotness" not in word and "misexpect" not in word
    return name in _SWITCHES


# The parts of the keys of a plan's jobs: tools by content, options, and the contents of the files that they name.

Parts = list[tuple[str, str]]

# Roles whose values clang puts before the names of files in dependency files.
_NAMES = {Role.INPUT, Role.SEARCH, Role.INCLUDE}
# Clang refuses another date: the last second of the year 9999 (lib/Frontend/CompilerInvocation.cpp).
_DATE = pattern(r"0*[0-9]{1,12}")
_LAST_DATE = 253402300799


class KeyParts:
    """All methods raise PassThrough if a tool, or a file that an option names, cannot be read."""

    def __init__(self, identities: Identities, files: FileManager) -> None:
        self._identities = identities
        self._files = files
        self._portable = files.basedir.portable
        self._named: dict[str, str] = {}

    def tool(self, program: str) -> str:
        return self._identities.tool(program, self._files.resolve(program))

    def link(self, job: ToolJob, names: dict[str, str]) -> Parts:
        """The parts for a device link, with the plan's temporary files renamed."""
        parts = [("linker", self.tool(job.program))]
        inputs = set(jobs.inputs(job.arguments)).difference(names)
        for word, renamed in zip(job.arguments, job.renamed(names)[1:], strict=True):
            parts.append(("linker option", self._portable(renamed)))
            if word in inputs:
                parts.append((f"content of {self._portable(word)}", self._digest(word)))
                jobs.check_input(word, self._files.resolve(word))
            else:
                parts += self._file(jobs.value_of(word))
        return parts

    def back(self, job: Cc1Job) -> Parts:
        """The parts for the back end of a pass."""
        parts = [("compiler", self.tool(job.program))]
        for option in options(job.options):
            parts += self._option(option, job)
        return parts

    def front(self, kind: str, job: Cc1Job, more: Iterable[tuple[str, str]], *, by_lto: bool = False) -> FrontEnd:
        """`by_lto`: does a link of the same compile read its bitcode?"""
        inputs = [("compiler", self.tool(job.program))]
        look = []
        for option in job.options:
            if option.role in _NAMES and "\\" in option.value:
                raise PassThrough("compiler_option", f"'{option.value}': clang treats a backslash in a name as a slash")
            if option.role is Role.PRESENTATION:
                look.append(option.joined)
            else:
                inputs += self._option(option, job)
        inputs += [*self._one_directory(job), *keyed(job, self._files)]
        if any(option.name == "-fdiagnostics-absolute-paths" for option in job.options):
            inputs.append(("directory of messages", self._portable(self._files.resolve(""))))
        key = make_key(kind, [*inputs, *more, ("dependencies", "all" if job.all_headers else "user")])
        return FrontEnd(job, key, " ".join(look), job.emits in ("-emit-llvm-bc", "-emit-llvm") and not by_lto)

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
        text = ("option", self._portable(option.joined))
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
            with passing_through("named_file", name):
                self._named[name] = self._files.named(name)
        return self._named[name]


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and int(value[-12:]) <= _LAST_DATE


_USUAL = ("-fcuda-include-gpubinary", "-foffload-include-binary")
_OBJCOPY = "llvm-objcopy"
# What the driver gives lld for an object: no such option goes by the names of symbols.
_OF_NO_NAME = pattern(
    r"-flavor|gnu|-m|elf64_amdgpu|--no-undefined|-shared|-plugin-opt=.*|--(?:no-)?whole-archive|-o"
    r"|--lto-(?:CGO[0-3]|partitions=[0-9]+)"
)


@dataclass(frozen=True)
class DeviceUnit:
    """The code of one offload arch. `by_lto`: its link makes the code, from optimized bitcode; `in_one_step`: two steps
    would change the output."""

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
        """Are warnings switched off?"""
        return any(option.name == "-w" for option in self.front.job.options)

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """The parts of the keys of back end and link, apart from their inputs."""
        return (*self.back, *self.linking)

    def back_argv(self, bitcode: Path, obj: Path) -> list[str]:
        words = [self.front.job.program]
        for option in options(self.front.job.options):
            words += option.text
        return [*words, "-o", str(obj), "-x", "ir", str(bitcode)]

    @property
    def links_any_cuid(self) -> bool:
        """May the code object of another CUID be taken, if the name is changed in it (`code_object`)? Not of a script
        in the place of lld."""
        if not self.link or self.by_lto or is_script(self.link.program):
            return False
        return all(word in (self.obj, self.code) or _OF_NO_NAME.fullmatch(word) for word in self.link.arguments)

    def link_argv(self, obj: Path, code: Path) -> list[str]:
        assert self.link
        return self.link.renamed({self.obj: str(obj), self.code: str(code)})


@dataclass(frozen=True)
class ObjectUnit:
    """The object of all passes together: their code is bundled, and the bundle is put into the host's object; if `host`
    is named (as the plan names its output), the host's output is in the bundle instead. `tools_beside`: are the
    programs that the bundler starts beside it, and so not looked for on PATH?"""

    bundle: ToolJob
    codes: tuple[str, ...]
    bundled: str
    host: str
    tools_beside: bool
    tools: tuple[tuple[str, str], ...]

    @property
    def way(self) -> Key:
        """The key of the bundler's command, without its inputs."""
        named = {code: f"code object {number}" for number, code in enumerate(self.codes)}
        named |= {self.host: "host"} if self.host else {}
        words = self.bundle.renamed({**named, self.bundled: "fat binary"})[1:]
        return make_key("bundle", [*self.tools, *(("bundler option", word) for word in words)])

    def bundle_argv(self, codes: Iterable[Path], host: Path | None, bundled: Path) -> list[str]:
        named = dict(zip(self.codes, map(str, codes), strict=True)) | ({self.host: str(host)} if self.host else {})
        return self.bundle.renamed({**named, self.bundled: str(bundled)})


@dataclass(frozen=True)
class Units:
    """`object` is None if the outputs of the passes are left as they are: each is delivered itself, or the host's pass
    took the others'."""

    devices: tuple[DeviceUnit, ...]
    host: FrontEnd | None
    object: ObjectUnit | None

    @property
    def host_is_last(self) -> bool:
        """Does the host pass take the fat binary, and so run last?"""
        return self.host is not None and self.object is not None and self.host.embeds and not self.host.has_gap


def cut(plan: Plan, identities: Identities, files: FileManager, environ: Mapping[str, str]) -> Units:
    """Raises PassThrough if a tool or a file that an option names cannot be read."""
    parts = KeyParts(identities, files)
    return Units(
        tuple(_device(device, parts) for device in plan.devices),
        _host(plan.host, parts) if plan.host else None,
        _object(plan, plan.bundle, parts, files, environ) if plan.bundle else None,
    )


def _host(host: Cc1Job, parts: KeyParts) -> FrontEnd:
    # The option that embeds a fat binary names a temporary file, so it is in no key.
    embeds = [option.name for option in host.options if option.role is Role.GPUBINARY] or ["none"]
    return parts.front(
        "host", host, [] if len(embeds) == 1 and embeds[0] in _USUAL else [("fat binary", " ".join(embeds))]
    )


def _object(plan: Plan, bundle: ToolJob, parts: KeyParts, files: FileManager, environ: Mapping[str, str]) -> ObjectUnit:
    # Since 18 the bundler reads variables (OFFLOAD_BUNDLER_COMPRESS).
    variables = sorted(name for name in environ if name.startswith("OFFLOAD_BUNDLER_"))
    tools = [("bundler", parts.tool(bundle.program)), *((f"variable {name}", environ[name]) for name in variables)]
    host = plan.host.value(Role.OUTPUT) if plan.host and not plan.embeds else ""
    is_beside = True
    if host:
        # The bundler has an object's sections written by llvm-objcopy: the one beside it, else the one on PATH.
        beside = os.path.join(os.path.dirname(os.path.realpath(files.resolve(bundle.program))), _OBJCOPY)
        is_beside = os.access(beside, os.X_OK)
        objcopy = beside if is_beside else which(_OBJCOPY, files.resolve(""), environ)
        tools += [("objcopy", parts.tool(objcopy))] if objcopy else []
    codes = (*(device.code for device in plan.devices), *([plan.spirv.code] if plan.spirv else []))
    return ObjectUnit(bundle, codes, plan.bundled, host, is_beside, tuple(tools))


def _device(device: DevicePass, parts: KeyParts) -> DeviceUnit:
    link = parts.link(device.link, {device.obj: "object", device.code: "code object"}) if device.link else []
    by_option = any(map(_shows_bitcode, device.compile.options))
    in_one_step = by_option or not (device.by_lto or device.compile.emits == "-emit-obj")
    steps = [("steps", "one")] if in_one_step else []
    # The linker's part is in the front end's key too: its messages are kept there.
    front = parts.front("device", device.compile, [*link, *steps], by_lto=device.by_lto)
    back = tuple(parts.back(device.compile))
    return DeviceUnit(
        device.arch, front, device.link, device.obj, device.code, in_one_step, device.by_lto, back, tuple(link)
    )
