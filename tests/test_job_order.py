"""Jobs in strict order at every port: who is before whom, and what it does to the mean."""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from policies.link import Port, ServerPort, Situation, link_policies
from policies.link.discipline import LEVELS, faults
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.live.policy_agent import ActingPort, PolicyAgent
from testbed.live.tc import commands
from testbed.run import in_turns
from testbed.spec import load

ORDER, SHORTEST = link_policies()["job-order"], link_policies()["job-order-shortest"]
LEAST = link_policies()["job-order-least"]
JOBS = tuple(ServerPort(f"job-{at}", 7000 + 2 * at, byte=100 - at) for at in range(20))
PORT = Port("core1-eth0", 10**9, 100)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 20])
def test_every_job_has_a_class_behind_the_flows_and_seven_have_a_level_each(count: int) -> None:
    discipline = ORDER.discipline_at(replace(PORT, jobs=JOBS[:count]))
    assert list(faults(discipline)) == []
    levels = [discipline.class_of(job).level for job in JOBS[:count]]  # type: ignore[union-attr]
    assert levels == sorted(levels)
    assert min(levels) == 1
    assert len(set(levels)) == min(count, LEVELS - 1)
    assert [one.level for one in discipline.classes if one.rest] == [0]


def test_the_smallest_is_first_if_asked_for() -> None:
    discipline = SHORTEST.discipline_at(replace(PORT, jobs=JOBS[:3]))
    found = [discipline.class_of(job).level for job in JOBS[:3]]  # type: ignore[union-attr]
    assert found == [3, 2, 1]


def test_the_job_with_least_left_everywhere_is_first_and_who_sends_nothing_last() -> None:
    port = replace(PORT, jobs=JOBS[:4])
    left = {"job-0": 500, "job-2": 20, "job-3": 0}
    discipline = LEAST.discipline_at(port, Situation(1, everywhere_byte=left))
    found = [discipline.class_of(job).level for job in JOBS[:4]]  # type: ignore[union-attr]
    assert found == [2, 3, 1, 4]
    assert discipline.same_queues(LEAST.discipline_at(port))


def test_a_port_without_servers_hears_what_all_hosts_servers_have_left() -> None:
    class Published:
        def __init__(self, *left: int) -> None:
            self._left = left

        def __getitem__(self, at: int) -> int:
            return self._left[at]

    jobs = JOBS[:2]
    hosts = [
        ActingPort(pid, replace(PORT, jobs=jobs, servers=jobs), Published(*left))  # type: ignore[arg-type]
        for pid, left in ((1, (300, 200)), (2, (100, 300)))
    ]
    told: dict[int, list[str]] = {}
    agent = PolicyAgent(
        LEAST, [*hosts, ActingPort(3, replace(PORT, jobs=jobs), None)], told.__setitem__
    )
    agent.act(5)
    assert told == {}  # 400 and 500: as in the file
    hosts[1].board._left = (400, 100)  # type: ignore[union-attr]
    agent.act(10)
    assert told.keys() == {1, 2, 3}  # 700 and 300: the second is first, at every port


def test_a_port_within_the_network_tells_jobs_apart_by_their_tcp_port_both_ways() -> None:
    port = replace(PORT, jobs=JOBS[:2])
    said = "\n".join(commands(ORDER.discipline_at(port), port))
    for job, class_ in zip(JOBS[:2], ("1:11", "1:12"), strict=True):
        assert f"match ip sport {job.port} 0xffff flowid {class_}" in said
        assert f"match ip dport {job.port} 0xffff flowid {class_}" in said


# The workers of M equal jobs fetch their models over one link: all are on one host, and compute
# for longer than the run.
FILE = """
name: order
topology: {kind: leaf-spine, hosts: 16, leaves: 2, spines: 1, oversubscription: 8, rate: 1 Gbit/s, delay: 1 us, queue: 1000 packets}
duration: 60 s
training:
  - {name: job, count: %d, bytes: 20 MB, compute: 100 s, steps: 1, aggregation: parameter-server,
     workers: [h1], servers: 1, servers_on: [%s]}
policies: [fifo, job-order, job-order-shortest]
seeds: [0]
"""  # noqa: E501


@pytest.mark.parametrize("jobs", [2, 5, 7])
def test_order_shortens_the_mean_by_m_minus_1_over_2m(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE % (jobs, ", ".join(f"h{9 + at}" for at in range(jobs))))
    means = {}
    for run in in_turns(load(path), "test00"):
        records = Records()
        setting = fluid.settle(run.experiment, print, run.run_id)
        fluid.perform(run, setting, records, lambda time_ns: None)
        fetched = {row[0]: row[5] for row in records.tables["computes"] if row[3] == "forward"}
        assert len(fetched) == jobs
        means[run.choice.label] = mean(fetched.values())
        [counted] = {row[2] for row in records.tables["links"]}
        assert counted == "all"
        assert max(row[3] for row in records.tables["links"]) > jobs * 20_000_000
    expected = 1 - (jobs - 1) / (2 * jobs)
    assert means["job-order"] / means["fifo"] == pytest.approx(expected, rel=0.05)
    assert means["job-order-shortest"] == means["job-order"]  # all are equal


UNEQUAL = """
name: unequal
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 2 s
training:
  - {name: large, bytes: 40 MB, compute: 10 s, aggregation: parameter-server, workers: [h1],
     servers_on: [h2]}
  - {name: small, bytes: 10 MB, compute: 10 s, start: 100 ms, aggregation: parameter-server,
     workers: [h1], servers_on: [h3]}
  - {name: tiny, bytes: 5 MB, compute: 10 s, start: 300 ms, aggregation: parameter-server,
     workers: [h1], servers_on: [h3]}
policies: [job-order, job-order-least]
seeds: [0]
"""


def test_least_remaining_first_lets_a_small_job_overtake_unless_the_large_one_is_nearly_done(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(UNEQUAL)
    fetched = {}
    for run in in_turns(load(path), "test00"):
        records = Records()
        setting = fluid.settle(run.experiment, print, run.run_id)
        fluid.perform(run, setting, records, lambda time_ns: None)
        rows = records.tables["computes"]
        fetched[run.choice.label] = {row[0]: row[5] / 1e6 for row in rows if row[3] == "forward"}
    assert list(fetched["job-order"]) == ["large", "small", "tiny"]
    # The large one alone takes 335 ms. The small one, begun after 100, takes 84 and is first; when
    # the tiny one comes, after 300, the large one has 119 ms left and it 42: it is first too.
    least = fetched["job-order-least"]
    assert list(least) == ["small", "tiny", "large"]
    assert least["small"] == pytest.approx(184, abs=10)
    assert least["tiny"] == pytest.approx(342, abs=10)
    assert least["large"] == pytest.approx(461, abs=10)
