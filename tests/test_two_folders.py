"""Two folders of runs side by side, and the first record in which two runs part ways."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from analysis import first_difference, two_folders
from analysis.folder import load
from analysis.two_folders import compared, experiment_differences, paired_policies
from basics.errors import BadInput
from testbed.cli.expected import Expected
from tests.conftest import giveway
from tests.run_folders import Effect, Folder, reseal, write

SLOWER = Folder(
    effects={"fifo": Effect(small=12.0, training=1.2), "prio": Effect()}, seeds=(1, 2, 3)
)


def described(out: Path, engine: str = "fluid", **keys: object) -> Path:
    """As `giveway run` would leave it."""
    content = {"name": "quickstart", "topology": {"rate": "1 Gbit/s"}, "policies": ["fifo"], **keys}
    (out / "experiment.yaml").write_text(yaml.safe_dump(content))
    plan = json.loads((out / "plan.json").read_text())
    (out / "plan.json").write_text(json.dumps(plan | {"engine": engine}))
    return out


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return described(write(tmp_path / "first"))


def text(parts: list[object]) -> str:
    return "\n".join(part for part in parts if isinstance(part, str))


def move_one(folder: Path, table: str, row: int, column: str, by: int) -> None:
    path = folder / f"{table}.parquet"
    content = pq.read_table(path)
    values = content[column].to_pylist()
    values[row] += by
    at = content.schema.get_field_index(column)
    changed = content.set_column(at, content.schema.field(column), [values])
    pq.write_table(changed, path)
    reseal(folder)


def test_what_differs_is_named_by_key(first: Path, tmp_path: Path) -> None:
    second = described(
        write(tmp_path / "second"), "virtual", topology={"rate": "2 Gbit/s"}, tcp="dctcp"
    )
    assert experiment_differences(load(first), load(second)) == {
        "engine": ("fluid", "virtual"),
        "topology.rate": ("1 Gbit/s", "2 Gbit/s"),
        "tcp": ("none", "dctcp"),
    }


def test_the_same_flows_are_compared_flow_by_flow(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second", SLOWER))
    mine, theirs = load(first), load(second)
    [pair] = paired_policies(mine, theirs, (1, 2))
    assert (pair.name, pair.same_flows) == ("fifo", True)
    both = two_folders.only_seeds(mine, (1, 2)), two_folders.only_seeds(theirs, (1, 2))
    entries = [two_folders.summarise(one, 2)["policies"]["fifo"] for one in both]
    rows = {
        row.metric.path(row.whose): row
        for row in two_folders.changes(both, entries, pair, resamples=200)
    }
    small = rows["flows.small.fct_mean"]
    low, high = small.change["interval_95"]
    assert low < small.change["change"] < high
    assert 0.8 < small.change["change"] < 1.2  # 6 -> 12 times
    assert small.values[1] == pytest.approx(small.values[0] * (1 + small.change["change"]))
    assert 0.08 < rows["training.resnet50.iteration_mean"].change["change"] < 0.14
    assert rows["links.utilisation_mean"].change["interval_95"] is None


def test_other_flows_are_not_paired(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second", replace(Folder(), flows=200)))
    said = text(compared(first, second, resamples=50))
    assert "not flow by flow" in said
    apart = paired_policies(load(first), load(second), (0,))
    assert [pair.same_flows for pair in apart] == [False, False]


def test_folders_without_a_policy_or_a_seed_in_common(first: Path, tmp_path: Path) -> None:
    effects = {"a": Effect(), "b": Effect()}
    second = described(write(tmp_path / "second", Folder(effects=effects)))
    assert "No policy with a seed is in both" in text(compared(first, second))
    third = described(write(tmp_path / "third", Folder(seeds=(8,))))
    assert "No policy with a seed is in both" in text(compared(first, third))


def test_one_policy_each_is_a_pair_whatever_their_names(tmp_path: Path) -> None:
    one, two = (
        load(described(write(tmp_path / name, Folder(effects={name: Effect()}, seeds=(0,)))))
        for name in ("a", "b")
    )
    assert [pair.name for pair in paired_policies(one, two, (0,))] == ["a / b"]


def test_equal_records_are_said_to_be_equal(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second"))
    said = text(compared(first, second, resamples=2))
    assert "The experiments are the same" in said
    assert re.search(r"fifo: all \d+ metrics are the same in both\.", said)
    assert "What changed" not in said  # no table without a row
    assert "6 of 6 runs that both have are the same" in said
    assert "first record" not in said


def test_the_first_record_that_differs_is_the_earliest(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second"))
    changed = second / "fifo" / "seed-1"
    move_one(changed, "iterations", 40, "end_ns", 5)
    move_one(changed, "flows", 250, "end_ns", 7)
    move_one(changed, "computes", 300, "end_ns", 3)
    [pair] = first_difference.in_folders(load(first), load(second))
    table = pq.read_table(changed / "computes.parquet").to_pylist()[300]
    assert (pair.table, pair.column) == ("computes", "end_ns")
    assert pair.values == (table["end_ns"] - 3, table["end_ns"])
    done = giveway("compare", first, second)
    assert done.returncode == 0, done.stderr
    who = f"{table['job']} worker {table['worker']} iteration {table['iteration']}"
    assert "The first record that differs:" in done.stdout
    assert f"fifo, seed 1: computes.parquet, {who}" in done.stdout
    assert f"end_ns is {pair.values[0]} and {pair.values[1]}" in done.stdout


def test_a_record_that_only_one_has_is_said(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second"))
    changed = second / "fifo" / "seed-0"
    flows = pq.read_table(changed / "flows.parquet")
    pq.write_table(flows.slice(0, len(flows) - 1), changed / "flows.parquet")
    reseal(changed)
    [pair] = first_difference.in_folders(load(first), load(second))
    assert str(pair).endswith("only in the first folder")


def test_records_of_another_experiment_need_not_be_the_same(first: Path, tmp_path: Path) -> None:
    second = described(write(tmp_path / "second", SLOWER), tcp="dctcp")
    assert "first record" not in text(compared(first, second, resamples=2))
    realtime = described(write(tmp_path / "third", SLOWER), "realtime")
    again = described(write(tmp_path / "fourth"), "realtime")
    assert "first record" not in text(compared(realtime, again, resamples=2))


def test_a_folder_that_is_none_is_refused_in_one_line(first: Path, tmp_path: Path) -> None:
    done = giveway("compare", first, tmp_path / "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_expecting_an_earlier_folder_says_where_records_part(first: Path, tmp_path: Path) -> None:
    expected = Expected.read(str(first))
    assert expected is not None
    second = described(write(tmp_path / "second"))
    assert expected.complaints(second, "") == []
    move_one(second / "fifo" / "seed-1", "flows", 250, "end_ns", 7)
    [said] = expected.complaints(second, "")
    assert "fifo, seed 1: flows.parquet, flow 250" in said
    third = described(write(tmp_path / "third", Folder(seeds=(0, 8))))
    assert any("has no run fifo, seed 8" in said for said in expected.complaints(third, ""))


def test_what_is_expected_is_a_digest_or_a_folder(tmp_path: Path) -> None:
    by_digest = Expected.read("0123abcd")
    assert by_digest is not None
    assert by_digest.complaints(tmp_path, "0123abcd" + "0" * 56) == []
    assert "0123abcd" in by_digest.complaints(tmp_path, "f" * 64)[0]
    assert Expected.read(None) is None
    for wrong in ("0123", str(tmp_path), "nothing", "a\0b"):
        with pytest.raises(BadInput, match="--expect"):
            Expected.read(wrong)
