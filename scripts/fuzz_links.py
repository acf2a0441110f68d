"""The fuzzer's links of relocatable device code (`fuzz.py --links`).

A project has two to four HIP sources that use each other's device functions and variables, a main program, what stands
for HIP's runtime, and maybe a static library of such objects and of C++. All objects are made by plain clang. In steps
an object, the link's words or its surroundings change. Beside what a compile has to hold: where no device code and none
of the words that reach device links has changed since a link that was stored, no device link may run again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from fuzz_case import BARE, FULL_HEADER, LEVELS, REAL, SHORT_HEADER, Case, Difference, Ended, neutral, table

OLD: tuple[str, ...] = ()
NEW = ("--offload-new-driver",)
#: (compiler, flags that choose the offload driver). Of clang 15 the new one's links are left to it.
DRIVERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("/usr/bin/clang++-15", OLD), ("/usr/bin/clang++-19", OLD)) * 3,
    *(("/usr/bin/clang++-19", NEW),) * 5,
    ("/usr/bin/clang++-15", NEW),
)
# What one project is compiled for.
ARCHS = table("""
gfx906 | gfx906 gfx90a | gfx90a gfx906 | gfx906 gfx90a gfx1030 | gfx803 gfx1010 | gfx908:xnack+ gfx908:xnack-
gfx90a:xnack+ gfx90a:xnack- gfx1030 | gfx906:xnack- gfx90a | gfx90a:sramecc+:xnack- | gfx908 gfx906:sramecc+:xnack-
""")
COMPILING = table("""
-O2 | -O2 | -O2 | -O3 | -O0 | -g | -fPIC | -fPIC | -O1 -fPIC -fvisibility=hidden | -ffunction-sections | -g -O2 -fPIC
-O2 -mcode-object-version=4 | -fno-exceptions | -O2 -ffast-math
""")
DEVICE_LTO: tuple[list[str], ...] = ([], [], [], ["-foffload-lto"])
THIN = "-foffload-lto=thin"
# What one object may be compiled with beside, or in place of, what the others are.
ODD = table("""
-fno-gpu-rdc | -foffload-lto | --offload-new-driver | --no-offload-new-driver | --no-offload-arch=gfx906 | -flto
--offload-arch=gfx1031 | --offload-arch=gfx90a:xnack+ | -mcode-object-version=5 | --offload-host-only | -fgpu-sanitize
-O0 | -fno-offload-lto | --offload-compress | -fuse-cuid=none | -cuid=5eed | -fsanitize=address | --coverage
--offload-device-only
""")
# Words of a link that reach no device link.
HOST = table("""
-s | -pie | -no-pie | -rdynamic | -static-libgcc | -static-libstdc++ | -pthread | -lm | -ldl -lpthread | -lm -lm
-Wl,-z,now | -Wl,--as-needed | -Wl,--no-as-needed -lm | -Wl,-z,noexecstack | -Wl,-z,relro -Wl,-z,defs | -Wl,-O1
-Wl,-rpath,/opt/rocm/lib:/opt/other | -Wl,--enable-new-dtags -Wl,-rpath,$ORIGIN/../lib | -Wl,--gc-sections
-Wl,--build-id | -Wl,--build-id=sha1 | -Wl,--build-id=0xabcd | -Wl,-soname,libprogram.so.1 | -Wl,--exclude-libs,ALL
-Wl,--hash-style=gnu | -Wl,--sort-common | -Wl,-Bsymbolic | -Wl,-Bsymbolic-functions | -Wl,--no-undefined
-Wl,-Bstatic -lm -Wl,-Bdynamic | -Wl,--start-group -lm -lc -Wl,--end-group | -Wl,--defsym=extra=1 | -Wl,--wrap=host
-Wl,--unresolved-symbols=ignore-all | -Wl,--allow-multiple-definition | -Wl,--warn-common | -Wl,--fatal-warnings
-Wl,-Map=program.map | -Wl,-Map,program.map -Wl,--cref | -Wl,--version-script=exports.map
-Wl,--strip-debug | -Wl,--strip-all | -Wl,--discard-all | -Wl,-e,main | -Wl,--print-map | -Wl,--dynamic-list=list.txt
-Wl,--trace | -Wl,-t | -Wl,--print-gc-sections -Wl,--gc-sections | -Wl,--stats | -Wl,--no-demangle | -Wl,-y,main
-Wl,--emit-relocs | -Wl,--no-allow-shlib-undefined | -Wl,--copy-dt-needed-entries | -Wl,--no-gc-sections,--no-undefined
-Wl,-z,max-page-size=65536 | -Wl,--compress-debug-sections=zlib | -Wl,--dependency-file=program.d
-Xlinker -z -Xlinker now | -Xlinker --as-needed | -u main | -z now | -e main | -Wl,-u,host | -Wl,--eh-frame-hdr
-fuse-ld=lld | -fuse-ld=lld -Wl,--icf=all | -fuse-ld=lld -Wl,--threads=1 | -fuse-ld=gold | -fuse-ld=bfd
-fuse-ld=lld -Wl,--gdb-index | -fuse-ld=lld -s -Wl,--build-id=md5 | -fuse-ld=lld -Wl,-O2 | --ld-path=/usr/bin/ld.bfd
-L/opt/rocm/lib | -Lnowhere | -L. | -Lfirst | -L first | -lstdc++ | -L. -lutil -lutil | -nostdlib++ | -shared
-shared -fPIC | -shared -Wl,-z,defs | -shared -Wl,-soname,x.so | -shared | -shared -s | -B/usr/bin | -Bfirst
-Wl,-plugin-opt=O1 | -Wl,--push-state,--as-needed -lm -Wl,--pop-state | ./libhost.so | -Wl,--noinhibit-exec
-Wl,-rpath=. libhost.so | -L. -lhost | -L. -Wl,--whole-archive -lutil -Wl,--no-whole-archive | -rpath here
-frtlib-add-rpath
""")
# Those of them that mostly end in an error, or are left to the compiler.
HOST_LEFT = table("""
-Wl,--no-such-option | -Wl,--retain-symbols-file=list.txt | -Wl,--no-relax | -fuse-ld=none | -lnone | -static-pie
-static | -nostartfiles | -nodefaultlibs | -Wl,--version | -Wl,-v | -Wl,-r | -T nowhere.ld | -r | -nostdlib | @nowhere
none.o | -Wl, | -Wl,-rpath | -Xlinker | -L | -Wl,--orphan-handling=error | -Wl,--oformat=binary | -Wl,-Ttext=0x1
""")
# Others, some of which reach device links.
FLAGS = table("""
-g | -g1 | -ggdb3 | -gdwarf-4 | -Wall | -w | -Wno-unused-command-line-argument | -Qunused-arguments
-std=c++17 | -DNDEBUG | -DTEXT="a b" | -Iinc | -I. | -isystem inc | -MD | -MD -MF x.d | -pipe | -fPIC | -fPIE | -fno-pic
-fvisibility=hidden | -ffast-math | -fno-exceptions | -fcolor-diagnostics | -ffunction-sections | -fopenmp-simd
-mcode-object-version=4 | -mcode-object-version=5 | -mwavefrontsize64 | -mno-wavefrontsize64 | -mcumode | -mtgsplit
-munsafe-fp-atomics | -fgpu-flush-denormals-to-zero | --gpu-max-threads-per-block=512 | -march=native | -mavx2
-fgpu-rdc | -fno-gpu-rdc -fgpu-rdc | -no-canonical-prefixes | -fhip-new-launch-api | -nogpuinc
-nogpulib | --offload-link | -no-hip-rt | -fgpu-allow-device-init | -Xarch_device -O1 | -Xarch_host -O1
-Xarch_device -g | -Xarch_gfx906 -O0 | -Xclang -disable-llvm-passes | -Wa,--noexecstack | -fdebug-prefix-map=a=b
-mllvm -amdgpu-early-inline-all=true | -mllvm -inline-threshold=5 | -mllvm -unroll-count=2
-mllvm -align-all-functions=6 | -mllvm --amdgpu-kernarg-preload-count=4 | -Rpass=inline
-Rpass-analysis=kernel-resource-usage | -foffload-lto | -foffload-lto=thin | -fno-offload-lto | --offload-compress
--no-gpu-bundle-output | --gpu-bundle-output | -fsanitize=undefined | -fprofile-generate | -fprofile-instr-generate
-gz | -gz=zlib | -flto-partitions=4 | -flto-jobs=1 | -fwhole-program-vtables | -fsplit-machine-functions
-mrelax-all | -fintegrated-as | -fcf-protection | -fxray-instrument | -Wl,--device-debug
-Wl,--compress | -Wl,--wrapper-jobs=2 | -fuse-cuid=none | -cuid=77 | -fno-rtti | -fno-addrsig | --config=./link.cfg
@more.rsp | -fno-such-thing | -Wno-such-warning | --target=x86_64-linux-gnu | -fgpu-default-stream=per-thread
-stdlib=libstdc++ | --sysroot=/ | --gcc-toolchain=/usr | -mcmodel=large | -fpic | -Ofast | -rtlib=libgcc
--hip-device-lib-path=. | -fmodules | -fuse-cuid=random | libthin.a | empty.o | a.o | runtime.o | libdev.a
""")
# Those that mostly end in an error, or are left to the compiler.
LEFT = table("""
-Werror | -fno-gpu-rdc | -ftime-report | -mllvm -opt-bisect-limit=20 | -mllvm -pass-remarks=inline | -mllvm -stats
-mllvm -bogus | -mllvm -print-after-all | -mllvm | --offload-compress -offload-compression-level=3
-Xoffload-linker -O3 | -Xoffload-linker --lto-O3 | -Xoffload-linker --lto-partitions=2 | -Xoffload-linker --gc-sections
-Xoffload-linker -mllvm=-amdgpu-early-inline-all | -Xoffload-linker --no-undefined | -Xoffload-linker --Map=map.txt
-Xoffload-linker --save-temps | -Xoffload-linker --threads=1 | -Xoffload-linker -z -Xoffload-linker now
-Xoffload-linker --build-id | -Xoffload-linker --no-such | -Xoffload-linker a.o | -Xoffload-linker --whole-archive
-Xoffload-linker -plugin-opt=O1 | -Xoffload-linker --strip-all | -Xoffload-linker --verbose
-Xoffload-linker @list.txt | -flto | -flto=thin | -flto -fno-lto | -flto -ffat-lto-objects | -fsanitize=address
--coverage | -pg | -fopenmp | -fgpu-sanitize -fsanitize=address | -fsave-optimization-record | -gsplit-dwarf
-fstack-usage | -fprofile-use=nowhere.profdata | -fprofile-use=list.txt | -fno-integrated-as | -mcpu=gfx906
-fembed-bitcode | -fprofile-instr-use=list.txt | -fhip-emit-relocatable | --cuda-gpu-arch=gfx908
--no-offload-arch=all | --no-offload-arch=gfx906 | --offload-arch=gfx906,gfx90a | -Wl,--save-temps
-Wl,--wrapper-verbose | -Wl,--dry-run | -Wl,--embed-bitcode | -Wl,--device-linker=-O3 | -Wl,--linker-arg=-s
-Wl,--opt-level=O1 | -Wl,--host-triple=x86_64-linux | -Wl,--print-wrapped-module | -Wl,--clang-backend
-Wl,--override-image=hip=list.txt | -Wl,--cuda-path=/nowhere | -Wl,--offload-opt=-O1 | -Wl,-mllvm,-bogus
-Wl,--device-compiler=-O1 | -Wl,--relocatable | -v | -### | --verbose | -save-temps | --save-temps | -save-temps=obj
-save-temps=cwd | -c | -S | -E | -emit-llvm | -fsyntax-only | --emit-static-lib | -print-search-dirs | --version | -H
-ccc-print-phases | -ccc-print-bindings | -fdriver-only | -fproc-stat-report=stat | -ftime-trace | -MJ db.json
-dumpdir d- | -working-directory first | -fplugin=nowhere.so | --serialize-diagnostics x.dia
-fcrash-diagnostics-dir=. | -fproc-stat-report | --typo | -o | -x | -m32 | -parallel-jobs=2 | -target amdgcn | -x c++
-x hip | -x none | -- | -rtlib=compiler-rt | -stdlib=libc++ | -unwindlib=none | -fsycl | --offload-device-only
--offload-host-only | --cuda-device-only | -fhip-dump-offload-linker-script | --rocm-path=/nowhere
-resource-dir nowhere | -ccc-install-dir /nowhere | main.cpp | a.hip | cut.o | none.o | notes.txt | /dev/null | -
sub.dir | main.bc
""")
OUTPUTS = ("-o program",) * 24 + (
    *("-oprogram", "--output=program", "-o ./program", "-o sub.dir/program", "-o first.out -o program", ""),
    *("-o nowhere/program", "-o sub.dir", "-o linked", "-o /dev/null", "-o 'a program'", "-o lib.program.so.1.2"),
    *("-o a.o", "-o program.o", "-o old", r"-o odd\$\#\"\'name", "-o -"),
)
LIBRARY = (
    *("libdev.a", "./libdev.a", "-L. -ldev", "-L. -l:libdev.a", "-L . -l dev", "-Lfirst -L. -ldev", "-ldev -L."),
    "-Wl,--whole-archive libdev.a -Wl,--no-whole-archive",
    "-Wl,--whole-archive -L. -ldev -Wl,--no-whole-archive",
    "-Wl,--start-group libdev.a libutil.a -Wl,--end-group",
    "-Wl,--start-group,libdev.a,--end-group",
    "-Wl,libdev.a",
    "-Wl,-Bstatic -L. -ldev -Wl,-Bdynamic",
    "libdev.a libdev.a",
    "--library-directory . -ldev",
    "-Xlinker libdev.a",
)
VARIABLES = (
    *(("LIBRARY_PATH", "first"), ("LIBRARY_PATH", "."), ("COMPILER_PATH", "first"), ("LD_RUN_PATH", "/opt")),
    *(("CCC_OVERRIDE_OPTIONS", "# +-O1"), ("CCC_OVERRIDE_OPTIONS", "# x-O2 +-g"), ("CCC_OVERRIDE_OPTIONS", "# +-flto")),
    *(
        ("TMPDIR", "@"),
        ("TMPDIR", "/nowhere"),
        ("PWD", "/nowhere"),
        ("TERM", "dumb"),
        ("COLUMNS", "40"),
        ("TZ", "UTC-3"),
    ),
    *(("HIPCACHE_JOBS", "1"), ("HIPCACHE_READONLY", "1"), ("HIPCACHE_RECACHE", "1"), ("HIPCACHE_BASEDIR", "@")),
    *(("ROCM_PATH", "/nowhere"), ("SOURCE_DATE_EPOCH", "86400"), ("LD_LIBRARY_PATH", "."), ("GCC_EXEC_PREFIX", "/no/")),
    *(("LLD_VERSION", "of mine"), ("LLD_REPRODUCE", "repro.tar"), ("LC_ALL", "C.UTF-8"), ("MAKEFLAGS", " -j")),
    *(("CC_PRINT_OPTIONS", "1"), ("CLANG_NO_DEFAULT_CONFIG", "1"), ("GNUTARGET", "elf64-x86-64"), ("HOME", "")),
    *(("LDEMULATION", "elf_i386"), ("LD_DEBUG", "nothing"), ("HIPCACHE_MAX_SIZE", "40K")),
)

SOURCES = {
    "a": """\
__device__ int twice(int);
extern __device__ int shared_counter;
static __device__ int counter = 3;
void* address() {{ return (void*)&counter; }} // of this source
extern "C" __global__ void kernel(int* p) {{ p[0] = twice(p[1]) + counter + shared_counter + {device}; }}
int host() {{ return {host}; }}
""",
    "b": """\
__device__ int thrice(int);
static __device__ int counter = 4;
void* other_address() {{ return (void*)&counter; }} // of this source
__device__ int twice(int a) {{ return thrice(a) * FACTOR + counter + {device}; }}
template <int N> __global__ void more(float* p) {{ __shared__ float s[N]; s[0] = p[N]; p[1] = s[0] * FACTOR; }}
template __global__ void more<{device}>(float*);
int host_of_b() {{ return {host}; }}
""",
    "c": """\
__device__ int shared_counter = {device};
__device__ __attribute__((noinline)) int thrice(int a) {{ return 3 * a + FACTOR; }} // of this source
int host_of_c() {{ return {host}; }}
""",
    "d": """\
__attribute__((constant)) int numbers[2] = {{FACTOR, {device}}};
__attribute__((managed)) int managed = 3; // of this source
extern "C" __global__ void alone(int* p) {{ p[0] = numbers[p[1]] + managed; }}
int host_of_d() {{ return {host}; }}
""",
}
FACTOR = """\
#ifdef __{arch}__
#define FACTOR {number}
#else
#define FACTOR 2
#endif
"""
MAIN = """\
int host(); int host_of_b(); int host_of_c(); void* other_address();
int main() {{ return host() + host_of_b() + host_of_c() + !other_address() + {host}; }}
"""
# What the objects call of HIP's runtime, where that is not linked.
RUNTIME = """\
extern "C" {
int hipLaunchKernel() { return 0; }
int __hipPopCallConfiguration() { return 0; }
void* __hipRegisterFatBinary() { return nullptr; }
void __hipRegisterFunction() {}
void __hipRegisterVar() {}
void __hipRegisterManagedVar() {}
void __hipRegisterSurface() {}
void __hipRegisterTexture() {}
void __hipUnregisterFatBinary() {}
}
"""
# Texts that name temporary files, each in a directory that hipcache chooses.
_TEXTS = (".map", ".d", ".txt")
_TEMPORARY = re.compile(rb"[^\s\"']*/(?=[^/\s\"']*-[0-9a-f]{6}\.)")


class Link(Case):
    """Objects of a project, and their link."""

    def __post_init__(self) -> None:
        super().__post_init__()
        draw = self.random
        compiler, self.driver = draw.choice(DRIVERS)
        self.compiler = self.instead or compiler
        # It runs clang 15, and links with more libraries.
        self.linker = "/usr/bin/hipcc" if (self.compiler, self.driver) == DRIVERS[0] and draw.random() < 0.2 else ""
        self.stores["b"] = self.root / draw.choice(["store-b", "store b", "store,b=c", "st'o$r\"e#b", "st\\ore"])
        self.archs = draw.choice(ARCHS)
        # By the old driver the device link mostly finds no functions of another source then.
        thin = [THIN] if draw.random() < (0.2 if self.driver else 0.05) else draw.choice(DEVICE_LTO)
        self.compiling = [*draw.choice(COMPILING), *thin]
        self.texts = {name: {"host": 1, "device": 1, "arch": 0, "comment": 0} for name in (*SOURCES, "main")}
        self.odd: dict[str, list[str]] = {}
        self.damaged_library = ""
        self.members = draw.choice([[], [], ["c"], ["c", "util"], ["d", "c", "util"], ["d"]])
        self.library = self._some_library() if self.members else []
        self.objects = [name for name in ("a", "b", "c") if name not in self.members] + ["main"]
        if "d" not in self.members and draw.random() < 0.2:
            self.objects.append("d")
        if draw.random() < 0.3:
            draw.shuffle(self.objects)
        # (hipcc with one is left to itself.)
        self.responses = draw.random() < 0.1 and not self.linker
        self.linked_archs = [*self.archs]
        self.level = draw.choice([[], [draw.choice(LEVELS)]])
        self.flags = [self._some_flag() for _ in range(draw.randrange(3))]
        self.host_flags = [self._some_host_flag() for _ in range(draw.randrange(3))]
        self.runtime = draw.choice([["-L.", "-lruntime"]] * 3 + [["runtime.o"], ["libruntime.a"]])
        self.output = draw.choice(OUTPUTS)
        #: By store: what the device links depend on of each link that was stored.
        self.linked: dict[str, set[str]] = {"a": set(), "b": set()}
        self.failed = False
        self._write_project()

    # The project

    def _write_project(self) -> None:
        self._write("runtime.cpp", RUNTIME)
        self._write("util.cpp", "int util() { return 5; }\n")
        self._write("exports.map", "{ global: main; host; local: *; };\n")
        self._write("list.txt", "{ main; };\n")
        self._write("notes.txt", "nothing that is linked\n")
        self._write("link.cfg", "-O1\n")
        self._write("more.rsp", "-Wl,-z,now '-DTEXT=a b'\n")
        self._write("sub.dir/file", "")
        self._write("first/file", "")
        self._write("old", "an old program\n")
        self._write("empty.o", "")
        (self.work / "linked").symlink_to("elsewhere")
        for name in ("runtime", "util"):
            self._make(self.compiler, "-fPIC", "-c", f"{name}.cpp", "-o", f"{name}.o")
        self._make("ar", "rc", "libruntime.a", "runtime.o")
        self._make("ar", "rc", "libutil.a", "util.o")
        self._make(self.compiler, "-shared", "util.o", "-o", "libhost.so")
        self._make(self.compiler, "-flto", "-c", "util.cpp", "-o", "main.bc")
        for name in self.texts:
            self._compile(name)
        self._make("ar", "rcT", "libthin.a", "d.o")
        whole = (self.work / "d.o").read_bytes() if (self.work / "d.o").exists() else b""
        (self.work / "cut.o").write_bytes(whole[: len(whole) * 2 // 3])
        self._pack()
        self._write_response()

    def _make(self, *words: str) -> None:
        subprocess.run(words, cwd=self.work, check=False, capture_output=True)

    def _compile(self, name: str) -> None:
        """A fresh object; none where that fails, which is a case, too."""
        text = self.texts[name]
        (self.work / f"{name}.o").unlink(missing_ok=True)
        if name == "main":
            self._write("main.cpp", MAIN.format(**text))
            self._make(self.compiler, "-fPIC", "-c", "main.cpp", "-o", "main.o", *self.odd.get(name, []))
            return
        factor = FACTOR.format(arch=self.archs[0].partition(":")[0], number=text["arch"] + 2)
        source = SOURCES[name].format(**text).replace("of this source", f"comment {text['comment']}")
        self._write(f"{name}.hip", (FULL_HEADER if self.real else SHORT_HEADER) + factor + source)
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        surroundings = REAL if self.real else BARE
        words = [*archs, *surroundings, "-fgpu-rdc", *self.driver, *self.compiling, *self.odd.get(name, [])]
        self._make(self.compiler, *words, "-c", f"{name}.hip", "-o", f"{name}.o")

    def _pack(self, kind: str = "rc") -> None:
        self.damaged_library = ""
        (self.work / "libdev.a").unlink(missing_ok=True)
        if self.members:
            self._make("ar", kind, "libdev.a", *(f"{name}.o" for name in self.members))

    def _fresh(self, name: str) -> None:
        self._compile(name)
        if name in self.members:
            self._pack()

    # The command

    def words(self) -> list[str]:
        host = [word for flag in self.host_flags for word in flag]
        output = shlex.split(self.output)
        return [*self._device_words(), *host, *self._inputs(), *self.runtime, *output]

    def _device_words(self) -> list[str]:
        """Those that may reach device links."""
        archs = [f"--offload-arch={arch}" for arch in self.linked_archs]
        surroundings = REAL if self.real else ("-no-hip-rt",)
        flags = [word for flag in self.flags for word in flag]
        program = self.linker or self.compiler
        return [program, *archs, *surroundings, "--hip-link", "-fgpu-rdc", *self.driver, *self.level, *flags]

    def _inputs(self) -> list[str]:
        objects = [f"{name}.o" for name in self.objects]
        return [*(["@objects.rsp"] if self.responses else objects), *self.library]

    def _write_response(self) -> None:
        path, content = self.work / "objects.rsp", "".join(f"{name}.o\n" for name in self.objects)
        if not path.exists() or path.read_text() != content:
            self._write(path.name, content)

    def _device_state(self) -> str:
        """What the device links depend on, and maybe more."""
        codes = []
        for directory, _, names in sorted(os.walk(self.work)):
            for name in sorted(names):
                path = Path(directory, name)
                if path.suffix == ".o" and path.is_file():
                    code = device_code(path.read_bytes())
                    codes.append(f"{os.path.relpath(path, self.work)} {hashlib.sha256(code).hexdigest()}")
        # (What is in a library is packed of these.)
        libraries = [str(path) for path in sorted(self.work.glob("**/*.a"))] if self.library else []
        words = [*self._device_words(), *self.objects, *self.library, *self.members]
        # The old driver takes each library that is named apart for a device link, with and without device code.
        words += [word for word in self.words() if word.startswith("-l")]
        return f"{words} {self.variables} {codes} {len(libraries)} {self.damaged_library}"

    # What happens to it

    def _edit(self) -> str:
        edits: list[Callable[[], str]] = [
            *(self._nothing,) * 3,
            *(self._host_edit,) * 3,
            *(self._device_edit, self._arch_edit) * 2,
            *(self._comment, self._touch, self._anew, self._compile_again, self._gone, self._damage, self._odd_object),
            *(self._flag, self._flag, self._host_flag, self._host_flag, self._link_archs, self._other_level),
            *(self._order, self._leave_out, self._name_twice, self._other_output, self._old_output, self._move),
            *(self._variable, self._response, self._archs_of_all),
            *((self._pack_otherwise, self._shadow, self._other_spelling) if self.members else ()),
        ]
        edit = self._mend if self.failed and self.random.random() < 0.7 else self.random.choice(edits)
        what = edit()
        self._write_response()
        return what

    def _mend(self) -> str:
        """After a link that failed: most of what follows would fail, too."""
        self.odd.clear()
        self.variables.clear()
        self.compiling = [word for word in self.compiling if word != THIN]
        self.library = ["-L.", "-ldev"] if self.members else []
        self.output, self.flags, self.host_flags, self.linked_archs = "-o program", [], [], [*self.archs]
        self.objects = [name for name in ("a", "b", "c") if name not in self.members] + ["main"]
        for path in (self.work / "first").iterdir():
            path.unlink()
        for name in self.texts:
            self._compile(name)
        self._pack()
        return "all is as it should be"

    def _some_library(self) -> list[str]:
        # The old driver takes those alone apart for device code that stand behind -l.
        sure = not self.driver and self.random.random() < 0.7
        return ["-L.", "-ldev"] if sure else self.random.choice(LIBRARY).split(" ")

    def _some_flag(self) -> list[str]:
        return self.random.choice(FLAGS if self.random.random() < 0.8 else LEFT)

    def _some_host_flag(self) -> list[str]:
        return self.random.choice(HOST if self.random.random() < 0.9 else HOST_LEFT)

    def _some_object(self) -> str:
        return self.random.choice([*self.objects, *(name for name in self.members if name != "util")])

    def _some_source(self) -> str:
        return self.random.choice([name for name in (*self.objects, *self.members) if name in SOURCES] or ["a"])

    def _change(self, name: str, what: str) -> str:
        self.version += 1
        self.texts[name][what] = self.version + 10
        self._fresh(name)
        return f"{what} code of {name} is edited"

    def _host_edit(self) -> str:
        return self._change(self._some_object(), "host")

    def _device_edit(self) -> str:
        return self._change(self._some_source(), "device")

    def _arch_edit(self) -> str:
        return self._change(self._some_source(), "arch")

    def _comment(self) -> str:
        return self._change(self._some_source(), "comment")

    def _touch(self) -> str:
        path = self.work / f"{self._some_object()}.o"
        if path.exists():
            path.touch()
        return f"{path.name} is touched"

    def _anew(self) -> str:
        path = self.work / f"{self._some_object()}.o"
        if path.exists():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
        return f"{path.name} is written anew"

    def _compile_again(self) -> str:
        name = self._some_object()
        self._fresh(name)
        return f"{name} is compiled again"

    def _gone(self) -> str:
        """Or there again."""
        name = self._some_object()
        path = self.work / f"{name}.o"
        if not path.exists():
            self._compile(name)
            return f"{path.name} is there again"
        path.unlink()
        return f"{path.name} is gone"

    def _damage(self) -> str:
        path = self.work / self.random.choice([f"{self._some_object()}.o", *(["libdev.a"] if self.members else [])])
        if not path.exists():
            return "nothing changed"
        content = path.read_bytes()
        how = self.random.choice(["cut", "changed", "empty", "longer"])
        place = self.random.randrange(len(content) + 1)
        made = {"cut": content[:place], "empty": b"", "longer": content + b"\0more"}
        path.write_bytes(made.get(how, content[:place] + b"?" + content[place + 1 :]))
        if path.suffix == ".a":
            self.damaged_library = f"{how} {place}"
        return f"{path.name} is {how} at {place} of {len(content)}"

    def _odd_object(self) -> str:
        name = self._some_object()
        if self.odd.pop(name, None) is None:
            self.odd[name] = self.random.choice(ODD)
        self._fresh(name)
        return f"{name} is compiled with {self.odd.get(name, 'what all are')}"

    def _archs_of_all(self) -> str:
        self.archs = self.random.choice(ARCHS)
        self.linked_archs = [*self.archs]
        for name in self.texts:
            self._compile(name)
        self._pack()
        return f"all is compiled for {self.archs}"

    def _link_archs(self) -> str:
        """Some of those that objects are compiled for, in another order, or one more."""
        self.linked_archs = self.random.sample(self.archs, self.random.randrange(1, len(self.archs) + 1))
        if self.random.random() < 0.2:
            self.linked_archs.append(self.random.choice(["gfx1031", "gfx000", "gfx90a:xnack+", "gfx906"]))
        return f"linked for {self.linked_archs}"

    def _flag(self) -> str:
        return self._toggle(self.flags, self._some_flag)

    def _host_flag(self) -> str:
        return self._toggle(self.host_flags, self._some_host_flag)

    def _toggle(self, flags: list[list[str]], draw: Callable[[], list[str]]) -> str:
        if flags and self.random.random() < 0.5:
            return f"without {flags.pop(self.random.randrange(len(flags)))}"
        flags.append(draw())
        return f"with {flags[-1]}"

    def _other_level(self) -> str:
        self.level = [self.random.choice(LEVELS)]
        return f"level {self.level}"

    def _order(self) -> str:
        self.random.shuffle(self.objects)
        return f"in the order {self.objects}"

    def _leave_out(self) -> str:
        if len(self.objects) < 2:
            return "nothing changed"
        return f"without {self.objects.pop(self.random.randrange(len(self.objects)))}"

    def _name_twice(self) -> str:
        self.objects.append(self._some_object())
        return f"and {self.objects[-1]}"

    def _other_output(self) -> str:
        self.output = self.random.choice(OUTPUTS)
        return f"written to {self.output!r}"

    def _old_output(self) -> str:
        """An older program, or what may not be written, lies where the program goes."""
        path, kind = (
            self.work / "program",
            self.random.choice(["file", "program", "link", "directory", "fixed", "none"]),
        )
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if kind == "link":
            path.symlink_to("elsewhere")
        elif kind == "directory":
            path.mkdir()
        elif kind != "none":
            path.write_text("an old program\n")
            path.chmod({"file": 0o644, "program": 0o755, "fixed": 0o444}[kind])
        return f"there is a {kind} named program"

    def _variable(self) -> str:
        return self._toggle_variable(VARIABLES)

    def _response(self) -> str:
        self.responses = not self.responses
        return "objects in a response file, or no longer"

    def _pack_otherwise(self) -> str:
        kind = self.random.choice(["rcD", "rcU", "rcS", "rcT", "rcv"])
        self.random.shuffle(self.members)
        self._pack(kind)
        return f"the library is packed by ar {kind} of {self.members}"

    def _shadow(self) -> str:
        """Another library of that name, or the same, in a directory that is looked into before."""
        name, path = self.random.choice(["libdev.a", "libdev.so", "libruntime.a", "libruntime.so"]), self.work / "first"
        if (path / name).exists():
            (path / name).unlink()
            return f"first/{name} is gone"
        source = self.random.choice(["libdev.a", "libutil.a", "libruntime.a", "libhost.so", "notes.txt"])
        if not (self.work / source).exists():
            return "nothing changed"
        shutil.copy2(self.work / source, path / name)
        return f"first/{name} is a copy of {source}"

    def _other_spelling(self) -> str:
        self.library = self._some_library()
        return f"the library as {self.library}"

    # Both sides

    def _compare(self, what: str, store: str, *, must_hit: bool) -> str:
        outcome = super()._compare(what, store, must_hit=must_hit)
        state = self._device_state()
        kept = not (self._is_never_kept() or "HIPCACHE_MAX_SIZE" in self.variables)
        if kept and outcome in ("miss", "partial") and state in self.linked[store]:
            raise Difference("a device link ran again, though no device code has changed")
        if kept and outcome in ("hit", "miss", "partial"):
            self.linked[store].add(state)
        return outcome

    def _same(self, plain: Ended, cached: Ended) -> None:
        self.failed = plain.status != 0
        try:
            super()._same(plain, cached)
        except Difference as found:
            for _ in range(3):
                before = self._files()
                again = self._end(self.words(), before, "a")
                self._restore(before)
                try:
                    super()._same(plain, again)
                except Difference:
                    self.said[-1] += f"\n      (plain clang makes something else each time: {str(found)[:200]})"
                    return
            raise

    def _same_file(self, name: str, mine: bytes, other: bytes) -> None:
        if name.endswith(_TEXTS):
            mine, other = self._without_places(mine), self._without_places(other)
        super()._same_file(name, mine, other)

    def _without_places(self, text: bytes) -> bytes:
        for store in self.stores.values():
            text = text.replace(os.fsencode(store), b"")
        # A name that is too long for its column moves the next one.
        return b" ".join(neutral(_TEMPORARY.sub(b"", text)).split())


def device_code(content: bytes) -> bytes:
    """What an object carries for devices: its sections with the bundler's or the packager's name. All of what is no
    ELF-64 object (System V ABI, chapter 4)."""
    try:
        if content[:6] != b"\x7fELF\x02\x01":
            return content
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count, names = struct.unpack_from("<HHH", content, 58)
        sections = [struct.unpack_from("<IIQQQQ", content, start + size * number) for number in range(count)]
    except struct.error:
        return content
    found = []
    for name, _, _, _, place, length in sections:
        first = sections[names][4] + name
        label = content[first : content.find(b"\0", first)]
        if label.startswith((b"__CLANG_OFFLOAD_BUNDLE__hip", b".llvm.offloading")):
            found.append(label + content[place : place + length])
    return b"".join(found)
