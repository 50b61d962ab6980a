"""Source ports on networks with several ways: fixed by the seed, spread, and apart."""

from hypothesis import given
from hypothesis import strategies as st

from workloads import ports

SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(0, 10**6))
def test_flows_and_workers_have_ranges_of_their_own(seed: int, number: int) -> None:
    flow = ports.flow_source(seed, "h1", number)
    worker = ports.worker_source(seed, "job", number)
    assert 32768 <= flow < 60768  # within the kernel's own range for such ports
    assert 20000 <= worker < worker + 1 < 30000
    assert worker % 2 == 0  # the next one is the coordinator's


@given(SEEDS)
def test_flows_of_a_host_have_different_ports_until_they_come_round(seed: int) -> None:
    found = [ports.flow_source(seed, "h1", number) for number in range(ports.FLOW_SOURCES)]
    assert len(set(found)) == ports.FLOW_SOURCES
    assert ports.flow_source(seed, "h1", ports.FLOW_SOURCES) == found[0]


def test_another_seed_or_host_gives_other_ports() -> None:
    first = {ports.flow_source(seed, host, 0) for seed in range(10) for host in ("h1", "h2")}
    assert len(first) == 20
    assert len({ports.worker_source(seed, "job", 0) for seed in range(10)}) == 10
