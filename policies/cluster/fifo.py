"""First come, first served. Whether the head of the queue holds up the others is a choice."""

from typing import Any

from policies.cluster.filling import blocking as blocking_option
from policies.cluster.filling import filled, wanting
from policies.cluster.filling import node as node_option
from policies.cluster.scheduler import Event, Ruling, Scheduler, Snapshot


def decide(snapshot: Snapshot, event: Event, memory: Any, blocking: bool, node: str) -> Ruling:
    return Ruling(filled(snapshot, wanting(snapshot), node=node, blocking=blocking))


SCHEDULER = Scheduler(
    name="fifo",
    title="FIFO",
    description="jobs in the order of their arrival, each task on the first host with room",
    decide=decide,
    options={"blocking": blocking_option(default=True), "node": node_option("first-fit")},
)
