#!/usr/bin/env bash
# All tests, in two parts. Those that make networks or containers on this machine run one at a time,
# with the machine to themselves; before them all others, as many at once as there are cores. Both parts
# run even if the first fails. Arguments go to pytest: scripts/run-tests.sh --durations=20
set -uo pipefail
cd "$(dirname "$0")/.."
on_the_machine="root or docker or docker_horovod"
failed=0
# A file's tests stay together: they share runs.
.venv/bin/pytest -m "not ($on_the_machine)" --numprocesses=logical --maxprocesses=8 --dist=loadfile "$@" || failed=1
.venv/bin/pytest -m "$on_the_machine" "$@" || failed=1
exit $failed
