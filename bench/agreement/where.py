"""Where the simulation can be trusted: its share within bounds, by queue and by load."""

from collections.abc import Callable, Sequence

from analysis import agreement
from bench.agreement.cells import Cell
from bench.agreement.compared import KINDS, Compared, without_timeouts
from testbed.spec.jobs import TrainingJob
from workloads import sizes

SHORT_PACKETS = 124  # what the kernel's receivers let one connection have under way
HEAVY = 0.7  # of a link, asked by training and flows together

KINDS_OF_CELLS: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    (
        f"queues of {SHORT_PACKETS} packets and more, below {HEAVY:.0%} of a link".replace(
            "%", " %"
        ),
        lambda cell: not is_short(cell) and asked(cell) < HEAVY,
    ),
    (
        f"the same queues, {HEAVY:.0%} and more".replace("%", " %"),
        lambda cell: not is_short(cell) and asked(cell) >= HEAVY,
    ),
    (f"queues of less than {SHORT_PACKETS} packets", lambda cell: is_short(cell)),
)


def table(cells: Sequence[Compared]) -> list[str]:
    """A line a kind of cell, a column a kind of number."""
    lines = [
        "| | cells | iteration, 3 % | small flows, 15 % | up to 150 ms, 15 % | large flows, 15 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, belongs in KINDS_OF_CELLS:
        some = [one for one in cells if belongs(one.cell)]
        within = {
            kind: [r.within for c in some for r in c.rows if kind in r.what and not r.is_change]
            for kind, *_ in KINDS
        }
        short_ones = [
            abs(found) <= agreement.FLOWS_BOUND for one in some for found in without_timeouts(one)
        ]
        columns = [within["iteration"], within["small flows"], short_ones, within["large flows"]]
        told = [f"{sum(column)} of {len(column)}" for column in columns]
        lines.append(f"| {name} | {len(some)} | {' | '.join(told)} |")
    return lines


def is_short(cell: Cell) -> bool:
    return cell.experiment.topology.queue_packets < SHORT_PACKETS


def asked(cell: Cell) -> float:
    training, flows = offered(cell)
    return training + (flows or 0.0)


def offered(cell: Cell) -> tuple[float, float | None]:
    """The shares of a link that training and flows ask for; None for a replayed schedule."""
    experiment = cell.experiment
    rate = experiment.topology.rate_bps / 8e9  # bytes in a nanosecond
    training = sum(
        vectors(job) * job.scaled_profile.total_byte / job.iteration_ns / rate
        for job in experiment.training
    )
    flows = 0.0
    for mix in experiment.flows:
        if mix.sizes is None:
            return training, None
        mean_byte = sizes.available()[mix.sizes].mean_byte * mix.scale
        flows += (mix.arrivals_per_second or 0.0) * mean_byte / 1e9 / rate
    return training, flows


def vectors(job: TrainingJob) -> float:
    """How often a worker's link carries the model in an iteration, each way."""
    return 1.0 if job.has_servers else 2 * (1 - 1 / len(job.host_names))
