"""What the simulation takes from a discipline besides levels and floors: how long queues are."""

from dataclasses import replace

import pytest

from policies.link import LinkPolicy, Port, link_policies, one_queue
from testbed.fluid import tcp
from testbed.fluid.disciplines import port_of, queue_byte, refusal
from topologies import Cable

CABLE = Cable(rate_bps=10**9, delay_ns=10_000, queue_packets=1000)
CAPACITY = 0.1  # bytes per ns
MARK_NS = 200_000


def short(port: Port) -> object:
    [one] = one_queue().classes
    return replace(one_queue(), classes=(replace(one, limit_packets=7),))


FIFO = link_policies()["fifo"]
SHORT = replace(FIFO, discipline=short)


@pytest.mark.parametrize(
    ("policy", "mark_ns", "byte"),
    [
        (FIFO, 0, 1000 * tcp.PAYLOAD),
        (FIFO, MARK_NS, CAPACITY * MARK_NS),
        (FIFO, 10**12, 1000 * tcp.PAYLOAD),
        (SHORT, 0, 7 * tcp.PAYLOAD),
        (link_policies()["fq-codel"], MARK_NS, CAPACITY * MARK_NS),
    ],
    ids=["the port's", "as long as marks let it", "marks too late", "its own", "a queue a flow"],
)
def test_a_queue_is_as_long_as_its_class_says(
    policy: LinkPolicy, mark_ns: int, byte: float
) -> None:
    assert queue_byte(policy, port_of(CABLE, mark_ns), CAPACITY) == byte


@pytest.mark.parametrize("policy", link_policies().values(), ids=lambda policy: policy.name)
def test_every_shipped_policy_is_simulated(policy: LinkPolicy) -> None:
    assert refusal(policy, [port_of(CABLE), port_of(replace(CABLE, rate_bps=10**10))]) is None
