"""The first bytes of a flow go first: by what rule, in the simulation, and on a live network."""

import socket
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.bands import BAND_TOS
from basics.errors import BadInput
from policies.link import Discipline, LinkPolicy, Port, link_policies
from policies.link.discipline import faults
from policies.link.first_bytes import FIRST_BYTE, POLICY, demoting
from policies.link.policy import ANY_PORT
from testbed.fluid import tcp
from testbed.fluid.simulation import Simulation
from testbed.spec import load
from testbed.spec.policy import fault_at_a_port
from tests.conftest import giveway
from topologies import Cable, tor
from workloads.generator import Sending
from workloads.schedule import Schedule

RATE_BPS = 10**9
BYTE_PER_NS = RATE_BPS / 8e9 * tcp.PAYLOAD / tcp.FRAME
RTT_NS = 40_000

thresholds = st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)).map(sorted)


# ---- the rule


@given(thresholds=thresholds, scale=st.floats(1e-6, 1000), size=st.integers(1, 10**12))
def test_a_flow_is_cut_into_bands_that_only_go_down(
    thresholds: list[int], scale: float, size: int
) -> None:
    first, second = thresholds[0], thresholds[1] + 1
    policy = POLICY.told({"threshold": first, "second_threshold": second})
    assert not list(faults(policy.discipline_at(ANY_PORT)))
    demotions = policy.demotions_from("high", scale)
    assert [one.to for one in demotions] == ["middle", "low"]
    cuts = [0, *(min(one.after_byte, size) for one in demotions), size]
    assert all(early <= late for early, late in pairwise(cuts))
    assert sum(late - early for early, late in pairwise(cuts)) == size
    assert demotions[0].after_byte == pytest.approx(max(1, first * scale), abs=1)


def test_flows_that_are_a_tenth_as_long_are_demoted_after_a_tenth() -> None:
    assert next(one.after_byte for one in POLICY.demotions_from("high", 1.0)) == FIRST_BYTE
    assert next(one.after_byte for one in POLICY.demotions_from("high", 0.1)) == FIRST_BYTE // 10
    assert POLICY.demotions_from("low", 1.0) == ()


CELL = """
name: cell
question: Who goes first?
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 400 ms
warmup: 50 ms
cooldown: 50 ms
training:
  - {name: job, profile: resnet50-thesis, model: 5 MB, iteration: 140 ms, fusion: 267 kB}
flows:
  - {name: web, sizes: web-search, scale: 0.1, arrivals: 92 per second per host}
policies: [{policy: first-bytes, second_threshold: 300 kB}]
seeds: [0]
"""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "cell.yaml"
    path.write_text(CELL)
    return path


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("threshold=0 B", "policies.0.threshold: found '0 B'; it must be a size, 1 B to 1 TB"),
        (
            "threshold=400 kB",
            "class high: demotes to middle after 400 kB, and that demotes after 300 kB already; a "
            "second threshold lies above the first",
        ),
        ("threshold=soon", "policies.0.threshold: found 'soon'"),
        ("thresholds=1 kB", "policies.0.thresholds: unknown key; did you mean threshold or"),
    ],
)
def test_a_bad_threshold_is_one_line(cell: Path, setting: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(cell, (f"policies.0.{setting}",))
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def uneven(port: Port) -> Discipline:
    return demoting(1000 if port.rate_bps == ANY_PORT.rate_bps else 2000, 10**9, fair=0)


def test_senders_know_of_no_ports_so_every_port_demotes_alike() -> None:
    policy = replace(POLICY, discipline=uneven, options={})
    ports = [ANY_PORT, replace(ANY_PORT, device="fast", rate_bps=10**10)]
    assert fault_at_a_port(policy, ports[:1], "cubic") is None
    assert "other demotions at fast" in str(fault_at_a_port(policy, ports, "cubic"))


# ---- the simulation, by arithmetic


def simulated(flows: list[tuple[int, int]], *demotions: tuple[int, int]) -> Simulation:
    """Flows (size, mix) from h1 to h2, all at once and high; those of mix 0 are demoted."""
    size, mix = (np.array(column) for column in zip(*flows, strict=True))
    zero = np.zeros_like(size)
    rack = tor.build(2, Cable(RATE_BPS, RTT_NS // 4, queue_packets=1000))
    schedule = Schedule(np.arange(len(flows)), mix, zero, zero + 1, size, zero)
    policy: LinkPolicy = link_policies()["first-bytes"]
    made = Simulation(rack, policy, schedule, [0, 0], [], flow_demotions=[demotions, ()])
    made.run(10**10)
    return made


@given(sizes=st.lists(st.integers(16, 2_000_000), min_size=1, max_size=8))
def test_exactly_the_first_bytes_are_carried_high(sizes: list[int]) -> None:
    found = simulated([(size, 0) for size in sizes], (100_000, 1), (700_000, 2))
    carried = found.carried_byte()[0] * (tcp.PAYLOAD / tcp.FRAME)
    first = sum(min(size, 100_000) for size in sizes)
    last = sum(max(0, size - 700_000) for size in sizes)
    assert carried.tolist() == pytest.approx([first, sum(sizes) - first - last, last], abs=1)


def test_alone_a_demoted_flow_loses_nothing() -> None:
    [plain] = simulated([(5_000_000, 1)]).flow_ends_ns().tolist()
    [demoted] = simulated([(5_000_000, 0)], (100_000, 1)).flow_ends_ns().tolist()
    assert demoted == pytest.approx(plain, abs=1)


def test_a_demoted_flow_has_its_first_bytes_and_then_waits_for_who_is_high() -> None:
    first, size, other = 1_000_000, 4_000_000, 20_000_000
    demoted, high = simulated([(size, 0), (other, 1)], (first, 1)).flow_ends_ns().tolist()
    # Until then both share the line; from then on it is the other's, and last the rest's.
    assert high == pytest.approx((first + other) / BYTE_PER_NS, rel=0.02)
    assert demoted == pytest.approx((size + other) / BYTE_PER_NS, rel=0.02)
    early, _ = simulated([(first, 0), (other, 1)], (first, 1)).flow_ends_ns().tolist()
    assert early == pytest.approx(2 * first / BYTE_PER_NS, rel=0.05)


# ---- senders

MARKS = [(10_000, BAND_TOS["middle"]), (30_000, BAND_TOS["low"])]


class Watched(socket.socket):
    """Notes how much was handed over before each change of its ToS."""

    def setsockopt(self, level: int, name: int, value: int) -> None:  # type: ignore[override]
        super().setsockopt(level, name, value)
        if (level, name) == (socket.IPPROTO_IP, socket.IP_TOS):
            self.changes.append((self.handed_byte(), value))

    changes: list[tuple[int, int]]

    def handed_byte(self) -> int:
        info = self.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        # tcpi_bytes_sent and tcpi_bytes_retrans
        sent, again = (int.from_bytes(info[at : at + 8], "little") for at in (200, 208))
        return sent - again


@pytest.mark.parametrize("size", [16, 9_999, 10_000, 10_001, 25_000, 200_000])
def test_a_sender_changes_its_mark_when_the_first_bytes_have_left(size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, Watched() as sock:
        sock.changes = []
        sock.connect(door.getsockname())
        sock.setblocking(False)
        there, _ = door.accept()
        there.settimeout(5)
        sending = Sending(sock, 0, size, MARKS)
        received = 0
        with there:
            while not sending.pump() or received < size:
                received += len(there.recv(1 << 16))
        assert sock.changes == [(after, tos) for after, tos in MARKS if after < size]
        assert received == size


def test_a_sender_without_later_marks_is_left_as_it_is() -> None:
    with socket.socket() as sock:
        Sending(sock, 0, 10**6)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        Sending(sock, 0, 10_000, MARKS)  # it ends before the first change
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        Sending(sock, 0, 10**6, MARKS)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


# ---- a live network


@pytest.mark.virtual
def test_on_a_live_network_the_high_queue_carries_first_bytes_and_acknowledgements(
    cell: Path, tmp_path: Path
) -> None:
    settings = ["--set", "training=[]"]
    done = giveway("run", cell, "--engine", "virtual", "--out", tmp_path / "out", *settings)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "first-bytes" / "seed-0"
    links = pd.read_parquet(folder / "links.parquet")
    flows = pd.read_parquet(folder / "flows.parquet")
    unfinished = pd.read_parquet(folder / "unfinished.parquet")
    assert set(unfinished.flow) <= set(flows[flows.end_ns.isna()].flow)
    got = flows.flow.map(unfinished.set_index("flow").received_byte).fillna(0)
    size = flows.size_byte.where(flows.end_ns.notna(), got)
    first, last = size.clip(upper=10_000), (size - 30_000).clip(lower=0)
    payload = {"high": first, "middle": size - first - last, "low": last}
    carried = links[links.link.str.startswith("h")].groupby(["link", "class"])["bytes"].max()
    for band in ("middle", "low"):
        expected = payload[band].sum() * tcp.FRAME / tcp.PAYLOAD
        assert carried[:, band].sum() == pytest.approx(expected, rel=0.02)
    # Besides first bytes only packets without data, none more often than one for each with data.
    high, first_byte = carried[:, "high"].sum(), first.sum() * tcp.FRAME / tcp.PAYLOAD
    empty = 66 * (size.sum() / tcp.PAYLOAD + 6 * len(size))
    assert first_byte < high < first_byte + empty
