#!/usr/bin/env bash
# Installs the CPU build of torch, pinned in requirements-torch.txt, into .venv. Quick when it is there.
# Refuses a build for CUDA before it is downloaded: gigabytes that nothing here would use.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'torch: %s\n' "$*"; }

scripts/setup.sh

stamp=.venv/giveway-torch-installed
wanted=$(cat requirements-torch.txt requirements.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ] || ! .venv/bin/python -c 'import torch' 2> /dev/null; then
    # requirements.txt as constraints: numpy and the rest stay at their pinned versions
    pip=(.venv/bin/pip install -q --disable-pip-version-check -r requirements-torch.txt -c requirements.txt)
    if "${pip[@]}" --dry-run --report - 2> /dev/null | grep -qE '"name": "(nvidia|cuda)'; then
        say "error: this package index offers torch for CUDA only. Add PyTorch's CPU index (its site"
        say "shows the address: Get Started, Compute Platform: CPU):"
        say "    PIP_EXTRA_INDEX_URL=<that address> make torch"
        exit 3
    fi
    say "installing torch for the CPU and what it needs (about 200 MB to fetch, 1 GB on disk)"
    "${pip[@]}" 2>&1 | { grep -v '^WARNING' || true; }
    .venv/bin/python -c 'import torch'
    echo "$wanted" > "$stamp"
fi
say "ready: $(.venv/bin/python -c 'import torch; print("torch", torch.__version__)') in .venv"
