"""summary.json: known effects are found, nothing is NaN, claims and the answer are honest."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis import claims, folder, metrics, words
from analysis.folder import PlannedClaim
from analysis.summary import claims_hold, summarise
from basics.errors import RunFailed
from tests import run_folders
from tests.run_folders import Effect, Folder, claim

QUIET = {  # no noise: every effect is exact
    "fifo": Effect(small=4.0, medium=2.0, large=1.0, training=1.25),
    "strict-priority": Effect(small=2.0, medium=2.0, large=1.5, training=1.5),
}


def summary_of(tmp_path: Path, what: Folder, resamples: int = 200) -> dict[str, Any]:
    return summarise(folder.load(run_folders.write(tmp_path / "out", what)), resamples)


def test_known_effects_are_found_exactly(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder(effects=QUIET, noise=0.0))
    change = found["policies"]["strict-priority"]["change"]
    assert change["against"] == "fifo"
    assert change["flows.small.fct_mean"]["change"] == pytest.approx(-0.5, abs=1e-4)
    assert change["flows.small.fct_mean"]["reduction_thesis"] == pytest.approx(1.0, abs=1e-3)
    assert change["flows.medium.fct_p99"]["change"] == 0
    assert change["flows.large.fct_p50"]["change"] == pytest.approx(0.5, abs=1e-4)
    assert change["training.resnet50.iteration_mean"]["change"] == pytest.approx(0.2)
    assert "change" not in found["policies"]["fifo"]


def test_values_are_those_of_the_tables(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder())
    tables = [
        pd.read_parquet(tmp_path / f"out/fifo/seed-{seed}/flows.parquet") for seed in (0, 1, 2)
    ]
    flows = pd.concat(tables)
    window = flows[(flows.scheduled_ns >= 1e9) & (flows.scheduled_ns < 3e9)]
    small = window[window.size_byte <= run_folders.SMALL_MAX]
    fct = (small.end_ns - small.start_ns).to_numpy(dtype=float)
    entry = found["policies"]["fifo"]["flows"]["small"]
    assert entry["count"] == len(small)
    assert entry["fct_mean_ns"] == pytest.approx(fct.mean())
    assert entry["fct_p99_ns"] == metrics.quantile(fct, 0.99)
    low, high = entry["interval_95"]["fct_mean_ns"]
    assert low < entry["fct_mean_ns"] < high


def test_training_and_links_are_summed_up(tmp_path: Path) -> None:
    entry = summary_of(tmp_path, Folder(effects=QUIET, noise=0.0))["policies"]["strict-priority"]
    job = entry["training"]["resnet50"]
    assert job["iteration_mean_ns"] == job["iteration_p99_ns"] == 180_000_000
    assert job["slowdown"] == 1.5
    assert job["wait_share"] == pytest.approx(1 / 3)
    assert job["iterations"] * 4 == job["count"]
    assert entry["links"]["by_link"]["s1->h1"]["by_class"] == pytest.approx(
        {"high": 0.1, "middle": 0.2, "low": 0.3}
    )
    assert entry["links"]["utilisation_mean"] == pytest.approx(0.6)


def test_unfinished_flows_are_counted_and_left_out_of_pairs(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder(unfinished={"fifo": 0.3, "strict-priority": 0.1}))
    fifo, strict = found["policies"]["fifo"], found["policies"]["strict-priority"]
    assert fifo["flows"]["all"]["unfinished"] > 50
    assert strict["flows"]["all"]["unfinished"] > 10
    pairs = []
    for seed in (0, 1, 2):
        first, policy = (
            pd.read_parquet(tmp_path / f"out/{label}/seed-{seed}/flows.parquet")
            for label in ("fifo", "strict-priority")
        )
        both = first.end_ns.notna() & policy.end_ns.notna()
        inside = (first.scheduled_ns >= 1e9) & (first.scheduled_ns < 3e9)
        fct = pd.DataFrame({"first": first.end_ns - first.start_ns})
        fct["policy"] = policy.end_ns - policy.start_ns
        pairs.append(fct[both & inside])
    means = pd.concat(pairs).mean()
    change = strict["change"]["flows.all.fct_mean"]
    assert change["pairs"] == sum(len(part) for part in pairs)
    assert change["change"] == pytest.approx(means["policy"] / means["first"] - 1)


def test_nothing_is_nan(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder(unfinished={"fifo": 1.0}, sizes="medium"))
    json.dumps(found, allow_nan=False)
    assert found["policies"]["fifo"]["flows"]["medium"]["fct_mean_ns"] is None
    assert found["policies"]["strict-priority"]["change"]["flows.small.fct_mean"]["change"] is None


def test_the_worst_verdict_of_the_seeds_counts(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder())
    path = out / "fifo/seed-1/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["fidelity"] |= {"verdict": "broken", "reasons": ["Too slow."]}
    path.write_text(json.dumps(manifest))
    found = summarise(folder.load(out), 100)
    assert found["policies"]["fifo"]["fidelity"]["verdict"] == "broken"
    assert found["policies"]["fifo"]["fidelity"]["reasons"] == ["seed 1: Too slow."]
    assert found["answer"].startswith("Not to be relied on (broken run under FIFO): under Strict")


def test_different_schedules_are_never_compared(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(seeds=(0,)))
    path = out / "fifo/seed-0/flows.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows * 2 // 3), path)
    run_folders.reseal(path.parent)
    with pytest.raises(RunFailed, match="fifo and strict-priority did not run the same flows"):
        summarise(folder.load(out), 10)


def test_a_mix_that_the_plan_does_not_know_is_refused(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(seeds=(0,)))
    plan = json.loads((out / "plan.json").read_text())
    plan["mixes"][0]["name"] = "other"
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(RunFailed, match="web-search"):
        summarise(folder.load(out), 10)


@pytest.mark.parametrize(
    ("changes", "holds", "certainty"),
    [
        ({"value": -0.10}, True, "clear"),
        ({"value": -0.90}, False, "clear"),
        ({"bound": "at least", "value": -0.90}, True, "clear"),
        ({"metric": "flows.small.fct_mean_ns"}, True, "clear"),
        ({"metric": "training.resnet50.iteration_mean", "value": 0.3}, True, "clear"),
        ({"metric": "flows.large.fct_p99", "value": 0.10}, True, "within noise"),
        ({"metric": "training.resnet50.wait_share", "bound": "at least", "value": 0.0}, True, None),
        ({"of": "fifo", "against": "strict-priority", "bound": "at least"}, True, "clear"),
        ({"kind": "value", "value": 1e6, "against": None}, True, "clear"),
        ({"kind": "value", "value": 1.0, "against": None}, False, "clear"),
        ({"kind": "value", "metric": "training.resnet50.slowdown", "value": 1.2}, True, None),
        ({"kind": "value", "metric": "links.utilisation_mean", "value": 0.61}, True, None),
    ],
)
def test_claims(
    tmp_path: Path, changes: dict[str, Any], holds: bool, certainty: str | None
) -> None:
    found = summary_of(tmp_path, Folder(claims=(claim(**changes),)))
    assert found["claims"][0]["problem"] is None
    assert found["claims"][0]["holds"] is holds
    assert found["claims"][0]["certainty"] == certainty
    assert claims_hold(found) is holds


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"metric": "flows.tiny.fct_mean"}, "there is no metric flows.tiny.fct_mean"),
        ({"metric": "nonsense"}, "there is no metric nonsense"),
        ({"of": "nobody"}, "policy nobody was not run"),
        ({"against": "nobody"}, "policy nobody was not run"),
        ({"metric": "flows.large.fct_mean"}, "nothing was measured"),
    ],
)
def test_a_claim_about_nothing_does_not_hold(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    found = summary_of(tmp_path, Folder(sizes="small", seeds=(0,), claims=(claim(**changes),)))
    assert found["claims"][0]["problem"] == problem
    assert not claims_hold(found)


def test_a_job_may_have_a_dot_in_its_name() -> None:
    policy = {"training": {"vgg.16": {"slowdown": 2.0}}}
    assert claims.metric_of(policy, "training.vgg.16.slowdown") == (2.0, None)


def test_within_noise_is_said_of_a_claim_that_fails_by_chance() -> None:
    wanted = PlannedClaim("flows.small.fct_mean", "b", "a", "change", "at most", -0.1, "")
    change = {"change": -0.05, "interval_95": [-0.2, 0.1]}
    policies = {label: {"flows": {"small": {"fct_mean_ns": 1.0}}} for label in ("a", "b")}
    found = claims.check(wanted, policies, {("b", "a"): {"flows.small.fct_mean": change}})
    assert (found["holds"], found["certainty"]) == (False, "within noise")


def test_the_answer_says_who_gains_and_who_pays(tmp_path: Path) -> None:
    answer = summary_of(tmp_path, Folder())["answer"].replace(words.SPACE, " ")
    assert answer.startswith(
        "Under Strict priority instead of FIFO, small flows finish 42 % sooner"
    )
    assert "in return, iterations of resnet50 take 4.4 % longer" in answer
    assert answer.count("95 % interval") == 2


def test_the_answer_claims_no_change_where_there_is_none(tmp_path: Path) -> None:
    same = Effect(small=2.0, training=1.1)
    what = Folder(effects={"fifo": same, "strict-priority": same}, flows=60, noise=0.6)
    answer = summary_of(tmp_path, what)["answer"]
    assert "small flows show no clear change" in answer
    assert "iterations of resnet50 show no clear change" in answer
    assert "in return" not in answer


def test_the_answer_names_the_best_of_many(tmp_path: Path) -> None:
    effects = {f"p{n}": Effect(small=4.0 - n, training=1.1) for n in range(3)}
    answer = summary_of(tmp_path, Folder(effects=effects))["answer"]
    assert answer.startswith("Of 2 policies compared with P0, P2 is best for small flows: they")


def test_the_answer_names_no_best_where_none_is_clearly_better(tmp_path: Path) -> None:
    same = Effect(small=2.0, training=1.1)
    what = Folder(effects={f"p{n}": same for n in range(3)}, flows=60, noise=0.6)
    answer = summary_of(tmp_path, what)["answer"]
    assert answer.startswith(
        "Of 2 policies compared with P0, none is clearly better for small flows; "
    )
    assert "is best" not in answer
    assert "they show no clear change" in answer


def test_a_single_flow_or_iteration_is_no_certainty(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder(flows=5, sizes="small", compute_ns=750_000_000, seeds=(0,)))
    change = found["policies"]["strict-priority"]["change"]
    assert 1 <= change["flows.all.fct_mean"]["pairs"] <= 4
    assert change["flows.all.fct_mean"]["change"] is not None
    assert change["flows.all.fct_mean"]["interval_95"] == [None, None]
    assert change["training.resnet50.iteration_mean"]["interval_95"] == [None, None]
    assert found["answer"].count("too few to tell") == 2
    assert "changed by" in found["answer"]


def test_one_policy_has_nothing_to_compare(tmp_path: Path) -> None:
    answer = summary_of(tmp_path, Folder(effects={"fifo": Effect()}))["answer"]
    assert answer.startswith("Only FIFO was run, so there is nothing to compare: small flows take")


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0.00 ns"),
        (999.6, "1.00 µs"),
        (1_234_567, "1.23 ms"),
        (99_960_000, "100 ms"),
        (12_340_000_000, "12.3 s"),
        (7_083e9, "7083 s"),
        (590_549e9, "164 h"),
        (None, words.NONE),
        (math.nan, words.NONE),
    ],
)
def test_durations_in_words(ns: float | None, expected: str) -> None:
    assert words.duration(ns).replace(words.SPACE, " ") == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (-0.312, "−31 %"),
        (0.0441, "+4.4 %"),
        (0.0, "0.0 %"),
        (-0.00001, "0.0 %"),
        (None, words.NONE),
    ],
)
def test_percent_in_words(share: float | None, expected: str) -> None:
    assert words.percent(share).replace(words.SPACE, " ") == expected


def test_a_narrow_interval_keeps_two_ends() -> None:
    found = words.percent_interval([0.138, 0.144]).replace(words.SPACE, " ")
    assert found == "+13.8 to +14.4 %"
