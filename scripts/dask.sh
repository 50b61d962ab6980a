#!/usr/bin/env bash
# Installs Dask, pinned in requirements-dask.txt, into .venv, for `giveway sweep --dask`. Quick when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'dask: %s\n' "$*"; }

scripts/setup.sh

stamp=.venv/giveway-dask-installed
wanted=$(cat requirements-dask.txt requirements.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ] || ! .venv/bin/python -c 'import distributed' 2> /dev/null; then
    say "installing Dask and what it needs (a few MB)"
    # requirements.txt as constraints: what both need stays at its pinned version
    scripts/pip.sh -r requirements-dask.txt -c requirements.txt
    .venv/bin/python -c 'import distributed, dask_jobqueue'
    echo "$wanted" > "$stamp"
fi
say "ready: $(.venv/bin/python -c 'import distributed; print("distributed", distributed.__version__)') in .venv"
