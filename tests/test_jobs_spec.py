"""Many jobs in an experiment file: counts, placements, and what is refused."""

from collections import Counter
from pathlib import Path

import pytest

from basics.errors import BadInput
from policies.link import link_policies
from testbed.spec import Experiment, load

TEXT = """
name: many
topology: {kind: tor, hosts: 21, rate: 10 Gbit/s, delay: about 10 us, queue: 1000 packets}
duration: 10 s
training:
  - {name: ps, profile: resnet50-thesis, model: 2 MB, iteration: 100 ms,
     aggregation: parameter-server, count: 21, steps: 10, servers_on: packed}
policies: [fifo]
seeds: [0]
"""
RING = "{name: ring, profile: resnet50-thesis, workers: [h1, h2]}"


def loaded(folder: Path, *overrides: str, text: str = TEXT) -> Experiment:
    path = folder / "my.yaml"
    path.write_text(text)
    return load(path, overrides)


def test_a_count_makes_numbered_jobs_with_workers_beside_the_server(tmp_path: Path) -> None:
    jobs = loaded(tmp_path).training
    assert [job.name for job in jobs] == [f"ps-{number}" for number in range(1, 22)]
    assert {job.server_names for job in jobs} == {("h1",)}
    assert all(job.host_names == tuple(f"h{n}" for n in range(2, 22)) for job in jobs)
    assert {job.steps for job in jobs} == {10}


@pytest.mark.parametrize(
    ("where", "most"), [("packed", 21), ("two-uneven", 16), ("spread", 1), ("[h1 x16, h2 x5]", 16)]
)
def test_servers_are_where_the_file_says(tmp_path: Path, where: str, most: int) -> None:
    jobs = loaded(tmp_path, f"training.0.servers_on={where}").training
    hosts = Counter(host for job in jobs for host in job.server_names)
    assert max(hosts.values()) == most
    assert sum(hosts.values()) == 21
    assert all(set(job.host_names) & set(job.server_names) == set() for job in jobs)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("training.0.gradient=3 MB", "it is at most the model, 2 MB"),
        ("training.0.gradient=3 B", "a number or more for each server"),
        ("training.0={name: r, profile: resnet50-thesis, gradient: 1 MB}", "parameter-server jobs"),
    ],
)
def test_a_gradient_is_at_most_the_model_and_for_servers(
    tmp_path: Path, override: str, says: str
) -> None:
    with pytest.raises(BadInput, match=r"training.0.gradient: found") as caught:
        loaded(tmp_path, override)
    assert says in str(caught.value)


def test_a_smaller_gradient_cannot_be_added_up(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gradient: found 1 MB beside check: true"):
        loaded(tmp_path, "training.0.gradient=1 MB", "training.0.check=true")


def test_jobs_that_name_the_same_placement_are_placed_together(tmp_path: Path) -> None:
    entry = "{name: NAME, profile: resnet50-thesis, aggregation: parameter-server}"
    text = TEXT[: TEXT.index("  - {name: ps")]
    text += "".join(f"  - {entry.replace('NAME', name)}\n" for name in "abc")
    text += "policies: [fifo]\nseeds: [0]\n"
    jobs = loaded(tmp_path, text=text).training
    assert [job.server_names for job in jobs] == [("h1",), ("h2",), ("h3",)]


def test_the_servers_of_a_job_are_on_different_hosts(tmp_path: Path) -> None:
    jobs = loaded(tmp_path, "training.0.servers=3").training
    assert {job.server_names for job in jobs} == {("h1", "h2", "h3")}
    assert {len(job.host_names) for job in jobs} == {18}


def test_jobs_of_a_count_may_start_one_after_another(tmp_path: Path) -> None:
    jobs = loaded(tmp_path, "training.0.start=1 s", "training.0.stagger=100 ms").training
    assert [job.start_ns for job in jobs[:3]] == [1_000_000_000, 1_100_000_000, 1_200_000_000]


def test_a_resolved_file_of_many_jobs_loads_back_to_the_same(tmp_path: Path) -> None:
    first = loaded(tmp_path, "training.0.servers_on=[h3 x20, h2]", "training.0.stale=2")
    assert loaded(tmp_path, text=first.to_yaml()) == first


@pytest.mark.parametrize(
    ("override", "says"),
    [
        (
            "training.0.servers_on=[h1 x16, h99 x5]",
            "training.0.servers_on: found 'h99', an unknown",
        ),
        ("training.0.servers_on=[h1 x16]", "training.0.servers_on: found places for 16 servers"),
        ("training.0.servers_on=[h1 x0]", "servers_on.0: found 'h1 x0'; it must be a host"),
        ("training.0.servers_on=heap", "training.0.servers_on: found 'heap'; it must be hosts"),
        ("training.0.servers=22", "training.0.servers: found 22 servers, but there are only 21"),
        ("training.0.servers=0", "training.0.servers: found 0; it must be a whole number, 1"),
        ("training.0.stale=-1", "training.0.stale: found -1; it must be a whole number, 0"),
        ("training.0.steps=0", "training.0.steps: found 0; it must be a whole number, 1"),
        ("training.0.count=500", "training.0.servers_on: found places for 2 servers; 500"),
        ("training.0.count=6501", "training.0.count: found 6501; it must be a whole number"),
        ("training.0.workers=21", "training.0.workers: found 21 workers, but there are only 20"),
        ("training.0.start=10 s", "training.0.start: found 10 s for ps-1; it must be before"),
        ("training.0.stagger=1 s", "training.0.start: found 10 s for ps-11; it must be before"),
        ("training.0.order=layer", "training.0.order: found in a parameter-server job"),
        ("training.0.barrier=false", "training.0.barrier: found in a parameter-server job"),
        ("training.0.backend=torch", "training.0.backend: found torch; a parameter-server job"),
        ("training.0.aggregation=ring", "training.0.servers_on: found beside aggregation: ring"),
        (f"training=[{RING[:-1]}, stale: 1}}]", "training.0.stale: found beside aggregation: ring"),
        (f"training=[{RING[:-1]}, stagger: 1 s}}]", "training.0.stagger: found without count"),
        (
            f"training=[{RING[:-1]}, backend: torch, steps: 3}}]",
            "training.0.steps: found beside backend: torch",
        ),
        (
            f"training=[{RING[:-1]}, count: 6000}}, {RING[:-1]}, count: 1000}}]",
            "training: found 7000 jobs; TCP ports last for 6500",
        ),
        (f"training=[{RING}, {RING}]", "training.1.name: found 'ring' twice"),
        ("policies=[{policy: fifo, period: 1 s}]", "policies.0.period: unknown key; known: policy"),
        ("policies=[{policy: tensorlights-rr, period: 0 s}]", "policies.0.period: found '0 s'"),
        ("on_failure=hope", "on_failure: found 'hope', an unknown choice"),
    ],
)
def test_bad_jobs_are_refused_in_one_line(tmp_path: Path, override: str, says: str) -> None:
    listed = ["training.0.servers_on=[h1, h2]"] if "count=500" in override else []
    with pytest.raises(BadInput) as caught:
        loaded(tmp_path, *listed, override)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert says in message
    assert caught.value.exit_code == 2


def test_a_policy_that_acts_may_be_given_its_period(tmp_path: Path) -> None:
    found = loaded(tmp_path, "policies=[tensorlights-rr, {policy: tensorlights-rr, label: fast, "
                   "period: 50 ms}]").policies  # fmt: skip
    assert [choice.link_policy.period_ns for choice in found] == [20_000_000_000, 50_000_000]


def test_the_shared_rack_has_every_policy(tmp_path: Path) -> None:
    shared = load(Path(__file__).parent.parent / "experiments" / "shared-rack.yaml")
    assert {choice.policy for choice in shared.policies} == set(link_policies())
    assert [job.aggregation for job in shared.training] == ["ring"] * 4 + ["parameter-server"] * 4


def test_jobs_of_one_entry_are_a_family_and_stay_one(tmp_path: Path) -> None:
    text = TEXT.replace("policies:", f"  - {RING}\npolicies:")
    found = loaded(tmp_path, text=text)
    families = [job["family"] for job in found.plan("virtual", "")["jobs"]]
    assert families == ["ps"] * 21 + ["ring"]
    again = loaded(tmp_path, text=found.to_yaml())
    assert again == found
    named = loaded(tmp_path, "training.0.family=lights", text=text)
    assert [job["family"] for job in named.plan("virtual", "")["jobs"]][20:] == ["lights", "ring"]


def test_staleness_and_asynchrony_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"training.0.stale: found beside synchronisation: async"):
        loaded(tmp_path, "training.0.synchronisation=async", "training.0.stale=2")
    job = loaded(tmp_path, "training.0.synchronisation=async").training[0]
    assert job.staleness is None


def test_a_report_says_the_period_that_the_file_gives_not_the_policys_own(tmp_path: Path) -> None:
    choices = (
        "policies=[fifo, tensorlights-rr, {policy: tensorlights-rr, label: mine, period: 1 s}]"
    )
    planned = loaded(tmp_path, choices).plan("fluid", "test")["policies"]
    fifo, own, mine = (entry["description"] for entry in planned)
    assert "period" not in fifo
    assert own.endswith("(period: 20 s)")
    assert mine.endswith("(period: 1 s)")
