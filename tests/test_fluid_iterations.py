"""MLTCP in simulation: what an iteration is, what it weighs, and that jobs slide apart by it."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from policies.link import link_policies
from testbed.engine import Run
from testbed.fluid import engine
from testbed.fluid.simulation import Simulation
from testbed.fluid.ways import Way
from testbed.fluid.world import Records
from testbed.spec import load
from testbed.spec.transport import Transport
from topologies import Cable, tor
from workloads.schedule import Schedule

MS = 1_000_000
MB = 1_000_000
MLTCP = Transport(control="mltcp")


class Sender:
    """A stream for itself at 1 Gbit/s, to which messages are given at times, in ms."""

    def __init__(self, *messages: tuple[int, float], policy: str = "fifo", tcp: Transport = MLTCP):
        nobody = Schedule(*[np.zeros(0, dtype=np.int64)] * 6)
        rack = tor.build(2, Cable(10**9, 10_000, queue_packets=100))
        ways = [Way(0, 1, 1, 0)]
        self.simulation = Simulation(rack, link_policies()[policy], nobody, [], ways, transport=tcp)
        self.simulation.on_arrival[0] = lambda: None
        for at_ms, byte in messages:
            self.simulation.at(at_ms * MS, lambda byte=byte: self.simulation.post(0, byte))

    def weight(self, at_ms: float) -> float:
        self.simulation.run(round(at_ms * MS))
        return float(self.simulation.state.c["weight"][0])

    def whole(self, at_ms: float) -> float:
        self.simulation.run(round(at_ms * MS))
        return float(self.simulation.state.s["whole"][0])


# 5 MB take 42 ms. An iteration of 100 ms is known from its second one on.
REGULAR = [(100 * number, 5 * MB) for number in (1, 2, 3)]


def test_a_weight_grows_from_a_half_to_the_root_of_two_with_what_is_sent() -> None:
    sender = Sender(*REGULAR)
    assert [sender.weight(at) for at in (150, 199)] == [1.0, 1.0]  # nothing is known yet
    found = [sender.weight(at) for at in (200.1, 210, 221, 230, 239)]
    assert found[0] == pytest.approx(0.5, rel=0.05)
    assert found[2] == pytest.approx(np.sqrt(0.25 + 1.75 / 2), rel=0.06)
    assert all(earlier < later for earlier, later in pairwise(found))
    assert sender.weight(260) == pytest.approx(np.sqrt(2.0), rel=0.05)  # its last step
    assert sender.weight(300.1) == pytest.approx(0.5, rel=0.05)


def test_the_feeder_of_a_stream_weighs_what_it_does() -> None:
    sender = Sender(*REGULAR)
    weight = sender.weight(225)
    assert sender.simulation.state.c["weight"][1] == weight > 1.0


def test_short_pauses_are_within_an_iteration() -> None:
    """As on the kernel: half of the pause that ended the last one, and no tick at all."""
    halves = [(at, 5 * MB / 2) for whole in REGULAR for at in (whole[0], whole[0] + 30)]
    sender = Sender(*halves, *[(400 + at, 5 * MB / 2) for at in (0, 30)])
    assert sender.whole(420) == 5 * MB
    assert sender.whole(470) == 5 * MB


def test_a_few_packets_are_a_message_and_no_iteration() -> None:
    sender = Sender(*[(100 * number, 9 * 1448) for number in range(1, 9)])
    assert sender.whole(950) == 0.0
    assert sender.weight(951) == 1.0


@pytest.mark.parametrize(
    ("policy", "tcp"),
    [
        ("fifo", Transport(control="reno")),
        ("fq-codel", MLTCP),  # a queue for each connection: who has much in it gets no more
        ("fifo", Transport(control="mltcp", window="20 kB")),  # its receiver says how much
    ],
)
def test_windows_that_decide_nothing_weigh_nothing(policy: str, tcp: Transport) -> None:
    sender = Sender(*REGULAR, policy=policy, tcp=tcp)
    assert {sender.weight(at) for at in (150, 205, 220, 235, 260, 320)} == {1.0}


# `mltcp-pair.yaml` with a queue that no window fills alone: no timer parts them
PAIR = """
name: pair
topology: {kind: tor, hosts: 2, rate: 1068700 kbit/s, delay: 10 us, queue: 150 packets}
duration: 6 s
training:
  - {name: a, bytes: 25 MB, compute: 300 ms, fusion: 1 GB}
  - {name: b, bytes: 25 MB, compute: 300 ms, fusion: 1 GB, start: 50 ms}
policies: [fifo]
seeds: [0]
"""


def iterations_ms(folder: Path, control: str) -> list[float]:
    """Means of all workers, iteration by iteration."""
    (folder / "pair.yaml").write_text(PAIR)
    experiment = load(folder / "pair.yaml", [f"tcp={control}"])
    run = Run(experiment, experiment.policies[0], 0, "test00")
    setting = engine.settle(experiment, lambda _: None, run.run_id)
    records = Records()
    engine.perform(run, setting, records, lambda _: None)
    rows = records.tables["iterations"]
    took: dict[int, list[float]] = {}
    for _, _, iteration, start_ns, end_ns, *_ in rows:
        took.setdefault(int(iteration), []).append((end_ns - start_ns) / MS)
    return [float(np.mean(took[number])) for number in sorted(took) if len(took[number]) == 4]


def test_two_jobs_slide_apart_under_mltcp_and_not_under_reno(tmp_path: Path) -> None:
    mltcp, reno = (iterations_ms(tmp_path, control) for control in ("mltcp", "reno"))
    assert mltcp[0] == pytest.approx(reno[0], rel=0.01)  # nobody knows yet how long one is
    assert mltcp[0] > 650
    assert mltcp[7:9] == pytest.approx([500, 500], rel=0.02)
    assert min(reno) > 650
