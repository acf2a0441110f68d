"""IREE modules: one for each device and target, side by side, checked, and listed in a manifest.

    env.IreeModule("layer", "model.mlir", DEVICES=["hip", "amdgpu", "local"], TARGETS=["gfx942"], FLAGS=[...])
    env.IreeTest("check", module, ARGS=["--function=main"])

The modules are `layer.hip.gfx942.vmfb` and so on, the last node is `layer.iree.json`. A test is run with the
`--device=` that its module is built for, each time that it is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hipcache.iree.module import LOCAL_DRIVERS, claimed
from SCons.Errors import UserError
from SCons.Util import CLVar, is_List

from hipcache_scons import commands
from hipcache_scons.cached import STARTED_WITH, is_wanted

_DEVICES = ("hip", "amdgpu", "local")
_TARGET = re.compile(r"[\w+:-]+")
_SAID_OTHERWISE = re.compile(r"--?iree-(hal-target-device|hal-target-backends|rocm-target|rocm-container-type)(=|$)")


def install(env: Any) -> None:
    for variable, program in (("IREECOMPILE", "iree-compile"), ("IREERUNMODULE", "iree-run-module")):
        env.SetDefault(**{variable: _where(env, program)})
    env.AddMethod(_module, "IreeModule")
    env.AddMethod(_test, "IreeTest")


def _module(
    env: Any, name: str, source: Any, DEVICES: Sequence[str], TARGETS: Sequence[str] = (), FLAGS: Sequence[str] = ()
) -> Any:
    flags = [str(flag) for flag in CLVar(FLAGS)]
    _check(name, DEVICES, TARGETS, flags)
    hipcache = _program(env)
    launcher = hipcache if is_wanted(env) else []
    # The user's settings are those that SCons was started with, as for HIP.
    variables = {**STARTED_WITH, **commands.environment(env)}
    modules = []
    for device in DEVICES:
        for target in TARGETS if device != "local" else ("",):
            made = f"{name}.{device}.{target}.vmfb" if target else f"{name}.{device}.vmfb"
            more = [f"--iree-hal-target-device={device}"]
            more += [f"--iree-rocm-target={target}"] if target else ["--iree-hal-local-target-device-backends=llvm-cpu"]
            command = [*launcher, "$IREECOMPILE", *more, *flags, "$SOURCE", "-o", "$TARGET"]
            modules += env.Command(made, source, [command], ENV=variables)
    compiler = env.WhereIs(env.subst("$IREECOMPILE"))
    if compiler:
        env.Depends(modules, env.File(compiler))
    check = [*hipcache, "iree-check", "--quiet", "--manifest=$TARGET", "$SOURCES"]
    return [*modules, *env.Command(f"{name}.iree.json", modules, [check], ENV=variables)]


def _test(env: Any, name: str, module: Any, ARGS: Sequence[str] = ()) -> Any:
    (node,) = module if is_List(module) else [module]
    device = claimed(str(node)).device
    driver = LOCAL_DRIVERS[0] if device == "local" else device
    words = ["$IREERUNMODULE", f"--device={driver}", "--module=$SOURCE", *map(str, ARGS)]
    return env.AlwaysBuild(env.Alias(name, node, [words]))


def _check(name: str, devices: Sequence[str], targets: Sequence[str], flags: Sequence[str]) -> None:
    def refuse(what: str, hint: str) -> None:
        raise UserError(f"IreeModule '{name}': {what}\n  {hint}")

    for device in devices:
        if device not in _DEVICES:
            refuse(f"unknown device '{device}'", f"known are {', '.join(_DEVICES)}")
        if device != "local" and not targets:
            refuse(f"no TARGETS for {device}", "write for example TARGETS=['gfx942', 'gfx90a']")
    for target in targets:
        if not _TARGET.fullmatch(target):
            refuse(f"'{target}' is no target", "write one text for each: TARGETS=['gfx942', 'gfx90a']")
    for flag in flags:
        if _SAID_OTHERWISE.match(flag):
            refuse(f"FLAGS has '{flag}', which would make another module", "say it by DEVICES and TARGETS")


def _program(env: Any) -> list[str]:
    """The words that start hipcache: a program, or the engine in this Python."""
    found = _where(env, "hipcache")
    return [found] if os.path.isabs(found) else [sys.executable, "-m", "hipcache"]


def _where(env: Any, program: str) -> str:
    """On the PATH of SCons' commands, on the user's, or beside this Python."""
    beside = str(Path(sys.executable).with_name(program))
    found = env.WhereIs(program) or shutil.which(program) or (beside if os.access(beside, os.X_OK) else program)
    return str(found)
