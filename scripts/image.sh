#!/usr/bin/env bash
# Builds the image of Docker hosts, giveway-worker; quick when it is up to date.
# Uses the machine's Docker engine, or starts a private one (docker-engine.sh stop ends that).
# GIVEWAY_IMAGE_PACKAGES adds Python packages or wheel files: "torch==2.13.0 horovod-….whl".
set -euo pipefail
cd "$(dirname "$0")/.."

image=giveway-worker base=debian:bookworm-slim base_python=3.11

say() { printf 'image: %s\n' "$*" >&2; }

GIVEWAY_DOCKER=yes scripts/setup.sh
if ! docker version > /dev/null 2>&1; then
    export DOCKER_HOST=unix://${GIVEWAY_DOCKER_RUN:-/run/giveway-docker}/docker.sock
    docker version > /dev/null 2>&1 || scripts/docker-engine.sh start
fi

inputs=$(.venv/bin/python -m testbed.image)
read -ra packages <<< "$(grep -E '^numpy==' requirements.txt) ${GIVEWAY_IMAGE_PACKAGES:-}"
wheels=${packages[*]##*/} # a wheel file by its name, not by where it is
has=$(docker image inspect -f \
    '{{index .Config.Labels "giveway.inputs"}} {{index .Config.Labels "giveway.wheels"}}' \
    "$image" 2> /dev/null) || has=
if [ "$has" = "$inputs $wheels" ]; then
    say "$image is up to date"
    exit
fi

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT

# The same name from the registry or, where none can be reached, from the machine's Debian mirror.
if ! docker image inspect "$base" > /dev/null 2>&1 && ! timeout 60 docker pull -q "$base" 2> /dev/null
then
    say "no registry can be reached: making $base with debootstrap (about a minute)"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -E '/debian/?$' | head -n 1)
    [ -n "$mirror" ] || { say "error: apt on this machine knows no Debian mirror"; exit 3; }
    debootstrap --variant=minbase bookworm "$staging/root" "$mirror" > "$staging/log" 2>&1 || {
        say "error: debootstrap failed; the end of its log:"
        tail -n 5 "$staging/log" >&2
        exit 3
    }
    rm -rf "$staging"/root/var/cache/apt/* "$staging"/root/var/lib/apt/lists/*
    tar -C "$staging/root" -c . | docker import - "$base" > /dev/null
    rm -rf "$staging/root"
fi

say "fetching $wheels"
mkdir -p "$staging/context/wheels" "$staging/context/packages"
.venv/bin/pip download -q --disable-pip-version-check --dest "$staging/context/wheels" \
    --only-binary :all: --python-version "$base_python" "${packages[@]}"
.venv/bin/python -m testbed.image "$staging/context/packages" > /dev/null
say "building $image"
DOCKER_BUILDKIT=0 docker build -q --network=host -t "$image" -f docker/worker.Dockerfile \
    --build-arg "INPUTS=$inputs" --build-arg "WHEELS=$wheels" "$staging/context" \
    2> "$staging/log" > /dev/null || { tail -n 8 "$staging/log" >&2; exit 3; }
# Images that this one replaced go; the first stage stays as a cache for the next build.
docker image prune -f --filter label=giveway.inputs > /dev/null
say "$image: $(docker image inspect -f '{{.Id}} {{.Size}} bytes' "$image")"
