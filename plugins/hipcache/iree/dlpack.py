"""The buffers that the installed run time of IREE hands on to other libraries (DLPack), tried on a device.

The fault of iree-org/iree#20170: before 3.3.0 `create_dlpack_capsule` raised "Unavailable HIP buffer type" for buffers
of memory type DEVICE_LOCAL of the asynchronous path, which the results of calls are. iree-org/iree#20181 mended it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, TextIO

from hipcache.errors import HipcacheError
from hipcache.iree.module import AMDGPU, HIP
from hipcache.patterns import pattern

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
