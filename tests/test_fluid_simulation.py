"""Flows and rings in a simulation, against arithmetic."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.link import link_policies
from testbed.fluid import simulation as simulations
from testbed.fluid import tcp
from testbed.fluid.simulation import Simulation
from testbed.fluid.ways import Way
from topologies import Cable, tor
from workloads.schedule import Schedule

RATE_BPS, DELAY_NS = 10**9, 10_000
BYTE_PER_NS = RATE_BPS / 8e9 * tcp.PAYLOAD / tcp.FRAME
RTT_NS = 4 * DELAY_NS
SECOND = 10**9
Flow = tuple[int, int, int, int, int]  # start, src, dst, size, mix


def simulated(
    flows: list[Flow], policy: str = "fifo", hosts: int = 4, until_ns: int = 10 * SECOND
) -> Simulation:
    start, src, dst, size, mix = (np.array(column) for column in zip(*flows, strict=True))
    ids = np.arange(len(flows))
    rack = tor.build(hosts, Cable(RATE_BPS, DELAY_NS, queue_packets=1000))
    schedule = Schedule(ids, mix, src, dst, size, start)
    levels = [0, min(1, len(link_policies()[policy].bands) - 1)]
    made = Simulation(rack, link_policies()[policy], schedule, levels, [])
    made.run(until_ns)
    return made


def ends_ns(*flows: Flow, policy: str = "fifo") -> list[float]:
    found: list[float] = simulated(list(flows), policy).flow_ends_ns().tolist()
    return found


@pytest.mark.parametrize("size", [16, 1448, 5000, 14480])
def test_a_flow_of_one_window_takes_its_bytes_and_one_and_a_half_round_trips(size: int) -> None:
    free = min(size, tcp.FREE_BYTE)  # what a shaper lets pass at once
    expected = 1.5 * RTT_NS + (size - free) / BYTE_PER_NS
    assert ends_ns((0, 0, 1, size, 0)) == pytest.approx([expected], abs=1)


def test_a_large_flow_alone_takes_its_bytes_at_line_rate_and_a_few_round_trips() -> None:
    size = 20_000_000
    least = size / BYTE_PER_NS
    (end,) = ends_ns((0, 0, 1, size, 0))
    assert least < end < least + 12 * RTT_NS


def test_flows_elsewhere_change_nothing() -> None:
    alone = ends_ns((0, 0, 1, 500_000, 0))
    assert ends_ns((0, 0, 1, 500_000, 0), (0, 2, 3, 10**7, 0))[0] == alone[0]


def test_two_flows_share_a_port() -> None:
    size = 10_000_000
    (alone,) = ends_ns((0, 0, 2, size, 0))
    assert ends_ns((0, 0, 2, size, 0), (0, 1, 2, size, 0)) == pytest.approx(
        2 * [2 * alone], rel=0.02
    )


def test_the_low_band_waits_until_the_high_one_is_done() -> None:
    size = 10_000_000
    high, low = (0, 0, 2, size, 0), (0, 1, 2, size, 1)
    (alone,) = ends_ns(high)
    both = ends_ns(high, low, policy="strict-priority")
    assert both[0] == pytest.approx(alone, rel=0.001)
    assert both[1] == pytest.approx(2 * alone, rel=0.02)


flow_lists = st.lists(
    st.tuples(
        st.integers(0, SECOND),
        st.integers(0, 3),
        st.integers(1, 3),
        st.integers(16, 3_000_000),
        st.integers(0, 1),
    ).map(lambda f: (f[0], f[1], (f[1] + f[2]) % 4, f[3], f[4])),
    min_size=1,
    max_size=30,
).map(sorted)


@settings(deadline=None, max_examples=50)
@given(flow_lists, st.sampled_from(["fifo", "strict-priority", "htb-priority", "fq-codel"]))
def test_every_flow_arrives_and_every_byte_is_counted_once_at_each_link(
    flows: list[Flow], policy: str
) -> None:
    made = simulated(flows, policy)
    fct = made.flow_ends_ns() - [flow[0] for flow in flows]
    assert all(np.isfinite(fct))
    least = [1.5 * RTT_NS + max(0, flow[3] - tcp.FREE_BYTE) / BYTE_PER_NS for flow in flows]
    assert all(fct >= np.array(least) - 1)
    carried = made.carried_byte().sum(axis=1) * tcp.PAYLOAD / tcp.FRAME
    for host in range(4):
        sent = sum(flow[3] for flow in flows if flow[1] == host)
        received = sum(flow[3] for flow in flows if flow[2] == host)
        assert carried[2 * host] == pytest.approx(sent, abs=1e-3)
        assert carried[2 * host + 1] == pytest.approx(received, abs=1e-3)


@settings(deadline=None, max_examples=20)
@given(flow_lists)
def test_room_for_more_flows_changes_no_result(flows: list[Flow]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulations, "FIRST_ROOM", 1)
        grown = simulated(flows, "strict-priority").flow_ends_ns().tolist()
    assert grown == simulated(flows, "strict-priority").flow_ends_ns().tolist()


@pytest.mark.parametrize("hosts", [3, 8])
def test_an_all_reduce_takes_its_steps_one_after_the_other(hosts: int) -> None:
    chunk = 14_000.0  # fits into the first window: no slow start
    rack = tor.build(hosts, Cable(RATE_BPS, DELAY_NS, queue_packets=1000))
    ways = [Way(host, (host + 1) % hosts, 7000, 0) for host in range(hosts)]
    nothing = Schedule(*(np.zeros(0, dtype=np.int64) for _ in range(6)))
    made = Simulation(rack, link_policies()["fifo"], nothing, [], ways)
    made.make_ring(list(range(hosts)))
    done: dict[int, int] = {}
    for stream in range(hosts):
        made.on_ring_done[stream] = lambda stream=stream: done.update({stream: made.now_ns})
        made.at(0, partial(made.begin_ring, stream, chunk))
    made.run(SECOND)
    steps = 2 * (hosts - 1)
    least = steps * (chunk / BYTE_PER_NS + 2 * DELAY_NS)
    with_acknowledgements = steps * (chunk / BYTE_PER_NS * 1.03 + 2 * DELAY_NS)
    assert len(done) == hosts
    assert all(least * (1 - 1e-6) <= end <= with_acknowledgements for end in done.values())


@given(st.floats(14480, 1e7), st.floats(0, 1e10))
def test_a_pause_halves_a_window_and_never_below_the_first(window: float, idle: float) -> None:
    rested = tcp.rested(window, idle, tcp.RTO_MIN_NS)
    assert tcp.FIRST_WINDOW <= rested <= window
    if idle <= tcp.RTO_MIN_NS:
        assert rested == window


@given(st.floats(2896, 1e6), st.floats(0, 1e6))
def test_windows_do_not_shrink_by_sending(window: float, sent: float) -> None:
    laws = (tcp.EAGER, tcp.FRIENDLY, tcp.RENO)
    assert all(tcp.grown(window, sent, law) >= window for law in laws)


@given(st.floats(20 * 1448, 1e6), st.floats(1, 1e6))
def test_a_loss_makes_windows_grow_more_slowly(window: float, sent: float) -> None:
    after = [tcp.grown(window, sent, law) for law in (tcp.FRIENDLY, tcp.RENO, tcp.EAGER)]
    assert after == sorted(after)
    assert tcp.grown(window, window, tcp.RENO) == pytest.approx(window + tcp.PAYLOAD)
    assert tcp.reduced(window, tcp.RENO) == 0.5 * window


@given(st.floats(14480, 1e6), st.floats(0.01, 1.25), st.floats(1e4, 1e6))
def test_slow_start_ends_within_the_round_or_not_at_all(
    window: float, line: float, rtt: float
) -> None:
    end = tcp.slow_start_end(window, line, rtt, rtt)
    assert end == 0.0 or max(tcp.HYSTART_LEAST, window) <= end
    assert end <= max(tcp.HYSTART_LEAST, 2 * window) * (1 + 1e-9)


def test_looking_at_the_counters_changes_nothing() -> None:
    flows = [(0, 0, 1, 5_000_000, 0), (100_000, 2, 1, 3_000_000, 0), (400_000, 0, 2, 80_000, 0)]
    found = []
    for looks in (0, 500):
        made = simulated(flows, until_ns=0)
        for number in range(looks):
            made.at(number * 37_000, made.carried_byte)  # type: ignore[arg-type]
        made.run(1_000_000_000)
        found.append(list(made.flow_ends_ns()))
    assert found[0] == found[1]
