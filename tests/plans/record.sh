#!/bin/sh
# Records what `-###` of clang 15 and 19 prints (Debian 12's packages), for test_plan.py and its neighbours.
# Run it where /src/demo may be made: the working directory stands in the plans.
set -e
plans=$(cd "$(dirname "$0")" && pwd)
mkdir -p /src/demo
cd /src/demo
mkdir -p "a dir" 'quo"te' 'back\slash' 'dol$lar'
touch k.hip "a dir/k k.hip" 'quo"te/k.hip' 'back\slash/k.hip' 'dol$lar/k.hip'

record() {
    version=$1 name=$2
    shift 2
    "clang++-$version" -nogpuinc -nogpulib -O2 '-###' "$@" >"$plans/clang$version-$name.txt" 2>&1 || true
}

both() {
    record 15 "$@"
    record 19 "$@"
}

one="--offload-arch=gfx906"
both one-arch $one -c k.hip -o k.o
both default-output $one -c k.hip
both three-archs --offload-arch=gfx90a $one --offload-arch=gfx1030 -c k.hip -o out/k.o
both features --offload-arch=gfx90a:xnack+ --offload-arch=gfx90a:xnack- --offload-arch=gfx908:sramecc+:xnack- -c k.hip -o k.o
record 19 generic --offload-arch=gfx9-generic --offload-arch=gfx10-3-generic -c k.hip -o k.o
both dependencies $one -MD -MT 'k o.o' -MF 'k d.d' -MP -c k.hip -o k.o
both user-dependencies $one -MMD -c k.hip -o k.o
both debug $one -g -gz -fPIC -Wall -DNAME=1 -UOTHER -Iinclude -isystem sys -include first.h -c k.hip -o k.o
both colours $one -fcolor-diagnostics -fmessage-length=80 -c k.hip -o k.o
both cuid $one -cuid=5eed -c k.hip -o k.o
both spaces $one '-DTEXT="two words"' -I 'a dir' -c 'a dir/k k.hip' -o 'a dir/k k.o'
both quote $one '-DTEXT="a\"b"' -c 'quo"te/k.hip' -o 'quo"te/k.o'
both backslash $one '-DTEXT=\\' -c 'back\slash/k.hip' -o 'back\slash/k.o'
both dollar $one '-DTEXT=$HOME' -c 'dol$lar/k.hip' -o 'dol$lar/k.o'
both empty-word $one -D '' -c k.hip -o k.o
both remarks $one -Rpass-analysis=kernel-resource-usage -c k.hip -o k.o
both warns $one -Wl,-z,now -c k.hip -o k.o

both shape-rdc $one -fgpu-rdc -c k.hip -o k.o
both new-driver $one --offload-new-driver -c k.hip -o k.o
record 15 left-compress $one --offload-compress -c k.hip -o k.o
record 19 compress $one --offload-compress -c k.hip -o k.o
both left-lto $one -flto -c k.hip -o k.o
both left-save-temps $one -save-temps -c k.hip -o k.o
both shape-device-only $one --cuda-device-only -c k.hip -o k.o
both shape-host-only $one --cuda-host-only -c k.hip -o k.o
both shape-preprocess $one -E k.hip -o k.i
both shape-assembly $one -S k.hip -o k.s
both left-syntax-only $one -fsyntax-only k.hip
both left-link $one k.hip -o k
both left-plugin $one -fplugin=/usr/lib/none.so -c k.hip -o k.o
both left-split-dwarf $one -gsplit-dwarf -g -c k.hip -o k.o
both left-two-sources $one -c k.hip "a dir/k k.hip"
both left-c++ -x c++ -c k.hip -o k.o
both left-error --offload-arch=gfx1 -c k.hip -o k.o

# Links of relocatable device code, with the script that the driver gives llvm-mc.
printf '__attribute__((device)) int v;\n' >one.hip
printf '__attribute__((device)) int d(int a) { return a; }\n' >two.hip
for version in 15 19; do
    for name in one two; do
        "clang++-$version" -nogpuinc -nogpulib -O2 -fgpu-rdc -cuid=$name $one -c $name.hip -o $name.o
    done
    rm -f libtwo.a
    ar rc libtwo.a two.o
    link="$one --offload-arch=gfx90a --hip-link -fgpu-rdc -fhip-dump-offload-linker-script"
    record $version link-objects $link one.o two.o -o k
    record $version link-library $link one.o -L. -ltwo -o k
done
