"""`giveway reproduce`: entries that cannot cheat, verdicts, results that are shared."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from basics.errors import BadInput
from testbed import engines
from testbed.progress import OneBar
from testbed.reproduce import entry as entries
from testbed.reproduce import kept_results, page
from testbed.reproduce import run as runs
from testbed.reproduce.entry import Entry, Target
from testbed.reproduce.slack import slack
from testbed.reproduce.verdicts import Verdict, judged
from testbed.spec import sweep_file
from tests.conftest import giveway
from tests.test_sweep_spec import BASE
from workloads.profiles import Layer, Profile

GRID_AXES = {"ratio": ("16", "8", "4", "2"), "load": ("23", "46", "92", "184")}


@pytest.mark.parametrize("name", entries.names())
def test_every_entry_fits_its_sweep(name: str) -> None:
    entry = entries.load(name)
    if entry.sweep is None:
        return
    sweep = sweep_file.load((entries.path_of(name).parent / entry.sweep).resolve(), entry.set)
    axes = {axis.name: tuple(axis.values) for axis in sweep.axes}
    labels = {arm.label for arm in sweep.first.arms}
    metrics = {*sweep.first.metrics, "links.low", "links.high"}
    for target in entry.targets:
        judged(target, pd.DataFrame({"metric": [], "policy": [], **{a: [] for a in axes}}), axes)
        assert target.metric in metrics
        assert target.of in labels
    for view in entry.views:
        assert set(view.of) <= labels
        assert {view.rows, view.columns, view.by, *view.at} - {""} <= set(axes)
        assert all(place[axis] in axes[axis] for place in view.points for axis in axes)
    if entry.beside is not None:
        assert len(runs.only(sweep, entry.beside.points).points) == len(entry.beside.points)


def test_the_boundary_has_the_two_rows_that_were_published() -> None:
    targets = entries.load("thesis/figure-5.19").targets
    assert len(targets) == 2 * 4 * 3
    found = {(t.metric.split(".")[1], t.at["ratio"], t.at["load"]): t.value for t in targets}
    assert found["resnet50", "4", "184"] == pytest.approx(1.148)
    assert found["small", "16", "23"] == pytest.approx(0.408)
    assert found["large", "4", "92"] == pytest.approx(0.257)


def test_with_the_thesis_own_transport_the_same_numbers_and_tolerances_stand() -> None:
    ours, own = (
        [(t.what, t.at, t.value, t.tolerance, t.reason) for t in entries.load(name).targets]
        for name in ("thesis/figure-5.19", "thesis/figure-5.19-own-transport")
    )
    assert own == ours


PUBLISHED = {
    "what": "x", "metric": "flows.small.fct_mean", "of": "low", "value": "1 ms",
    "tolerance": "2 %", "reason": "because",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tolerance": None}, "tolerance"),
        ({"reason": None}, "reason"),
        ({"reason": ""}, "why the tolerance"),
        ({"holds": False}, "why"),
        ({"value": None}, "either value"),
        ({"value": "1 parsec"}, "parsec"),
        ({"tolerance": "a lot"}, "a lot"),
        ({"as": "guess"}, "guess"),
        ({"values": ["1 ms"], "value": None}, "over"),
        ({"nonsense": 1}, "nonsense"),
        ({"metric": "flows.small.fct_men"}, "did you mean"),
        ({"metric": 5}, "must be a metric"),
        ({"metric": "flows.all.unfinished", "value": "3 ms"}, "plain number"),
    ],
)
def test_a_number_without_tolerance_and_reason_does_not_load(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    number = {k: v for k, v in {**PUBLISHED, **change}.items() if v is not None}
    path = tmp_path / "entry.yaml"
    content = {"source": "s", "shows": "s", "takes": "t", "sweep": "f", "published": [number]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(BadInput) as caught:
        entries.read(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


shares = st.floats(-2, 5, allow_nan=False)


@given(published=shares, ours=shares, tolerance=st.floats(0, 1))
def test_reproduced_means_within_the_tolerance(
    published: float, ours: float, tolerance: float
) -> None:
    target = Target("x", "m", {}, "low", "change", published, tolerance, "t", "r", True, "")
    verdict = Verdict(target, ours)
    gap = abs(ours - published)
    if gap < tolerance:
        assert verdict.status == "reproduced"
    if gap > tolerance * 1.001 + 1e-12:
        assert verdict.status == "differs"
    assert verdict.broken == (verdict.status != "reproduced")


def test_tolerances_are_of_the_value_in_points_or_absolute() -> None:
    def tolerance(text: str, **more: object) -> float:
        number = {**PUBLISHED, "tolerance": text, **more}
        content = {"source": "s", "shows": "s", "takes": "t", "sweep": "f", "published": [number]}
        return Entry.model_validate(content).targets[0].tolerance

    assert tolerance("2 %") == pytest.approx(0.02 * 1e6)
    assert tolerance("10 us") == 10_000
    assert tolerance("5 points", **{"as": "change", "value": "-30 %"}) == pytest.approx(0.05)
    assert tolerance("10 %", **{"as": "change", "value": "-30 %"}) == pytest.approx(0.03)


@given(
    st.lists(
        st.builds(Layer, st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 10**9)),
        min_size=1,
        max_size=30,
    )
)
def test_slack_is_the_compute_between_ready_and_needed(layers: list[Layer]) -> None:
    found = slack(Profile("p", "", tuple(layers), 1, 1))
    for number, layer in enumerate(found):
        backward = sum(below.backward_ns for below in layers[:number])
        forward = sum(below.forward_ns for below in layers[:number])
        assert layer.slack_ns == backward + forward
        assert layer.barrier_slack_ns == backward


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two entries of one tiny sweep on the engine that plays nothing."""
    monkeypatch.setitem(engines.MODULES, "fake", "tests.fake_engine")
    monkeypatch.setattr(entries, "FOLDER", tmp_path / "entries")
    place = tmp_path / "entries" / "paper"
    place.mkdir(parents=True)
    sweep = tmp_path / "sweep.yaml"
    axes = {
        "size": {"key": "topology.hosts", "values": [3, 4]},
        "order": {"key": "training.0.order", "values": ["fifo", "layer"]},
    }
    sweep.write_text(BASE + yaml.safe_dump({"sweep": axes}))
    good = {
        "source": "a paper", "shows": "that half is half", "takes": "a moment", "engine": "fake",
        "sweep": str(sweep),
        "views": [
            {"kind": "map", "title": "Change", "metric": "flows.small.fct_mean", "as": "change",
             "of": ["strict-priority"], "rows": "size", "columns": "order",
             "bounds": ["1 %", "30 %"]},
            {"kind": "lines", "title": "Lines", "metric": "flows.small.fct_mean", "columns": "size",
             "by": "order", "of": ["fifo"]},
        ],
        "published": [
            {"what": "half", "metric": "flows.small.fct_mean", "of": "strict-priority",
             "as": "change", "at": {"order": "fifo"}, "over": "size", "labels": [3, 4],
             "values": ["-50 %", "-49 %"], "tolerance": "2 points", "reason": "two seeds"},
        ],
    }  # fmt: skip
    bad = {**good, "published": [{**good["published"][0], "values": ["-50 %", "-30 %"]}]}
    (place / "good.yaml").write_text(yaml.safe_dump(good))
    (place / "bad.yaml").write_text(yaml.safe_dump(bad))
    return tmp_path


def again(name: str, out: Path) -> tuple[runs.Reproduced, str]:
    with (out.parent / "said").open("w+") as said:
        console = Console(file=said, width=200)
        outcome = runs.reproduce(name, out, None, lambda n: OneBar(console, n))
        said.seek(0)
        return outcome, said.read()


def test_an_entry_is_judged_and_its_sweep_is_shared(folder: Path) -> None:
    good, said = again("paper/good", folder / "out")
    assert "are done already" not in said
    assert [verdict.status for verdict in good.verdicts] == ["reproduced", "reproduced"]
    assert good.broken == []
    bad, said = again("paper/bad", folder / "out")
    assert "16 are done already" in said
    assert [verdict.status for verdict in bad.verdicts] == ["reproduced", "differs"]
    assert [verdict.off_by for verdict in bad.broken] == ["-20.0 points"]
    written = json.loads((folder / "out" / "paper" / "bad" / "verdicts.json").read_text())
    assert [number["verdict"] for number in written] == ["reproduced", "differs"]
    assert "<svg" in (folder / "out" / "paper" / "bad" / "report.html").read_text()

    names = ["paper/bad", "paper/good", "paper/huge"]
    path = page.write([good, bad], names, folder / "docs")
    text = path.read_text()
    assert "| [paper/good](#papergood) | a paper | 2 of 2 | fake |" in text
    assert (
        "| half (order fifo, size 4) | -30.0 % | -50.0 % | -20.0 points | 2 points | differs |"
        in text
    )
    assert "`giveway reproduce paper/bad`" in text
    for picture in (folder / "docs" / "reproductions").iterdir():
        assert f"({picture.parent.name}/{picture.name})" in text
        assert "var(" not in picture.read_text()
    assert "Not run for this page: paper/huge." in text

    page.write([replace(good, engine="other")], names, folder / "docs")
    assert path.read_text() == text.replace("2 of 2 | fake |", "2 of 2 | other |")


def test_what_another_engine_gave_is_kept_and_shown_beside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engines.MODULES, "other", "tests.fake_engine")
    place = folder / "entries" / "paper"
    entry = yaml.safe_load((place / "good.yaml").read_text())
    entry["published"][0] |= {"labels": [3], "values": ["-40 %"], "tolerance": "20 points"}
    entry["beside"] = {
        "engine": "other", "instead": True, "kept": "other.json", "takes": "a moment",
        "set": ["seeds=[0]"], "points": [{"size": "3", "order": "fifo"}],
    }  # fmt: skip
    (place / "two.yaml").write_text(yaml.safe_dump(entry))
    out = folder / "out"
    console = Console(file=(folder / "said").open("w"))
    alone = runs.reproduce("paper/two", out, "other", lambda n: OneBar(console, n))
    assert [verdict.status for verdict in alone.verdicts] == ["reproduced"]
    assert len(list((out / "sweeps").glob("*/points/*"))) == 1
    (out / "paper" / "two" / "beside.json").rename(place / "other.json")

    both, _ = again("paper/two", out)
    panel = both.panels[-1]
    changed = [row for row in panel.rows if row[1].startswith("Change")]
    assert [row[4:] for row in changed] == [("+0.0 points", "-40 %")]
    assert "Both with `seeds=[0]`" in panel.note
    entry["beside"]["there_only"] = True
    (place / "two.yaml").write_text(yaml.safe_dump(entry))
    apart, _ = again("paper/two", out)
    assert "fake with `seeds=[0]`" in apart.panels[-1].note
    assert (
        sorted(len(list(at.glob("*/seed-*"))) for at in (out / "sweeps").glob("*/points/*"))[-1] > 2
    )
    (place / "other.json").write_text("{}")
    with pytest.raises(BadInput, match=r"other\.json: cannot be read"):
        again("paper/two", out)


def test_what_an_entry_keeps_of_its_own_engine_is_judged_without_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engines.MODULES, "other", "tests.fake_engine")
    place = folder / "entries" / "paper"
    entry = yaml.safe_load((place / "good.yaml").read_text())
    entry |= {"set": ["seeds=[0]"], "kept": "kept.json"}
    (place / "kept.yaml").write_text(yaml.safe_dump(entry))
    out = folder / "out"
    with pytest.raises(BadInput, match=r"kept\.json: cannot be read"):
        again("paper/kept", out)
    console = Console(file=(folder / "said").open("w"))
    runs.reproduce("paper/kept", out, "fake", lambda n: OneBar(console, n))
    assert len(list((out / "sweeps").glob("*/points/*/*/seed-*"))) == 8
    (out / "paper" / "kept" / "kept.json").rename(place / "kept.json")

    shutil.rmtree(out)
    kept, said = again("paper/kept", out)
    assert said == ""
    assert [verdict.status for verdict in kept.verdicts] == ["reproduced", "reproduced"]
    assert len(kept.panels[0].rows) == 4 + 4  # two questions at every point

    entry["beside"] = {
        "engine": "other", "set": ["seeds=[0, 1]"], "there_only": True, "takes": "a moment",
        "points": [{"size": "3", "order": "fifo"}],
    }  # fmt: skip
    (place / "kept.yaml").write_text(yaml.safe_dump(entry))
    both = runs.reproduce("paper/kept", out, None, lambda n: OneBar(console, n), beside=True)
    assert len(list((out / "sweeps").glob("*/points/*/*/seed-*"))) == 4
    assert "-50 %" in both.panels[0].rows[0]


@pytest.mark.parametrize("name", entries.names())
def test_what_is_kept_is_of_the_points_that_its_entry_names(name: str) -> None:
    entry = entries.load(name)
    beside, folder = entry.beside, entries.path_of(name).parent
    if entry.kept:
        found = kept_results.read(folder / entry.kept)
        assert (found.engine, found.set) == (entry.engine, entry.set)
        assert found.places
        points = sweep_file.load(folder / str(entry.sweep)).points
        assert all(place in [point.at for point in points] for place in found.places)
    if beside is not None and beside.kept:
        found = kept_results.read(folder / beside.kept)
        assert (found.engine, found.set) == (beside.engine, beside.set)
        assert found.places
        assert all(place in beside.points for place in found.places)


def test_results_of_other_code_are_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again("paper/good", folder / "out")
    monkeypatch.setattr(runs, "code", lambda: "another state")
    _, said = again("paper/good", folder / "out")
    assert "are done already" not in said


def test_the_list_names_every_entry() -> None:
    done = giveway("reproduce")
    assert done.returncode == 0
    assert all(name in done.stdout for name in entries.names())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["thesis/figure-4.8"], "thesis/figure-4.7"),
        (["thesis/slack", "--engine", "virtual"], "computed"),
        (["thesis/slack", "--engine", "warp"], "warp"),
        (["thesis/slack", "--beside"], "no points"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = giveway("reproduce", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_slack_needs_no_engine(tmp_path: Path) -> None:
    done = giveway("reproduce", "thesis/slack", "--out", tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "thesis" / "slack" / "report.html").is_file()


def test_a_unit_that_all_labels_have_is_said_once() -> None:
    from analysis.sweep_plots import with_unit

    assert with_unit("link rate", ["1 Gbit/s", "10 Gbit/s"]) == (
        "link rate (Gbit/s)",
        ["1", "10"],
    )
    assert with_unit("link rate", ["1 Gbit/s", "500 Mbit/s"])[1] == ["1 Gbit/s", "500 Mbit/s"]
    assert with_unit("ratio", ["16", "8"]) == ("ratio", ["16", "8"])


def test_a_map_is_of_one_place_on_the_axes_that_it_is_not_over(tmp_path: Path) -> None:
    from analysis.sweep import Grid, GridAxis
    from analysis.views import map_over

    axes = tuple(GridAxis(name, name, ("1", "2")) for name in ("job", "part", "credit"))
    grid = Grid(tmp_path, "grid", "", "fluid", "", axes, {}, ("low",), (0,))
    grid.__dict__["table"] = pd.DataFrame(
        [
            {"metric": "training.job.iteration_mean", "policy": "low",
             "job": job, "part": part, "credit": credit,
             "change": int(job) / 10, "change_low": None, "change_high": None}
            for job in ("1", "2") for part in ("1", "2") for credit in ("1", "2")
        ]
    )  # fmt: skip
    over, at = ("part", "credit"), {"job": "2"}
    metric = "training.job.iteration_mean"
    panel = map_over(grid, "t", "s", metric, "low", "change", over, at=at)
    assert {text[:3] for row in panel.rows for text in row[1:]} == {"+20"}
