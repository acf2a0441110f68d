#!/bin/sh
# manifest.sh HIPCACHE MANIFEST MODULE...: a JSON list of the modules; an empty one where HIPCACHE is -.
set -eu
hipcache=$1 manifest=$2
shift 2
if [ "$hipcache" = - ]; then
    echo '{"modules": []}' >"$manifest"
else
    exec "$hipcache" iree-check --quiet "--manifest=$manifest" "$@"
fi
