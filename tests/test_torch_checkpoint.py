"""A checkpoint of real training travels between hosts, and what was moved has every bit."""

import hashlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from basics.bands import BAND_TOS
from policies.link import link_policies
from testbed.engine import Wiring
from testbed.live.network import Network
from testbed.live.rtnetlink import Namespace, device_indexes
from tests.conftest import REPOSITORY
from workloads import checkpoint_line
from workloads.sockets import TaskError

RANKS, REST_BEFORE, UNTIL = 3, 3, 9  # an epoch is five batches: it rests within one
LINE_PORT, GLOO_PORT = 7400, 7500


@contextmanager
def rank(network: Network, number: int, *, takes: bool) -> Iterator["subprocess.Popen[str]"]:
    """A process in the namespace of its host: h1 to h3 train, h4 to h6 take over."""
    first = RANKS + 1 if takes else 1
    host, peer = f"h{first + number}", f"h{number + 1 + RANKS}"
    orders = {
        "rank": number,
        "ranks": RANKS,
        "device": network.device(host),
        "own": network.address(host),
        "first": network.address(f"h{first}"),
        "peer": network.address(peer),
        "port": GLOO_PORT,
        "line": LINE_PORT,
        "tos": BAND_TOS["low"],
        "takes": takes,
        "rest_before": REST_BEFORE,
        "until": UNTIL,
    }
    command = ["nsenter", f"--net=/proc/{network.pid(host)}/ns/net", sys.executable]
    process = subprocess.Popen(
        [*command, "-m", "tests.moved_ranks", json.dumps(orders)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def low_byte(network: Network, host: str) -> int:
    """What the host has sent in the low band so far."""
    [live] = [live for live in network.ports if live.node == host]
    [queue] = [queue for queue in live.queues if queue.name == "low"]
    with Namespace(network.pid(host)) as namespace:
        device = device_indexes(network.pid(host))[live.port.device]
        return namespace.classes(device)[queue.class_id].sent_byte


@pytest.mark.root
@pytest.mark.torch
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
def test_training_that_was_moved_has_the_bits_of_training_that_was_not() -> None:
    cable = topologies.Cable(rate_bps=200_000_000, delay_ns=10_000, queue_packets=100)
    topology = topologies.available()["tor"](2 * RANKS, cable)
    policy = link_policies()["strict-priority"]
    with ExitStack() as stack:
        network = stack.enter_context(Network(topology, policy, Wiring(), run_id="test00"))
        new, old = (
            [stack.enter_context(rank(network, at, takes=takes)) for at in range(RANKS)]
            for takes in (True, False)
        )
        assert [line_of(one) for one in new] == ["listening\n"] * RANKS
        stayed, moved = ([json.loads(line_of(one)) for one in ranks] for ranks in (old, new))
        carried = [low_byte(network, f"h{at + 1}") for at in range(RANKS)]
    assert [one["begins_at"] for one in moved] == [REST_BEFORE] * RANKS
    assert [one["iteration"] for one in stayed + moved] == [UNTIL] * 2 * RANKS
    assert [one["digest"] for one in moved] == [one["digest"] for one in stayed]
    for one, other, byte in zip(stayed, moved, carried, strict=True):
        assert one["bytes"] == other["bytes"]
        assert one["bytes"] < byte < 1.1 * one["bytes"], "in its band, through the network, once"
        assert other["unrehearsed"] != one["digest"], "DDP's first pass sums in another order"


# ---- the line


def over_a_line(give: Callable[[socket.socket], object]) -> bytes | TaskError:
    """What is taken, or why it was not, when this is done at the other end."""
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(10)
        there.settimeout(10)

        def gives() -> None:
            try:
                give(there)
            except TaskError as refused:
                failed.append(refused)
            there.shutdown(socket.SHUT_WR)

        failed: list[TaskError] = []
        giver = threading.Thread(target=gives)
        giver.start()
        try:
            return checkpoint_line.take(here)
        except TaskError as refused:
            return refused
        finally:
            here.shutdown(socket.SHUT_WR)
            giver.join(20)


@settings(deadline=None, max_examples=30)
@given(data=st.binary(max_size=3_000_000))
def test_what_is_given_is_taken(data: bytes) -> None:
    assert over_a_line(lambda line: checkpoint_line.give(line, data)) == data


def head(data: bytes, size: int) -> bytes:
    return checkpoint_line.HEAD.pack(size, hashlib.sha256(data).digest())


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "ended after 0 of 40 bytes"),
        (head(b"whole", 5) + b"who", "ended after 3 of 5 bytes"),
        (head(b"whole", 5) + b"whale", "damaged on its way"),
        (head(b"", 2**63), "bytes was announced"),
    ],
    ids=["nothing", "cut", "damaged", "too large"],
)
def test_half_a_checkpoint_is_none(sent: bytes, said: str) -> None:
    found = over_a_line(lambda line: line.sendall(sent))
    assert isinstance(found, TaskError)
    assert said in str(found)


def test_nobody_forgets_a_checkpoint_that_did_not_arrive() -> None:
    here, there = socket.socketpair()
    with there:
        there.settimeout(10)
        here.close()
        with pytest.raises(TaskError, match="was not sent"):
            checkpoint_line.give(there, b"state" * 1000)


# ---- the sampler


@pytest.mark.torch
@settings(deadline=None, max_examples=40)
@given(
    ranks=st.integers(1, 4), batch=st.integers(1, 5), samples=st.integers(20, 50),
    before=st.integers(0, 30), after=st.integers(1, 10),
)  # fmt: skip
def test_a_sampler_goes_on_where_it_was(
    ranks: int, batch: int, samples: int, before: int, after: int
) -> None:
    from workloads.torch_checkpoint import PlacedSampler

    def fresh(rank: int) -> PlacedSampler:
        return PlacedSampler(samples, batch, rank, ranks, seed=5)

    seen = []
    for rank in range(ranks):
        one, other = fresh(rank), fresh(rank)
        for _ in range(before):
            one.next_batch()
        other.load_state_dict(one.state_dict())
        assert [one.next_batch() for _ in range(after)] == [
            other.next_batch() for _ in range(after)
        ]
        per_epoch = samples // ranks // batch
        epoch = fresh(rank)
        seen += [sample for _ in range(per_epoch) for sample in epoch.next_batch()]
    assert len(set(seen)) == len(seen), "within an epoch nobody sees what another has seen"
