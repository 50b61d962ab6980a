#!/usr/bin/env bash
# Installs what Giveway needs: Debian packages, a virtual environment, pinned Python packages; compiles
# the simulator. Quick when there is nothing to do. Touches only the package manager, .venv, the pip
# cache and ~/.cache/giveway (GIVEWAY_CACHE).
# (And keeps an SSH server that is installed for tests from becoming a service.)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Mininet and what it calls; nftables for kernels that mark; iperf3's library; Chromium only for the
# report's browser test.
packages=(mininet bridge-utils ethtool iputils-ping iproute2 nftables iperf3 libiperf0 python3-venv)
if [ "${GIVEWAY_BROWSER:-no}" = yes ]; then
    case "$(. /etc/os-release && echo "$ID")" in
        ubuntu) packages+=(chromium-browser chromium-chromedriver) ;;
        *) packages+=(chromium chromium-driver) ;;
    esac
fi

if [ "${GIVEWAY_KERNEL:-no}" = yes ]; then
    packages+=(make gcc libc6-dev flex bison bc xz-utils) # to build the virtual engine's kernel
fi

if [ "${GIVEWAY_DOCKER:-no}" = yes ]; then
    # The machine's own Docker stays as it is; debootstrap for where no registry can be reached.
    command -v dockerd > /dev/null || packages+=(docker.io)
    packages+=(debootstrap)
fi

if [ "${GIVEWAY_SLURM:-no}" = yes ]; then
    packages+=(slurm-wlm munge) # tests start their own, on loopback
fi

if [ "${GIVEWAY_TSHARK:-no}" = yes ]; then
    packages+=(tshark) # reads what --pcap captured
fi

if [ "${GIVEWAY_VAGRANT:-no}" = yes ]; then
    packages+=(vagrant) # to check the Vagrantfile
fi

if [ "${GIVEWAY_SSHD:-no}" = yes ] && [ ! -x /usr/sbin/sshd ]; then
    # For the tests of `giveway on`, which start it themselves, on loopback. The machine itself is
    # not opened to anybody: its service stays off, now and after a reboot.
    packages+=(openssh-server)
    say "the SSH server is for tests: its service stays off (systemctl unmask ssh ssh.socket)"
    as_root mkdir -p /etc/systemd/system
    for unit in /etc/systemd/system/ssh.service /etc/systemd/system/ssh.socket; do
        [ -e "$unit" ] || as_root ln -sn /dev/null "$unit" # as `systemctl mask` does
    done
fi

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
        missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "installing Debian packages: ${missing[*]}"
    scripts/apt.sh "${missing[@]}"
fi

# The system's Python, because Debian's Mininet is for it; the venv must see that package.
python=/usr/bin/python3
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "error: $("$python" --version) is too old: Giveway needs Python 3.11 or newer"
    exit 3
fi
if ! .venv/bin/python -c '' 2> /dev/null; then
    say "making the virtual environment .venv"
    # realpath: `giveway on` makes .venv a link to one that several checkouts share
    "$python" -m venv --clear --system-site-packages "$(realpath -m .venv)"
fi

wanted=$(cat requirements.txt pyproject.toml | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/giveway-installed 2> /dev/null)" != "$wanted" ]; then
    say "installing the pinned Python packages of requirements.txt (a few minutes at the first time)"
    scripts/pip.sh -r requirements.txt
    scripts/pip.sh --no-deps --no-build-isolation -e .
    .venv/bin/python -c 'import testbed.cli.commands'
    echo "$wanted" > .venv/giveway-installed
fi
if [ "${GIVEWAY_COMPILE:-yes}" = yes ]; then # so that the first run does not have to
    .venv/bin/python -m testbed.cli.compile || say "the simulator could not be compiled: see above"
fi
say "ready: '. .venv/bin/activate' puts giveway on the PATH, 'giveway doctor' says what works"
