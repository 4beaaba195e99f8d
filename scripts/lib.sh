# shellcheck shell=bash
# Sourced by scripts/build, scripts/test, scripts/demo and the make-roots of the tests: the Debian packages each needs, and their installation.

# What a bare Debian 12 lacks, by what for.
packages_for() {
    case $1 in
        build) echo g++ cmake ninja-build ccache git binutils xz-utils ca-certificates ;;
        build-aarch64) echo g++-aarch64-linux-gnu binutils-aarch64-linux-gnu qemu-user-static ;;
        sanitizers) echo libasan8 libubsan1 ;;
        checks) echo shellcheck clang-format ;;
        tidy) echo clang-tidy ;;
        python) echo python3 python3-pytest python3-pytest-xdist python3-yaml ;;  # xdist runs tests beside one another
        # Make-believe nodes: private namespaces (util-linux is essential), addresses on a veth, processes looked at; strace counts and kills;
        # curl tries the make-believe metadata service.
        node) echo iproute2 procps strace curl ;;
        rig) echo mmdebstrap debian-archive-keyring iproute2 procps ;;
        boot) echo mmdebstrap debian-archive-keyring systemd-container ;;
        lab) echo systemd-container rsyslog iproute2 procps ;;
        *) echo "lib.sh: no package list named $1" >&2; return 1 ;;
    esac
}

# need_packages LIST...: installs what is missing of the named lists; says what to do where it cannot.
need_packages() {
    local list package missing=() wanted
    for list in "$@"; do
        wanted=$(packages_for "$list") || return 1
        for package in $wanted; do
            [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
        done
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "no apt-get here: install by hand what Debian calls: ${missing[*]}" >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "packages are missing; as root: apt-get install ${missing[*]}" >&2
        return 1
    fi
    echo "installing: ${missing[*]}" >&2
    # Another apt may be at work (a boot's unattended upgrade): wait for its lock, but not for ever.
    local apt=(apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -q)
    local log
    log=$(mktemp)
    # A policy that starts no service: packages are wanted for their programs. Only where the machine has none of its own.
    local policy=/usr/sbin/policy-rc.d own_policy=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy && own_policy=yes
    fi
    local status=0
    DEBIAN_FRONTEND=noninteractive timeout 1800 "${apt[@]}" -y install --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1 ||
        { timeout 600 "${apt[@]}" update </dev/null >>"$log" 2>&1 &&
          DEBIAN_FRONTEND=noninteractive timeout 1800 "${apt[@]}" -y install --no-install-recommends "${missing[@]}" </dev/null >>"$log" 2>&1; } ||
        status=$?
    [ -z "$own_policy" ] || rm -f $policy
    if [ $status -ne 0 ]; then
        tail -n 20 "$log" >&2
        echo "apt-get could not install: ${missing[*]}" >&2
    fi
    rm -f "$log"
    return $status
}

# Jobs for a build: one a processor, and no more than memory allows (a C++ compile here takes up to 1 GiB).
build_jobs() {
    local cpus gib
    cpus=$(nproc)
    gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
    [ "$gib" -ge 1 ] || gib=1
    [ "$cpus" -le "$gib" ] && echo "$cpus" || echo "$gib"
}

# unknown_warnings LOG: prints the warnings of a build that are not known; true where there is one.
# The known: these functions of a static glibc load name-service modules at run time. src/main.cpp pins them to the
# built-in ones; any other function that warns so has to be looked at before it is added here.
unknown_warnings() {
    grep -iE '(^|[^A-Za-z_/.-])warning:' "$1" |
        grep -vE "warning: Using '(getaddrinfo|getpwuid|getpwuid_r)' in statically linked applications requires at runtime the shared libraries from the glibc version used for linking$"
}
