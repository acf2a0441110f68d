"""Adds to an Environment: variables, builders, and HIP sources in the builders that are there.

    HIP_ARCHS    offload archs, a list ("gfx90a", "gfx942:xnack+", "native")
    HIPCXX       the compiler (clang++)
    HIPFLAGS     its options; SHHIPFLAGS for shared objects
    HIPPATH      the root of ROCm, where the compiler does not find it by itself
    HIPCACHE     False compiles without the cache; nothing is rebuilt for that
    HIPCOM, SHHIPCOM, HIPCOMSTR, SHHIPCOMSTR    as CXXCOM and the like
    HIPLINK      the linker of programs and libraries with relocatable device code (-fgpu-rdc), which SCons takes by
                 itself where such an object is among the sources; else LINK="$HIPLINK"
    HIPLINKFLAGS its options for device code ($HIPFLAGS)

    IREECOMPILE, IREERUNMODULE    IREE's compiler, and its program that runs a module

`env.HipRuntime()` and `CheckHip`: see below. `env.IreeModule()` and `env.IreeTest()`: see `iree`.

CPPDEFINES, CPPPATH and CPPFLAGS count as for C++.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import hipcache
import SCons.Tool
import yaml  # the engine reads its config file with it, when it is too late to look beside this tool
from hipcache.clang.command import is_relocatable
from hipcache.cli import toolchain
from hipcache.processes.runner import SubprocessRunner
from SCons.Builder import Builder
from SCons.Defaults import SharedObjectEmitter, StaticObjectEmitter
from SCons.Errors import UserError
from SCons.Util import CLVar, is_String

from hipcache_scons import ahead, cached, commands, database, link, targets
from hipcache_scons.action import HipAction

SUFFIX = ".hip"
COMPILERS = ("amdclang++", "clang++", *(f"clang++-{version}" for version in range(30, 14, -1)))

_ARCH = re.compile(r"(gfx[0-9a-f]+|gfx[0-9-]+-generic|native|amdgcnspirv)(:(sramecc|xnack)[+-]){0,2}")
# Options of a project that says where HIP is, or does without.
_WHERE = ("--rocm-", "--hip-path", "--hip-device-lib-path", "-nogpu")
_RULES = {"-MD", "-MMD", "--write-dependencies", "--write-user-dependencies"}
# Beginning of an option, and the end of a file's name that it has written.
_SIDE_FILES = (
    ("-gsplit-dwarf", ".dwo"),
    ("-fsave-optimization-record", ".opt.yaml"),
    ("-fstack-usage", ".su"),
    *((option, ".gcno") for option in ("--coverage", "-coverage", "-ftest-coverage")),
)

_KERNEL = """\
__attribute__((device)) int device(int* p) { return *p; }
int host() { return 0; }
"""
STATIC = HipAction("HIPCOM", "$HIPFLAGS")
SHARED = HipAction("SHHIPCOM", "$SHHIPFLAGS")


def exists(env: Any) -> bool:
    return bool(_compiler(env))


def generate(env: Any, **settings: Any) -> None:
    """`settings` are variables, as in `Tool("hipcache", HIP_ARCHS=["gfx90a"])(env)`."""
    env.SetDefault(
        HIP_ARCHS=[],
        HIPFLAGS=CLVar(""),
        SHHIPFLAGS=CLVar("$HIPFLAGS -fPIC"),
        HIPLINKFLAGS=CLVar("$HIPFLAGS"),
        HIPPATH="",
        HIPCACHE=True,
        CPPDEFPREFIX="-D",
        CPPDEFSUFFIX="",
        INCPREFIX="-I",
        INCSUFFIX="",
    )
    env.Replace(**settings)
    if not env.get("HIPCXX"):
        env["HIPCXX"] = _compiler(env) or "clang++"
    env["_HIPTARGETFLAGS"] = _target_flags
    flags = "$_HIPTARGETFLAGS {} $CPPFLAGS $_CPPDEFFLAGS $_CPPINCFLAGS -x hip $SOURCES"
    env["HIPCOM"] = "$HIPCXX -o $TARGET -c " + flags.format("$HIPFLAGS")
    env["SHHIPCOM"] = "$HIPCXX -o $TARGET -c " + flags.format("$SHHIPFLAGS")
    env["HIPLINK"] = "$HIPCXX --hip-link -fgpu-rdc $_HIPTARGETFLAGS $HIPLINKFLAGS"

    # The C scanner finds headers that must be built, or copied into a variant directory, first.
    SCons.Tool.SourceFileScanner.add_scanner(SUFFIX, SCons.Tool.CScanner)
    for builder, action, emitter in zip(
        SCons.Tool.createObjBuilders(env), (STATIC, SHARED), (_static, _shared), strict=True
    ):
        builder.add_action(SUFFIX, action)
        builder.add_emitter(SUFFIX, emitter)
    env["BUILDERS"]["HipObject"] = _builder(STATIC, _static, "$OBJPREFIX", "$OBJSUFFIX")
    env["BUILDERS"]["SharedHipObject"] = _builder(SHARED, _shared, "$SHOBJPREFIX", "$SHOBJSUFFIX")
    if "SMARTLINK" in env and not isinstance(env["SMARTLINK"], _SmartLink):
        env["SMARTLINK"] = _SmartLink(env["SMARTLINK"])
    link.install(env)
    env.AddMethod(HipRuntime)
    targets.install(env)
    if find_spec("hipcache.iree"):
        from hipcache_scons import iree

        iree.install(env)
    if cached.is_wanted(env):
        # Says now, while the SConstruct is read, what keeps it from caching.
        cache = cached.open_cache(commands.environment(env))
        program = shutil.which("hipcache") if cache.config.cxx_cache else None
        if program:
            _hand_over(env, program)


def _root(env: Any) -> str:
    """HIPPATH, which may be a node, or None, as `os.environ.get("ROCM_PATH")` gives it."""
    return str(env.subst(str(env.get("HIPPATH") or "")))


def HipRuntime(env: Any) -> None:
    """HIP's runtime for what is no HIP, as `hip_dep` of the Meson subproject: have C++ sources of `env` find HIP's
    headers, and its links HIP's runtime library: those of HIPPATH, else where the C++ compiler looks by itself. HIP
    sources need neither, and their commands stay as they are."""
    flags = ["-D__HIP_PLATFORM_AMD__=1"]
    path = _root(env)
    if path not in ("", "/usr"):
        # As of the system: these headers warn, and stand behind the project's own.
        flags += ["-isystem", f"{path}/include"]
        env.Append(LIBPATH=[f"{path}/lib"])
    env.Append(CXXFLAGS=flags, LIBS=["amdhip64"])


def CheckHip(context: Any, header: str | None = None) -> bool:
    """Can HIPCXX compile a kernel for all of HIP_ARCHS? `header`: one that it must find, such as
    "hip/hip_runtime.h". A test for `Configure`: `conf = env.Configure(custom_tests={"CheckHip": CheckHip})`, then
    `conf.CheckHip()`."""
    context.Message(f"Checking for HIP{f' header {header}' if header else ''}... ")
    include = f"#include <{header}>\n" if header else ""
    found = context.TryCompile(include + _KERNEL, ".hip")
    context.Result(found)
    return bool(found)


def _hand_over(env: Any, program: str) -> None:
    """C and C++ to the cache that HIPCACHE_CXX_CACHE names, which `program` calls; no object is built anew for it. Both
    programs need the settings and HOME of the user."""
    env["ENV"] = {**cached.STARTED_WITH, **env["ENV"]}
    for name in ("CCCOM", "SHCCCOM", "CXXCOM", "SHCXXCOM"):
        command = env.get(name)
        if is_String(command) and not command.startswith("$( "):
            env[name] = f"$( {program} $) {command}"


def _builder(action: HipAction, emitter: Callable[..., Any], prefix: str, suffix: str) -> Any:
    return Builder(
        action=action,
        emitter=emitter,
        prefix=prefix,
        suffix=suffix,
        src_suffix=SUFFIX,
        source_scanner=SCons.Tool.SourceFileScanner,
        single_source=True,
    )


def _compiler(env: Any) -> str:
    path = _root(env)
    if path:
        for name in ("amdclang++", "clang++"):
            for directory in (f"{path}/llvm/bin", f"{path}/bin"):
                found = env.WhereIs(name, directory)
                if found:
                    return str(found)
    return _clang_of_hipcc(_environment(env)) or next((name for name in COMPILERS if env.WhereIs(name)), "")


def _environment(env: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(commands.environment(env).items()))


@cache
def _clang_of_hipcc(environ: tuple[tuple[str, str], ...]) -> str:
    return toolchain.clang_of_hipcc(toolchain.Machine(SubprocessRunner(), dict(environ)))


@cache
def _flags_for_hip(compiler: str, environ: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return toolchain.flags_for_hip(compiler, toolchain.Machine(SubprocessRunner(), dict(environ)))


def _archs(env: Any) -> list[str]:
    """HIP_ARCHS; a string, as from the command line, may hold several."""
    archs = env.get("HIP_ARCHS") or []
    words = re.split(r"[;,\s]+", env.subst(archs)) if is_String(archs) else [env.subst(str(arch)) for arch in archs]
    return list(dict.fromkeys(word for word in words if word))


def _check_archs(target: Any, env: Any) -> None:
    for arch in _archs(env):
        if not _ARCH.fullmatch(arch):
            near = f"gfx{arch}" if _ARCH.fullmatch(f"gfx{arch}") else "gfx90a"
            raise UserError(
                f"target '{target[0]}': HIP_ARCHS: '{arch}' is no offload arch\n  write it as in HIP_ARCHS=['{near}']"
            )


def _target_flags(target: Any, source: Any, env: Any, for_signature: bool) -> str:
    flags = [f"--offload-arch={arch}" for arch in _archs(env)]
    path = _root(env)
    if path:
        flags.append(f'"--rocm-path={path}"' if " " in path else f"--rocm-path={path}")
    elif not any(word.startswith(_WHERE) for word in env.subst("$HIPFLAGS $SHHIPFLAGS").split()):
        flags += _flags_for_hip(env.subst("$HIPCXX"), _environment(env))
    return " ".join(flags)


def _static(target: Any, source: Any, env: Any) -> tuple[Any, Any]:
    target, source = StaticObjectEmitter(target, source, env)
    database.note(STATIC, "CXXCOM", target, source, env)
    return _emit(target, source, env, "$HIPFLAGS")


def _shared(target: Any, source: Any, env: Any) -> tuple[Any, Any]:
    target, source = SharedObjectEmitter(target, source, env)
    database.note(SHARED, "SHCXXCOM", target, source, env)
    return _emit(target, source, env, "$SHHIPFLAGS")


def _emit(target: Any, source: Any, env: Any, variable: str) -> tuple[Any, Any]:
    _check_archs(target, env)
    cached.is_wanted(env)  # or an error, now
    # CacheDir keys a first build by what the scanner finds, which is less than what is read; and hipcache has it.
    env.NoCache(target)

    def flags(node: Any) -> tuple[str, ...]:
        """As they are by now: a variable may change until the build begins."""
        return tuple(str(word) for line in env.subst_list(variable, 0, [node], source) for word in line)

    for node in target:
        node.attributes.hip_flags = flags
        ahead.note(node)
        for name in _side_files(str(node), flags(node), _archs(env)):
            env.Clean(node, env.File(f"#/{name}" if not name.startswith("/") else name))
    return target, source


def _side_files(output: str, flags: tuple[str, ...], archs: list[str]) -> list[str]:
    """The files that the compiler writes beside the object, for `scons -c`."""
    stem = output.rpartition(".")[0] or output
    found = [f"{stem}{suffix}" for prefix, suffix in _SIDE_FILES if any(word.startswith(prefix) for word in flags)]
    if f"{stem}.dwo" in found:
        found += [f"{stem}_{arch}.dwo" for arch in archs]  # of the device passes
    if _RULES & set(flags):
        named = [after for word, after in pairwise(flags) if word == "-MF"]
        found.append((named or [word[3:] for word in flags if word.startswith("-MF")] or [f"{stem}.d"])[-1])
    found += [after for word, after in pairwise(flags) if word == "--serialize-diagnostics"]
    return found + [word.partition("=")[2] for word in flags if word.startswith("-foptimization-record-file=")]


class _SmartLink:
    """SCons links with $CXX if a source is C++; HIP is C++ too. Relocatable device code is linked by clang."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    def __call__(self, source: Any, target: Any, env: Any, for_signature: bool) -> Any:
        relocatable = [node for node in source or () if _is_relocatable(node)]
        if relocatable:
            _check_names(relocatable, target, env)
            return "$HIPLINK"
        if any(_is_hip(node) for node in source or ()):
            return "$CXX" if env.get("CXX") else "$HIPCXX"
        chosen = self._otherwise
        return chosen(source, target, env, for_signature) if callable(chosen) else chosen


def _is_hip(node: Any) -> bool:
    return getattr(node.attributes, "hip_flags", None) is not None


def _is_relocatable(node: Any) -> bool:
    """Is it an object with device code that is still to be linked? (When a program is linked SCons has forgotten how
    its sources were made, but for their attributes.)"""
    flags = getattr(node.attributes, "hip_flags", None)
    return flags is not None and is_relocatable(flags(node))


def _check_names(objects: list[Any], target: Any, env: Any) -> None:
    """Clang's old offload driver goes by the extension: it takes none out of SCons' `.os`, and says nothing."""
    name = next((str(node) for node in objects if not str(node).endswith(".o")), "")
    if name and "--offload-new-driver" not in env.subst("$HIPLINKFLAGS").split():
        raise UserError(
            f"target '{(target or ['?'])[0]}': clang takes device code out of files in .o only, not out of '{name}'\n"
            "  write env['SHOBJSUFFIX'] = '.pic.o', or use --offload-new-driver"
        )


__all__ = ["CheckHip", "HipRuntime", "exists", "generate", "hipcache", "yaml"]
