#!/usr/bin/env bash
# Everything that the tests can use, then the tests: the virtual engine's kernel, Dask, torch and Horovod,
# the images of Docker hosts, Vagrant, Slurm, tshark. A Docker engine that this starts is stopped again.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if ! as_root scripts/docker-engine.sh status 2> /dev/null; then
    trap 'as_root scripts/docker-engine.sh stop' EXIT
fi
GIVEWAY_VAGRANT=yes GIVEWAY_SLURM=yes GIVEWAY_TSHARK=yes scripts/setup.sh
make virtual dask horovod image image-horovod
make test GIVEWAY_SLOW=yes
