#!/bin/sh
# Records what `-###` of clang 15, 19 and 22 prints (Debian 12's packages), for test_plan.py and its neighbours.
# Run it where /src/demo may be made: the working directory stands in the plans. VERSIONS: those that are to be recorded.
set -e
plans=$(cd "$(dirname "$0")" && pwd)
mkdir -p /src/demo
cd /src/demo
mkdir -p "a dir" 'quo"te' 'back\slash' 'dol$lar'
touch k.hip "a dir/k k.hip" 'quo"te/k.hip' 'back\slash/k.hip' 'dol$lar/k.hip'

VERSIONS=${VERSIONS:-15 19 22}
record() {
    version=$1 name=$2
    shift 2
    case " $VERSIONS " in *" $version "*) ;; *) return 0 ;; esac
    "clang++-$version" -nogpuinc -nogpulib -O2 '-###' "$@" >"$plans/clang$version-$name.txt" 2>&1 || true
}

all() {
    record 15 "$@"
    record 19 "$@"
    record 22 "$@"
}

one="--offload-arch=gfx906"
all one-arch $one -c k.hip -o k.o
all default-output $one -c k.hip
all three-archs --offload-arch=gfx90a $one --offload-arch=gfx1030 -c k.hip -o out/k.o
all features --offload-arch=gfx90a:xnack+ --offload-arch=gfx90a:xnack- --offload-arch=gfx908:sramecc+:xnack- -c k.hip -o k.o
for version in 19 22; do
    record $version generic --offload-arch=gfx9-generic --offload-arch=gfx10-3-generic -c k.hip -o k.o
    record $version compress $one --offload-compress -c k.hip -o k.o
done
all dependencies $one -MD -MT 'k o.o' -MF 'k d.d' -MP -c k.hip -o k.o
all user-dependencies $one -MMD -c k.hip -o k.o
all debug $one -g -gz -fPIC -Wall -DNAME=1 -UOTHER -Iinclude -isystem sys -include first.h -c k.hip -o k.o
all colours $one -fcolor-diagnostics -fmessage-length=80 -c k.hip -o k.o
all cuid $one -cuid=5eed -c k.hip -o k.o
all spaces $one '-DTEXT="two words"' -I 'a dir' -c 'a dir/k k.hip' -o 'a dir/k k.o'
all quote $one '-DTEXT="a\"b"' -c 'quo"te/k.hip' -o 'quo"te/k.o'
all backslash $one '-DTEXT=\\' -c 'back\slash/k.hip' -o 'back\slash/k.o'
all dollar $one '-DTEXT=$HOME' -c 'dol$lar/k.hip' -o 'dol$lar/k.o'
all empty-word $one -D '' -c k.hip -o k.o
all remarks $one -Rpass-analysis=kernel-resource-usage -c k.hip -o k.o
all warns $one -Wl,-z,now -c k.hip -o k.o

all shape-rdc $one -fgpu-rdc -c k.hip -o k.o
record 15 new-driver $one --offload-new-driver -c k.hip -o k.o
record 19 new-driver $one --offload-new-driver -c k.hip -o k.o
record 15 left-compress $one --offload-compress -c k.hip -o k.o
all shape-lto $one -flto -c k.hip -o k.o
all left-save-temps $one -save-temps -c k.hip -o k.o
all shape-device-only $one --cuda-device-only -c k.hip -o k.o
all shape-host-only $one --cuda-host-only -c k.hip -o k.o
all shape-preprocess $one -E k.hip -o k.i
all shape-assembly $one -S k.hip -o k.s
record 22 shape-text --offload-new-driver $one --offload-arch=gfx90a -E k.hip -o k.i
record 22 spirv --offload-arch=amdgcnspirv $one -c k.hip -o k.o
all left-syntax-only $one -fsyntax-only k.hip
all left-link $one k.hip -o k
all left-plugin $one -fplugin=/usr/lib/none.so -c k.hip -o k.o
all shape-split-dwarf $one -gsplit-dwarf -g -c k.hip -o k.o
all left-two-sources $one -c k.hip "a dir/k k.hip"
all left-c++ -x c++ -c k.hip -o k.o
all left-error --offload-arch=gfx1 -c k.hip -o k.o

# Links of relocatable device code, with the script that the driver gives llvm-mc.
printf '__attribute__((device)) int v;\n' >one.hip
printf '__attribute__((device)) int d(int a) { return a; }\n' >two.hip
for version in $VERSIONS; do
    for name in one two; do
        "clang++-$version" -nogpuinc -nogpulib -O2 -fgpu-rdc -cuid=$name $one -c $name.hip -o $name.o
    done
    rm -f libtwo.a
    ar rc libtwo.a two.o
    link="$one --offload-arch=gfx90a --hip-link -fgpu-rdc -fhip-dump-offload-linker-script"
    record $version link-objects $link one.o two.o -o k
    record $version link-library $link one.o -L. -ltwo -o k
done

# Relocatable device code that is compiled and linked at once.
touch l.hip
at_once="$one --offload-arch=gfx90a -fgpu-rdc -fhip-dump-offload-linker-script k.hip l.hip -o k"
record 15 left-relocatable $at_once
record 19 left-relocatable $at_once
record 19 left-relocatable-new-driver --offload-new-driver $at_once
