"""Parameter-server jobs for real: every mode, exact numbers, priorities, and servers that die."""

import json
import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import giveway
from tests.test_realtime import Going

MODES = """
name: modes
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: about 10 us, queue: 1000 packets}
duration: 1200 ms
training:
  - {name: sharded, profile: resnet32-cpu, model: 101 kB, aggregation: parameter-server, servers: 2,
     steps: 5, fusion: 20 kB, check: true}
  - {name: async, profile: resnet32-cpu, model: 100 kB, aggregation: parameter-server,
     synchronisation: async, start: 100 ms, check: true}
  - {name: stale, profile: resnet32-cpu, model: 100 kB, aggregation: parameter-server, stale: 2,
     workers: [h1, h2, h3], servers_on: [h4], check: true}
  - {name: ring, profile: resnet50-thesis, model: 200 kB, iteration: 50 ms, steps: 3,
     start: 200 ms, check: true}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 20 per second per host}
policies: [fifo]
seeds: [0]
"""
# Two jobs whose servers share h1, as much to send as the line carries.
SHARED = """
name: shared
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: about 10 us, queue: 5000 packets}
duration: 1500 ms
training:
  - {name: ps, profile: resnet32-cpu, model: 500 kB, aggregation: parameter-server, count: 2,
     servers_on: packed, iteration: 10 ms, workers: 3}
policies: [fifo, tensorlights-one, {policy: tensorlights-rr, period: 100 ms}, tensorlights-srf,
  tensorlights-both]
seeds: [0]
"""


def run_of(folder: Path, text: str, engine: str, *more: str) -> Path:
    (folder / "my.yaml").write_text(text)
    out = folder / "out"
    done = giveway("run", folder / "my.yaml", "--engine", engine, "--out", out, *more, limit_s=300)
    assert done.returncode == 0, done.stderr
    return out


def table(run: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(run / f"{name}.parquet")


@pytest.fixture(scope="module", params=["realtime", "virtual"])
def modes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every mode, with numbers that are checked on the way."""
    folder = tmp_path_factory.mktemp(request.param)
    return run_of(folder, MODES, request.param) / "fifo" / "seed-0"


engines = pytest.mark.parametrize(
    "modes",
    [
        pytest.param("realtime", marks=pytest.mark.root),
        pytest.param("virtual", marks=pytest.mark.virtual),
    ],
    indirect=True,
)


@engines
def test_jobs_end_after_their_steps_or_with_the_run(modes: Path) -> None:
    jobs = table(modes, "jobs").set_index("job")
    assert dict(jobs.status) == {
        "sharded": "finished", "async": "stopped", "stale": "stopped", "ring": "finished"
    }  # fmt: skip
    assert (jobs.made["sharded"], jobs.made["ring"]) == (5, 3)
    assert jobs.made["async"] > 3
    assert jobs.end_ns["ring"] >= 200_000_000 + 3 * 50_000_000
    assert jobs.start_ns["async"] == 100_000_000


@engines
def test_a_worker_computes_only_between_two_whole_models(modes: Path) -> None:
    iterations = table(modes, "iterations")
    for (_, _), rows in iterations.groupby(["job", "worker"]):
        assert (rows.start_ns.iloc[1:].to_numpy() == rows.end_ns.iloc[:-1].to_numpy()).all()
        assert (rows.wait_ns >= 0).all()
    assert iterations[iterations.job == "async"].start_ns.min() >= 100_000_000


@engines
def test_a_barrier_opens_when_its_last_gradient_is_there(modes: Path) -> None:
    barriers = table(modes, "barriers")
    whole = barriers[barriers.job == "sharded"].groupby(["server", "iteration"])
    assert set(whole.size()) == {2}
    assert (whole.leave_ns.max() == whole.enter_ns.max()).all()
    assert (whole.leave_ns.nunique() == 1).all()
    alone = barriers[barriers.job == "async"]
    assert (alone.enter_ns == alone.leave_ns).all()


@engines
def test_nobody_gets_further_ahead_than_the_staleness_allows(modes: Path) -> None:
    rows = table(modes, "barriers").query("job == 'stale'").sort_values("leave_ns", kind="stable")
    made = dict.fromkeys(range(3), 0)
    for row in rows.itertuples():
        made[row.worker] = row.iteration + 1  # type: ignore[index,operator]
        # Its gradient counts on arrival; a slower worker's may have come since.
        arrived = rows[rows.enter_ns <= row.leave_ns].groupby("worker").iteration.max() + 1
        slowest = min(arrived.get(worker, 0) for worker in range(3))
        assert row.iteration + 1 <= slowest + 2  # type: ignore[operator]


@pytest.mark.virtual
def test_many_jobs_are_the_same_to_the_byte_every_time_even_if_a_policy_acts(
    tmp_path: Path,
) -> None:
    short = SHARED.replace("1500 ms", "300 ms").replace("model: 500 kB", "model: 100 kB")
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        out = run_of(tmp_path / name, short, "virtual", "--policy", "tensorlights-srf")
        runs.append(out / "tensorlights-srf" / "seed-0")
    measured = json.loads((runs[0] / "manifest.json").read_text())["fidelity"]["measured"]
    assert measured["policy_changes"] > 0
    for name in ("iterations", "barriers", "transfers"):
        one, two = ((run / f"{name}.parquet").read_bytes() for run in runs)
        assert one == two, name


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("shared"), SHARED, "virtual")


def lengths(out: Path, policy: str) -> pd.Series:
    """The mean iteration of each job."""
    rows = table(out / policy / "seed-0", "iterations")
    rows = rows[rows.iteration > 0]
    return (rows.end_ns - rows.start_ns).groupby(rows.job).mean()


@pytest.mark.virtual
def test_one_sends_the_first_jobs_model_first_and_fifo_does_not(shared: Path) -> None:
    fifo, one = lengths(shared, "fifo"), lengths(shared, "tensorlights-one")
    assert one["ps-1"] < 0.5 * one["ps-2"]
    assert one["ps-1"] < 0.85 * fifo["ps-1"]
    assert one["ps-2"] > fifo["ps-2"]


@pytest.mark.virtual
def test_in_both_directions_gradients_are_told_apart_too(shared: Path) -> None:
    one, both = lengths(shared, "tensorlights-one"), lengths(shared, "tensorlights-both")
    assert both["ps-1"] < 0.95 * one["ps-1"]
    assert both["ps-2"] < one["ps-2"]  # it has what the first leaves, acknowledged at once
    links = table(shared / "tensorlights-both" / "seed-0", "links")
    for link in ("h1->s1", "s1->h1", "h2->s1"):
        carried = links[links.link == link].groupby("class")["bytes"].max()
        assert (carried[["rank-1", "rank-2"]] > 1_000_000).all(), link
    assert set(links[links.link == "s1->h2"]["class"]) == {"all"}


@pytest.mark.virtual
def test_priorities_rotate_and_no_packet_is_lost(shared: Path) -> None:
    run = shared / "tensorlights-rr" / "seed-0"
    measured = json.loads((run / "manifest.json").read_text())["fidelity"]["measured"]
    assert measured["policy_changes"] == 14  # every 100 ms of 1.5 s, but not at the end
    assert measured["drops"] == 0
    one, rotated = lengths(shared, "tensorlights-one"), lengths(shared, "tensorlights-rr")
    assert rotated["ps-2"] < 0.7 * one["ps-2"]  # it is not always last


@pytest.mark.virtual
def test_the_least_remaining_goes_first_whoever_it_is(shared: Path) -> None:
    run = shared / "tensorlights-srf" / "seed-0"
    measured = json.loads((run / "manifest.json").read_text())["fidelity"]["measured"]
    assert measured["policy_changes"] > 5
    assert measured["drops"] == 0
    one, least = lengths(shared, "tensorlights-one"), lengths(shared, "tensorlights-srf")
    assert least["ps-2"] < 0.9 * one["ps-2"]


@pytest.mark.virtual
def test_where_no_servers_share_a_host_an_order_changes_nothing(tmp_path: Path) -> None:
    """To the nanosecond: the policy's own agent must not disturb what it has no part in."""
    apart = SHARED.replace("servers_on: packed", "servers_on: spread").replace("1500 ms", "300 ms")
    out = run_of(tmp_path, apart, "virtual")
    for policy in ("tensorlights-one", "tensorlights-rr", "tensorlights-srf"):
        for name in ("iterations", "barriers", "links"):
            file = Path("seed-0", f"{name}.parquet")
            same = (out / "fifo" / file).read_bytes() == (out / policy / file).read_bytes()
            assert same, (policy, name)


@pytest.mark.virtual
def test_only_the_port_of_a_host_with_two_servers_tells_jobs_apart(shared: Path) -> None:
    links = table(shared / "tensorlights-one" / "seed-0", "links")
    assert set(links[links.link == "h1->s1"]["class"]) == {"all", "rank-1", "rank-2"}
    assert set(links[links.link != "h1->s1"]["class"]) == {"all"}
    ranks = links[links["class"] == "rank-1"]
    assert ranks.bytes.max() > 1_000_000


FAULT = """
name: fault
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 3 s
training:
  - {name: doomed, profile: resnet32-cpu, model: 100 kB, aggregation: parameter-server,
     servers_on: [h1], workers: [h2]}
  - {name: other, profile: resnet32-cpu, model: 100 kB, aggregation: parameter-server,
     servers_on: [h3], workers: [h4]}
policies: [fifo]
seeds: [0]
dilation: 1
"""


def fault(folder: Path, *settings: str) -> Going:
    (folder / "my.yaml").write_text(FAULT)
    return Going(folder / "my.yaml", folder / "out", "--set", "duration=4 s", *settings)


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_a_server_that_dies_ends_its_job_alone_if_the_file_says_so(tmp_path: Path) -> None:
    going = fault(tmp_path, "--set", "on_failure=continue")
    os.kill(going.task("jobs-h1.log"), signal.SIGKILL)
    code, errors = going.ends_within(60)
    assert code == 0, errors
    run = tmp_path / "out" / "fifo" / "seed-0"
    jobs = table(run, "jobs").set_index("job")
    assert dict(jobs.status) == {"doomed": "failed", "other": "stopped"}
    assert jobs.why["doomed"].startswith("lost server 0 (10.0.0.1)")
    iterations = table(run, "iterations")
    assert iterations[iterations.job == "other"].end_ns.max() > 3_500_000_000
    [lost] = json.loads((run / "manifest.json").read_text())["lost"]
    assert lost == "jobs-h1 was killed by signal 9"


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_a_server_that_dies_ends_the_run_otherwise(tmp_path: Path) -> None:
    going = fault(tmp_path)
    os.kill(going.task("jobs-h1.log"), signal.SIGKILL)
    code, errors = going.ends_within(60)
    assert code == 4
    assert "jobs-h1 was killed by signal 9" in errors or "doomed: lost server 0" in errors


SUMMED = FAULT.replace("hosts: 4", "hosts: 5").replace(
    "workers: [h2]", "workers: [h2, h5], reduce: rack"
)


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("on_failure", ["end", "continue"])
def test_an_aggregator_that_dies_ends_the_run_or_its_job_as_the_file_says(
    tmp_path: Path, on_failure: str
) -> None:
    (tmp_path / "my.yaml").write_text(SUMMED)
    going = Going(tmp_path / "my.yaml", tmp_path / "out", "--set", f"on_failure={on_failure}")
    os.kill(going.task("jobs-h2.log"), signal.SIGKILL)
    code, errors = going.ends_within(60)
    if on_failure == "end":
        assert code == 4
        assert "jobs-h2 was killed by signal 9" in errors or "doomed: lost worker 0" in errors
        return
    assert code == 0, errors
    run = tmp_path / "out" / "fifo" / "seed-0"
    jobs = table(run, "jobs").set_index("job")
    assert dict(jobs.status) == {"doomed": "failed", "other": "stopped"}
    assert jobs.why["doomed"].startswith("lost worker 0 (10.0.0.2)")
    assert (table(run, "iterations").query("job == 'other'").end_ns > 2_500_000_000).any()
