"""What the fuzzer's compiles are called with: architectures, flags, ends, sources, outputs and variables."""

from __future__ import annotations

from fuzz_case import table

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
