#!/usr/bin/env bash
# Installs Debian packages: `apt.sh PACKAGE...`. Another process may be at it (a fresh machine updates
# itself, two set-ups run at once): then this waits for it, up to five minutes, and says so.
set -euo pipefail

limit_s=${GIVEWAY_APT_LIMIT_S:-300}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf 'apt: %s\n' "$*" >&2; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Runs apt-get until nobody else holds one of its locks. Its own patience, DPkg::Lock::Timeout, is not
# for the lists that `update` writes, and is silent.
patiently() {
    local said='' holder code
    until as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq \
        -o DPkg::Lock::Timeout=2 "$@" > "$log" 2>&1; do
        code=$?
        if ! holder=$(grep -m 1 -oE 'Could not get lock .*' "$log"); then
            tail -n 20 "$log" >&2
            say "error: \`apt-get $1\` failed ($code); its last lines are above"
            exit 3
        fi
        if [ "$SECONDS" -ge "$limit_s" ]; then
            say "error: gave up after $limit_s s: $holder"
            exit 3
        fi
        [ "$holder" = "$said" ] || say "waiting for another process: $holder"
        said=$holder
        sleep 1
    done
}

patiently update
patiently install -y --no-install-recommends "$@"
