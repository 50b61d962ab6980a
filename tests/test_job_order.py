"""Jobs in strict order at every port: who is before whom, and what it does to the mean."""

from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from policies.link import Port, ServerPort, link_policies
from policies.link.discipline import LEVELS, faults
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.live.tc import commands
from testbed.run import in_turns
from testbed.spec import load

ORDER, SHORTEST = link_policies()["job-order"], link_policies()["job-order-shortest"]
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
