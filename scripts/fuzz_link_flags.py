"""What the fuzzer's links are called with: drivers, architectures, words that reach device links or not, variables."""

from __future__ import annotations

from fuzz_case import COMPILERS, table
from hip_toolchain import installed

OLD: tuple[str, ...] = ()
NEW = ("--offload-new-driver",)
#: (compiler, flags that choose the offload driver). Of most clangs the new one's links are left to it.
DRIVERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((compiler, OLD) for compiler in COMPILERS * 3),
    *((COMPILERS[-1], NEW),) * 5,
    *((f"/usr/bin/{toolchain.name}", NEW) for toolchain in [*installed().values()] * 3 if toolchain.version == "22"),
    (COMPILERS[0], NEW),
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
