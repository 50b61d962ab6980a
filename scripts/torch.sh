#!/usr/bin/env bash
# Installs the CPU build of torch, pinned in requirements-torch.txt, into .venv. Quick when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'torch: %s\n' "$*"; }

scripts/setup.sh

stamp=.venv/giveway-torch-installed
wanted=$(cat requirements-torch.txt requirements.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ] || ! .venv/bin/python -c 'import torch' 2> /dev/null; then
    # requirements.txt as constraints: numpy and the rest stay at their pinned versions
    wanted_packages=(-r requirements-torch.txt -c requirements.txt)
    scripts/refuse-cuda.sh "${wanted_packages[@]}"
    say "installing torch for the CPU and what it needs (about 200 MB to fetch, 1 GB on disk)"
    scripts/pip.sh "${wanted_packages[@]}"
    .venv/bin/python -c 'import torch'
    echo "$wanted" > "$stamp"
fi
say "ready: $(.venv/bin/python -c 'import torch; print("torch", torch.__version__)') in .venv"
