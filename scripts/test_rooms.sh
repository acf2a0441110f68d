#!/usr/bin/env bash
# Runs the tests that matter most with the clangs of today, in rooms (scripts/room.sh): `make test-rooms`.
#
#     scripts/test_rooms.sh [SUITE:CLANG...]
#
# A clang whose compiles pass through is left out, and told. Where no room can be made, a line says why, and that is no
# failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# HIP 6.4, LLVM 23; ROCm 7.2, a snapshot of LLVM 24.
MATRIX=(sid:21 sid:23 experimental:22 experimental:24)
[ $# -eq 0 ] || MATRIX=("$@")
COMPILES=(
    tests/compile/test_identity.py tests/unit/test_units.py tests/unit/test_offload_plan.py
    tests/features/test_link_new_driver.py
)
# With HIP's own clang: Debian has no device libraries for the others.
MORE=(
    tests/features/test_link.py tests/features/test_links.py tests/compile/test_hipcc.py tests/compile/test_backend.py
    tests/hazards/test_hazards_{driver,headers,files,device_linker}.py
)
WORKERS=${WORKERS:-$(nproc)}
# shellcheck disable=SC2016
IN_ROOM='
clang=$1 workers=$2
shift 2
scripts/setup.sh --required test
why=$(.venv/bin/python -c "
import os, sys
from hipcache.app.trial import why_passed_through
words = [\"-x\", \"hip\", \"--offload-arch=gfx90a\", \"-nogpuinc\", \"-nogpulib\"]
print(why_passed_through([sys.argv[1], *words], os.environ))" "/usr/lib/llvm-$clang/bin/clang++")
if [ -n "$why" ]; then
    echo "==> clang $clang is left out, its compiles pass through: $why"
else
    TOOLCHAIN=$clang .venv/bin/pytest -n "$workers" --dist worksteal "$@"
fi'

failed=()
for room in "${MATRIX[@]}"; do
    echo "==> clang ${room#*:} in a room of ${room%:*}"
    status=0 chosen=("${COMPILES[@]}")
    [ "${room#*:}" -ge 23 ] || chosen+=("${MORE[@]}")
    scripts/room.sh "${room%:*}" -- bash -euc "$IN_ROOM" bash "${room#*:}" "$WORKERS" "${chosen[@]}" || status=$?
    case $status in
    0) ;;
    77) echo "==> no room: this clang is not tried here" ;;
    *) failed+=("$room") ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "==> failed: ${failed[*]}" >&2
    exit 1
fi
