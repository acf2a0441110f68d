#!/bin/sh
# Records plans of the new offload driver, and what clang-linker-wrapper and its clang print in a dry run, for
# test_offload_plan.py. VERSIONS: those that are to be recorded (22: Debian 12's packages, 23: sid's, 24: experimental's).
set -e
plans=$(cd "$(dirname "$0")" && pwd)
mkdir -p /src/demo
cd /src/demo
touch k.hip

record() {
    name=clang$version-wrapped-$1
    shift
    "clang++-$version" --offload-new-driver -nogpuinc -nogpulib -O2 '-###' "$@" -c k.hip -o k.o >"$plans/$name.txt" 2>&1
    "$plans/dry_run.py" "$plans/$name.txt" >"$plans/$name.printed"
}

for version in ${VERSIONS:-22 23 24}; do
    record archs --offload-arch=gfx942 --offload-arch=gfx1100
    record features --offload-arch=gfx90a:xnack+ --offload-arch=gfx90a:xnack- --offload-arch=gfx9-4-generic --offload-compress
done
