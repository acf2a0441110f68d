"""The plan of a compile: text of the driver's `-###` -> jobs -> the shape of a HIP compile.

    for each offload arch:  cc1 (device) -> lld -> code object
    clang-offload-bundler                       -> fat binary
    cc1 (host), which embeds the fat binary     -> object

`-###` prints one job a line, each word in double quotes with `\\`, `"` and `$` escaped
(`llvm::sys::printArg` with Quote=true). Lines that begin otherwise are the driver's banner or its own
messages. Jobs are put together by what they read and write, not by their order.
"""

from __future__ import annotations

import re

from hipcache.errors import PassThrough
from hipcache.planning import cc1
from hipcache.planning.cc1 import Option, Role
from hipcache.values import dataclass

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What the driver itself tells lld. What users add (-Xoffload-linker) may write files (-Map=), or put the name of lld's
# temporary output into the code object (--version-script=).
_LINK_WORDS = re.compile(
    r"-flavor$|gnu$|-m$|elf64_amdgpu$|--?no-undefined$|-shared$|--lto-CGO[0-3]$|--(no-)?whole-archive$|-o$|[^-]"
    r"|--compress-debug-sections=(none|zlib|zstd)$"
    r"|-plugin-opt=(-amdgpu-internalize-symbols|mcpu=|O[0-3]|-mattr=|-debugger-tune=\w+$)"
)
_PLUGIN_OPTION = re.compile(r"^--?plugin-opt=")  # clang 15 writes both
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BANNER = re.compile(
    r"([^:]*clang version |Target: |Thread model: |InstalledDir: |Configuration file: "
    r"|System configuration file directory: |User configuration file directory: |Build config: "
    r"| \(in-process\)$|Found candidate |Selected |Candidate multilib: )"
)


@dataclass(frozen=True)
class Cc1Job:
    """One pass of the compiler proper. `options` are all of its words after the program."""

    program: str
    options: tuple[Option, ...]

    def value(self, role: Role, name: str = "") -> str:
        """The value of the last option with this role (and name); empty if there is none."""
        found = [o.value for o in self.options if o.role is role and (not name or o.name == name)]
        return found[-1] if found else ""


@dataclass(frozen=True)
class ToolJob:
    """lld or clang-offload-bundler: `arguments` hold the names of temporary files in the driver's plan."""

    program: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class DevicePass:
    """What makes the code object of one offload arch: `compile` writes `obj`, `link` turns it into `code`."""

    arch: str
    compile: Cc1Job
    link: ToolJob
    obj: str
    code: str


@dataclass(frozen=True)
class Plan:
    """A HIP compile as the driver means to run it. `messages`: what the driver itself said, as printed; `clang`: its
    major version (0: not known)."""

    devices: tuple[DevicePass, ...]
    bundle: ToolJob
    fat_binary: str
    host: Cc1Job
    messages: str
    clang: int = 0


def parse(text: str) -> Plan:
    """Raises PassThrough where the jobs do not have the shape above."""
    jobs, messages = _split(text)
    device_cc1: list[Cc1Job] = []
    hosts: list[Cc1Job] = []
    links: list[ToolJob] = []
    bundles: list[ToolJob] = []
    for words in jobs:
        program, arguments = words[0], words[1:]
        name = program.rsplit("/", 1)[-1]
        if arguments[:1] == ("-cc1",):
            job = Cc1Job(program, cc1.parse(arguments))
            (device_cc1 if "-fcuda-is-device" in arguments else hosts).append(job)
        elif re.match(r"(ld\.)?lld", name):
            links.append(ToolJob(program, _known_link(arguments)))
        elif name.startswith("clang-offload-bundler"):
            bundles.append(ToolJob(program, arguments))
        else:
            raise PassThrough("plan", f"a job of '{name}'")
    if len(hosts) != 1 or len(bundles) != 1 or len(links) != len(device_cc1) or not links:
        raise PassThrough(
            "plan",
            f"{len(device_cc1)} device passes, {len(links)} device links, {len(bundles)} bundles, {len(hosts)} hosts",
        )
    host, bundle = hosts[0], bundles[0]
    fat_binary = host.value(Role.GPUBINARY)
    targets, inputs, output = _bundle_files(bundle)
    if output != fat_binary:
        raise PassThrough("plan", "the host does not embed what the bundler writes")
    by_output = {job.value(Role.OUTPUT): job for job in device_cc1}
    by_code = {_link_output(job): job for job in links}
    devices = []
    for arch, code in _device_targets(targets, inputs):
        link = by_code.pop(code, None)
        obj = next((word for word in link.arguments if word in by_output), None) if link else None
        if link is None or obj is None:
            raise PassThrough("plan", f"no device pass writes the code object of {arch}")
        devices.append(DevicePass(arch, by_output.pop(obj), link, obj, code))
    if by_output or by_code:
        raise PassThrough("plan", "a device pass whose output is not bundled")
    version = re.search(r"^[^\n\":]*clang version (\d+)\.", text, re.MULTILINE)
    return Plan(tuple(devices), bundle, fat_binary, host, messages, int(version.group(1)) if version else 0)


def _split(text: str) -> tuple[list[tuple[str, ...]], str]:
    jobs, messages = [], []
    for line in text.splitlines(keepends=True):
        if line.startswith(' "'):
            words = tuple(_ESCAPE.sub(r"\1", word) for word in _WORD.findall(line))
            if not words:
                raise PassThrough("plan", "a line that is no command")
            jobs.append(words)
        elif not _BANNER.match(line) and line.strip():
            messages.append(line)
    return jobs, "".join(messages)


def _known_link(arguments: tuple[str, ...]) -> tuple[str, ...]:
    for word in arguments:
        if not _LINK_WORDS.match(word):
            option = _PLUGIN_OPTION.sub("", word, count=1)
            if option == word or cc1.REFUSED_LLVM.search(option):
                raise PassThrough("linker_option", word)
    return arguments


def _link_output(job: ToolJob) -> str:
    for word, value in zip(job.arguments, job.arguments[1:], strict=False):
        if word == "-o":
            return value
    raise PassThrough("plan", "a device link without -o")


def _bundle_files(job: ToolJob) -> tuple[list[str], list[str], str]:
    targets: list[str] = []
    inputs: list[str] = []
    output = ""
    for word in job.arguments:
        name, _, value = word.lstrip("-").partition("=")
        if name == "targets":
            targets = value.split(",")
        elif name in ("input", "inputs"):
            inputs += value.split(",") if name == "inputs" else [value]
        elif name in ("output", "outputs"):
            output = value
        elif name not in ("type", "bundle-align"):
            raise PassThrough("plan", f"the bundler's option '{word}'")
    if len(targets) != len(inputs):
        raise PassThrough("plan", "the bundler's targets and inputs differ in number")
    return targets, inputs, output


def _device_targets(targets: list[str], inputs: list[str]) -> list[tuple[str, str]]:
    """(offload arch, code object) of each device target; the host's input must be empty."""
    devices = []
    for target, path in zip(targets, inputs, strict=True):
        if target.startswith("host-"):
            if path != "/dev/null":
                raise PassThrough("plan", "the bundle has a host part")
        else:
            devices.append((target.rsplit("--", 1)[-1], path))
    return devices
