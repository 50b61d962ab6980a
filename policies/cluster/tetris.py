"""Tetris as the report of 2021 has it: a task goes where what is free is most like what it needs.

Jobs are taken as they came, and whoever fits may pass; the host is the one with the largest cosine
between what is free and what the task needs.
"""

from dataclasses import replace

from policies.cluster import fifo
from policies.cluster.filling import blocking, node

SCHEDULER = replace(
    fifo.SCHEDULER,
    name="tetris",
    title="Tetris (cosine)",
    description="whoever fits, each task on the host whose free resources point its way",
    options={"blocking": blocking(default=False), "node": node("cosine")},
)
