#!/usr/bin/env bash
# Refuses a build of torch for CUDA before it is downloaded: gigabytes that nothing here would use.
#   scripts/refuse-cuda.sh PIP-ARGUMENTS...     as for `pip install`
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'torch: %s\n' "$*" >&2; }

if .venv/bin/pip install -q --disable-pip-version-check --dry-run --report - "$@" 2> /dev/null |
    grep -qE '"name": "(nvidia|cuda)'; then
    say "error: this package index offers torch for CUDA only. Add PyTorch's CPU index (its site"
    say "shows the address: Get Started, Compute Platform: CPU):"
    say "    PIP_EXTRA_INDEX_URL=<that address> make torch"
    exit 3
fi
