#!/bin/sh
# module.sh HIPCACHE COMPILER SOURCE MODULE [FLAG...]: builds the module for what its name says. HIPCACHE: - for none.
set -eu
hipcache=$1 compiler=$2 source=$3 module=$4
shift 4
stem=${module%.vmfb}
target=${stem##*.}
rest=${stem%.*}
device=${rest##*.}
case $target:$device in
local:*) set -- --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu "$@" ;;
*:hip | *:amdgpu) set -- "--iree-hal-target-device=$device" "--iree-rocm-target=$target" "$@" ;;
*)
    echo "iree_module: '$module' does not say for what it is" >&2
    echo "  name it NAME.hip.gfx942.vmfb, NAME.amdgpu.gfx942.vmfb or NAME.local.vmfb" >&2
    exit 1
    ;;
esac
if [ "$hipcache" = - ]; then
    exec "$compiler" "$@" "$source" -o "$module"
fi
"$hipcache" "$compiler" "$@" "$source" -o "$module"
exec "$hipcache" iree-check --quiet "$module"
