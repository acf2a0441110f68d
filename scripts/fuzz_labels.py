"""Functions of the fuzzer's sources that an asm label names like an intrinsic: of this LLVM, of an older one, with
another's type, or of nobody."""

from __future__ import annotations

import random

# Each with a type that some LLVM has given it; `local` and `global` are pointers there.
INTRINSICS = (
    ("llvm.amdgcn.ldexp.f32", "float", "float, int"),
    ("llvm.ldexp.f32.i32", "float", "float, int"),
    ("llvm.amdgcn.ds.fadd.f32", "float", "local, float, int, int, bool"),
    ("llvm.amdgcn.ds.fmax.f32", "float", "local, float, int, int, bool"),
    ("llvm.amdgcn.global.atomic.fadd.f32.p1.f32", "float", "global, float"),
    ("llvm.amdgcn.atomic.inc.i32.p0i32", "int", "int*, int, int, int, bool"),
    ("llvm.amdgcn.alignbit", "int", "int, int, int"),
    ("llvm.fshr.i32", "int", "int, int, int"),
    ("llvm.flt.rounds", "int", ""),
    ("llvm.get.rounding", "int", ""),
    ("llvm.objectsize.i64.p0i8", "long", "void*, bool"),
    ("llvm.objectsize.i64.p0", "long", "void*, bool, bool, bool"),
    ("llvm.memcpy.p0i8.p0i8.i64", "void", "void*, void*, long, int, bool"),
    ("llvm.memcpy.p0.p0.i64", "void", "void*, void*, long, bool"),
    ("llvm.ctlz.i32", "int", "int"),
    ("llvm.ctlz.i32", "int", "int, bool"),
    ("llvm.cttz.i64", "long", "long, bool"),
    ("llvm.bswap.i32", "int", "int"),
    ("llvm.fma.f32", "float", "float, float, float"),
    ("llvm.sqrt.f32", "float", "float"),
    ("llvm.amdgcn.rcp.f32", "float", "float"),
    ("llvm.amdgcn.workitem.id.x", "int", ""),
    ("llvm.x86.sse.sqrt.ss", "float", "float"),
    ("llvm.nobody.knows", "int", "int"),
)
_GIVEN = {
    "float": "p[2]",
    "int": "n",
    "long": "9l",
    "bool": "false",
    "void*": "(void*)p",
    "int*": "(int*)p",
    "local": "(local)tile",
    "global": "(global)p",
}
_TEXT = """
typedef float __attribute__((address_space(3)))* local;
typedef float __attribute__((address_space(1)))* global;
extern "C" __device__ {result} labelled({parameters}) __asm("{name}");
extern "C" __global__ void calls(float* p, int n) {{
    __shared__ float tile[4];
    tile[n & 3] = p[n];
    p[1] = ({call}) + tile[1];
}}
"""


def some(chance: random.Random) -> str:
    name, result, parameters = chance.choice(INTRINSICS)
    if chance.random() < 0.25:
        _, result, parameters = chance.choice(INTRINSICS)
    call = f"labelled({', '.join(_GIVEN[one] for one in parameters.split(', ') if one)})"
    call = f"{call}, 0" if result == "void" else call
    return _TEXT.format(result=result, parameters=parameters, name=name, call=call)
