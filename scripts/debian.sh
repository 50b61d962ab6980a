#!/usr/bin/env bash
# Writes a small Debian as a tar to standard output: `debian.sh [SUITE]`, bookworm (12) if not given. Made
# with debootstrap from the machine's own Debian mirror (about a minute), then kept in the cache for a
# week. As root.
set -euo pipefail

suite=${1:-bookworm}

cache=$("$(dirname "$0")/cache.sh")
kept=$cache/debian-$suite-$(uname -m).tar days=7

say() { printf 'debian: %s\n' "$*" >&2; }

if [ -z "$(find "$kept" -mtime "-$days" 2> /dev/null)" ]; then
    command -v debootstrap > /dev/null || {
        say "error: debootstrap is not installed: run \`GIVEWAY_DOCKER=yes scripts/setup.sh\`"
        exit 3
    }
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -E '/debian/?$' | head -n 1)
    [ -n "$mirror" ] || { say "error: apt on this machine knows no Debian mirror"; exit 3; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    debootstrap --variant=minbase "$suite" "$work/root" "$mirror" > "$work/log" 2>&1 || {
        say "error: debootstrap failed; the end of its log:"
        tail -n 5 "$work/log" >&2
        exit 3
    }
    rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/*
    mkdir -p "${kept%/*}"
    tar -C "$work/root" -cf "$kept.part" .
    mv "$kept.part" "$kept"
fi
cat "$kept"
