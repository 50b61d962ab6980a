"""Parameter-server jobs in the fluid engine: arithmetic, job orders, every synchronisation."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from testbed.engine import Run
from testbed.fluid import engine
from testbed.run_folder import RunFolder
from testbed.spec import load

RATE_BPS, MODEL_BYTE, COMPUTE_NS, STEPS = 1_000_000_000, 200_000, 20_000_000, 4
EXPERIMENT = """
name: servers
topology: {{kind: tor, hosts: {hosts}, rate: 1 Gbit/s, delay: 10 us, queue: {queue} packets}}
duration: 4 s
training:
  - {{name: ps, count: {jobs}, profile: resnet32-cpu, model: 200 kB, iteration: 20 ms,
     aggregation: parameter-server, steps: 4, servers_on: {placement}{more}}}
policies: [fifo, tensorlights-one, {{policy: tensorlights-rr, period: 50 ms}}, tensorlights-srf,
  tensorlights-both]
seeds: [0]
"""
POLICIES = ("fifo", "tensorlights-one", "tensorlights-rr", "tensorlights-srf", "tensorlights-both")


@dataclass(frozen=True)
class Played:
    folder: Path

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.folder / f"{name}.parquet")

    @property
    def digest(self) -> str:
        return str(json.loads((self.folder / "manifest.json").read_text())["digest"])

    @property
    def ends_ns(self) -> pd.Series:
        return self.table("jobs").set_index("job")["end_ns"]


def play(
    tmp_path: Path,
    policy: str = "fifo",
    *,
    hosts: int = 5,
    jobs: int = 1,
    placement: str = "packed",
    more: str = "",
    queue: int = 1000,
) -> Played:
    file = tmp_path / "servers.yaml"
    file.write_text(
        EXPERIMENT.format(
            hosts=hosts,
            jobs=jobs,
            placement=placement,
            more=f", {more}" if more else "",
            queue=queue,
        )
    )
    experiment = load(file)
    [choice] = [one for one in experiment.policies if one.label == policy]
    run = Run(experiment, choice, 0, "test00")
    folder = RunFolder(tmp_path / f"{policy}-{len(list(tmp_path.iterdir()))}")
    setting = engine.settle(experiment, print, run.run_id)
    engine.execute(run, folder, setting, lambda time_ns: None)
    return Played(folder.path)


def total_byte(played: Played) -> float:
    """A model as its layers add up: each is rounded down."""
    table = played.table("transfers")
    return float(table[table["iteration"] == 1].groupby("transfer")["bytes"].max().sum())


@pytest.mark.parametrize("hosts", [5, 9])
def test_a_step_takes_its_compute_and_the_servers_link_both_ways(
    tmp_path: Path, hosts: int
) -> None:
    played = play(tmp_path, hosts=hosts)
    opened = played.table("barriers").groupby("iteration")["leave_ns"].max()
    steps_ns = opened.diff().dropna().iloc[1:]  # the first ones still open their windows
    sending_ns = (hosts - 1) * total_byte(played) * (1514 / 1448) * 8e9 / RATE_BPS
    expected_ns = COMPUTE_NS + 2 * sending_ns + 2 * 2 * 10_000
    assert steps_ns.mean() == pytest.approx(expected_ns, rel=0.04)
    assert steps_ns.min() > expected_ns * 0.99  # nothing is faster than its link


def test_jobs_that_have_made_their_steps_are_finished(tmp_path: Path) -> None:
    played = play(tmp_path, jobs=3)
    jobs = played.table("jobs")
    assert set(jobs["status"]) == {"finished"}
    assert (jobs["end_ns"] > 0).all()
    per_worker = played.table("iterations").groupby(["job", "worker"]).size()
    assert set(per_worker) == {STEPS}


def test_the_first_job_of_a_fixed_order_is_done_before_the_last(tmp_path: Path) -> None:
    roomy = 8000  # nothing is lost, so luck makes no difference
    ordered = play(tmp_path, "tensorlights-one", jobs=4, queue=roomy).ends_ns
    assert ordered["ps-1"] < 0.9 * ordered["ps-4"]
    level = play(tmp_path, "fifo", jobs=4, queue=roomy).ends_ns
    assert level["ps-1"] == pytest.approx(level["ps-4"], rel=0.01)


def test_ordered_one_way_the_first_jobs_gradients_wait_among_those_of_all_jobs(
    tmp_path: Path,
) -> None:
    """By how much is TCP's affair; that it waits, and longest where nothing is ordered, is not."""
    both, one, none = (
        play(tmp_path, policy, jobs=6).ends_ns["ps-1"]
        for policy in ("tensorlights-both", "tensorlights-one", "fifo")
    )
    alone = play(tmp_path, jobs=1).ends_ns["ps-1"]
    assert alone <= both < 1.1 * alone
    assert 1.1 * both < one < none


def test_with_one_server_a_host_pushes_are_ordered_where_workers_share_one(tmp_path: Path) -> None:
    """No two jobs share a port into a server's host, but every worker's host has several jobs."""
    one, both = (
        play(tmp_path, policy, jobs=5, placement="spread").digest
        for policy in ("tensorlights-one", "tensorlights-both")
    )
    assert one != both


def test_an_order_costs_the_link_nothing(tmp_path: Path) -> None:
    """Work is conserved: under every order the last job is done no later than under FIFO."""
    last_ns = {policy: play(tmp_path, policy, jobs=4).ends_ns.max() for policy in POLICIES}
    assert max(last_ns.values()) <= 1.02 * last_ns["fifo"]


def test_with_one_server_a_host_every_order_is_fifo(tmp_path: Path) -> None:
    originals = POLICIES[:-1]
    found = {play(tmp_path, policy, jobs=5, placement="spread").digest for policy in originals}
    assert len(found) == 1


def test_an_order_among_servers_that_share_a_host_is_not_fifo(tmp_path: Path) -> None:
    fifo, *others = (play(tmp_path, policy, jobs=5).digest for policy in POLICIES)
    assert fifo not in others


def test_the_same_run_gives_the_same_records(tmp_path: Path) -> None:
    first, second = (play(tmp_path, "tensorlights-srf", jobs=3) for _ in range(2))
    assert first.folder != second.folder
    assert first.digest == second.digest


def test_bounded_staleness_lets_workers_run_ahead_but_no_further(tmp_path: Path) -> None:
    def ahead(more: str) -> int:
        passed = play(tmp_path, jobs=2, more=more).table("barriers")
        gaps = []
        for _, job in passed.groupby("job"):
            for row in job.itertuples():
                others = job[job["enter_ns"] <= row.leave_ns].groupby("worker")["iteration"].max()
                slowest = others.min() if len(others) == 4 else 0
                gaps.append(row.iteration - slowest)
        return max(gaps)

    assert ahead("stale: 0") == 0
    assert ahead("stale: 1") <= 1


def test_asynchronous_workers_never_wait(tmp_path: Path) -> None:
    played = play(tmp_path, jobs=3, more="synchronisation: async")
    barriers = played.table("barriers")
    assert (barriers["enter_ns"] == barriers["leave_ns"]).all()
    assert set(played.table("jobs")["status"]) == {"finished"}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_byte_that_was_sent_crossed_the_servers_link(tmp_path: Path, policy: str) -> None:
    played = play(tmp_path, policy, jobs=3)
    links = played.table("links").groupby("link")["bytes"].max()
    model, workers, jobs = total_byte(played), 4, 3
    for link, times in (("h1->s1", STEPS + 1), ("s1->h1", STEPS)):
        least = jobs * workers * model * times
        assert least <= links[link] <= 1.10 * least, link  # headers, and acknowledgements
    into_workers = sum(links[f"s1->h{host}"] for host in range(2, 6))
    assert into_workers == pytest.approx(links["h1->s1"], rel=0.01)
