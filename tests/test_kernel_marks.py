"""Kernels of hosts mark first bytes: what nft is told, and what then waits where."""

import json
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from basics.bands import BAND_TOS, UNMARKED_TOS
from basics.errors import CannotRun, RunFailed
from policies.link import link_policies
from policies.link.policy import LinkPolicy
from testbed import machine, processes
from testbed.engine import Wiring, demand_features
from testbed.live import kernel_marks, tc
from testbed.live.kernel_marks import HEADER_BYTE, LARGEST_PACKET_BYTE, MTU, Marking, quota_byte
from testbed.live.network import LEAST_SEGMENTS, Network
from testbed.live.rtnetlink import Namespace
from testbed.spec import Experiment, load
from tests.conftest import REPOSITORY, giveway
from tests.test_first_bytes import CELL
from tests.told import a_machine
from workloads.generator import Sending

SEGMENT = MTU - HEADER_BYTE
THRESHOLD = 100_000
FRAME = SEGMENT + 66  # as tc counts it
HIGH, MIDDLE, LOW = (BAND_TOS[band] for band in ("high", "middle", "low"))
MARKING = Marking(HIGH, ((THRESHOLD, MIDDLE), (1_000_000, LOW)))


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marks") / "cell.yaml"
    path.write_text(CELL)
    return path


def loaded(cell: Path, *settings: str) -> Experiment:
    return load(cell, ("policies.0.kernel=1", *settings))


# ---- what nft is told


def test_nobody_who_marks_is_taken_for_somebody_who_does_not() -> None:
    assert UNMARKED_TOS not in BAND_TOS.values()


@pytest.mark.parametrize("policy", ["first-bytes", "slack-aware"])
def test_thresholds_are_those_of_senders(cell: Path, policy: str) -> None:
    experiment = loaded(cell, f"policies.0.policy={policy}")
    [choice] = experiment.policies
    marking = kernel_marks.marking_of(experiment, choice, dilation=2)
    assert marking == Marking(HIGH, ((10_000, MIDDLE), (30_000, LOW)), forget_s=120)
    [mix] = experiment.flows
    demotions = choice.link_policy.demotions_from("high", mix.scale)
    assert [one.after_byte for one in demotions] == [after for after, _ in marking.later]


def test_what_never_happens_is_not_counted(cell: Path) -> None:
    experiment = loaded(cell, "policies=[{policy: first-bytes, kernel: 1}]", "flows.0.scale=0.001")
    marking = kernel_marks.marking_of(experiment, experiment.policies[0])
    assert marking is not None
    assert marking.later == ((100, MIDDLE),)


def test_who_is_never_demoted_has_the_first_mark_all_the_same() -> None:
    lines = kernel_marks.rules(Marking(HIGH, ())).splitlines()
    assert "ip dscp 0 ip dscp set 4" in lines
    assert not [line for line in lines if "quota" in line or "past_" in line]


def test_without_the_option_kernels_do_nothing(cell: Path) -> None:
    experiment = load(cell)
    assert kernel_marks.marking_of(experiment, experiment.policies[0]) is None


def test_who_is_past_a_threshold_is_marked_and_only_then_counted_to_the_next() -> None:
    lines = kernel_marks.rules(MARKING).splitlines()
    connection = "ip daddr . meta l4proto . th sport . th dport"
    below = lines.index("chain demoted_1 {")
    assert lines[below + 1 : below + 4] == [
        f"update @past_1 {{ {connection} }} ip dscp set 1",
        f"{connection} @past_2 goto demoted_2",
        f"update @counted_2 {{ {connection} quota over 932344 bytes }} "
        f"add @past_2 {{ {connection} }}",
    ]
    first = lines.index("chain output {")
    assert lines[first + 4] == "ip dscp != { 0, 4 } accept"
    assert lines[-4:-2] == [
        f"{connection} @past_1 goto demoted_1",
        f"update @counted_1 {{ {connection} quota over 103640 bytes }} "
        f"add @past_1 {{ {connection} }}",
    ]


@given(threshold=st.integers(1, 10**9), size=st.integers(1, 10**9))
def test_a_flow_within_the_threshold_is_within_the_quota(threshold: int, size: int) -> None:
    """In full packets. And headers are all that the quota is larger by."""
    quota = quota_byte(Marking(HIGH, ((threshold, MIDDLE),)), 1)
    packets = -(-size // SEGMENT)
    if size <= threshold:
        assert size + HEADER_BYTE * packets <= quota
    assert quota <= threshold * MTU / SEGMENT + HEADER_BYTE


LISTING = """
{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "ip", "name": "giveway"}},
 {"chain": {"name": "output", "type": "filter", "hook": "output", "prio": -150}},
 {"chain": {"name": "demoted_1"}},
 {"rule": {"chain": "demoted_1", "expr": [{"set": {"op": "update", "set": "@past_1"}},
  {"mangle": {"key": {"payload": {"protocol": "ip", "field": "dscp"}}, "value": 1}}]}},
 {"rule": {"chain": "output", "expr": [{"mangle": {"key": {}, "value": 4}}]}},
 {"rule": {"chain": "output", "expr": [{"set": {"op": "update", "set": "@counted_1",
  "stmt": [{"quota": {"val": 518, "val_unit": "kbytes", "inv": true}}]}}]}}]}
"""


def test_what_the_kernel_holds_is_read_from_nfts_listing() -> None:
    held = kernel_marks.read(json.loads(LISTING))
    assert held == {"hook output": 1, "output sets": 4, "demoted_1 sets": 1,
                    "counted_1 over": 518 << 10}  # fmt: skip
    asked = Marking(HIGH, ((512_012, MIDDLE),))
    assert kernel_marks.facts(asked) == held | {"counted_1 over": quota_byte(asked, 1)}


def test_without_nft_it_is_one_line(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_machine():
        here = machine.probe()
        demand_features(loaded(cell), here.features, here.tcp, "this kernel")
        monkeypatch.setattr(kernel_marks, "program", lambda: None)
        demand_features(load(cell), here.features, here.tcp, "this kernel")
        with pytest.raises(CannotRun) as caught:
            demand_features(loaded(cell), here.features, here.tcp, "this kernel")
    line = str(caught.value)
    assert line.startswith("policies.0.kernel: the program nft (Debian package nftables) is not")
    assert len(line.splitlines()) == 1
    assert caught.value.exit_code == 3


def test_a_stack_in_the_flows_band_looks_like_flows(cell: Path) -> None:
    stack = ("training.0.backend=torch", "policies.0.bands={job: high}")
    experiment = loaded(cell, *stack)
    [fault] = kernel_marks.faults(experiment, experiment.policies[0])
    assert fault.startswith("job is put into high, where flows begin, and torch's connections")
    native = loaded(cell, stack[1])  # known by its ports
    assert not list(kernel_marks.faults(native, native.policies[0]))


def test_a_cluster_of_stacks_might_be_put_among_flows() -> None:
    file = REPOSITORY / "experiments" / "cluster-torch.yaml"
    experiment = load(file, ("policies=[{policy: first-bytes, kernel: 1}]",))
    [fault] = kernel_marks.faults(experiment, experiment.policies[0])
    assert fault.startswith("schedulers may put jobs into high")


# ---- a live network

CABLE = topologies.Cable(rate_bps=500_000_000, delay_ns=10_000, queue_packets=1000)
on_this_kernel = pytest.mark.root


def policy(kernel: int) -> LinkPolicy:
    return link_policies()["first-bytes"].told({"kernel": kernel})


def network(kernel: int = 1, wiring: Wiring | None = None, threshold: int = THRESHOLD) -> Network:
    if not tc.needs(policy(kernel)) <= machine.probe().features:
        pytest.skip("this kernel cannot mark")
    rack = topologies.available()["tor"](3, CABLE)
    marking = Marking(HIGH, ((threshold, MIDDLE),)) if kernel else None
    return Network(rack, policy(kernel), wiring or Wiring(), run_id="test00", marking=marking)


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network() as made:
        yield made


def carried(net: Network, host: str) -> dict[str, int]:
    """What has left a host, class by class, as tc counts it."""
    [live] = [live for live in net.ports if live.node == host]
    with Namespace(net.pid(host)) as namespace:
        classes = namespace.classes(namespace.devices[live.port.device])
    return {queue.name: classes[queue.class_id].sent_byte for queue in live.queues}


class Sent:
    """What left h1 meanwhile, as payload of full frames."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self._before = carried(net, "h1")

    def __getitem__(self, band: str) -> float:
        return (carried(self._net, "h1")[band] - self._before[band]) * SEGMENT / FRAME


def received(net: Network, size: int, tos: int = 0, port: int = 5000, source: int = 0) -> None:
    """A program sends from h1 to h2, with a mark or without."""
    door = processes.in_network(
        net.pid("h2"), lambda: socket.create_server((net.address("h2"), port), reuse_port=True)
    )
    sock = processes.in_network(net.pid("h1"), socket.socket)
    with door, sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if tos:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        sock.bind((net.address("h1"), source))
        sock.connect((net.address("h2"), port))
        there, _ = door.accept()
        with there, ThreadPoolExecutor(1) as other:
            reading = other.submit(everything, there)
            sock.sendall(bytes(size))
            # Reset instead of waiting for late packets: the four-tuple is free again.
            sock.shutdown(socket.SHUT_WR)
            assert reading.result(20) == size
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def everything(sock: socket.socket) -> int:
    got = 0
    while data := sock.recv(1 << 16):
        got += len(data)
    return got


WORDS = 2_000  # of opening, closing and acknowledging
ONE_PACKET = LEAST_SEGMENTS * SEGMENT  # below 1 Gbit/s; at 10 Gbit/s and above LARGEST_PACKET_BYTE
assert ONE_PACKET < LARGEST_PACKET_BYTE


def first_bytes_at_most(packet: int, threshold: int = THRESHOLD) -> float:
    return threshold * MTU / SEGMENT + packet + WORDS


@on_this_kernel
@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("threshold", [10_000, THRESHOLD])
def test_any_programs_first_bytes_go_first_and_one_packet_at_most_beyond(
    offload: bool, threshold: int
) -> None:
    with network(wiring=Wiring(offload=offload), threshold=threshold) as net:
        sent = Sent(net)
        received(net, 4_000_000)
        high, middle = sent["high"], sent["middle"]
    largest = ONE_PACKET if offload else SEGMENT
    assert threshold <= high <= first_bytes_at_most(largest, threshold)
    assert high + middle == pytest.approx(4_000_000, rel=0.02)


# It is done when the kernel has taken 4 MB, and closes: what is unsent then may never be sent.
LEAST_OF_IPERF3 = 3_000_000


@on_this_kernel
def test_an_unchanged_iperf3_is_marked_beside_another_and_without_the_option_it_is_not() -> None:
    found = {}
    for kernel in (1, 0):
        with network(kernel) as net:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda way: iperf3(net, *way), (("h1", 5201), ("h3", 5202))))
            found[kernel] = [carried(net, host) for host in ("h1", "h3")]
    for host in found[1]:
        high = host["high"] * SEGMENT / FRAME
        # Its connection for control has first bytes of its own, a few thousand.
        assert THRESHOLD <= high <= first_bytes_at_most(ONE_PACKET) + 10_000
        assert LEAST_OF_IPERF3 <= high + host["middle"] * SEGMENT / FRAME <= 4_200_000
    for host in found[0]:
        assert host["high"] == 0
        assert LEAST_OF_IPERF3 <= host["middle"] * SEGMENT / FRAME <= 4_200_000
    assert all(host["low"] == 0 for host in found[1] + found[0])


def iperf3(net: Network, client: str, port: int) -> None:
    """The program as it is, 4 MB to h2."""
    into = ["nsenter", "-n", "-t"]
    server = [*into, str(net.pid("h2")), "iperf3", "--forceflush", "-s", "-1", "-p", str(port)]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        while "listening" not in listening.stdout.readline():
            pass
        argv = ["iperf3", "-c", net.address("h2"), "-p", str(port), "-n", "4000000", "-l", "10000"]
        processes.run(argv, netns_pid=net.pid(client))
        listening.communicate(timeout=10)


@on_this_kernel
@pytest.mark.parametrize(
    ("tos", "port", "band"),
    [(MIDDLE, 5000, "middle"), (LOW, 5000, "low"), (HIGH, 7000, "high"), (HIGH, 5901, "high")],
)
def test_training_is_left_alone_by_its_mark_or_its_port(
    net: Network, tos: int, port: int, band: str
) -> None:
    sent = Sent(net)
    received(net, 1_000_000, tos, port)
    assert sent[band] == pytest.approx(1_000_000, rel=0.03)
    others = [sent[other] for other in ("high", "middle", "low") if other != band]
    assert sum(others) < 1_000, "the kernel's own, of IPv6"


@on_this_kernel
@pytest.mark.parametrize("offload", [True, False])
def test_a_flow_of_the_generator_up_to_the_threshold_is_never_demoted(offload: bool) -> None:
    with network(wiring=Wiring(offload=offload)) as net:
        for size in (16, 50_000, THRESHOLD - 1, THRESHOLD):
            generated(net, size)
        assert carried(net, "h1")["middle"] < 1_000  # the kernel's own, of IPv6
        generated(net, 2 * THRESHOLD)
        assert carried(net, "h1")["middle"] > THRESHOLD / 2


def generated(net: Network, size: int) -> None:
    """A flow as the generator sends it where it does not change its mark; it is there in full."""
    sent = Sent(net)
    door = processes.in_network(
        net.pid("h2"), lambda: socket.create_server((net.address("h2"), 6000))
    )
    sock = processes.in_network(net.pid("h1"), socket.socket)
    with door, sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, HIGH)
        sock.connect((net.address("h2"), 6000))
        there, _ = door.accept()
        with there, ThreadPoolExecutor(1) as other:
            reading = other.submit(everything, there)
            assert Sending(sock, 0, size).pump()
            sock.shutdown(socket.SHUT_WR)
            assert reading.result(20) == size
    assert sent["high"] >= min(size, THRESHOLD)


@on_this_kernel
def test_a_new_connection_between_the_same_ports_begins_anew(net: Network) -> None:
    sent = Sent(net)
    received(net, 1_000_000, source=40_000)
    received(net, 1_000_000, source=40_000)
    assert 2 * THRESHOLD <= sent["high"] <= 2 * first_bytes_at_most(ONE_PACKET)


@on_this_kernel
def test_acknowledgements_are_never_demoted() -> None:
    with network(threshold=1_000) as net:
        before = carried(net, "h2")
        received(net, 8_000_000)
        after = carried(net, "h2")
    assert after["high"] - before["high"] > 10 * 1_000  # so many bytes of them there are
    assert after["middle"] - before["middle"] < 1_000  # the kernel's own, of IPv6


@on_this_kernel
def test_datagrams_are_counted_too(net: Network) -> None:
    sent = Sent(net)
    sock = processes.in_network(
        net.pid("h1"), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )
    with sock:
        for _ in range(300):
            sock.sendto(bytes(1400), (net.address("h2"), 9))
    assert sent["high"] == pytest.approx(103_640, rel=0.05)
    assert sent["high"] + sent["middle"] == pytest.approx(300 * 1400, rel=0.05)


@on_this_kernel
def test_a_kernel_that_holds_other_marks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = kernel_marks.rules
    monkeypatch.setattr(kernel_marks, "rules", lambda one: asked(one).replace("103640", "9999"))
    held = r"h1: the marks .* were asked, the kernel holds .*'counted_1 over': 9999"
    with pytest.raises(RunFailed, match=held), network():
        pass


@pytest.mark.virtual
def test_in_the_guest_first_bytes_of_flows_go_first(cell: Path, tmp_path: Path) -> None:
    settings = ["--set", "training=[]", "--set", "policies.0.kernel=1"]
    done = giveway("run", cell, "--engine", "virtual", "--out", tmp_path / "out", *settings)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "first-bytes" / "seed-0"
    network = json.loads((folder / "manifest.json").read_text())["network"]
    assert network["kernel_marks"]["counted_1 over"] == 10_000 + 7 * HEADER_BYTE
    links = pd.read_parquet(folder / "links.parquet")
    flows = pd.read_parquet(folder / "flows.parquet")
    unfinished = pd.read_parquet(folder / "unfinished.parquet")
    got = flows.flow.map(unfinished.set_index("flow").received_byte).fillna(0)
    size = flows.size_byte.where(flows.end_ns.notna(), got)
    # Packets of 1,500 bytes here: the whole ones that hold the 10 kB, and the 20 kB after those.
    first = size.clip(upper=7 * SEGMENT)
    last = (size - (7 + 14) * SEGMENT).clip(lower=0)
    of_hosts = links[links.link.str.startswith("h")].groupby(["link", "class"])["bytes"].max()
    carried = {band: of_hosts[:, band].sum() * SEGMENT / FRAME for band in BAND_TOS}
    assert carried["middle"] == pytest.approx((size - first - last).sum(), rel=0.02)
    assert carried["low"] == pytest.approx(last.sum(), rel=0.02)
    # Besides first bytes only packets without data, none more often than one for each with data.
    assert first.sum() < carried["high"] < first.sum() + 66 * (size.sum() / SEGMENT + 6 * len(size))
