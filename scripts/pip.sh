#!/usr/bin/env bash
# Installs Python packages into .venv: `pip.sh PIP-ARGUMENTS...`. Says what it is at, every other second and no
# more: pip is silent for minutes, or says a line for each thing. If it fails, its last lines are shown.
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf 'pip: %s\n' "$*"; }

told() {
    local line found=0 last=$SECONDS
    while IFS= read -r line; do
        printf '%s\n' "$line" >> "$log"
        case "$line" in
            'Collecting '*)
                found=$((found + 1))
                if [ $((SECONDS - last)) -ge 2 ]; then
                    say "found $found packages, now ${line#Collecting }"
                    last=$SECONDS
                fi
                ;;
            'Installing collected packages: '*)
                [ "$found" = 0 ] || say "putting $found packages into .venv"
                ;;
        esac
    done
}

.venv/bin/pip install --disable-pip-version-check --progress-bar off "$@" 2>&1 | told || {
    tail -n 20 "$log" >&2
    say "error: \`pip install $*\` failed; its last lines are above" >&2
    exit 3
}
