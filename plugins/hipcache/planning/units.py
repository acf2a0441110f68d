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

from hipcache.inputs.identity import Identities
from hipcache.inputs.keys import Key, make_key
from hipcache.inputs.trace import Files
from hipcache.planning import backend
from hipcache.planning.cc1 import Role
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.jobs import Cc1Job, ToolJob
from hipcache.planning.key_parts import KeyParts
from hipcache.planning.plan import DevicePass, Plan
from hipcache.planning.tools import which
from hipcache.values import dataclass

_USUAL = ("-fcuda-include-gpubinary", "-foffload-include-binary")
_OBJCOPY = "llvm-objcopy"


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
        return not backend.warns(self.front.job.options)

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """The parts of the keys of back end and link, apart from their inputs."""
        return (*self.back, *self.linking)

    def back_argv(self, bitcode: Path, obj: Path) -> list[str]:
        words = [self.front.job.program]
        for option in backend.options(self.front.job.options):
            words += option.text
        return [*words, "-o", str(obj), "-x", "ir", str(bitcode)]

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


def cut(plan: Plan, identities: Identities, files: Files, environ: Mapping[str, str]) -> Units:
    """Raises PassThrough if a tool or a file that an option names cannot be read."""
    parts = KeyParts(identities, files)
    return Units(
        tuple(_device(one, parts) for one in plan.devices),
        _host(plan.host, parts) if plan.host else None,
        _object(plan, plan.bundle, parts, files, environ) if plan.bundle else None,
    )


def _host(host: Cc1Job, parts: KeyParts) -> FrontEnd:
    # The option that embeds a fat binary names a temporary file, so it is in no key.
    embeds = [option.name for option in host.options if option.role is Role.GPUBINARY] or ["none"]
    return parts.front(
        "host", host, [] if len(embeds) == 1 and embeds[0] in _USUAL else [("fat binary", " ".join(embeds))]
    )


def _object(plan: Plan, bundle: ToolJob, parts: KeyParts, files: Files, environ: Mapping[str, str]) -> ObjectUnit:
    tools = [("bundler", parts.tool(bundle.program)), *_bundler_variables(environ)]
    host = plan.host.value(Role.OUTPUT) if plan.host and not plan.embeds else ""
    is_beside = True
    if host:
        # The bundler has an object's sections written by llvm-objcopy: the one beside it, else the one on PATH.
        beside = os.path.join(os.path.dirname(os.path.realpath(files.resolve(bundle.program))), _OBJCOPY)
        is_beside = os.access(beside, os.X_OK)
        objcopy = beside if is_beside else which(_OBJCOPY, files.resolve(""), environ)
        tools += [("objcopy", parts.tool(objcopy))] if objcopy else []
    codes = tuple(one.code for one in plan.devices)
    return ObjectUnit(bundle, codes, plan.bundled, host, is_beside, tuple(tools))


def _bundler_variables(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The variables that the bundler reads, since 18 (OFFLOAD_BUNDLER_COMPRESS)."""
    return [(f"variable {name}", environ[name]) for name in sorted(environ) if name.startswith("OFFLOAD_BUNDLER_")]


def _device(one: DevicePass, parts: KeyParts) -> DeviceUnit:
    link = parts.link(one.link, {one.obj: "object", one.code: "code object"}) if one.link else []
    auxiliary = any(option.role is Role.AUXILIARY for option in one.compile.options)
    by_option = auxiliary or backend.shows_bitcode(one.compile.options)
    in_one_step = by_option or not (one.by_lto or one.compile.emits == "-emit-obj")
    steps = [("steps", "one")] if in_one_step else []
    # The linker's part is in the front end's key too: its messages are kept there.
    front = parts.front("device", one.compile, [*link, *steps])
    back = tuple(parts.back(one.compile))
    return DeviceUnit(one.arch, front, one.link, one.obj, one.code, in_one_step, one.by_lto, back, tuple(link))
