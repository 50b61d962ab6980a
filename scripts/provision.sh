#!/usr/bin/env bash
# Makes a Giveway machine of a fresh Debian: `provision.sh [FOLDER [setup]]`, as root.
# FOLDER holds the repository (here, if not given). With `setup` it ends after the set-up, before
# the Docker image and the smoke experiment, which need a kernel of their own.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
upto=${2:-smoke}

say() { printf 'provision: %s\n' "$*"; }

[ "$(id -u)" = 0 ] || { say "error: needs root"; exit 3; }
case "$upto" in setup | smoke) ;; *) say "error: after FOLDER comes nothing, or setup"; exit 2 ;; esac

say "make and certificates"
scripts/apt.sh make ca-certificates
make setup
ln -sf "$PWD/.venv/bin/giveway" /usr/local/bin/giveway
giveway list
[ "$upto" = smoke ] || { say "set up; the rest was not asked for"; exit; }

make image
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
giveway run experiments/smoke-docker.yaml --out "$out/smoke"
say "ready: try \`sudo giveway run experiments/quickstart.yaml\` in $PWD"
