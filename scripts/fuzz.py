#!/usr/bin/env python3
"""Plain clang and hipcache side by side on random compiles and links: whatever differs is a fault of hipcache.

    scripts/fuzz.py [--seed N] [--count N] [--seconds S] [--real] [--assembler | --links | --preambles]
                    [--compiler CLANG] [--launcher WORD...] [--keep DIR]

A case is a seed. It writes a small project, chooses a compiler and flags from the tables below (of links and of
preambles: in `fuzz_links` and `fuzz_preambles`), and goes on in steps: each step edits something (a header, a flag, the
archs, the environment, the way the source is named) or nothing, runs plain clang, then hipcache in one of two stores,
and compares

    the object's or program's bytes; exit status, standard output and standard error; the dependency file, in which
    hipcache may name more headers than clang, but only such as a device pass reads; what else lies in the directory.
    (A file in which two runs of plain clang differ, since it names clang's temporary files, is left out.)

A step that changes nothing must be a hit where the one before it was stored. A failure prints the seed, the command and
what differs; the same seed gives the same case again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz_case import BARE, FULL_HEADER, LAUNCHER, LEVELS, REAL, SHORT_HEADER, Case, Difference, table
from fuzz_links import Link
from fuzz_preambles import Preambled

ARCHS = ("gfx906", "gfx90a", "gfx1030", "gfx906,gfx90a", "gfx908:xnack+", "gfx908:xnack-", "gfx1010", "gfx803")
ODD_ARCHS = ("gfx9-generic", "gfx000", "gfx90a:sramecc+:xnack-", "gfx90a:xnack+", "gfx90a", "gfx906:xnack?", "gfx942")
# One choice is one or more words. What a word stands for in a step is in `Case.words`.
FLAGS = """
-g | -g1 | -ggdb3 | -gline-tables-only | -gdwarf-4 | -g -gz | -g -gz=zlib | -g -fdebug-prefix-map=inc=elsewhere
-g -fdebug-types-section | -g -fdebug-compilation-dir=. | -ffile-prefix-map=inc=elsewhere | -fmacro-prefix-map=inc=x
-Wall | -Wall -Wextra | -Werror | -Weverything | -Wno-everything | -w | -Wdocumentation | -Wno-such-warning
-pedantic | -Wl,-z,now | -Wl,--as-needed | -lm | -L. | -pthread | -pipe | -rdynamic | -s | -fPIC | -fPIE | -fno-pic
-fvisibility=hidden | -ffast-math | -fno-exceptions | -fno-rtti | -funroll-loops | -std=c++17 | -std=c++20
-std=gnu++14 | -stdlib=libstdc++ | -ftrigraphs | -fno-inline | -fcolor-diagnostics | -fno-color-diagnostics
-fdiagnostics-absolute-paths | -fmessage-length=40 | -ferror-limit=1 | -fno-caret-diagnostics
-fdiagnostics-format=msvc | -fdiagnostics-show-category=name | -fansi-escape-codes | -DVALUE=3 | -DVALUE=1+1
-DTEXT="a.b" | -DTEXT='"q u"' | -D VALUE=5 | -UVALUE | -DVALUE=__COUNTER__ | -DEMPTY= | -DVALUE=__LINE__
-DTEXT=__FILE__ | -DTEXT=__DATE__ | -DTEXT=__TIME__ | -DTEXT=__TIMESTAMP__ | -DTEXT=__BASE_FILE__ | -DONLY_DEVICE
-DONLY_HOST | -DMORE | -DWARN | -DASK | -DUNROLL | -DTWICE | -DONCE | -Iinc | -I inc | -Iinc2 -Iinc | -Iinc -Iinc2
-I inc/../inc | -I. | -Inowhere | -I linked | -Ilinked -isystem inc | -isystem inc | -isystem inc -isystem inc2
-iquote inc2 | -idirafter inc2 | -cxx-isystem inc2 | -nostdinc++ | -include before.h | -imacros before.h
-include inc/before.h | -Xarch_host -O2 | -Xarch_device -O1 | -Xarch_device -g | -Xarch_host -DVALUE=8
-Xarch_device -DVALUE=9 | -Xarch_gfx906 -DVALUE=4 | -Xarch_host -Wall | -Xarch_host -fPIC
-Xclang -fno-validate-pch | -Xclang -target-cpu -Xclang x86-64-v2 | -Xclang -mllvm -Xclang -inline-threshold=20
-Xclang -main-file-name -Xclang other.hip | -mllvm -amdgpu-early-inline-all=true | -mllvm -inline-threshold=5
-mllvm -unroll-count=3 | -mllvm -opt-bisect-limit=20 | -mllvm -pass-remarks=inline
-mllvm --amdgpu-kernarg-preload-count=4 | -Rpass=inline | -Rpass-analysis=kernel-resource-usage | -Rpass-missed=.*
-march=native | -march=x86-64-v3 | -mtune=generic | -mavx2 | -mcode-object-version=4 | -mwavefrontsize64 | -mcumode
-munsafe-fp-atomics | -fsanitize=undefined | -fgpu-flush-denormals-to-zero | -fhip-new-launch-api
-fno-gpu-allow-device-init | -fno-gpu-rdc | -fgpu-defer-diag | -fno-hip-kernel-arg-name | -fhip-kernel-arg-name
--gpu-max-threads-per-block=512 | -fgpu-default-stream=per-thread | -fxray-instrument | -no-canonical-prefixes
-frandom-seed=7 | -fident | -Qn | -fno-ident | -fintegrated-as | -Wa,--noexecstack | -ffunction-sections
-fuse-cuid=none | -fuse-cuid=hash -cuid=77 | -cuid=78 | -fno-addrsig | -faddrsig | -mno-relax | -fno-plt
--no-offload-arch=all | --no-offload-arch=gfx906 | --cuda-gpu-arch=gfx908 | --offload-arch=gfx906,gfx906
--target=x86_64-linux-gnu | -mno-sse | -fstack-protector-strong | -fstack-clash-protection | -fcf-protection
-finstrument-functions | -fno-omit-frame-pointer | -fopenmp-simd | -fno-math-errno | -ffp-contract=off
-fdenormal-fp-math=preserve-sign | -fno-signed-zeros | -fbracket-depth=8
-fsanitize-ignorelist=list.txt -fsanitize=undefined | --config=./clang.cfg | @response | @response -DMORE | -c
-c -c | -fno-strict-aliasing | -Winvalid-pch | -trigraphs | -Wa,-L | -Xclang -msave-temp-labels | -Wa,--crel
-mcmodel=medium | -mcmodel=large | -fsanitize=address | -fsanitize=thread | -fsanitize=undefined -fsanitize-stats
-fprofile-instr-generate | -fcoverage-mapping -fprofile-instr-generate | -fprofile-generate | -pg | -fms-extensions
-fprofile-instr-use=data.profdata | -fprofile-use=data.profdata | -gembed-source -g
-fdebug-macro -g | -funique-internal-linkage-names | -ffile-compilation-dir=. | -fstack-size-section | -femulated-tls
-fdiagnostics-parseable-fixits | -fdiagnostics-print-source-range-info | -fopenmp | -fno-use-init-array | -Og
-Xarch_host -fbasic-block-sections=all | -Xarch_host -fsanitize-coverage=trace-pc-guard | -flto -fno-lto
-flto | -flto=thin | -flto | -flto -g | -flto=thin -fPIC | -flto -ffat-lto-objects | -Xarch_host -flto
-gsplit-dwarf -g | -gsplit-dwarf -g -gz | -gsplit-dwarf | -ggdb -gsplit-dwarf=split | -fsave-optimization-record
-foptimization-record-file=x.yaml | -fsave-optimization-record -foptimization-record-passes=inline | -fstack-usage
-fsave-optimization-record -g -gsplit-dwarf -fstack-usage | --coverage
-ftest-coverage | --serialize-diagnostics x.dia | -Wall --serialize-diagnostics x.dia
--coverage -g | -fprofile-arcs | -Xarch_device -fstack-usage | -Xarch_host -fsave-optimization-record
-Xarch_host -fcf-protection=full | -fdiagnostics-show-hotness | -fno-discard-value-names | -fno-integrated-cc1
"""
# Those that mostly end in an error, or are left to the compiler.
LEFT = """
-fms-extensions | -DBROKEN | -nostdinc | -include nowhere.h | -Xarch_device -save-temps
-Xclang -disable-llvm-passes | -Xclang -bogus | -Xclang -fdump-record-layouts | -mllvm -bogus | -mllvm -stats
-mcpu=gfx906 | -fgpu-sanitize | -fsanitize=address
-gsplit-dwarf=single -g | -ftime-trace | -print-stats | -fprofile-instr-generate
-fcoverage-mapping -fprofile-instr-generate | -fembed-bitcode | -save-temps
-save-temps=obj | --save-temps | -v | -### | -H | -E | -fsyntax-only | -M | -MM | -MG
-grecord-command-line | -frecord-command-line | -fno-integrated-as | -Wa,-gdwarf-4 | -Xassembler -L
--offload-arch= | --no-gpu-bundle-output | -Xoffload-linker --Map=map.txt | -Xoffload-linker --no-such
-Xoffload-linker --gc-sections
-Xlinker --foo | -ccc-print-phases | --typo | -fno-such-thing | -D | -I | -o | -x | -target x86_64-pc-linux-gnu
-m32 | -pg | -fplugin=nowhere.so | -fprofile-use=nowhere | -working-directory inc | -fworking-directory
-dumpdir d- | -ivfsoverlay nowhere | -include-pch nowhere | -fmodules | @nowhere | --verbose
-foptimization-record-file=- | -save-temps=cwd
-fsanitize=address -fgpu-sanitize | -fcs-profile-generate
-foptimization-record-file=out.o | -MJ db.json | -fmemory-profile | -fsanitize-coverage=trace-pc-guard
-fdiagnostics-format=sarif | --analyze | -fproc-stat-report=stat
-Xclang -diagnostic-log-file -Xclang x.log | -Xclang -header-include-file -Xclang x.h | -fcrash-diagnostics-dir=.
-Xarch_host -fmemory-profile | -fprofile-use=nowhere.profdata | -x assembler | -target amdgcn
"""
# Other ends than one object of both sides.
SHAPES = """
-fgpu-rdc | -fgpu-rdc | -fgpu-rdc -fPIC | --offload-new-driver | --offload-new-driver -fgpu-rdc | --offload-compress
--offload-device-only | --cuda-device-only -S | --offload-device-only -emit-llvm | --offload-device-only -fgpu-rdc
--offload-device-only --gpu-bundle-output | --offload-device-only --no-gpu-bundle-output
--offload-device-only --offload-compress | --offload-host-only | --cuda-host-only -S | --offload-host-only -fgpu-rdc
-S | -emit-llvm | -S -emit-llvm | --offload-new-driver --offload-device-only | --offload-new-driver -S
-foffload-lto | -foffload-lto=thin | -foffload-lto -fgpu-rdc | -foffload-lto --offload-device-only
"""

# More of them.
TEXTS = """
-E | -E -P | -E -C | -E -CC -dD --cuda-host-only | -E -dD --cuda-device-only | -E -dM | -E -dI | -E -fgpu-rdc
-E -fuse-line-directives | -E -fminimize-whitespace -P | -E --offload-new-driver | -E -dU | -E -fdirectives-only
"""

# Instead of -c: compiled and linked at once.
PROGRAMS = """
-shared -fPIC -no-hip-rt | --hip-link -no-hip-rt -shared -fPIC | -no-hip-rt -Wl,--unresolved-symbols=ignore-all
-no-hip-rt -Wl,-z,muldefs,--unresolved-symbols=ignore-all -e host | -no-hip-rt -Wl,-r | -fuse-ld=lld -shared -fPIC
-no-hip-rt -shared -fPIC -L/usr/lib/x86_64-linux-gnu -lm | -fgpu-rdc -no-hip-rt -shared -fPIC
-fgpu-rdc --hip-link -no-hip-rt -shared -fPIC | -fgpu-rdc -no-hip-rt -Wl,--unresolved-symbols=ignore-all -e host
-fgpu-rdc -no-hip-rt -shared -fPIC -L/usr/lib/x86_64-linux-gnu -lm | -fgpu-rdc -fuse-cuid=none -no-hip-rt -shared -fPIC
-fgpu-rdc --offload-new-driver -no-hip-rt -shared -fPIC | -fgpu-rdc --hip-link --offload-new-driver -no-hip-rt -shared
"""

DEPENDENCIES = """
-MD | -MMD | -MD -MP | -MMD -MP | -MD -MF rules.d | -MMD -MF sub.dir/rules.d | -MD -MT all | -MD -MQ a$b -MT c#d
-MD -MV | -Wp,-MD,rules.d | -Wp,-MMD,rules.d | -MD -MF nowhere/rules.d | -MD -MF /dev/null | -MD -MT one -MT two -MP
-MMD -MF rules.d | -MD -MF linked.d | -MD -MF rules.d -MD | -MD -MF rules.d -MF other.d
-MD -Xclang -sys-header-deps | -MF rules.d | -MP
"""


CHOICES, LEAVING, RULES, ENDS = table(FLAGS), table(LEFT), table(DEPENDENCIES), table(SHAPES) + table(TEXTS)
LINKING = table(PROGRAMS)
SEVERAL = ("k.hip second.hip", "k.cpp -x hip k.cc")
# (words before the source, the source)
SOURCES = (
    *(((), "k.hip"),) * 16,
    (("-x", "hip"), "k.cpp"),
    (("-xhip",), "k.cu"),
    (("-x", "hip"), "k.C"),
    (("-x", "hip"), "k.cc"),
    ((), "k.HIP"),
    ((), "./k.hip"),
    ((), "sub.dir/k.hip"),
    ((), "sub.dir/../k.hip"),
    ((), "link.hip"),
    ((), "with space.hip"),
    ((), "odd$#'name.hip"),
    ((), "not\udcffutf.hip"),
    (("--",), "k.hip"),
    (("-x", "hip", "-x", "none"), "k.hip"),
    (("-x", "c++"), "k.hip"),
    *(((), SEVERAL[0]),) * 3,
    (("-x", "hip"), SEVERAL[1]),
    ((), "nowhere.hip"),
    (("--language=hip",), "k.cpp"),
)
OUTPUTS = ("-o out.o",) * 16 + (
    *("-oout.o", "--output=out.o", "-o ./out.o", "-o sub.dir/out.o", "-o first.o -o out.o", "", "-o nowhere/out.o"),
    *("-o sub.dir", "-o linked.o", "-o /dev/null", "-o 'out put.o'", "-o out"),
)
VARIABLES = (
    *(("CPATH", "inc2"), ("CPLUS_INCLUDE_PATH", "inc"), ("C_INCLUDE_PATH", "inc2"), ("SOURCE_DATE_EPOCH", "86400")),
    *(
        ("CCC_OVERRIDE_OPTIONS", "# +-DVALUE=6"),
        ("CCC_OVERRIDE_OPTIONS", "x-c"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC-3"),
    ),
    *(("TERM", "xterm-256color"), ("TERM", "dumb"), ("COLUMNS", "40"), ("PWD", "/nowhere"), ("TMPDIR", "/tmp")),
    *(("HIPCACHE_JOBS", "1"), ("HIPCACHE_READONLY", "1"), ("HIPCACHE_RECACHE", "1"), ("HIPCACHE_BASEDIR", "@")),
    *(("MAKEFLAGS", " -j --jobserver-auth=7,8"), ("ROCM_PATH", "/nowhere"), ("HIPCACHE_BASEDIR", "/"), ("HOME", "")),
    *(
        ("CC_PRINT_OPTIONS", "1"),
        ("CC_PRINT_INTERNAL_STAT", "1"),
        ("DEPENDENCIES_OUTPUT", "deps.txt"),
        ("XDG_RUNTIME_DIR", ""),
    ),
    *(
        ("GCC_EXEC_PREFIX", "/nowhere/"),
        ("COMPILER_PATH", "/nowhere"),
        ("CLANG_NO_DEFAULT_CONFIG", "1"),
        ("LD_LIBRARY_PATH", "."),
    ),
)

BODY = """\
#include "value.h" /* the number */
#ifndef VALUE
#define VALUE 1
#endif
#ifndef TEXT
#define TEXT "none"
#endif
#define STRING(x) #x
#if defined(ONLY_DEVICE) && defined(__HIP_DEVICE_COMPILE__)
#include "device.h"
#endif
#if defined(ONLY_HOST) && !defined(__HIP_DEVICE_COMPILE__)
#include "host.h"
#endif
#ifdef MORE
#include <vector.h>
#endif
#if defined(ASK) && __has_include("asked.h")
#include "asked.h"
#endif
#ifdef TWICE
#include "once.h"
#include "inc/once.h"
#endif
#ifdef WARN
static int never_used() { return 1; }
#warning said so
#endif
#ifdef BROKEN
int broken = ;
#endif
extern "C" __global__ void kernel(float* p, int n) {
#ifdef UNROLL
#pragma unroll 7
#endif
    for (int i = 0; i < n; ++i) p[i] = p[i] * (VALUE) + i; // a loop
}
template <int N> __global__ void more(float* p) { __shared__ float s[N]; s[0] = p[N]; p[1] = s[0]; }
template __global__ void more<VALUE>(float*);
extern "C" int host(int x) { return x + (VALUE) * __LINE__; }
extern "C" const char* text() { return STRING(TEXT); }
"""
# Lines for the GPU's assembler, the harmless ones first, and options for it.
LINES = r"""
v_add_u32 v0, s0, v1|s_nop 1|s_waitcnt lgkmcnt(0)|.p2align 4|.file 1 "a.c"|.loc 1 3|.FILE 1 "b.c"|label:|s_branch label
.macro add d a:req b=v3`v_add_u32 \d, \a, \b`.endm`add v0, s1`add v1, s1, v2
.irp x,1,2`s_nop \x`.endr|.rept 2`s_nop 0`.endr
.macro own`own_\@:`s_cbranch_scc0 own_\@`.endm`own`own|.section .note`.ascii "\001\002\"q\\"`.text|.set n, 3`s_nop n
.include "more.inc"|.INCBIN "more.inc"|".incbin" "more.inc"|.macro m p`.inc\p "more.inc"`.endm`m bin|// include "x"
.macro m p q`a\p\q "more.inc"`.endm`m "x: ; .inc" "bin"|.irpc x,b`.inc\x\()in "more.inc"`.endr|.warning "w"|.print "p"
.macro o v`.macro m p q`\\v "more.inc"`.endm`.endm`o "p\q"`m .inc bin|no_such v0|.ifdef A`s_nop A`.endif|.end|.ident "x"
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"|.cfi_sections .debug_frame
.section .x`.asciz "/usr/include/x.h"`.text|.altmacro|.comm c,4,4
"""
ASSEMBLING = """
-g | -gdwarf-4 | -g -gz | -g -fdebug-prefix-map=inc=x | -ggdb3 | -mcode-object-version=4 | -mcode-object-version=5
-mwavefrontsize64 | -mcumode | -Wa,--noexecstack | -Wa,-defsym,A=2 | -Wa,-I,inc | -Iinc | -MD | -O3 | -DX=1 | -Wall
-fPIC | -w | -Werror | -Wa,--fatal-warnings | -Wa,-W | -Wa,-L | -save-temps | -v | -mllvm -opt-bisect-limit=3
-gsplit-dwarf -g | --typo | -Xassembler -I -Xassembler inc | -nogpulib | -fno-integrated-as | -frecord-command-line
-fdebug-compilation-dir=x | -g -fdebug-compilation-dir=x | -Wa,--crel | -x assembler-with-cpp | @asm.rsp
"""
NAMES = ("value.h", "device.h", "host.h", "vector.h", "asked.h", "before.h", "once.h")


@dataclass
class Compile(Case):
    """A source, and flags. `programs`: the part of cases that link at once."""

    programs: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.flags = [self._some_flag() for _ in range(self.random.randrange(5))]
        self.shape = self._some_shape()
        self.archs = self._some_archs()
        self.end = self.random.choice(LINKING) if self.random.random() < self.programs else ["-c"]
        self.level = self.random.choice(LEVELS)
        self.rule = self.random.choice(RULES) if self.random.random() < 0.6 else []
        self.source = self.random.choice(SOURCES)
        self.output = (
            [] if self.source[1] in SEVERAL and self.random.random() < 0.9 else shlex.split(self.random.choice(OUTPUTS))
        )
        self._write_project()

    # The project, and what happens to it

    def _write_project(self) -> None:
        head = FULL_HEADER if self.real else SHORT_HEADER
        names = {name for _, name in SOURCES} - {"nowhere.hip", "link.hip", *SEVERAL}
        for name in names:
            self._write(name, head + BODY)
        self._write("second.hip", head + BODY.replace("// a loop", "// another one"))
        self._write("inc/value.h", "#pragma once\n// a number\n")
        for name in ("inc/device.h", "inc/host.h", "inc/vector.h", "before.h", "inc/before.h", "inc/once.h", "host.h"):
            self._write(name, f"// {name}\n")
        self._write("value.h", "")
        self._write("device.h", "#define FOR_DEVICE 1\n")
        self._write("once.h", "#pragma once\nstatic const int number = 1;\n")
        self._write("inc2/vector.h", "// of inc2\n")
        self._write("list.txt", "fun:never*\n")
        self._write("response", "-DVALUE=12 '-DTEXT=\"of a file\"'\n")
        self._write("sub.dir/nested", "-DMORE\n")
        self._write("clang.cfg", "-DVALUE=13\n")
        self._write_profile(3)
        for link, target in (
            ("link.hip", "k.hip"),
            ("linked", "inc"),
            ("linked.d", "elsewhere.d"),
            ("linked.o", "k.o"),
        ):
            (self.work / link).symlink_to(target)

    def _write_profile(self, count: int) -> None:
        text = f"host\n# Func Hash:\n24\n# Num Counters:\n1\n# Counter Values:\n{count}\n"
        words = ["llvm-profdata-15", "merge", "-o", "data.profdata", "-"]
        subprocess.run(words, cwd=self.work, input=text.encode(), check=True)

    def _profile(self) -> str:
        self.version += 1
        self._write_profile(self.version + 100)
        return "data.profdata is another one"

    def _response(self) -> str:
        self.version += 1
        name, more = self.random.choice([("response", ""), ("response", " @sub.dir/nested"), ("sub.dir/nested", "")])
        self._write(name, f"-DVALUE={self.version + 40}{more}\n")
        return f"{name} says otherwise{more}"

    def _edit(self) -> str:
        edits: list[Callable[[], str]] = [
            *(self._nothing,) * 4,
            *(self._header, self._header, self._comment, self._source_edit, self._remove, self._variable),
            *(
                self._flag,
                self._flag,
                self._arch,
                self._end_otherwise,
                self._touch,
                self._shadow,
                self._relink,
                self._move,
            ),
            *((self._profile,) if any("data.profdata" in word for word in self.words()) else ()),
            *((self._response,) * 4 if "@response" in self.words() else ()),
        ]
        return self.random.choice(edits)()

    def _some_flag(self) -> list[str]:
        return self.random.choice(CHOICES if self.random.random() < 0.93 else LEAVING)

    def _some_shape(self) -> list[str]:
        return self.random.choice(ENDS) if self.random.random() < 0.3 else []

    def _some_archs(self) -> list[str]:
        """Mostly such as go together; an architecture with a feature and without it do not."""
        if self.random.random() < 0.1:
            return self.random.sample(ODD_ARCHS, 2)
        return self.random.sample(ARCHS, self.random.randrange(1, 3))

    def _some_header(self) -> str:
        return self.random.choice(["", "inc/", "inc2/", "sub.dir/"]) + self.random.choice(NAMES)

    def _header(self) -> str:
        name = self._some_header()
        self.version += 1
        self._write(name, f"#ifndef VALUE\n#define VALUE {self.version + 20}\n#endif\n")
        return f"{name} is other text"

    def _comment(self) -> str:
        path = self.work / self.random.choice(["k.hip", "value.h", "inc/value.h", "device.h"])
        if not path.exists():
            return "nothing changed"
        self.version += 1
        path.write_text(re.sub(r"(//|/\*)[^\n*]*", rf"\1 comment {self.version} ", path.read_text()))
        return f"comments of {path.name}"

    def _source_edit(self) -> str:
        path = self.work / "k.hip"
        old, new = self.random.choice([("x +", "x -"), ("p[i] *", "p[n] *"), ("// a loop", "\n"), ("x -", "x +")])
        path.write_text(path.read_text().replace(old, new))
        return f"'{old}' -> '{new}' in k.hip"

    def _remove(self) -> str:
        name = self._some_header()
        (self.work / name).unlink(missing_ok=True)
        return f"{name} is gone"

    def _shadow(self) -> str:
        """The same text under an earlier or later name: a copy or a link."""
        name = self.random.choice(NAMES)
        source, target = self.work / "inc" / name, self.work / self.random.choice(["inc2", ".", "sub.dir"]) / name
        if not source.is_file():
            return "nothing changed"
        target.unlink(missing_ok=True)
        if self.random.random() < 0.5:
            shutil.copy2(source, target)
            return f"{target.name} copied to {target.parent.name}"
        target.symlink_to(source)
        return f"{target.name} linked in {target.parent.name}"

    def _relink(self) -> str:
        link, target = self.work / "linked", self.random.choice(["inc", "inc2", "sub.dir"])
        link.unlink()
        link.symlink_to(target)
        return f"linked -> {target}"

    def _touch(self) -> str:
        (self.work / "k.hip").touch()
        return "k.hip is touched"

    def _variable(self) -> str:
        return self._toggle_variable(VARIABLES)

    def _flag(self) -> str:
        if self.flags and self.random.random() < 0.5:
            return f"without {self.flags.pop(self.random.randrange(len(self.flags)))}"
        self.flags.append(self._some_flag())
        return f"with {self.flags[-1]}"

    def _arch(self) -> str:
        self.archs = self._some_archs()
        return f"archs {self.archs}"

    def _end_otherwise(self) -> str:
        self.shape = self._some_shape()
        return f"ends with {self.shape}"

    # The command

    def words(self) -> list[str]:
        before, source = self.source
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        surroundings = REAL if self.real else BARE
        flags = [word for flag in self.flags for word in flag]
        names = source.split(" ") if source in SEVERAL else [source]
        return [
            self.compiler,
            *archs,
            *surroundings,
            "-cuid=5eed",
            self.level,
            *flags,
            *self.shape,
            *self.rule,
            *self.output,
            *self.end,
            *before,
            *names,
        ]

    def _same_file(self, name: str, mine: bytes, other: bytes) -> None:
        if mine == other:
            return
        if name.endswith(".d"):
            extra = [_listed(mine) - _listed(other), _listed(other) - _listed(mine)]
            named = ("device.h", "value.h", "vector.h", *(("k.", "second.") if self.source[1] in SEVERAL else ()))
            device = {n for n in extra[0] if not os.path.basename(n).startswith(named)}
            if extra[1] or (device and not self.real):
                raise Difference(f"'{name}' lists too much {sorted(device)}, or lacks {sorted(extra[1])}")
            return
        if any("TIME" in word or "DATE" in word for word in self.words()):
            return
        super()._same_file(name, mine, other)


class Assembly(Compile):
    """A source of the GPU's assembler."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compiler = self.compiler.replace("++", self.random.choice(["", "++"]))
        self.language = self.random.choice(["-x assembler", "-xassembler", ""]).split()
        self.target = self.random.choice([["-target", "amdgcn-amd-amdhsa"]] * 3 + [["--target=amdgcn-amd-amdhsa"]])
        self.cpu = "gfx90a"
        del self.flags[self.random.randrange(2) :]
        self._write("more.inc", ".byte 1\n")
        self._write("asm.rsp", "-Wa,-defsym,A=5\n")
        self._text()

    def words(self) -> list[str]:
        flags = [word for flag in self.flags for word in flag]
        options = [*self.language, *self.target, f"-mcpu={self.cpu}", *flags, *self.output]
        return [self.compiler, *options, "-c", "k.s"]

    def _text(self) -> str:
        rows = LINES.strip().splitlines()
        lines = "|".join(rows[:3] if self.random.random() < 0.7 else rows).split("|")
        some = ["k:", *self.random.sample(lines, self.random.randrange(1, 5)), "s_endpgm", ""]
        # A small one is left to the compiler.
        self._write("k.s", "\n".join(some).replace("`", "\n") + ("; " + "-" * 97 + "\n") * ((1 << 18) // 100 + 1))
        return f"k.s is {some}"

    def _edit(self) -> str:
        edits = (
            self._nothing,
            self._nothing,
            self._text,
            self._more,
            self._move,
            self._anew,
            self._variable,
            self._cpu,
        )
        return self.random.choice((*edits, self._flag))()

    def _some_flag(self) -> list[str]:
        return self.random.choice(table(ASSEMBLING))

    def _more(self) -> str:
        self.version += 1
        self._write("more.inc", f".byte {self.version}\n")
        return "more.inc is other text"

    def _anew(self) -> str:
        text = (self.work / "k.s").read_text()
        (self.work / "k.s").unlink()
        self._write("k.s", text)
        return "k.s is written anew"

    def _cpu(self) -> str:
        self.cpu = self.random.choice(["gfx90a", "gfx906", "gfx90a:xnack+", "gfx000"])
        return f"for {self.cpu}"


def _listed(rule: bytes) -> set[str]:
    """The files that a dependency file names, in its own quoting."""
    text = rule.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    words = re.findall(r"(?:\\.|[^\s\\])+", text.partition(": ")[2])
    return {os.path.normpath(word.rstrip(":")) for word in words}


def check(
    seed: int,
    *,
    real: bool = False,
    launcher: Sequence[str] = LAUNCHER,
    programs: float = 0.1,
    kind: str = "",
    instead: str = "",
    keep: Path | None = None,
    tell: bool = False,
    tally: Counter[str] | None = None,
) -> str:
    """Run one seed; what differs, with the way to it, or nothing. `launcher`: what is put before the compiler;
    `programs`: the part of compiles that link at once; `kind`: another one of `KINDS` than compiles;
    `tell`: print the way in any case; `tally`: is added to."""
    root = Path(tempfile.mkdtemp(prefix="hipcache-fuzz-"))
    if kind:
        case = KINDS[kind](seed, root, real, launcher, instead)
    else:
        case = Compile(seed, root, real, launcher, instead, programs=programs)
    try:
        case.run()
    except Difference as error:
        if keep:
            shutil.copytree(root, keep / str(seed), symlinks=True)
        steps = "\n".join(f"  {step}" for step in case.said)
        asked = [*(["--real"] if real else []), *([f"--{kind}"] if kind else [])]
        asked += ["--compiler", instead] if instead else []
        return f"{' '.join(['seed', str(seed), *asked])}\n{steps}\n  {error}\n"
    finally:
        if tally is not None:
            tally.update(case.tally)
        shutil.rmtree(root, ignore_errors=True)
        if tell:
            print(f"seed {seed}", *case.said, sep="\n  ", flush=True)
    return ""


#: What is not a compile.
KINDS: dict[str, Callable[[int, Path, bool, Sequence[str], str], Case]] = {
    "assembler": Assembly,
    "links": Link,
    "preambles": Preambled,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="plain clang and hipcache side by side on random compiles and links")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--count", type=int, default=100, help="how many")
    parser.add_argument("--seconds", type=float, default=0, help="go on for so long instead")
    parser.add_argument("--real", action="store_true", help="with HIP's own headers and device libraries")
    parser.add_argument("--programs", type=float, default=0.1, help="the part of compiles that link at once")
    kind = parser.add_mutually_exclusive_group()
    kind.set_defaults(kind="")
    for name, what in (
        ("assembler", "sources of the GPU's assembler"),
        ("links", "links of relocatable device code"),
        ("preambles", "sources that begin alike, that warn and that fail, with precompiled preambles"),
    ):
        kind.add_argument(f"--{name}", action="store_const", const=name, dest="kind", help=what)
    parser.add_argument("--launcher", nargs="+", default=LAUNCHER, help="what is put before the compiler")
    parser.add_argument("--compiler", default="", help="this one, not clang 15 and 19 (for a newer one)")
    parser.add_argument("--keep", type=Path, help="a directory for the projects and stores of failures")
    parser.add_argument("--tell", action="store_true", help="print every step of every case")
    options = parser.parse_args()
    end, seed, failures = time.monotonic() + options.seconds, options.seed, 0
    tally: Counter[str] = Counter()
    while time.monotonic() < end if options.seconds else seed < options.seed + options.count:
        found = check(
            seed,
            real=options.real,
            launcher=options.launcher,
            programs=options.programs,
            kind=options.kind,
            instead=options.compiler,
            keep=options.keep,
            tell=options.tell,
            tally=tally,
        )
        if found:
            failures += 1
            print(found, flush=True)
        seed += 1
    print(json.dumps({"seeds": [options.seed, seed - 1], "failures": failures, **tally}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
