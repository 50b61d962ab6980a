"""TensorLights without a kernel: who gets which priority when, and what the agent tells ports."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import RunFailed
from policies.link import LinkPolicy, Port, ServerPort, Situation, link_policies
from policies.link.discipline import LEVELS, Discipline, faults, three_bands
from policies.link.port import ServerMap
from policies.link.tensorlights import level
from testbed.live import tc
from testbed.live.policy_agent import ActingPort, PolicyAgent

PERIOD_NS = 1_000_000
ONE = link_policies()["tensorlights-one"]
RR, SRF = (
    link_policies()[f"tensorlights-{name}"].told({"period": PERIOD_NS}) for name in ("rr", "srf")
)
ALL = [ONE, RR, SRF]
ACKS = link_policies()["tensorlights-acks"]
BOTH = link_policies()["tensorlights-both"]
FIFO = link_policies()["fifo"]
START = Situation()

situations = st.builds(
    Situation,
    st.integers(0, 10**12),
    st.dictionaries(st.sampled_from([f"job-{n}" for n in range(30)]), st.integers(0, 10**7)),
)


def servers(count: int) -> tuple[ServerPort, ...]:
    return tuple(ServerPort(f"job-{number}", 7000 + 2 * number) for number in range(count))


def port(count: int) -> Port:
    return Port("h1-eth0", 10**10, 1000, servers=servers(count))


def levels(policy: LinkPolicy, count: int, situation: Situation) -> list[int]:
    discipline = policy.discipline_at(port(count), situation)
    found = [discipline.class_of(server) for server in servers(count)]
    return [one.level for one in found if one is not None]


def commands(policy: LinkPolicy, count: int) -> list[str]:
    return tc.commands(policy.discipline_at(port(count)), port(count))


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@pytest.mark.parametrize("count", [0, 1])
def test_a_port_with_one_server_or_none_is_as_under_fifo(policy: LinkPolicy, count: int) -> None:
    discipline = policy.discipline_at(port(count))
    assert discipline == FIFO.discipline_at(port(count))
    assert tc.moves(discipline, port(count)) == []


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(count=st.integers(2, 30), situation=situations)
def test_whatever_the_order_only_where_servers_wait_has_changed(
    policy: LinkPolicy, count: int, situation: Situation
) -> None:
    discipline = policy.discipline_at(port(count), situation)
    assert discipline.same_queues(policy.discipline_at(port(count)))
    assert list(faults(discipline)) == []


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(count=st.integers(2, 30), situation=situations)
def test_every_job_has_a_level_and_levels_are_used_evenly(
    policy: LinkPolicy, count: int, situation: Situation
) -> None:
    found = levels(policy, count, situation)
    used = [found.count(one) for one in range(LEVELS)]
    assert sum(used) == count
    if count <= LEVELS:
        assert sorted(found) == list(range(count))
    else:
        assert max(used) - min(used) <= 1


@given(held=st.sets(st.integers(0, 29)), used=st.sets(st.integers(0, 29)))
def test_both_gives_a_job_one_class_for_what_its_server_and_its_workers_send(
    held: set[int], used: set[int]
) -> None:
    every = servers(30)
    at = Port(
        "h1-eth0", 10**10, 1000, servers=tuple(every[n] for n in sorted(held)),
        pushed_to=tuple(every[n] for n in sorted(used)),
    )  # fmt: skip
    discipline = BOTH.discipline_at(at)
    assert list(faults(discipline)) == []
    jobs = sorted(held | used)
    if len(jobs) < 2:
        assert discipline == FIFO.discipline_at(at)
        return
    for rank, job in enumerate(jobs):
        down, up = discipline.class_of(every[job]), discipline.class_of_pushes(every[job])
        assert (down is not None, up is not None) == (job in held, job in used)
        assert {one.level for one in (down, up) if one} == {level(rank, len(jobs))}
    acks, *filters = [line for line in tc.commands(discipline, at) if line.startswith("filter")]
    assert acks.endswith("match u16 0x0000 0xff80 at 2 flowid 1:10")
    ends = [re.findall(r"match ip (sport|dport) (\d+) 0xffff", line) for line in filters]
    told = [("sport", str(server.port)) for server in at.servers]
    told += [("dport", str(server.port)) for server in at.pushed_to]
    assert ends == [[end] for end in told]
    handles = [int(re.findall(r"handle 800::(\S+)", line)[0], 16) for line in [acks, *filters]]
    assert handles == sorted(set(handles))  # the kernel asks them in this order


@given(count=st.integers(2, 30))
def test_acknowledgements_wait_with_what_no_server_sends(count: int) -> None:
    ordered, free = (commands(policy, count) for policy in (ONE, ACKS))
    acks = [line for line in free if "match u16 0x0000 0xff80 at 2" in line]
    assert [line.rpartition(" ")[2] for line in acks] == ["1:10"]
    handle = re.compile(r"handle 800::\S+ ")  # one more has come before them
    rest = [handle.sub("", line) for line in free if line not in acks]
    assert rest == [handle.sub("", line) for line in ordered]


def test_ports_know_the_servers_that_gradients_pass_them_to() -> None:
    first, second = servers(2)
    known = ServerMap({"h1": (first, second)}, {"h2": (first, second), "h3": (second,)})
    assert known.at("s1", "h1") == {"servers": (), "pushed_to": (first, second), "jobs": ()}
    assert known.at("h1", "s1") == {"servers": (first, second), "pushed_to": (), "jobs": ()}
    assert known.at("h3", "s1") == {"servers": (), "pushed_to": (second,), "jobs": ()}
    assert known.at("s1", "h3") == {"servers": (), "pushed_to": (), "jobs": ()}


def test_one_never_changes() -> None:
    assert levels(ONE, 4, START) == levels(ONE, 4, Situation(10**12)) == [0, 1, 2, 3]
    assert not ONE.acts


def test_round_robin_moves_everybody_up_each_period() -> None:
    found = [levels(RR, 3, Situation(turn * PERIOD_NS)) for turn in range(4)]
    assert found == [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2]]
    assert levels(RR, 3, Situation(PERIOD_NS - 1)) == [0, 1, 2]


@given(count=st.integers(2, 8))
def test_under_round_robin_every_job_is_first_equally_often(count: int) -> None:
    turns = [levels(RR, count, Situation(turn * PERIOD_NS)) for turn in range(count)]
    for job in range(count):
        assert sorted(found[job] for found in turns) == list(range(count))


def test_the_least_remaining_is_first_and_who_sends_nothing_comes_after() -> None:
    remaining = {"job-0": 500, "job-1": 0, "job-2": 20, "job-3": 400}
    assert levels(SRF, 4, Situation(0, remaining)) == [2, 3, 0, 1]


@given(count=st.integers(2, 30), rank=st.integers(0, 29))
def test_a_better_rank_never_has_a_worse_level(count: int, rank: int) -> None:
    if rank + 1 < count:
        assert level(rank, count) <= level(rank + 1, count) < LEVELS


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@given(count=st.integers(2, 30))
def test_only_what_servers_send_is_told_apart(policy: LinkPolicy, count: int) -> None:
    told = commands(policy, count)
    filters = [command for command in told if command.startswith("filter")]
    assert len(filters) == count
    for at, command in enumerate(filters):
        assert f"match ip sport {7000 + 2 * at} 0xffff" in command
        assert "dport" not in command
    classes = dict(re.findall(r"classid (1:\d+) htb prio (\d)", "\n".join(told)))
    chosen = [classes[re.findall(r"flowid (\S+)", command)[0]] for command in filters]
    assert [int(prio) for prio in chosen] == levels(policy, count, START)


@given(count=st.integers(2, 30), situation=situations)
def test_a_turn_changes_filters_alone_and_leads_to_the_right_classes(
    count: int, situation: Situation
) -> None:
    for policy in (RR, SRF):
        made = "\n".join(commands(policy, count))
        classes = dict(re.findall(r"classid (1:\d+) htb prio (\d)", made))
        turned = tc.moves(policy.discipline_at(port(count), situation), port(count))
        assert all(command.startswith("filter change ") for command in turned)
        found = [int(classes[command.rpartition(" ")[2]]) for command in turned]
        assert found == levels(policy, count, situation)
        handles = [re.findall(r"handle (\S+)", command)[0] for command in turned]
        assert all(f"handle {handle} u32 match" in made for handle in handles)


def test_the_agent_tells_only_what_is_new_in_one_batch_a_port() -> None:
    told: list[tuple[int, list[str]]] = []
    place = ActingPort(42, port(3), None)
    agent = PolicyAgent(RR, [place], lambda pid, commands: told.append((pid, commands)))
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

    place = ActingPort(42, port(3), Published())  # type: ignore[arg-type]
    told: list[list[str]] = []
    PolicyAgent(SRF, [place], lambda pid, commands: told.append(commands)).act(PERIOD_NS)
    # job-2 is first, job-0 second, job-1 sends nothing: all three have moved.
    assert [command.rpartition(" ")[2] for command in told[0]] == ["1:12", "1:13", "1:11"]


def test_the_agent_ends_a_run_whose_policy_wants_other_queues_after_a_while() -> None:
    def fickle(at: Port, situation: Situation, period_ns: int) -> Discipline:
        return RR.discipline(at, situation, period_ns) if not situation.time_ns else three_bands()

    policy = replace(RR, name="fickle", discipline=fickle)
    agent = PolicyAgent(policy, [ActingPort(42, port(3), None)], lambda pid, commands: None)
    agent.act(0)
    with pytest.raises(RunFailed, match="fickle wants other queues at h1-eth0"):
        agent.act(PERIOD_NS)
