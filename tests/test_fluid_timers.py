"""Timeouts in the simulation: what is lost and not reported costs the kernel's timers."""

from pathlib import Path

import numpy as np
import pytest

from testbed.engine import Run
from testbed.fluid import engine, tcp
from testbed.fluid.world import Records
from testbed.spec import load

RACK = """
name: rack
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 1000 packets}
duration: 4 s
training:
  - {name: job, profile: resnet50-thesis, model: 500 kB, workers: all, iteration: 60 ms,
     fusion: 100 kB, order: layer, barrier: false}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 40 per second per host, pairs: all-to-all}
policies: [fifo]
seeds: [0]
"""
MS = 1e6


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timers") / "rack.yaml"
    path.write_text(RACK)
    return path


def completions_ms(rack: Path, *settings: str, seed: int = 0) -> dict[int, float]:
    experiment = load(rack, settings)
    records = Records()
    run = Run(experiment, experiment.policies[0], seed, "test00")
    setting = engine.settle(experiment, lambda _: None, run.run_id)
    engine.perform(run, setting, records, lambda _: None)
    started = dict(map(tuple, records.tables["start"]))
    return {flow: (end - started[flow]) / MS for flow, end in records.tables["end"]}


@pytest.mark.parametrize("packets", [1, 2, 5, 10])
def test_a_run_with_the_shortest_of_queues_ends(rack: Path, packets: int) -> None:
    """And a SYN that finds no place costs a second there."""
    found = completions_ms(rack, f"topology.queue={packets} packets")
    assert len(found) > 300
    assert any(1000 < one < 1100 for one in found.values())
    assert any(200 < one < 220 for one in found.values())
    again = completions_ms(rack, f"topology.queue={packets} packets")
    assert again == found


@pytest.mark.parametrize("packets", [125, 1000])
def test_queues_that_no_connection_fills_alone_cost_no_timer(rack: Path, packets: int) -> None:
    """Single packets of theirs are lost too, by chance: that is left out, and said in the docs."""
    assert max(completions_ms(rack, f"topology.queue={packets} packets").values()) < 150


def test_a_fixed_window_that_is_larger_than_the_queue_costs_timers(rack: Path) -> None:
    """A connection then fills 100 packets at times, and what finds no place waits for a timer."""
    own, wide, short = (
        [
            one
            for seed in range(3)
            for one in completions_ms(
                rack, "topology.queue=150 packets", *asked, seed=seed
            ).values()
        ]
        for asked in (
            [],
            ["tcp={control: reno, window: 32 MB}"],
            ["tcp={control: reno, window: 32 MB, rto_min: 4 ms}"],
        )
    )
    assert max(own) < 150
    assert any(1000 < one < 1100 for one in wide)
    assert any(1000 < one < 1100 for one in short)
    assert any(200 < one < 250 for one in wide)
    assert not any(200 < one < 250 for one in short)


def test_a_small_window_holds_flows_back_over_a_long_way(rack: Path) -> None:
    own, small = (
        np.mean(list(completions_ms(rack, "topology.delay=1 ms", *settings).values()))
        for settings in ([], ["tcp={window: 8 kB}"])
    )
    assert small > 1.5 * own


def test_marks_hold_a_queue_short_and_lose_nothing(rack: Path) -> None:
    assert max(completions_ms(rack, "tcp=dctcp").values()) < 100


def test_other_seeds_have_other_luck_with_the_same_flows(rack: Path) -> None:
    """Each flow's draws are its own: those of other flows do not shift them."""
    short = "topology.queue=10 packets"
    late = [
        {flow for flow, ms in completions_ms(rack, short, seed=seed).items() if ms > 150}
        for seed in (0, 1)
    ]
    assert late[0] != late[1]


def test_a_timer_rings_at_a_tick_and_long_ones_at_coarser_ticks() -> None:
    for now in np.linspace(0, 5e8, 77):
        short, data, syn = (
            (tcp.rings_at(now, timeout) - now) / MS
            for timeout in (tcp.PROBE_NS, tcp.RTO_MIN_NS, tcp.SYN_NS)
        )
        assert 4 <= short <= 8
        assert 200 <= data <= 208
        assert 1000 <= syn <= 1036


def test_timeouts_in_a_row_double_up_to_two_minutes() -> None:
    syn = [tcp.syn_timeout(before) / 1e9 for before in range(14)]
    assert syn[:8] == [1, 1, 1, 1, 1, 2, 4, 8]  # the kernel's tcp_syn_linear_timeouts
    data = [tcp.data_timeout(0.0, tcp.RTO_MIN_NS, before) / MS for before in range(14)]
    assert data[:4] == [200, 400, 800, 1600]
    assert syn[-1] == data[-1] / 1e3 == 120
