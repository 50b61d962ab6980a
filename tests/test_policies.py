"""The link policies that ship: what they promise, read off what the kernel is told."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics import options
from basics.bands import BAND_TOS, tos_of
from policies.link import LinkPolicy, Port, link_policies, rebuilt
from policies.link.discipline import faults
from policies.link.port import MTU_FRAME_BYTE
from testbed.live import tc

ALL = list(link_policies().values())

ports = st.builds(
    Port,
    device=st.just("h1-eth0"),
    rate_bps=st.integers(1_000_000, 400_000_000_000),
    queue_packets=st.integers(1, 100_000),
    delay_ns=st.sampled_from([0, 10_000, 5_000_000]),
    slack_ns=st.sampled_from([0, 200_000]),
    count_bytes=st.booleans(),
)


def commands(policy: LinkPolicy, port: Port) -> list[str]:
    return tc.commands(policy.discipline_at(port), port)


def queues(policy: LinkPolicy, port: Port) -> list[tc.KernelQueue]:
    return tc.queues(policy.discipline_at(port), port)


def classes(policy: LinkPolicy, port: Port) -> dict[str, dict[str, str]]:
    """The htb classes of the commands: class id -> its settings."""
    found = {}
    for command in commands(policy, port):
        made = re.match(r"class replace dev (\S+) parent (\S+) classid (\S+) htb (.*)", command)
        if made:
            words = made[4].split()
            found[made[3]] = dict(zip(words[::2], words[1::2], strict=True)) | {"parent": made[2]}
    return found


def test_every_policy_file_is_found() -> None:
    assert {"fifo", "strict-priority", "htb-priority"} <= set(link_policies())


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports)
def test_no_shipped_policy_has_a_fault(policy: LinkPolicy, port: Port) -> None:
    assert list(faults(policy.discipline_at(port))) == []


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports)
def test_root_is_line_rate_and_no_class_may_exceed_it(policy: LinkPolicy, port: Port) -> None:
    found = classes(policy, port)
    assert found["1:1"]["rate"] == f"{port.rate_bps}bit"
    assert all(made["ceil"] == f"{port.rate_bps}bit" for made in found.values())


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports)
def test_guarantees_fit_into_the_line(policy: LinkPolicy, port: Port) -> None:
    own = [
        int(made["rate"].removesuffix("bit"))
        for made in classes(policy, port).values()
        if made["parent"] == "1:1"
    ]
    assert sum(own) <= port.rate_bps


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports)
def test_each_band_has_a_queue_of_the_asked_length(policy: LinkPolicy, port: Port) -> None:
    told = "\n".join(commands(policy, port))
    assert [queue.name for queue in queues(policy, port)] == list(policy.bands)
    for queue in queues(policy, port):
        below = rf"parent {queue.class_id} handle \w+: (\w+) limit (\d+)"
        [(kind, limit)] = re.findall(below, told)
        if kind == "bfifo":
            assert port.count_bytes
            assert int(limit) == port.queue_packets * MTU_FRAME_BYTE
        else:
            assert int(limit) == port.queue_packets


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports, mark_ns=st.integers(1, 10**9))
def test_where_packets_are_to_be_marked_every_queue_does(
    policy: LinkPolicy, port: Port, mark_ns: int
) -> None:
    marking = replace(port, mark_ns=mark_ns)
    marks = [line for line in commands(policy, marking) if "ce_threshold" in line]
    assert len(marks) == len(policy.bands)
    assert all(f"ce_threshold {mark_ns / 1000:.3f}us" in line for line in marks)


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(port=ports)
def test_delay_stands_before_the_queues_so_that_it_drops_nothing(
    policy: LinkPolicy, port: Port
) -> None:
    first, second, *_ = commands(policy, port)
    if port.delay_ns:
        assert f"root handle 9: netem delay {round(port.delay_ns / 1000)}us" in first
        assert "parent 9:1 handle 1: htb" in second
    else:
        assert "root handle 1: htb" in first


@pytest.mark.parametrize("name", ["strict-priority", "htb-priority"])
@given(port=ports)
def test_bands_are_served_in_order_and_chosen_by_tos(name: str, port: Port) -> None:
    policy = link_policies()[name]
    found = classes(policy, port)
    prios = [int(found[queue.class_id]["prio"]) for queue in queues(policy, port)]
    assert prios == sorted(set(prios))
    told = commands(policy, port)
    for queue in queues(policy, port):
        match = f"match ip tos {BAND_TOS[queue.name]:#04x} 0xfc flowid {queue.class_id}"
        assert sum(match in command for command in told) == 1


@given(port=ports)
def test_strict_priority_owes_the_low_band_nothing_to_speak_of(port: Port) -> None:
    policy = link_policies()["strict-priority"]
    low = classes(policy, port)[queues(policy, port)[-1].class_id]
    assert int(low["rate"].removesuffix("bit")) <= port.rate_bps / 100
    assert int(low["burst"].removesuffix("b")) == 2 * MTU_FRAME_BYTE


def test_prio_and_strict_priority_differ_in_the_mechanism_alone() -> None:
    port = Port("h1-eth0", 10**9, 100)
    prio, strict = (link_policies()[name] for name in ("prio", "strict-priority"))
    htb = replace(prio.discipline_at(port), mechanism="htb")
    assert htb == strict.discipline_at(port) != prio.discipline_at(port)


def test_guaranteed_shares_add_up_to_the_line() -> None:
    assert sum(options.defaults(link_policies()["htb-priority"].options).values()) == 1


@given(low=st.floats(0.001, 0.5), port=ports)
def test_a_share_that_is_told_is_what_the_kernel_holds(low: float, port: Port) -> None:
    policy = link_policies()["htb-priority"].told({"low": low, "high": 0.1})
    rates = [made["rate"] for made in classes(policy, port).values() if made["parent"] == "1:1"]
    shares = [0.1, 0.3, low]
    assert rates == [f"{int(port.rate_bps * share)}bit" for share in shares]


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
def test_a_policy_travels_by_value(policy: LinkPolicy) -> None:
    told = policy.told({name: option.low for name, option in policy.options.items()})
    assert rebuilt(told.plain()) == told
    assert rebuilt(policy.plain()) == policy


def test_training_yields_under_every_policy_that_tells_traffic_apart() -> None:
    for policy in ALL:
        assert {policy.flows, policy.training} <= set(policy.bands)
        if len(policy.bands) > 1:
            assert policy.bands.index(policy.flows) < policy.bands.index(policy.training)


def test_tos_bytes_differ_between_bands_and_leave_the_ecn_bits_alone() -> None:
    values = [tos_of(band) for band in BAND_TOS]
    assert len(set(values)) == len(values)
    assert all(value & 0x03 == 0 for value in values)
