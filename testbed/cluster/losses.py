"""A host is gone: who had tasks there goes back to the queue, and nobody gets that host again.

What a task did since it was last suspended is lost with it, a gang's other tasks stop too, and a
checkpoint that was on no other host is gone. What is left of a job then is placed anew, as the
scheduler says; it hears of such jobs as of suspended ones.
"""

from typing import TYPE_CHECKING

import numpy as np

from basics.errors import RunFailed
from basics.units import format_time
from testbed.cluster.ledger import TaskStretch

if TYPE_CHECKING:
    from testbed.cluster.master import Master

OnHosts = dict[int, list[TaskStretch]]  # by busy job, those that hold hosts and go on


def lose(master: "Master", on: OnHosts, host: int) -> list[int]:
    """Take a host out of a cluster; returns the jobs that are back in the queue."""
    ledger, now_ns = master.ledger, master.now_ns
    ledger.lose(host)
    back = _busy_lost(master, on, host)
    leaving = [one for one in master.stretches if one.free_ns < 0 and one.why == "suspended"]
    for stretch in leaving:
        trains = master.trainers is not None and stretch.job in master.trainers
        if host in stretch.hosts and not trains:
            ledger.leave(stretch, now_ns, done=False)  # its tasks have stopped already
            back.append(stretch.job)
    if master.trainers is not None:
        back += master.trainers.lose(host)
    homeless = ledger.misfit(master.rejected)
    if homeless is not None:
        raise RunFailed(
            f"{ledger.jobs[homeless].name} fits nowhere any more: h{host + 1} died at "
            f"{format_time(now_ns)}, and {int(ledger.up.sum())} hosts are left"
        )
    return back


def _busy_lost(master: "Master", on: OnHosts, host: int) -> list[int]:
    ledger, found = master.ledger, []
    for job, own in list(on.items()):
        hit = [stretch for stretch in own if host in stretch.hosts]
        if not hit:
            continue
        found.append(job)
        for stretch in own.copy() if ledger.gang[job] else hit:
            lost = stretch if ledger.gang[job] else _cut(stretch, host)
            if lost is stretch:
                own.remove(stretch)
            else:
                master.stretches.append(lost)
            if master.busy is not None:
                master.busy.stop(lost)
            saved = ledger.task_left_ns[lost.tasks] < ledger.work_ns[job]
            ledger.drop(lost, master.now_ns, saved)
        if not own:
            del on[job]
    return found


def _cut(stretch: TaskStretch, host: int) -> TaskStretch:
    """Those of its tasks that are on this host, as a stretch of their own."""
    here = stretch.hosts == host
    if here.all():
        return stretch
    lost = TaskStretch(
        stretch.job, stretch.tasks[here], stretch.hosts[here], stretch.taken_ns,
        stretch.start_ns, stretch.end_ns, works=stretch.works,
    )  # fmt: skip
    stretch.tasks, stretch.hosts = stretch.tasks[~here], stretch.hosts[~here]
    return lost


def all_of(stretch: TaskStretch, saved: bool) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """The tasks of a gang have a checkpoint together, or none."""
    return np.full(len(stretch.tasks), saved)
