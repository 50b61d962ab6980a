"""Clusters of experiment files: what is allowed, what is refused and how; traces and draws."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis import cluster_plots, report
from basics.errors import BadInput
from testbed.spec import Experiment, load
from tests.conftest import giveway
from tests.settings_table import CLUSTER, RACK
from workloads import traces
from workloads.busy_job import BusyJob
from workloads.job_draws import PHILLY_GPUS

BOTH = RACK.replace(
    "seeds:", CLUSTER[CLUSTER.index("cluster:\n") : CLUSTER.index("seeds:")] + "seeds:"
)
PLACES = ("srtf", "last")  # of CLUSTER
HEADER = "submitted_s,duration_s,tasks,gang,gpu,deadline_s\n"


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., Experiment]:
    def load_(*settings: str, text: str = CLUSTER, **files: str) -> Experiment:
        for name, content in files.items():
            (tmp_path / f"{name}.csv").write_text(content)
        path = tmp_path / "cluster.yaml"
        path.write_text(text)
        return load(path, settings)

    return load_


def trace(name: str) -> str:
    return f"cluster.jobs.0={{name: read, trace: {name}.csv}}"


def drawn(experiment: Experiment, seed: int = 0) -> list[BusyJob]:
    assert experiment.cluster is not None
    return experiment.cluster.drawn(experiment.topology.rate_bps, experiment.topology.hosts, seed)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("cluster.jobs.0.demand.gpu=9", "needs 9 gpu, and a host has 4 gpu; it fits no host"),
        ("cluster.jobs.0.demand.network=1 Gbit/s", "and its cable has 200 Mbit/s network"),
        ("cluster.jobs.0={name: a, count: 2, arrivals: uniform over 1 s, tasks: 17, "
         "demand: {gpu: 1}, duration: 1 s}", "and 4 hosts have room for 16 of them"),
        ("cluster.jobs.0.arrivals=soon", "write arrivals like uniform over 3000 s"),
        ("cluster.jobs.0.deadline=soon", "write a deadline like 2 x alone"),
        ("cluster.jobs.0.deadline=. x alone", "write a deadline like 2 x alone"),
        ("cluster.jobs.0.duration=9000000000 s", "more than 70 years in all"),
        ("cluster.jobs.0.tasks=4 to 1", "write the smaller one first"),
        ("cluster.jobs.0.duration=0 s", "it must be above zero"),
        ("cluster.jobs.0={name: a, count: 2, arrivals: uniform over 1 s, tasks: 2, like: philly}",
         "cluster.jobs.0.tasks: found beside like, which says it already"),
        ("cluster.jobs.0.trace=none.csv", "found beside trace; jobs are either drawn or read"),
        ("cluster.jobs=[]", "cluster.jobs: found none; give at least one entry"),
        ("placements=[]", "placements: missing; a cluster needs at least one placement"),
        ("placements=[fifo, fifo]", "placements.1.label: found 'fifo' twice"),
        ("placements=[fifi]", "found 'fifi', an unknown placement"),
        ("placements=[{placement: fifo, blocking: 1}]", "found 1; it must be true or false"),
        ("placements=[{placement: fifo, slice: 1 s}]", "placements.0.slice: unknown key"),
        ("policies=[fifo]", "policies: found without training and flows: nothing is sent"),
        ("claims=[{metric: cluster.makespan, of: nobody, value: at most 1 s}]", "no policy"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(
    setting: str, says: str, loaded: Callable[..., Experiment]
) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(setting)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("0,5,1,1,1,\n0,x,1,1,1,\n", "row 3: duration_s: found 'x'; it must be a number"),
        ("0,5,0,1,1,\n", "row 2: tasks: found '0'; it must be a whole number from 1 on"),
        ("0,5,1,2,1,\n", "row 2: gang: found '2'; it must be 1 or 0"),
        ("9,5,1,1,1,9\n", "row 2: deadline_s: found 9, which is not after submitted_s"),
        ("0,5,1\n", "row 2: submitted_s: found 3 cells below 6 columns"),
        ("0,5,1,1,5,\n", "a task of read-job-1 needs 5 gpu, and a host has 4 gpu; it fits no host"),
        ("", "no job in this trace"),
    ],
)
def test_a_wrong_row_of_a_trace_is_named(
    rows: str, says: str, loaded: Callable[..., Experiment]
) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(trace("jobs"), jobs=HEADER + rows)
    assert says in str(caught.value)
    assert "cluster.jobs.0.trace" in str(caught.value)


def test_a_placement_that_needs_durations_needs_a_trace_that_has_them(
    loaded: Callable[..., Experiment],
) -> None:
    endless = HEADER + "0,5,1,1,1,\n0,,1,1,1,\n"
    with pytest.raises(
        BadInput, match="found srtf, which needs durations, and read-job-2 has none"
    ):
        loaded(trace("jobs"), jobs=endless)
    found = loaded(trace("jobs"), "placements=[las]", jobs=endless)
    assert [job.duration_ns for job in drawn(found)] == [5 * 10**9, None]


def test_a_file_without_a_cluster_has_no_placements(loaded: Callable[..., Experiment]) -> None:
    with pytest.raises(BadInput, match="found placements, but no cluster"):
        loaded("placements=[fifo]", text=RACK)


def test_every_policy_meets_every_placement(loaded: Callable[..., Experiment]) -> None:
    experiment = loaded("claims=[]", text=BOTH)
    links = ("strict-priority", "fifo", "prio")
    assert [arm.label for arm in experiment.arms] == [f"{a}+{b}" for a in links for b in PLACES]
    some = experiment.only(["fifo", "last"])
    assert [arm.label for arm in some.arms] == ["fifo+last"]


def test_transfers_come_between_policies_and_placements(loaded: Callable[..., Experiment]) -> None:
    claim = "{metric: cluster.completion_mean, of: fifo+p3+last, value: at most 60 min}"
    asked = "policies=[fifo, prio]", "transfers=[layer, p3]", f"claims=[{claim}]"
    experiment = loaded(*asked, text=BOTH)
    labels = [f"{a}+{b}+{c}" for a in ("fifo", "prio") for b in ("layer", "p3") for c in PLACES]
    assert [arm.label for arm in experiment.arms] == labels
    assert [one["label"] for one in experiment.plan("fluid", "test")["policies"]] == labels
    some = experiment.only(["fifo+p3"])
    assert [arm.label for arm in some.arms] == ["fifo+p3+srtf", "fifo+p3+last"]
    assert all(arm.choice.transfer and arm.choice.transfer.policy == "p3" for arm in some.arms)
    assert some.claims == experiment.claims
    assert experiment.only(["prio+p3", "last"]).claims == ()
    assert loaded(text=some.to_yaml()) == some
    with pytest.raises(BadInput, match=r"claims\.0\.of"):
        loaded(asked[0], "transfers=[layer]", asked[2], text=BOTH)


def test_labels_tell_placements_apart(loaded: Callable[..., Experiment]) -> None:
    asked = "placements=[fifo, {placement: fifo, blocking: false}, {placement: las, queues: 3}]"
    found = loaded(asked)
    assert [arm.label for arm in found.arms] == ["fifo", "fifo-blocking-false", "las-queues-3"]
    assert [one["title"] for one in found.plan("fluid", "test")["policies"]][1:] == [
        "FIFO, blocking false", "LAS, queues 3",
    ]  # fmt: skip
    first, passed, _ = (one["description"] for one in found.plan("fluid", "test")["policies"])
    held = "whether a job that does not fit holds up those behind it"
    assert passed == f"{first} (blocking false: {held})"


def test_draws_depend_on_the_seed_and_on_nothing_else(loaded: Callable[..., Experiment]) -> None:
    assert drawn(loaded()) == drawn(loaded("placements=[fifo]"))
    assert drawn(loaded()) != drawn(loaded(), seed=1)
    longer = drawn(loaded("cluster.jobs.0.duration=50 s to 600 s"))
    assert [job.demand for job in longer] == [job.demand for job in drawn(loaded())]
    due = drawn(loaded("cluster.jobs.0.deadline=2 x alone"))
    assert all(job.deadline_ns and job.duration_ns for job in due)
    assert due[0].deadline_ns == due[0].submitted_ns + 2 * (due[0].duration_ns or 0)


def test_the_generator_draws_after_philly(loaded: Callable[..., Experiment]) -> None:
    jobs = drawn(
        loaded("cluster.jobs.0={name: p, count: 20000, arrivals: poisson over 9 min, like: philly}")
    )
    gpus = np.array([job.tasks for job in jobs])
    minutes = np.array([job.duration_ns or 0 for job in jobs]) / 60e9
    for count, share in PHILLY_GPUS.items():
        assert abs((gpus == count).mean() - share) < 0.01
    assert 10**1.5 <= minutes.min() < minutes.max() <= 10**4
    assert abs((minutes < 1000).mean() - 0.8) < 0.01
    assert {job.demand for job in jobs} == {(1000, 0, 0, 0, 0)}


@pytest.mark.parametrize("name", traces.formats())
def test_what_our_generator_writes_is_what_is_read(
    name: str, loaded: Callable[..., Experiment], tmp_path: Path
) -> None:
    jobs = drawn(
        loaded("cluster.jobs.0={name: p, count: 60, arrivals: poisson over 60 min, like: philly}")
    )
    path = tmp_path / "trace"
    path.write_text(traces.formats()[name].write(jobs))
    found = traces.read(path, name)
    first = round(jobs[0].submitted_ns / 1e9)
    if name == "plain":
        assert [job.duration_ns for job in found] == [job.duration_ns for job in jobs]
    gpus = [job.tasks * job.demand[0] for job in found]
    assert gpus == [job.tasks * 1000 for job in jobs]
    assert [round(job.duration_ns or 0, -9) for job in found] == [
        round(job.duration_ns or 0, -9) for job in jobs
    ]
    assert all(
        abs(job.submitted_ns / 1e9 + first - before.submitted_ns / 1e9) <= 1
        for job, before in zip(found, jobs, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("tiresias", "job_id,num_gpu,submit_time\n", "row 1: duration: missing"),
        ("tiresias", "job_id,num_gpu,submit_time,duration\n0,1,-1,5\n", "row 2: submit_time"),
        ("helios", "job_id,gpu_num,cpu_num,submit_time,duration\n0,1,1,soon,5\n",
         "row 2: submit_time: found 'soon'; a time is like"),
        ("openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,"
         "scheduled_time\na,1,1,0,0,5,6,7\n", "row 2: deletion_time: found 6, which is before"),
        ("philly", '[{"attempts": 5}]', "row 1: attempts: missing"),
        ("philly", "{", "not JSON"),
    ],
)  # fmt: skip
def test_every_format_names_the_cell_that_is_wrong(
    name: str, text: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        traces.read(path, name)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_run_of_a_cluster_leaves_tables_numbers_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.yaml"
    placements = "placements: [fifo, {placement: fifo, blocking: false}, las]"
    path.write_text(
        CLUSTER.replace(
            "placements: [{placement: srtf}, {placement: fifo, label: last}]", placements
        )
        + "claims: [{metric: cluster.completion_mean, of: fifo-blocking-false, against: fifo, "
        "change: at most 0 %}]\n"
    )
    out = tmp_path / "out"
    done = giveway("run", path, "--engine", "fluid", "--out", out, limit_s=100)
    assert done.returncode == 0, done.stderr
    assert "jobs: they are done" in " ".join(done.stdout.split())
    summary = json.loads((out / "summary.json").read_text())
    cluster = summary["policies"]["fifo"]["cluster"]
    assert cluster["count"] == cluster["finished"] == 30
    assert 0 < cluster["completion_mean_ns"] < cluster["makespan_ns"]
    assert 0 < cluster["gpu_use"] <= 1
    page = (out / "report.html").read_text()
    assert page.count("Gantt chart of hosts") == 3
    assert "Share of jobs that are done within a time" in page
    assert "flow completion time" not in page  # there are no flows
    assert "Not shown" not in page
    monkeypatch.setattr(cluster_plots, "MOST_BARS", 10)  # a chart that ends early says where
    report.write(out)
    page = (out / "report.html").read_text()
    assert len(re.findall(r"more stretches, from the dotted line on \([\d.]+", page)) >= 3
