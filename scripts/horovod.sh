#!/usr/bin/env bash
# Puts torch and Horovod into .venv. Horovod comes as source only: it is patched
# (workloads/horovod-patches), built once (about 5 CPU-minutes) and the wheel kept in the cache, by
# the versions of everything that it was made of. Quick when there is nothing to do.
#   scripts/horovod.sh [--wheel]     prints where the wheel is, for the image of Docker hosts
set -euo pipefail
cd "$(dirname "$0")/.."

horovod=0.28.1
cmake=3.31.6 # Horovod's CMake files are too old for CMake 4
python=.venv/bin/python

say() { printf 'horovod: %s\n' "$*" >&2; }
pip() { "$python" -m pip --disable-pip-version-check "$@" 2>&1 | { grep -v '^WARNING' || true; }; }

scripts/torch.sh >&2
pip install -q -r requirements-horovod.txt

# The wheel's own version says which torch it was built for, so that nobody loads it with another.
torch=$("$python" -c 'from importlib.metadata import version; print(version("torch"))')
version="$horovod+torch${torch%%+*}"
key=$({
    echo "$horovod $torch $cmake $(uname -m)"
    "$python" --version
    cat workloads/horovod-patches/*.patch
} | sha256sum | cut -c1-12)
cache=$(scripts/cache.sh)
cache=$cache/horovod-$horovod-$key
stamp=.venv/giveway-horovod

if ! compgen -G "$cache/*.whl" > /dev/null; then
    missing=()
    for package in g++ make patch python3-dev; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        say "installing Debian packages: ${missing[*]}"
        scripts/apt.sh "${missing[@]}"
    fi
    work=$(mktemp -d -t giveway-horovod-XXXXXX)
    trap 'rm -rf "$work"' EXIT
    say "building $version (about 5 minutes); log: $work/build.log until it is done"
    {
        pip install -q --target "$work/tools" "cmake==$cmake" wheel==0.45.1 setuptools==80.9.0
        export PYTHONPATH="$work/tools" PATH="$work/tools/bin:$PATH"
        pip download -q --no-deps --no-binary :all: --no-build-isolation -d "$work" \
            "horovod==$horovod"
        tar xzf "$work/horovod-$horovod.tar.gz" -C "$work"
        for patch in workloads/horovod-patches/*.patch; do
            patch -p1 -d "$work/horovod-$horovod" < "$patch"
        done
        sed -i "s/^__version__ = .*/__version__ = '$version'/" \
            "$work/horovod-$horovod/horovod/__init__.py"
        env HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
            HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 MAKEFLAGS="-j$(nproc)" \
            "$python" -m pip --disable-pip-version-check wheel -v --no-deps --no-build-isolation \
            -w "$work/wheel" "$work/horovod-$horovod"
    } > "$work/build.log" 2>&1 || {
        tail -n 40 "$work/build.log"
        say "error: the build failed; its last lines are above"
        exit 3
    }
    mkdir -p "$cache.part" && cp "$work"/wheel/*.whl "$cache.part/" && mv -T "$cache.part" "$cache"
fi
if [ "$(cat "$stamp" 2> /dev/null)" != "$key" ] || ! "$python" -c 'import horovod.torch' 2> /dev/null; then
    pip install -q --no-deps --force-reinstall "$cache"/*.whl
    "$python" -c 'import horovod.torch'
    echo "$key" > "$stamp"
fi
say "ready: $version"
if [ "${1:-}" = --wheel ]; then realpath "$cache"/*.whl; fi
