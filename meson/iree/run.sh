#!/bin/sh
# run.sh MODULE [FLAG...]: iree-run-module with the --device= that the module's name says.
set -eu
module=$1
shift
stem=${module%.vmfb}
case ${stem##*.} in
local) device=local-task ;;
*)
    stem=${stem%.*}
    device=${stem##*.}
    ;;
esac
exec "${IREE_RUN_MODULE:-iree-run-module}" "--device=$device" "--module=$module" "$@"
