#!/usr/bin/env bash
# The far end of `giveway on` (testbed/remote/far_machine.py): runs a command, and interrupts it, as Ctrl-C would,
# when the line to here ends: the user has interrupted, or the connection is lost.
set -m # the command is a group of its own, and Ctrl-C is not ignored in it
patience_s=50 # to clean up after itself; testbed/remote/far_machine.py waits a little longer

"$@" < /dev/null &
command=$!
exec 2> /dev/null # what bash says about the ends of its jobs
(
    cat > /dev/null
    kill -INT -- "-$command"
    sleep "$patience_s"
    kill -KILL -- "-$command"
) <&0 &
watch=$!

wait "$command"
code=$?
kill -KILL -- "-$watch"
exit "$code"
