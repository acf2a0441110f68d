"""The plan of a compile: from the driver's jobs to the shape of a HIP compile.

    for each offload arch:  cc1 (device) -> lld -> code object     (-foffload-lto: by way of bitcode)
    clang-offload-bundler                       -> fat binary
    cc1 (host), which embeds the fat binary     -> object

Other command lines give parts of that, or other outputs:

    one side alone               the device passes (their bundle, or each its own output), or the host pass
    -fgpu-rdc, -S, -emit-llvm, -E  device passes without lld; the bundle of theirs and the host's is the output
    -fgpu-rdc, the new driver    device passes without lld; clang-offload-packager's package, which the host embeds
    -fgpu-rdc, linked at once    device passes without lld, and the host's pass, each with an output of its own
    -flto                        a host pass that embeds the fat binary in bitcode
    amdgcnspirv                  cc1 -> llvm-link -> llvm-spirv (since 23 cc1 again) -> code, in the fat binary

Jobs are connected by the files that they read and write, not by their order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from hipcache.base.errors import PassThrough
from hipcache.base.paths import is_stream
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.clang import cc1, jobs
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.driver_options import Side
from hipcache.clang.jobs import Cc1Job, ToolJob, clang_version, split

_FEATURES = {f"-m{no}{name}": sign + name for name in ("xnack", "sramecc") for no, sign in (("", "+"), ("no-", "-"))}

# From the driver's jobs to those of the shapes above.
Flat = Callable[[Iterable[tuple[str, ...]]], Iterable[tuple[str, ...]]]

# The name of a temporary file with preprocessed text.
_TEXT = pattern(r"^/.*-[0-9a-f]{6}\.hipi$")
# A link that makes code from bitcode reads it. The link of a compile does not; its key has the content.
_PROFILE = "-plugin-opt=cs-profile-path="
_OF_LTO = pattern(r"--?plugin-opt=(dwo_dir|opt-remarks-filename)=")


@dataclass(frozen=True)
class DevicePass:
    """The jobs that make the code of one offload arch: `compile` writes `obj`, `link` turns it into `code`. Without a
    link (bitcode, assembly) both names are one."""

    arch: str
    compile: Cc1Job
    link: ToolJob | None
    obj: str
    code: str

    @property
    def by_lto(self) -> bool:
        """Does its link make the code, from bitcode (LTO)?"""
        return self.link is not None and self.compile.emits == "-emit-llvm-bc"


@dataclass(frozen=True)
class SpirvPass:
    """The jobs that make an arch's SPIR-V (amdgcnspirv), with the files that each reads and writes. The last one writes
    `code`. In the bitcode stands the command of its pass, so these run as the driver wrote them."""

    arch: str
    compile: Cc1Job
    jobs: tuple[ToolJob, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def code(self) -> str:
        return self.files[-1][1]


@dataclass(frozen=True)
class Plan:
    """A HIP compile as the driver means to run it. `bundle` writes `bundled`, which the host embeds, or which is the
    output. `messages`: what the driver itself said, as printed; `clang`: its major version (0: not known); `order`:
    what passes and links write, as they run; `in_order`: do the passes run as they are listed here, the host's last?
    `spirv`: of the fat binary, what is no device pass."""

    devices: tuple[DevicePass, ...]
    bundle: ToolJob | None
    bundled: str
    host: Cc1Job | None
    messages: str
    clang: int = 0
    order: tuple[str, ...] = ()
    in_order: bool = True
    spirv: SpirvPass | None = None

    @property
    def embeds(self) -> bool:
        """Does the host's object hold the bundle?"""
        return self.host is not None and any(option.role is Role.GPUBINARY for option in self.host.options)

    @property
    def first(self) -> Cc1Job:
        """The pass that represents all, if they agree: which dependency file they write."""
        return self.host or self.devices[0].compile

    @property
    def passes(self) -> list[Cc1Job]:
        """Those of the devices, and the host's."""
        return [*(device.compile for device in self.devices), *([self.host] if self.host else [])]

    @property
    def dependency_file(self) -> str:
        """The dependency file, as the command names it; empty if none is written."""
        return self.first.value(Role.DEPENDENCIES, "-dependency-file")

    @property
    def delivered(self) -> tuple[DevicePass, ...]:
        """Whose outputs are the user's. The new driver preprocesses for devices and keeps the host's text alone."""
        texts = self.host is not None and self.host.emits == "-E"
        return tuple(device for device in self.devices if not (texts and _TEXT.search(device.code)))

    @property
    def links_alone(self) -> bool:
        """Does lld write the outputs? (It makes them executable.)"""
        return self.bundle is None and self.host is None and any(device.link for device in self.devices)

    @property
    def in_place(self) -> bool:
        """Is the output written into a file that is there already? The bundler does so. (cc1 and lld replace it, as
        does llvm-objcopy, which makes the bundle of an object of the host's.)"""
        objcopy = self.host is not None and self.host.emits == "-emit-obj"
        return self.bundle is not None and not self.embeds and not objcopy

    @property
    def jobs(self) -> int:
        """The number of processes that the driver would run."""
        links = sum(device.link is not None for device in self.devices)
        spirv = len(self.spirv.jobs) if self.spirv else 0
        return len(self.devices) + links + spirv + (self.bundle is not None) + (self.host is not None)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The user's output files; one per pass if no job combines them, the host's last."""
        if self.bundle and not self.embeds:
            return (self.bundled,)
        devices = () if self.bundle else tuple(device.code for device in self.delivered)
        return (*devices, self.host.value(Role.OUTPUT)) if self.host else devices


def parse(text: str, side: Side = Side.BOTH, flat: Flat = list) -> Plan:
    """The plan for `side`. `flat`: as `dry_run.flat`. Raises PassThrough if the jobs do not have one of the shapes
    above."""
    jobs, messages = split(text)
    return of_jobs(flat(jobs), side, messages, clang_version(text))


def of_jobs(
    jobs: Iterable[tuple[str, ...]], side: Side, messages: str, version: int, *, unbundled: bool = False
) -> Plan:
    """The same of jobs that are taken apart already. `version`: clang's, as `clang_version` gives it; `unbundled`:
    does a link bring together what the passes write?"""
    passes_as_run: list[Cc1Job] = []
    device_cc1: list[Cc1Job] = []
    hosts: list[Cc1Job] = []
    links: list[ToolJob] = []
    bundles: list[ToolJob] = []
    order: list[str] = []
    translating: list[ToolJob] = []
    for words in jobs:
        program, arguments = words[0], words[1:]
        name = program.rsplit("/", 1)[-1]
        if _TRANSLATORS.match(name) or arguments[1:3] == ("-triple", _SPIRV) or f"-triple={_SPIRV}" in arguments:
            translating.append(ToolJob(program, arguments))
            order.append(_link_output(translating[-1]))
        elif arguments[:1] == ("-cc1",):
            job = Cc1Job(program, cc1.parse(arguments))
            if sum(option.role is Role.EMIT for option in job.options) != 1:
                raise PassThrough("plan", "a cc1 job without one kind of output")
            (device_cc1 if "-fcuda-is-device" in arguments else hosts).append(job)
            passes_as_run.append(job)
            order.append(job.value(Role.OUTPUT))
        elif re.match(r"(ld\.)?lld", name):
            links.append(ToolJob(program, arguments))
            order.append(_link_output(links[-1]))
        elif name.startswith(("clang-offload-bundler", "clang-offload-packager", "llvm-offload-binary")):
            bundles.append(ToolJob(program, arguments))
        else:
            raise PassThrough("plan", f"a job of '{name}'")
    spirv = _spirv_pass(translating) if translating else None
    if len(hosts) > 1 or len(bundles) > 1 or not (hosts or device_cc1):
        raise PassThrough(
            "plan",
            f"{len(device_cc1)} device passes, {len(links)} device links, {len(bundles)} bundles, {len(hosts)} hosts",
        )
    passes = _device_passes(device_cc1, links)
    if len({device.arch for device in passes.values()}) != len(passes):
        raise PassThrough("plan", "two device passes of one architecture")
    host, bundle = hosts[0] if hosts else None, bundles[0] if bundles else None
    if host and host.emits == "-E" and not bundle:  # It is given the text of a device, and has no use for it.
        host = replace(host, options=tuple(option for option in host.options if option.role is not Role.GPUBINARY))
    plan = Plan(tuple(passes.values()), None, "", host, messages, version, tuple(order), spirv=spirv)
    if bundle is None and plan.embeds:
        raise PassThrough("plan", "the host pass embeds a file that no job bundles")
    if bundle is not None:
        targets, inputs, output = _bundle_files(bundle)
        bundled_host = _bundled_host(targets, inputs, {*passes, *([spirv.code] if spirv else [])})
        plan = replace(plan, bundle=bundle, bundled=output)
        if plan.embeds and host and host.value(Role.GPUBINARY) != output:
            raise PassThrough("plan", "the host pass does not embed the bundler's output")
        if bundled_host not in (("/dev/null", "") if plan.embeds or not host else (host.value(Role.OUTPUT),)):
            raise PassThrough("plan", f"the bundle's host part is '{bundled_host}'")
    _check_side(plan, side, unbundled=unbundled)
    _check_outputs(plan)
    return _in_order(plan, passes_as_run)


def _device_passes(compiles: list[Cc1Job], links: list[ToolJob]) -> dict[str, DevicePass]:
    """Each device pass, by the name of its output."""
    passes: dict[str, DevicePass] = {}
    objects = {job.value(Role.OUTPUT): job for job in compiles}
    for link in links:
        obj = next((word for word in link.arguments if word in objects), None)
        if obj is None or objects[obj].emits not in ("-emit-obj", "-emit-llvm-bc"):
            raise PassThrough("plan", "a device link whose input no device pass writes")
        job = objects.pop(obj)
        code = _link_output(link)
        passes[code] = DevicePass(_arch(job), job, _as_run(link, job), obj, code)
    for obj, job in objects.items():
        if job.emits == "-emit-obj":
            raise PassThrough("plan", "a device pass whose object is not linked")
        passes[obj] = DevicePass(_arch(job), job, None, obj, obj)
    if len(passes) != len(compiles):
        raise PassThrough("plan", "two device passes with one output")
    # In the order of the passes, not of the links.
    order = [job.value(Role.OUTPUT) for job in compiles]
    return dict(sorted(passes.items(), key=lambda item: order.index(item[1].obj)))


# Their words, apart from files.
_SPIRV = "spirv64-amd-amdhsa"
_TRANSLATORS = pattern(r"llvm-link$|(amd-)?llvm-spirv(-\d+)?$")
_TRANSLATES = pattern(rf"-cc1$|-triple={_SPIRV}$|-emit-obj$|-disable-llvm-optzns$|--spirv-[\w-]+(=[\w.+-]+)?$")
_OF_SPIRV = ("-fembed-bitcode=marker", "-disable-llvm-optzns", "-disable-llvm-passes")


def _spirv_pass(translating: list[ToolJob]) -> SpirvPass:
    """Raises PassThrough."""
    if len(translating) != 3 or translating[0].arguments[:1] != ("-cc1",):
        raise PassThrough("plan", f"SPIR-V by {len(translating)} jobs")
    compile = Cc1Job(
        translating[0].program, cc1.parse(tuple(word for word in translating[0].arguments if word not in _OF_SPIRV))
    )
    files = [(compile.source, compile.value(Role.OUTPUT))]
    for job in translating[1:]:
        read, written = files[-1][1], _link_output(job)
        others = [word for word in job.arguments if not _TRANSLATES.match(word)]
        if sorted(others) != sorted(["-o", written, read]):
            raise PassThrough("plan", f"SPIR-V by '{os.path.basename(job.program)} {' '.join(job.arguments)}'")
        files.append((read, written))
    if compile.emits != "-emit-llvm-bc" or side_outputs(compile):
        raise PassThrough("plan", "SPIR-V from other than bitcode alone")
    return SpirvPass("amdgcnspirv", compile, tuple(translating), tuple(files))


def _as_run(link: ToolJob, job: Cc1Job) -> ToolJob:
    """The link without the names of files that only LTO writes: there is none for an object. For bitcode they are left
    beside the temporary files, and the code object names them."""
    of_lto = [word for word in link.arguments if _OF_LTO.match(word)]
    if of_lto and (job.emits != "-emit-obj" or "--fat-lto-objects" in link.arguments):
        raise PassThrough("temporary_names", f"LTO of device code with {of_lto[0].partition('=/')[0]}")
    words = tuple(word for word in link.arguments if word not in of_lto)
    jobs.known_link(tuple(word for word in words if not word.startswith(_PROFILE)))
    return ToolJob(link.program, words)


def _arch(job: Cc1Job) -> str:
    """The offload arch (clang's target ID) of a device pass."""
    # Since 24 the triple has the processor (amdgpu9.42-amd-amdhsa), and features are options (-mno-xnack).
    version = job.value(Role.PLAIN, "-triple").partition("-")[0].removeprefix("amdgpu").replace(".", "")
    words = [o.value if o.name == "-target-feature" else _FEATURES.get(o.name, "") for o in job.options]
    features = {word for word in words if word[1:] in ("sramecc", "xnack")}
    return ":".join([job.value(Role.PLAIN, "-target-cpu") or f"gfx{version}", *sorted(f[1:] + f[0] for f in features)])


def _check_side(plan: Plan, side: Side, *, unbundled: bool) -> None:
    """A plan with a missing job must not look like another kind of plan."""
    if plan.spirv and not (plan.embeds and plan.host and plan.host.emits == "-emit-obj"):
        raise PassThrough("plan", "SPIR-V that is not embedded in an object")
    has_devices = bool(plan.devices or plan.spirv)
    if (plan.host is not None, has_devices) != (side is not Side.DEVICE, side is not Side.HOST):
        raise PassThrough("plan", f"{len(plan.devices)} device passes, {'one host' if plan.host else 'no host'}")
    if side is Side.BOTH and plan.delivered and (plan.bundle is None) != unbundled:
        raise PassThrough("plan", "no job combines the device passes with the host pass")


def _check_outputs(plan: Plan) -> None:
    if "-" in plan.outputs:
        raise PassThrough("standard_streams", "it writes to standard output")
    if "" in plan.outputs or len(set(plan.outputs)) != len(plan.outputs):
        raise PassThrough("plan", "outputs without a name of their own")
    # (Clang 22 tells the host's pass alone to write one.)
    writers = [job for job in plan.passes if job.value(Role.DEPENDENCIES, "-dependency-file")]
    rules = {tuple(o.text for o in job.options if o.role is Role.DEPENDENCIES) for job in writers}
    if len(rules) > 1 or (writers and plan.first not in writers):
        raise PassThrough("plan", "passes that write different dependency files")


def _in_order(plan: Plan, passes: list[Cc1Job]) -> Plan:
    """If several passes write the same second file, the last one's stays."""
    if passes != plan.passes and any(map(side_outputs, passes)):
        raise PassThrough("plan", "passes in another order than their outputs")
    return replace(plan, in_order=passes == plan.passes)


def _link_output(job: ToolJob) -> str:
    for word, value in zip(job.arguments, job.arguments[1:], strict=False):
        if word == "-o":
            return value
    raise PassThrough("plan", "a device link without -o")


def _bundle_files(job: ToolJob) -> tuple[list[str], list[str], str]:
    targets: list[str] = []
    inputs: list[str] = []
    output = ""
    if job.arguments[:1] == ("-o",):
        return _package_files(job)
    for word in job.arguments:
        name, _, value = word.lstrip("-").partition("=")
        if name == "targets":
            targets = value.split(",")
        elif name in ("input", "inputs"):
            inputs += value.split(",") if name == "inputs" else [value]
        elif name in ("output", "outputs"):
            output = value
        elif name not in ("type", "bundle-align", "compress", "compression-level"):
            raise PassThrough("plan", f"the bundler's option '{word}'")
    if len(targets) != len(inputs):
        raise PassThrough("plan", "the bundler's targets and inputs differ in number")
    return targets, inputs, output


def _package_files(job: ToolJob) -> tuple[list[str], list[str], str]:
    """The same of clang-offload-packager: `-o FILE --image=file=FILE,triple=...,arch=...,kind=hip` for each arch."""
    output, images = job.arguments[1:2], job.arguments[2:]
    targets, inputs = [], []
    for word in images:
        option, _, fields = word.partition("=")
        image = dict(field.partition("=")[::2] for field in fields.split(","))
        if option != "--image" or set(image) | {"feature"} != {"file", "triple", "arch", "kind", "feature"}:
            raise PassThrough("plan", f"the packager's option '{word}'")
        targets.append(image["arch"])
        inputs.append(image["file"])
    return targets, inputs, "".join(output)


def _bundled_host(targets: list[str], inputs: list[str], codes: set[str]) -> str:
    """The bundle's host part. All else in it must be the device passes'."""
    host, rest = "", set(codes)
    for target, path in zip(targets, inputs, strict=True):
        if target.startswith("host-"):
            host = path
        elif path in rest:
            rest.remove(path)
        else:
            raise PassThrough("plan", f"no device pass writes what is bundled for '{target}'")
    if rest:
        raise PassThrough("plan", "a device pass whose output is not bundled")
    return host


def with_cuid(found: Plan, cuid: str) -> Plan:
    """The plan with another CUID, if it has one."""
    option = Option(Role.CUID, "-cuid=", cuid, (f"-cuid={cuid}",))
    devices = tuple(replace(device, compile=with_option(device.compile, option)) for device in found.devices)
    spirv, old = found.spirv, f"-cuid={found.first.value(Role.CUID)}"
    if spirv:
        jobs = [
            replace(job, arguments=tuple(option.text[0] if w == old else w for w in job.arguments))
            for job in spirv.jobs
        ]
        spirv = replace(spirv, jobs=tuple(jobs))
    return replace(found, devices=devices, host=with_option(found.host, option) if found.host else None, spirv=spirv)


def with_option(job: Cc1Job, option: Option) -> Cc1Job:
    """The job with `option` in the place of the one of its role, if it has one."""
    return replace(job, options=tuple(option if old.role is option.role else old for old in job.options))


# Auxiliary outputs: what a pass writes beside its output, where an option of its own names the file.
#
#     -split-dwarf-output          debug information (-gsplit-dwarf), a file for each pass
#     -opt-record-file             remarks as YAML (-fsave-optimization-record)
#     -serialize-diagnostic-file   messages (--serialize-diagnostics)
#     -stack-usage-file            sizes of stack frames (-fstack-usage)
#     -coverage-notes-file         what the counters of an object stand for (--coverage), of the host's pass
#
# All passes write remarks, messages and sizes into one file, each of them whole, one after the other: what is there in
# the end is that of the last one that wrote any. A pass without functions writes no sizes, one to bitcode no debug
# information. What is in the files has no name of theirs (but the object has that of its debug information, by another
# option): so a pass may write them elsewhere, and the user gets a copy.


def side_outputs(job: Cc1Job) -> list[Option]:
    return [option for option in job.options if option.role is Role.AUXILIARY]


def check_side_outputs(plan: Plan, path: Callable[[str], str]) -> None:
    """Raises PassThrough if what the user would get is not known. `path` makes a name absolute."""
    for job in plan.passes:
        _check_job(job)
    found = {(option.name, option.value) for job in plan.passes for option in side_outputs(job)}
    if not found:
        return
    if plan.messages and any(name == "-serialize-diagnostic-file" for name, _ in found):
        raise PassThrough("side_output", "messages of the driver and of the passes in one file")
    others = [*plan.outputs, plan.dependency_file, plan.first.value(Role.INPUT)]
    places = [os.path.realpath(path(name)) for name in others if name]
    for _, name in sorted(found):
        place = os.path.realpath(path(name))
        if name in ("", "-") or is_stream(path(name)) or place in places:
            raise PassThrough("side_output", f"into '{name}'")
        places.append(place)


def _check_job(job: Cc1Job) -> None:
    if len({option.name for option in side_outputs(job)}) < len(side_outputs(job)):
        raise PassThrough("side_output", "two options that name one file")
    names = {option.name.rstrip("=") for option in job.options}
    if "-split-dwarf-file" in names and "-split-dwarf-output" not in names:
        raise PassThrough("temporary_names", "-gsplit-dwarf=single")
    covers = any(name.startswith("-coverage-") for name in names)
    if covers and (job.emits not in ("-emit-obj", "-S") or "-ffat-lto-objects" in names):
        raise PassThrough("coverage", "the bitcode names the coverage notes file")
    formats = {option.value for option in job.options if option.name == "-opt-record-format"}
    if formats - {"yaml"}:
        raise PassThrough(
            "side_output", f"remarks in the format {' '.join(sorted(formats))}, and the object names their file"
        )
