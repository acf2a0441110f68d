"""A .vmfb as a value: for which device and architectures it was built, and what its executables really are. And
`hipcache iree-check MODULE...`, which tells that, and whether it fits the device that is asked for.

Format (IREE 3.13; runtime/src/iree/schemas/bytecode_module_def.fbs): a FlatBuffer "IREE" with its size before it (4
bytes), as it stands or as the member `module.fb` of a zip file without compression. Field 9 of it is a list of
constants (`rodata`): field 2 of each is its content, or fields 3 and 4 are where it lies behind the FlatBuffer, counted
from the next multiple of 64, and its size. The names of devices and formats are among them; an executable tells what it
is by its first bytes: `HIP1`, `AMD1`, or those of an ELF file. The message for a device that is missing has its target.

A FlatBuffer (flatbuffers.dev, "internals") has tables, vectors and texts by the numbers of their fields. All numbers
are little-endian. A table begins with the distance (4 bytes, signed) to its list of offsets: bytes of that list and of
the table (2 each), then 2 bytes for each field, 0 if it is not there. A vector is reached by 4 bytes (distance), and
begins with its length (4 bytes).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path

from hipcache.base.errors import HipcacheError, nearest
from hipcache.base.files import write_whole
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.cli import FAULT, Console
from hipcache.cli.screen import plural

HIP, AMDGPU, LOCAL = "hip", "amdgpu", "local"
# The first bytes of an executable -> the device that loads it.
_ELF = b"\x7fELF"
CONTAINERS = {b"HIP1": HIP, b"AMD1": AMDGPU}
_RODATA, _EMBEDDED, _OFFSET, _SIZE = 9, 2, 3, 4
_ALIGNMENT = 64
_DEVICE = pattern(rb'#hal\.device\.target<"([\w.-]+)"')
_KNOWN_DEVICES = frozenset([b"hip", b"amdgpu", b"local", b"cuda", b"vulkan", b"metal", b"webgpu"])
_FORMAT = pattern(rb"(rocm-hsaco-fb|gfx[0-9a-f]+[\w:+-]*|embedded-elf-\w+|system-elf-\w+|vmvx-bytecode-fb|[\w-]+-fb)$")
# In the notes of a code object: amdgcn-amd-amdhsa--gfx90a, and since LLVM 22 amdgpu9.42-amd-amdhsa-unknown-gfx942.
_ARCH = pattern(rb"-amd-amdhsa-\w*-(gfx[0-9a-f]+(?:-generic)?(?:[:][a-z]+[+-])*)")
_HINT = "compile it again; 'hipcache verify' checks what the store holds"


class BadModule(HipcacheError):
    """No module, or one that does not read."""


@dataclass(frozen=True)
class Module:
    """`devices` and `formats`: by name; `containers`: the devices that its executables are for; `archs`: of them;
    `executables`: how many there are."""

    path: str
    devices: tuple[str, ...]
    formats: tuple[str, ...]
    containers: tuple[str, ...]
    archs: tuple[str, ...]
    executables: int


def read(path: str) -> Module:
    """Raises BadModule."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise BadModule(
            f"cannot read '{path}': {error.strerror}", "name a module that iree-compile has made"
        ) from error
    if not raw:
        raise BadModule(f"'{path}' is empty", "compile it again")
    try:
        return parse(path, raw)
    except (Malformed, struct.error) as error:
        raise BadModule(f"'{path}' is damaged or truncated: {error}", _HINT) from error


def parse(path: str, raw: bytes) -> Module:
    """Raises Malformed, BadModule."""
    start = _start(path, raw)
    size = _unpack(raw, start, "I")
    end = start + 4 + size
    if end > len(raw):
        raise Malformed(f"{len(raw)} bytes, and its code alone goes to {end}")
    data = raw[start + 4 : end]
    behind = end + -end % _ALIGNMENT
    contents = [_content(raw, behind, table) for table in _root(data, b"IREE").tables(_RODATA)]
    executables = [content for content in contents if content[:4] in CONTAINERS or content.startswith(_ELF)]
    devices = _DEVICE.findall(data) or [content for content in contents if content in _KNOWN_DEVICES]
    formats = [content for content in contents if len(content) < 100 and _FORMAT.match(content)]
    archs = [arch for executable in executables for arch in _ARCH.findall(executable)]
    return Module(path, _names(devices), _names(formats), _containers(executables), _names(archs), len(executables))


def _start(path: str, raw: bytes) -> int:
    """The offset of the FlatBuffer's size."""
    if raw[8:12] == b"IREE":
        return 0
    if not raw.startswith(b"PK"):
        what = "a code object or a shared library" if raw.startswith(_ELF) else "no module of IREE"
        raise BadModule(f"'{path}' is {what}", "name a .vmfb that iree-compile has made")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as members:
            broken = members.testzip()
            if broken:
                raise Malformed(f"'{broken}' in it does not have its checksum")
            begin = members.getinfo("module.fb").header_offset
    except KeyError as error:
        raise BadModule(
            f"'{path}' is a zip file without a module", "name a .vmfb that iree-compile has made"
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise Malformed(str(error)) from error
    return begin + 30 + _unpack(raw, begin + 26, "H") + _unpack(raw, begin + 28, "H")


def _content(raw: bytes, behind: int, segment: _Table) -> bytes:
    embedded = segment.content(_EMBEDDED)
    if embedded is not None:
        return embedded.removesuffix(b"\0")
    begin, size = behind + segment.number(_OFFSET, "Q"), segment.number(_SIZE, "Q")
    if begin + size > len(raw):
        raise Malformed(f"{len(raw)} bytes, and an executable goes to {begin + size}")
    return raw[begin : begin + size]


def _containers(executables: list[bytes]) -> tuple[str, ...]:
    found = []
    for executable in executables:
        raw_code = executable.startswith(_ELF) and b"-amd-amdhsa-" in executable
        found.append("a bare code object" if raw_code else CONTAINERS.get(executable[:4], LOCAL))
    return tuple(sorted(set(found)))


def _names(found: list[bytes]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.decode("utf-8", "replace") for name in found))


class Malformed(ValueError):
    """The bytes to be read lie outside."""


@dataclass(frozen=True)
class _Table:
    data: bytes
    at: int

    def number(self, field: int, kind: str = "I") -> int:
        """0 if it is not there, as FlatBuffers have it. `kind`: of `struct`."""
        place = self._place(field)
        return _unpack(self.data, place, kind) if place else 0

    def content(self, field: int) -> bytes | None:
        """The content of a vector of bytes, or of a text."""
        place = self._place(field)
        if not place:
            return None
        begin, size = _vector(self.data, place)
        if begin + size > len(self.data):
            raise Malformed("a vector goes beyond the end")
        return self.data[begin : begin + size]

    def tables(self, field: int) -> list[_Table]:
        place = self._place(field)
        if not place:
            return []
        begin, count = _vector(self.data, place)
        if begin + 4 * count > len(self.data):
            raise Malformed("a vector goes beyond the end")
        places = range(begin, begin + 4 * count, 4)
        return [_Table(self.data, place + _unpack(self.data, place, "I")) for place in places]

    def _place(self, field: int) -> int:
        fields = self.at - _unpack(self.data, self.at, "i")
        if _unpack(self.data, fields, "H") < 4 + 2 * (field + 1):
            return 0
        offset = _unpack(self.data, fields + 4 + 2 * field, "H")
        return self.at + offset if offset else 0


def _root(data: bytes, identifier: bytes) -> _Table:
    if data[4:8] != identifier:
        raise Malformed(f"it has no identifier '{identifier.decode()}'")
    return _Table(data, _unpack(data, 0, "I"))


def _unpack(data: bytes, at: int, kind: str) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(f"<{kind}"):
        raise Malformed("an offset leads outside")
    found: int = struct.unpack_from(f"<{kind}", data, at)[0]
    return found


def _vector(data: bytes, place: int) -> tuple[int, int]:
    begin = place + _unpack(data, place, "I")
    return begin + 4, _unpack(data, begin, "I")


# iree-compile's names for the targets of products (IREE 3.13).
PRODUCTS = {
    **dict.fromkeys(["mi100", "cdna1"], "gfx908"),
    **dict.fromkeys(["mi210", "mi250", "mi250x", "cdna2"], "gfx90a"),
    **dict.fromkeys(["mi300a", "mi300x", "mi308x", "mi325x", "cdna3"], "gfx942"),
    **dict.fromkeys(["mi350x", "mi355x", "cdna4"], "gfx950"),
    **dict.fromkeys(["rx7900xt", "rx7900xtx", "w7800", "w7900"], "gfx1100"),
    **dict.fromkeys(["rx7700xt", "rx7800xt", "v710", "w7700"], "gfx1101"),
    **dict.fromkeys(["rx9060xt"], "gfx1200"),
    **dict.fromkeys(["rx9070", "rx9070xt", "r9700"], "gfx1201"),
}
# Names of iree-run-module's drivers for the processor.
LOCAL_DRIVERS = ("local-task", "local-sync")
DEVICES = (HIP, AMDGPU, LOCAL, *LOCAL_DRIVERS)
# NAME.DEVICE.TARGET.vmfb: what a module's own name says of it.
_CLAIM = pattern(r"\.(hip|amdgpu|local)(?:\.([\w+:-]+))?\.vmfb$")


@dataclass(frozen=True)
class Wanted:
    """`device` and `target` may be empty: then any will do."""

    device: str = ""
    target: str = ""


def claimed(path: str) -> Wanted:
    found = _CLAIM.search(path)
    return Wanted(found[1], found[2] or "") if found else Wanted()


def flag(module: Module) -> str:
    """The option for iree-run-module; empty if it is not clear."""
    device = module.devices[0] if len(module.devices) == 1 else ""
    return f"--device={LOCAL_DRIVERS[0] if device == LOCAL else device}" if device else ""


def misfit(module: Module, wanted: Wanted) -> str:
    """The reason why it does not fit, in one line; empty if it fits."""
    name = f"'{module.path}'"
    disagreement = _disagreement(module)
    if disagreement:
        return f"{name} {disagreement}"
    device = LOCAL if wanted.device in LOCAL_DRIVERS else wanted.device
    if device and module.devices and device not in module.devices:
        return (
            f"{name} is built for {described(module)}, not for {wanted.device}: run it with {flag(module)}, "
            f"or compile it with --iree-hal-target-device={device}"
        )
    arch = PRODUCTS.get(wanted.target.lower(), wanted.target)
    if arch and module.archs and arch not in module.archs:
        return (
            f"{name} is built for {' '.join(module.archs)}, not for {wanted.target}: "
            f"compile it with --iree-rocm-target={wanted.target}"
        )
    return ""


def _disagreement(module: Module) -> str:
    """Between the device that it asks for and the executables that it has for it."""
    for device, other in ((HIP, AMDGPU), (AMDGPU, HIP)):
        if module.devices == (device,):
            wrong = [container for container in module.containers if container != device]
            if wrong:
                held = f"a container of {other}" if other in wrong else wrong[0]
                return (
                    f"asks for {device} and holds {held}, so that nothing loads it: "
                    "compile it again without --iree-rocm-container-type"
                )
    return ""


def described(module: Module) -> str:
    """ "hip gfx942"."""
    return " ".join([*(module.devices or ("no device",)), *module.archs])


SUMMARY = "show which device an IREE module is built for, and check that it fits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "module", nargs="*", metavar="MODULE", help="a .vmfb file; NAME.hip.gfx942.vmfb must be for hip and gfx942"
    )
    parser.add_argument("--device", default="", help=f"the device that it must run on: {', '.join(DEVICES)}")
    parser.add_argument("--target", default="", help="the architecture or product that it must run on (gfx942, mi300x)")
    parser.add_argument("--manifest", default="", metavar="FILE", help="write a JSON list of the modules to FILE")
    parser.add_argument("--quiet", action="store_true", help="print only what does not fit")


def run(options: argparse.Namespace, console: Console) -> int:
    if options.device and options.device not in DEVICES:
        near = nearest(options.device, DEVICES)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(DEVICES)}"
        raise HipcacheError(f"unknown device '{options.device}'", hint)
    if not options.module:
        raise HipcacheError("no MODULE given", "write for example 'hipcache iree-check model.vmfb --device=hip'")
    status, listed = 0, []
    for path in options.module:
        made = read(path)
        claim = claimed(path)
        wanted = Wanted(options.device or claim.device, options.target or claim.target)
        why = misfit(made, wanted)
        if why:
            print(f"hipcache: {why}", file=console.err)
            status = FAULT
        elif not options.quiet:
            for line in _lines(made):
                print(line, file=console.out)
        listed.append(_entry(made, wanted, options.manifest))
    if options.manifest and not status:
        text = json.dumps({"modules": listed}, indent=2) + "\n"
        write_whole(Path(options.manifest), text.encode())
    return status


def _lines(made: Module) -> list[str]:
    what = f"device {', '.join(made.devices) or 'none'}; format {', '.join(made.formats) or 'none'}"
    archs = f"; {', '.join(made.archs)}" if made.archs else ""
    count = plural(made.executables, "executable")
    option = flag(made)
    lines = [f"'{made.path}': {what}{archs}; {count}"]
    return [*lines, f"  iree-run-module {option} --module={made.path}"] if option else lines


def _entry(made: Module, wanted: Wanted, manifest: str) -> dict[str, object]:
    name = os.path.relpath(made.path, os.path.dirname(manifest) or ".")
    return {
        "file": name,
        "device": wanted.device or (made.devices[0] if made.devices else ""),
        "target": wanted.target or (made.archs[0] if made.archs else ""),
        "architectures": list(made.archs),
        "formats": list(made.formats),
        "run": flag(made),
        "sha256": hashlib.sha256(Path(made.path).read_bytes()).hexdigest(),
    }
