#!/usr/bin/env bash
# A private Docker engine, for machines where none runs: `docker-engine.sh start | stop | status`.
# It has no bridge, writes no firewall rule and listens on a socket of its own, so it cannot
# get in the way of anything. Images are kept in Giveway's cache; `stop` leaves nothing else behind.
set -euo pipefail

run=${GIVEWAY_DOCKER_RUN:-/run/giveway-docker}
cache=$("$(dirname "$0")/cache.sh")
data=${GIVEWAY_DOCKER_DATA:-$cache/docker}
socket=unix://$run/docker.sock
start_limit_s=30 stop_limit_s=30

say() { printf 'docker-engine: %s\n' "$*" >&2; }

answers() { docker -H "$1" version --format '{{.Server.Version}}' 2> /dev/null; }

# The engine's process, if it is really ours: a pid file outlives a crash, and pids are used again.
pid() {
    local found
    found=$(cat "$run/docker.pid" 2> /dev/null) || return 1
    tr '\0' ' ' < "/proc/$found/cmdline" 2> /dev/null | grep -qF -- "$socket" && echo "$found"
}

start() {
    if pid > /dev/null && answers "$socket" > /dev/null; then
        say "already running: $socket"
        return
    fi
    [ "$(id -u)" = 0 ] || { say "error: starting an engine needs root: use sudo"; exit 3; }
    command -v dockerd > /dev/null || {
        say "error: dockerd is not installed: run \`GIVEWAY_DOCKER=yes scripts/setup.sh\`"
        exit 3
    }
    mkdir -p "$run" "$data"
    chmod 700 "$run"
    rm -f "$run/docker.pid"
    # setsid: Ctrl-C at whoever started it must not end it before the containers are gone.
    setsid dockerd -H "$socket" --data-root "$data" --exec-root "$run/exec" \
        --pidfile "$run/docker.pid" --bridge=none --iptables=false --ip6tables=false \
        --ip-forward=false --ip-masq=false --storage-driver overlay2 \
        --exec-opt native.cgroupdriver=cgroupfs > "$run/dockerd.log" 2>&1 < /dev/null &
    local started=$!
    for _ in $(seq $((start_limit_s * 10))); do
        if answers "$socket" > /dev/null; then
            say "Docker $(answers "$socket") listens on $socket"
            return
        fi
        kill -0 "$started" 2> /dev/null || break
        sleep 0.1
    done
    say "error: dockerd did not start within $start_limit_s s; the end of its log:"
    tail -n 5 "$run/dockerd.log" >&2
    exit 3
}

stop() {
    local found
    if ! found=$(pid); then
        rm -rf "$run"
        say "not running"
        return
    fi
    # Containers first: their processes would outlive the engine.
    docker -H "$socket" ps -aq | xargs -r docker -H "$socket" rm -fv > /dev/null
    kill "$found"
    for _ in $(seq $((stop_limit_s * 10))); do
        kill -0 "$found" 2> /dev/null || break
        sleep 0.1
    done
    if kill -0 "$found" 2> /dev/null; then
        say "error: dockerd ($found) did not end within $stop_limit_s s"
        exit 4
    fi
    # What it mounted below its folder goes before the folder.
    awk -v run="$run/" 'index($2, run) == 1 { print $2 }' /proc/mounts | sort -r |
        xargs -r -n 1 umount
    rm -rf "$run"
    say "stopped"
}

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    status) pid > /dev/null && say "running: $socket" || { say "not running"; exit 1; } ;;
    *)
        say "use: docker-engine.sh start | stop | status"
        exit 2
        ;;
esac
