#!/usr/bin/env bash
# Everything that the tests can use, then the tests: the virtual engine's kernel, torch and Horovod,
# the image of Docker hosts. A Docker engine that this starts is stopped again.
set -euo pipefail
cd "$(dirname "$0")/.."

make virtual horovod
if ! scripts/docker-engine.sh status 2> /dev/null; then
    trap 'scripts/docker-engine.sh stop' EXIT
fi
make image
make test
