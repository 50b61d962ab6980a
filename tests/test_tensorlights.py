"""TensorLights without a kernel: who gets which priority when, and what the agent tells ports."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import policies
from policies import LinkPolicy, Moment, Port, ServerPort
from policies.tensorlights import LEVELS, level
from testbed.agent import Agent, Place

ONE, RR, SRF = (policies.available()[f"tensorlights-{name}"] for name in ("one", "rr", "srf"))
ALL = [ONE, RR, SRF]
FIFO = policies.available()["fifo"]
PERIOD_NS = 1_000_000

moments = st.builds(
    Moment,
    st.integers(0, 10**12),
    st.just(PERIOD_NS),
    st.dictionaries(st.sampled_from([f"job-{n}" for n in range(30)]), st.integers(0, 10**7)),
)


def servers(count: int) -> tuple[ServerPort, ...]:
    return tuple(ServerPort(f"job-{number}", 7000 + 2 * number) for number in range(count))


def port(count: int) -> Port:
    return Port("h1-eth0", 10**10, 1000, servers=servers(count))


def levels(policy: LinkPolicy, count: int, moment: Moment) -> list[int]:
    assert policy.priority_of is not None
    held = servers(count)
    return [policy.priority_of(held, server.job, moment) for server in held]


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@pytest.mark.parametrize("count", [0, 1])
def test_a_port_with_one_server_or_none_is_as_under_fifo(policy: LinkPolicy, count: int) -> None:
    assert policy.commands(port(count)) == FIFO.commands(port(count))
    assert policy.queues(port(count)) == FIFO.queues(port(count))
    if policy.act is not None:
        assert policy.act(port(count), Moment(0, PERIOD_NS)) == []


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(count=st.integers(2, 30), moment=moments)
def test_every_job_has_a_level_and_levels_are_used_evenly(
    policy: LinkPolicy, count: int, moment: Moment
) -> None:
    found = levels(policy, count, moment)
    used = [found.count(one) for one in range(LEVELS)]
    assert sum(used) == count
    if count <= LEVELS:
        assert sorted(found) == list(range(count))
    else:
        assert max(used) - min(used) <= 1


def test_one_never_changes() -> None:
    assert levels(ONE, 4, Moment(0, 0)) == levels(ONE, 4, Moment(10**12, 0)) == [0, 1, 2, 3]
    assert ONE.act is None


def test_round_robin_moves_everybody_up_each_period() -> None:
    found = [levels(RR, 3, Moment(turn * PERIOD_NS, PERIOD_NS)) for turn in range(4)]
    assert found == [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2]]
    assert levels(RR, 3, Moment(PERIOD_NS - 1, PERIOD_NS)) == [0, 1, 2]


@given(count=st.integers(2, 8))
def test_under_round_robin_every_job_is_first_equally_often(count: int) -> None:
    turns = [levels(RR, count, Moment(turn * PERIOD_NS, PERIOD_NS)) for turn in range(count)]
    for job in range(count):
        assert sorted(found[job] for found in turns) == list(range(count))


def test_the_least_remaining_is_first_and_who_sends_nothing_comes_after() -> None:
    remaining = {"job-0": 500, "job-1": 0, "job-2": 20, "job-3": 400}
    assert levels(SRF, 4, Moment(0, PERIOD_NS, remaining)) == [2, 3, 0, 1]


@given(count=st.integers(2, 30), rank=st.integers(0, 29))
def test_a_better_rank_never_has_a_worse_level(count: int, rank: int) -> None:
    if rank + 1 < count:
        assert level(rank, count) <= level(rank + 1, count) < LEVELS


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(count=st.integers(2, 30))
def test_only_what_servers_send_is_told_apart(policy: LinkPolicy, count: int) -> None:
    commands = policy.commands(port(count))
    filters = [command for command in commands if command.startswith("filter")]
    assert len(filters) == count
    for at, command in enumerate(filters):
        assert f"match ip sport {7000 + 2 * at} 0xffff" in command
        assert "dport" not in command
    classes = dict(re.findall(r"classid (1:\d+) htb prio (\d)", "\n".join(commands)))
    chosen = [classes[re.findall(r"flowid (\S+)", command)[0]] for command in filters]
    assert [int(prio) for prio in chosen] == levels(policy, count, Moment(0, policy.period_ns))


@given(count=st.integers(2, 30), moment=moments)
def test_a_turn_changes_filters_alone_and_leads_to_the_right_classes(
    count: int, moment: Moment
) -> None:
    for policy in (RR, SRF):
        assert policy.act is not None
        made = "\n".join(policy.commands(port(count)))
        classes = dict(re.findall(r"classid (1:\d+) htb prio (\d)", made))
        commands = policy.act(port(count), moment)
        assert all(command.startswith("filter change ") for command in commands)
        found = [int(classes[command.rpartition(" ")[2]]) for command in commands]
        assert found == levels(policy, count, moment)
        handles = [re.findall(r"handle (\S+)", command)[0] for command in commands]
        assert all(f"handle {handle} u32 match" in made for handle in handles)


def test_the_agent_tells_only_what_is_new_in_one_batch_a_port() -> None:
    told: list[tuple[int, list[str]]] = []
    place = Place(42, port(3), None)
    agent = Agent(RR, PERIOD_NS, [place], lambda pid, commands: told.append((pid, commands)))
    agent.act(0)
    assert told == []
    agent.act(PERIOD_NS)
    agent.act(PERIOD_NS + 5)
    [(pid, commands)] = told
    assert (pid, len(commands), agent.changes) == (42, 3, 1)


def test_the_agent_reads_what_tasks_publish() -> None:
    class Published:
        def __getitem__(self, at: int) -> int:
            return [500, 0, 20][at]

    place = Place(42, port(3), Published())  # type: ignore[arg-type]
    told: list[list[str]] = []
    Agent(SRF, PERIOD_NS, [place], lambda pid, commands: told.append(commands)).act(PERIOD_NS)
    # job-2 is first, job-0 second, job-1 sends nothing: all three have moved.
    assert [command.rpartition(" ")[2] for command in told[0]] == ["1:12", "1:13", "1:11"]
