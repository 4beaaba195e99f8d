# shellcheck shell=bash
# Sourced by the make-roots of tests/rig and tests/mig: Debian roots, each made once and kept below $GPU_PROLOG_CACHE (default: .cache in the
# project), never in git.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/lib.sh
. "$project/scripts/lib.sh"
roots=${GPU_PROLOG_CACHE:-$project/.cache}/roots

[ "$(id -u)" = 0 ] || { echo "make-roots: must be root: mmdebstrap and mknod need it" >&2; exit 3; }

# The mirror that this machine itself uses: the roots come from where its own packages come from.
mirror() {
    local m
    m=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null)
    [ -n "$m" ] || m=$(awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) {print $i; exit}}' /etc/apt/sources.list 2>/dev/null)
    echo "$m"
}

# debian_root NAME SUITE PACKAGE,PACKAGE...: makes $roots/NAME where it is not there yet or held other packages; prints why where it cannot.
# Two runs share the work: one waits for the other.
debian_root() {
    local root=$roots/$1 suite=$2 packages=$3 tmp
    mkdir -p "$roots"
    (
        flock 9
        [ "$(cat "$root.packages" 2>/dev/null)" != "$packages" ] || [ ! -d "$root" ] || exit 0
        tmp=$(mktemp -d "$roots/.$1.XXXXXX") || exit 1
        # Check-Valid-Until: a testing suite's Release file on a mirror may be past its date; its signature still has to be good.
        if ! mmdebstrap --variant=minbase --mode=root \
            --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
            --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
            --include="$packages" "$suite" "$tmp" "$(mirror)" >"$root.log" 2>&1; then
            rm -rf --one-file-system "$tmp"
            echo "mmdebstrap of $suite failed: $(grep -v '^I:' "$root.log" | tail -1 | tr -s ' ')"
            exit 1
        fi
        # Joined, for a caller's `if` switches -e off in here.
        rm -rf "$tmp"/var/cache/apt/archives/*.deb "$tmp"/var/lib/apt/lists/* && chmod 755 "$tmp" &&
            rm -rf --one-file-system "$root" "$root.packages" && mv "$tmp" "$root" && printf '%s' "$packages" >"$root.packages"
    ) 9>"$roots/.$1.lock"
}
