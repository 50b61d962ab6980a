#!/usr/bin/env bash
# Builds an image of Docker hosts; quick when it is up to date.
#   scripts/image.sh            giveway-worker: what the native worker needs, and no more
#   scripts/image.sh WHEEL      giveway-worker-horovod: torch and this Horovod wheel besides
# Uses the machine's Docker engine, or starts a private one (docker-engine.sh stop ends that).
set -euo pipefail
cd "$(dirname "$0")/.."

base=debian:bookworm-slim base_python=3.11
wheel=${1:-}

say() { printf 'image: %s\n' "$*" >&2; }

packages=("$(grep -E '^numpy==' requirements.txt)") imports=workloads.host_process image=giveway-worker
if [ -n "$wheel" ]; then
    image=giveway-worker-horovod imports=workloads.horovod_worker
    packages+=("$wheel" -r requirements-torch.txt -r requirements-horovod.txt)
    [[ $wheel == *-cp${base_python/./}-* ]] || {
        say "error: ${wheel##*/} is not for Python $base_python, which $base has: build it on a"
        say "machine whose own Python is that one (Debian 12)"
        exit 3
    }
fi

GIVEWAY_DOCKER=yes scripts/setup.sh
if ! docker version > /dev/null 2>&1; then
    export DOCKER_HOST=unix://${GIVEWAY_DOCKER_RUN:-/run/giveway-docker}/docker.sock
    docker version > /dev/null 2>&1 || scripts/docker-engine.sh start
fi

inputs=$(.venv/bin/python -m testbed.containers.image "$image")
has=$(docker image inspect -f '{{index .Config.Labels "giveway.inputs"}}' "$image" 2> /dev/null) || has=
if [ "$has" = "$inputs" ]; then
    say "$image is up to date"
    exit
fi

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT

# The same name from the registry or, where none can be reached, from the machine's Debian mirror.
if ! docker image inspect "$base" > /dev/null 2>&1 && ! timeout 60 docker pull -q "$base" 2> /dev/null
then
    say "no registry can be reached: making $base with debootstrap"
    scripts/debian.sh | docker import - "$base" > /dev/null
fi

mkdir -p "$staging/context/wheels" "$staging/context/packages"
fetch=(--only-binary :all: --python-version "$base_python" -c requirements.txt "${packages[@]}")
[ -z "$wheel" ] || scripts/refuse-cuda.sh --ignore-installed --target "$staging/none" "${fetch[@]}"
say "fetching ${packages[*]##*/}"
.venv/bin/pip download -q --disable-pip-version-check --dest "$staging/context/wheels" "${fetch[@]}" \
    2>&1 | { grep -v "^WARNING" || true; }
.venv/bin/python -m testbed.containers.image "$image" "$staging/context/packages" > /dev/null
say "building $image"
DOCKER_BUILDKIT=0 docker build -q --network=host -t "$image" -f docker/worker.Dockerfile \
    --build-arg "INPUTS=$inputs" --build-arg "IMPORTS=$imports" "$staging/context" \
    2> "$staging/log" > /dev/null || { tail -n 8 "$staging/log" >&2; exit 3; }
# Images that this one replaced go; the first stage stays as a cache for the next build.
docker image prune -f --filter label=giveway.inputs > /dev/null
say "$image: $(docker image inspect -f '{{.Id}} {{.Size}} bytes' "$image")"
