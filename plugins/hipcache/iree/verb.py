"""`hipcache iree-check MODULE...`: for which device an IREE module is built, and whether it fits the one asked for."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from hipcache.cli import FAULT, Console
from hipcache.cli.screen import plural
from hipcache.disk import atomic
from hipcache.errors import HipcacheError, nearest
from hipcache.iree import module
from hipcache.iree.module import AMDGPU, HIP, Module, Wanted
from hipcache.patterns import pattern

SUMMARY = "show which device an IREE module is built for, and check that it fits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "module", nargs="*", metavar="MODULE", help="a .vmfb file; NAME.hip.gfx942.vmfb must be for hip and gfx942"
    )
    parser.add_argument("--device", default="", help=f"the device that it must run on: {', '.join(module.DEVICES)}")
    parser.add_argument("--target", default="", help="the architecture or product that it must run on (gfx942, mi300x)")
    parser.add_argument("--manifest", default="", metavar="FILE", help="write a JSON list of the modules to FILE")
    parser.add_argument("--quiet", action="store_true", help="print only what does not fit")
    parser.add_argument("--dlpack", action="store_true", help="test which buffers the installed runtime can export")


def run(options: argparse.Namespace, console: Console) -> int:
    if options.device and options.device not in module.DEVICES:
        near = nearest(options.device, module.DEVICES)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(module.DEVICES)}"
        raise HipcacheError(f"unknown device '{options.device}'", hint)
    if not options.module and not options.dlpack:
        raise HipcacheError("no MODULE given", "write for example 'hipcache iree-check model.vmfb --device=hip'")
    status, listed = 0, []
    for path in options.module:
        made = module.read(path)
        claim = module.claimed(path)
        wanted = Wanted(options.device or claim.device, options.target or claim.target)
        why = module.misfit(made, wanted)
        if why:
            print(f"hipcache: {why}", file=console.err)
            status = FAULT
        elif not options.quiet:
            for line in _described(made):
                print(line, file=console.out)
        listed.append(_entry(made, wanted, options.manifest))
    if options.manifest and not status:
        text = json.dumps({"modules": listed}, indent=2) + "\n"
        atomic.write_whole(Path(options.manifest), text.encode())
    if options.dlpack:
        status = check(options.device or module.LOCAL_DRIVERS[0], next(iter(options.module), ""), console.out) or status
    return status


def _described(made: Module) -> list[str]:
    what = f"device {', '.join(made.devices) or 'none'}; format {', '.join(made.formats) or 'none'}"
    archs = f"; {', '.join(made.archs)}" if made.archs else ""
    count = plural(made.executables, "executable")
    flag = module.flag(made)
    lines = [f"'{made.path}': {what}{archs}; {count}"]
    return [*lines, f"  iree-run-module {flag} --module={made.path}"] if flag else lines


def _entry(made: Module, wanted: Wanted, manifest: str) -> dict[str, object]:
    name = os.path.relpath(made.path, os.path.dirname(manifest) or ".")
    return {
        "file": name,
        "device": wanted.device or (made.devices[0] if made.devices else ""),
        "target": wanted.target or (made.archs[0] if made.archs else ""),
        "architectures": list(made.archs),
        "formats": list(made.formats),
        "run": module.flag(made),
        "sha256": hashlib.sha256(Path(made.path).read_bytes()).hexdigest(),
    }


# The buffers that the installed run time of IREE hands on to other libraries (DLPack), tried on a device.
#
# The fault of iree-org/iree#20170: before 3.3.0 `create_dlpack_capsule` raised "Unavailable HIP buffer type" for
# buffers of memory type DEVICE_LOCAL of the asynchronous path, which the results of calls are. iree-org/iree#20181
# mended it.

_PACKAGE = "iree-base-runtime"
MENDED = (3, 3, 0)
_FAULT = "before 3.3.0 results of calls on hip are not exported (iree-org/iree#20170)"
# Of dlpack.h: kDLCPU, kDLROCM.
_CPU, _ROCM = 1, 10
_SIZE = 64
_TENSOR = pattern(r"tensor<((?:\d+x)*)(f16|f32|f64|i8|i16|i32|i64)>")
_TYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}


def check(device: str, module: str, out: TextIO) -> int:
    """Try it, and tell what works; 1 where something does not. `module`: whose function is called; may be empty."""
    try:
        runtime, numpy = (importlib.import_module(name) for name in ("iree.runtime", "numpy"))
        version = metadata.version(_PACKAGE)
    except (ImportError, metadata.PackageNotFoundError) as error:
        raise HipcacheError("IREE's run time is not installed here", "pip install iree-base-runtime numpy") from error
    driver = "local-task" if device == "local" else device
    try:
        opened: Any = runtime.get_device(driver)
    except (RuntimeError, ValueError) as error:
        what = str(error).splitlines()[0][:200]
        raise HipcacheError(f"IREE {version} opens no device '{driver}' here: {what}", _hint(driver)) from error
    kind = _ROCM if driver == HIP else _CPU
    print(f"IREE {version}, --device={driver}", file=out)
    failed = False
    for name, make in _buffers(runtime, numpy, opened, module):
        try:
            opened.create_dlpack_capsule(make(), kind, 0)
            end = "works"
        except Exception as error:  # the run time's own, of any kind
            end, failed = f"fails: {str(error).splitlines()[0][:200]}", True
        print(f"  {name:<30}{end}", file=out)
    told = advice(version, driver, failed=failed)
    if told:
        print(f"  {told}", file=out)
    return int(failed)


def advice(version: str, device: str, *, failed: bool) -> str:
    """The known facts about that version, in one line; empty if there are none."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if device == HIP and numbers < MENDED:
        return f"{_FAULT}: pip install '{_PACKAGE}>=3.3.0'"
    return "no fault of this version is known: tell IREE's developers" if failed else ""


def _hint(driver: str) -> str:
    if driver == AMDGPU:
        return "its packages have no driver for amdgpu: use a run time that was built with it"
    return "'iree-run-module --list_devices' lists what there is"


def _buffers(runtime: Any, numpy: Any, device: Any, module: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Kinds of buffers, and how each is made."""
    types = runtime.MemoryType
    local, visible = int(types.DEVICE_LOCAL), int(types.DEVICE_LOCAL) | int(types.HOST_VISIBLE)
    usage = int(runtime.BufferUsage.DEFAULT)

    def allocated(kind: int) -> Any:
        buffer = device.allocator.allocate_buffer(kind, usage, _SIZE)
        return runtime.HalBufferView(buffer, (_SIZE // 4,), runtime.HalElementType.FLOAT_32)

    yield "DEVICE_LOCAL", lambda: allocated(local)
    yield "DEVICE_LOCAL|HOST_VISIBLE", lambda: allocated(visible)
    if module:
        yield "the result of a call", lambda: _result(runtime, numpy, device, module)


def _result(runtime: Any, numpy: Any, device: Any, path: str) -> Any:
    """The result of the module's first function, called with zeros."""
    config = runtime.Config(device=device)
    context = runtime.SystemContext(config=config)
    loaded = runtime.VmModule.mmap(context.instance, path)
    context.add_vm_module(loaded)
    name = next(name for name in loaded.function_names if not name.startswith("__"))
    function = context.modules[loaded.name][name]
    declared = str(function.vm_function.reflection.get("iree.abi.declaration", "")).partition("->")[0]
    arguments = []
    for shape, element in _TENSOR.findall(declared):
        sizes = [int(size) for size in shape.split("x")[:-1]]
        arguments.append(runtime.asdevicearray(device, numpy.zeros(sizes, getattr(numpy, _TYPES[element]))))
    result = function(*arguments)
    return (result[0] if isinstance(result, (tuple, list)) else result)._buffer_view
