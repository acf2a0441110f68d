#!/usr/bin/env bash
# Makes the Meson subproject as an archive, and the wrap file with which a project downloads it:
#
#     scripts/meson_wrap.sh URL DIRECTORY     URL: of the directory that will hold the archive
#
# https://mesonbuild.com/Wrap-dependency-system-manual.html. The archive has the same bytes each time: sorted, without
# owners, of the last commit's time (SOURCE_DATE_EPOCH).
set -euo pipefail
url=${1%/} out=$2
cd "$(dirname "$0")/.."
version=$(sed -n "s/^__version__ = \"\(.*\)\"$/\1/p" plugins/hipcache/__init__.py)
name=hipcache-meson-$version
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)}
tar -C meson --exclude=hipcache.wrap --exclude=__pycache__ --transform "s,^[.],$name," --sort=name --format=ustar \
    --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$when" -c . -C .. ./LICENSE |
    gzip -n >"$out/$name.tar.gz"
cat >"$out/hipcache.wrap" <<END
[wrap-file]
directory = $name
source_url = $url/$name.tar.gz
source_filename = $name.tar.gz
source_hash = $(sha256sum "$out/$name.tar.gz" | cut -d' ' -f1)

[provide]
dependency_names = amdhip64
END
