#!/usr/bin/env bash
# Runs a command in a room: a root of another suite of Debian, with this checkout at its own path.
#
#     scripts/room.sh SUITE [PACKAGE...] [-- COMMAND [WORD...]]     (SUITE: trixie, sid, experimental)
#
# A room is made once, in $HIPCACHE_ROOMS (else ~/.cache/hipcache-rooms), with what scripts/setup.sh needs and the named
# packages, and is used again. Without COMMAND its path is printed. The command is root there, with a /tmp of its own in
# memory. What it writes into the checkout stays beside the room, for the next command there: .venv is the room's own.
# All mounts are in a namespace of the command's, so that nothing is left of it, however it ends.
#
# Makes a room by mmdebstrap, from the mirror in this machine's apt sources (else MIRROR). Root is not needed where
# users may have namespaces and subordinate IDs (subuid(5)). Exit status 77: no room can be made here; a line says why.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
rooms=${HIPCACHE_ROOMS:-${XDG_CACHE_HOME:-$HOME/.cache}/hipcache-rooms}

cannot() {
    echo "room: $1" >&2
    exit 77
}

# What a suite has beside Debian's stable name for it: the suites to read, and a clang that is newer than HIP's.
sources() {
    case $1 in
    experimental) echo "sid experimental" ;;
    *) echo "$1" ;;
    esac
}
newer_clang() {
    case $1 in
    trixie) echo 19 ;;
    sid) echo 23 ;;
    experimental) echo 24 ;;
    esac
}

find_mirror() {
    local mirror=${MIRROR:-}
    if [ -z "$mirror" ] && command -v apt-get >/dev/null; then
        mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null | head -n 1)
    fi
    echo "$mirror"
}

make_room() {
    local suite=$1 root=$2 mirror version name list packages part=$2.part log=$2.log
    command -v mmdebstrap >/dev/null || cannot "mmdebstrap is not installed, which makes rooms (Debian: apt install mmdebstrap)"
    mirror=$(find_mirror)
    [ -n "$mirror" ] || cannot "no mirror of Debian is known: set MIRROR to the address of one"
    version=$(newer_clang "$suite")
    packages=$("$here/scripts/setup.sh" --packages)
    packages+=" ca-certificates mount clang-$version clang-tools-$version lld-$version llvm-$version"
    local -a words=(--mode=root --variant=apt --skip=cleanup/apt "--include=${packages// /,}"
        --aptopt='Acquire::Check-Valid-Until "false"')
    [ "$suite" != experimental ] || words+=(--aptopt='APT::Default-Release "experimental"')
    local -a lists=()
    for name in $(sources "$suite"); do
        lists+=("deb $mirror $name main")
    done
    echo "room: making one of $suite in '$root' (two minutes, 2 GB)" >&2
    rm -rf --one-file-system "$part"
    if ! mmdebstrap "${words[@]}" "$(sources "$suite" | cut -d ' ' -f 1)" "$part" "${lists[@]}" >"$log" 2>&1 </dev/null; then
        rm -rf --one-file-system "$part"
        cannot "no room of $suite can be made from $mirror: $(grep -E '^E:' "$log" | head -n 1) (all in '$log')"
    fi
    mv "$part" "$root"
}

# Makes the mounts in a namespace that nobody else sees, and runs the command there: as the first process of a namespace
# it waits for those that others leave behind.
enter() {
    local root=$1 beside=$2 file part options
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
        [ -e "$file" ] || continue
        part=$(mktemp "$root$file.XXXXXX") # another command may enter meanwhile
        cp "$(realpath "$file")" "$part"
        chmod 644 "$part"
        mv "$part" "$root$file"
    done
    mkdir -p "$root$here" "$beside/upper" "$beside/work"
    # What was built here is for this system: the room begins without it. A device 0, 0 of overlayfs says so.
    for file in .venv build dist site .mypy_cache .ruff_cache .pytest_cache plugins/hipcache/native/libhipcache.so; do
        if [ ! -e "$beside/upper/$file" ]; then
            mkdir -p "$(dirname "$beside/upper/$file")"
            mknod "$beside/upper/$file" c 0 0
        fi
    done
    options="lowerdir=$here,upperdir=$beside/upper,workdir=$beside/work"
    [ -z "${ROOM_OF_USER:-}" ] || options+=,userxattr
    mount -t overlay -o "$options" overlay "$root$here" || cannot "an overlay of '$here' cannot be mounted in '$root'"
    # shellcheck disable=SC2016
    chroot "$root" /usr/bin/env -u XDG_CACHE_HOME -u XDG_RUNTIME_DIR -u TMPDIR -u LC_ALL -u LANG HOME=/root \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$here" "$@"
}

if [ "${1:-}" = --enter ]; then
    shift
    enter "$@"
    exit
fi

suite=${1:-}
case $suite in
trixie | sid | experimental) shift ;;
*)
    echo "usage: scripts/room.sh trixie|sid|experimental [PACKAGE...] [-- COMMAND [WORD...]]" >&2
    exit 2
    ;;
esac
if [ "$(id -u)" -ne 0 ]; then
    # A user is root of a namespace, and has other users there where newuidmap(1) lets it.
    unshare --map-root-user --map-auto --mount true 2>/dev/null ||
        cannot "only root can make a room here (else: user namespaces, Debian's uidmap and a line in /etc/subuid)"
    exec env ROOM_OF_USER=1 unshare --map-root-user --map-auto -- "$0" "$suite" "$@"
fi
unshare --mount true 2>/dev/null || cannot "this machine lets nobody mount"

packages=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    packages+=("$1")
    shift
done
[ $# -eq 0 ] || shift
mkdir -p "$rooms"
root=$(cd "$rooms" && pwd)/$suite
beside=$root.checkouts/${here//\//-}
mkdir -p "$beside"

# unshare does not end by SIGTERM: it is killed when this script ends.
inside=(setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child -- "$0" --enter "$root" "$beside")

# Two commands would see each other's writes in an order that overlayfs leaves open.
exec 9>"$beside/lock" 8>"$root.lock"
flock 8
[ -d "$root" ] || make_room "$suite" "$root"
if [ ${#packages[@]} -gt 0 ]; then
    mapfile -t packages < <(comm -23 <(printf '%s\n' "${packages[@]}" | sort -u) \
        <(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package}\n' | sort -u))
    [ ${#packages[@]} -eq 0 ] ||
        "${inside[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
fi
exec 8>&-
if [ $# -eq 0 ]; then
    echo "$root"
    exit
fi
flock --nonblock 9 || { echo "room: waiting for another command of this checkout" >&2; flock 9; }
"${inside[@]}" "$@"
