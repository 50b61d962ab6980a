"""The registry of metrics: declared once, heard everywhere, and light enough for the door."""

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from analysis import claims, folder, metrics, metrics_page, report, summary, sweep, tables
from analysis.metrics import FLOWS, JOBS, LINKS, MEAN, Bars, Metric, Over, Whole
from analysis.metrics.unit import COUNT, RATIO, SHARE, TIME, VARIANCE, Unit
from analysis.words import SPACE
from basics.errors import BadInput
from testbed.cli.results import Told
from testbed.spec import load
from tests import run_folders
from tests.conftest import REPOSITORY
from tests.run_folders import Effect, Folder

METRICS = list(metrics.available().values())
UNITS = (TIME, SHARE, RATIO, COUNT, VARIANCE)
QUICKSTART = REPOSITORY / "experiments/quickstart.yaml"
HEAVY = {"pandas", "matplotlib", "pyarrow", "scipy"}


def imported(code: str) -> set[str]:
    """Which of the heavy libraries a fresh interpreter has loaded after running some code."""
    wanted = f"import sys; {code}; print(*({HEAVY} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", wanted], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_the_registry_loads_no_heavy_library() -> None:
    assert imported("from analysis import metrics; metrics.available()") == set()


def test_the_door_does_not_load_what_only_analysis_needs() -> None:
    code = "from pathlib import Path; import testbed.spec; testbed.spec.load(Path('FILE'))"
    # basics.records has the schema of the tables, for which pyarrow is needed anywhere.
    assert imported(code.replace("FILE", "experiments/quickstart.yaml")) <= {"pyarrow"}


def test_the_page_of_all_metrics_is_up_to_date() -> None:
    again = "run python -m analysis.metrics_page and commit docs/metrics.md"
    assert metrics_page.PAGE.read_text(encoding="utf-8") == metrics_page.page(), again


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.pattern)
def test_a_metric_is_found_by_its_name_and_by_its_key(metric: Metric) -> None:
    whose = "x.y" if metric.of.whose else ""  # names of jobs may have dots
    assert metrics.named(metric.path(whose)) == (metric, whose)
    if metric.name:
        assert metrics.named(metric.of.path(whose, metric.key)) == (metric, whose)


@pytest.mark.parametrize(
    "path",
    ["", "flows", "flows.small", "flows.small.", "flows.small.fct", "jobs.x.jct_mean", "x.y"],
)
def test_what_is_no_metric_is_not_found(path: str) -> None:
    assert metrics.named(path) is None
    with pytest.raises(BadInput, match="unknown metric"):
        metrics.known(path)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@given(value=some.floats(0, 1e15))
def test_every_number_is_shown_and_none_is_a_dash(unit: Unit, value: float) -> None:
    assert any(digit.isdigit() for digit in unit.shown(value))
    assert " to " in unit.interval((value, value))
    length, _ = unit.axis(value)
    assert length > 0
    for nothing in (None, math.nan):
        assert unit.shown(nothing) == "–"
    assert unit.interval((None, None)) == unit.interval(None) == ""


@pytest.mark.parametrize(
    ("unit", "text", "value", "shown"),
    [
        (TIME, "500 ms", 5e8, "500 ms"),
        (SHARE, "5 %", 0.05, "5.0 %"),
        (SHARE, "0.05", 0.05, "5.0 %"),
        (RATIO, "1.5", 1.5, "1.500 ×"),
        (COUNT, "3", 3, "3"),
        (VARIANCE, "12.5", 12.5, "12.5 ms²"),
        (VARIANCE, "12.5 ms²", 12.5, "12.5 ms²"),
        (VARIANCE, "12.5 ms2", 12.5, "12.5 ms²"),
    ],
)
def test_a_claim_is_read_and_shown_in_its_unit(
    unit: Unit, text: str, value: float, shown: str
) -> None:
    assert unit.parse(text) == value
    assert unit.shown(value).replace(SPACE, " ") == shown


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (TIME, "3"),
        (SHARE, "5 ms"),
        (RATIO, "1.5 s"),
        (COUNT, "3 %"),
        (COUNT, "-1"),
        (VARIANCE, "1 s"),
    ],
)
def test_another_unit_is_refused(unit: Unit, text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        unit.parse(text)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_example_of_a_unit_is_one(unit: Unit) -> None:
    assert unit.parse(unit.example) > 0


@pytest.mark.parametrize(
    ("metric", "value", "measured"),
    [
        ("flows.all.unfinished", 3.0, "3"),
        ("training.resnet50.slowdown", 1.0312, "1.031 ×"),
        ("flows.all.slowdown_p99", 52.34, "52.3 ×"),
        ("jobs.barrier_wait_variance", 11.25, "11.2 ms²"),
        ("jobs.straggler_share", 0.045, "4.5 %"),
        ("links.utilisation_mean", 0.31, "31 %"),
        ("flows.small.fct_mean", 1_234_567.0, "1.23 ms"),
    ],
)
def test_a_claim_prints_in_the_unit_of_its_metric(metric: str, value: float, measured: str) -> None:
    claim = {
        "metric": metric, "of": "fifo", "against": None, "kind": "value", "bound": "at most",
        "value": value, "measured": value, "interval_95": [value, value], "holds": True,
        "certainty": "clear", "problem": None,
    }  # fmt: skip
    told = claims.told(claim, {"fifo": "FIFO"})
    assert told.measured.replace(SPACE, " ") == measured
    assert told.said.replace(SPACE, " ") == f"{metric} of FIFO: at most {measured}"
    assert told.interval.replace(SPACE, " ").startswith(measured.split()[0])


def test_a_claim_on_unfinished_flows_is_reported_as_a_count(tmp_path: Path) -> None:
    claim = run_folders.claim(
        metric="flows.all.unfinished", of="fifo", against=None, kind="value", value=3, text=""
    )
    what = Folder(unfinished={"fifo": 0.2}, seeds=(0,), claims=(claim,))
    page = report.write(run_folders.write(tmp_path / "out", what)).read_text(encoding="utf-8")
    missed = json.loads((tmp_path / "out/summary.json").read_text())["claims"][0]["measured"]
    assert "flows.all.unfinished of FIFO: at most 3<" in page
    assert f"<td>{missed:.0f}</td>" in page


def declared(**changes: Any) -> Metric:
    usual: dict[str, Any] = {
        "name": "x", "of": FLOWS, "unit": TIME, "better": "lower", "title": "x", "meaning": "x",
        "how": Whole(len),
    }  # fmt: skip
    return Metric(**usual | changes)


@pytest.mark.parametrize(
    "changes",
    [{"of": LINKS, "how": Over("drops", MEAN)}, {"swept": True}, {"plot": Bars("Mean")}],
    ids=str,
)
def test_what_would_go_unheard_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Over"):
        declared(**changes)


def test_the_headline_of_a_subject_is_its_first() -> None:
    assert metrics.headline(FLOWS).name == "fct_mean"
    assert metrics.headline(JOBS).name == "jct_mean"


# ---- one file, and it is everywhere

NAME = "within_2ms"
FILE = '''"""Flows that were done within a bound: what a service level promises."""

from analysis.metrics.base import FLOWS, Metric, Over, Values
from analysis.metrics.statistic import MEAN
from analysis.metrics.unit import SHARE

METRIC = Metric(
    "within_2ms", FLOWS, SHARE, "higher", "done within 2 ms", "share of flows done within 2 ms",
    Over(lambda flows: (flows["fct_ns"] <= 2e6).astype(float), MEAN),
    row=True, swept=True, plot=Values(),
)
'''


@pytest.fixture
def one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A metric more, in a folder where discovery looks."""
    more = tmp_path / "more"
    more.mkdir()
    (more / f"{NAME}.py").write_text(FILE)
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(more)])
    importlib.invalidate_caches()
    metrics.available.cache_clear()
    yield
    metrics.available.cache_clear()
    sys.modules.pop(f"{metrics.__name__}.{NAME}", None)


EFFECTS = {"fifo": Effect(small=30.0), "strict-priority": Effect(small=2.0)}
CLAIM = run_folders.claim(
    metric=f"flows.small.{NAME}", against=None, kind="value", bound="at least", value=0.9, text=""
)


def printed(shown: object) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown)
    return captured.get().replace(SPACE, " ")


@pytest.mark.usefixtures("one_file")
def test_a_claim_may_name_it_in_its_unit() -> None:
    def given(value: str) -> list[str]:
        return [
            f"claims=[{{metric: flows.small.{NAME}, of: fifo, value: {value}}}]",
        ]

    experiment = load(QUICKSTART, given("at least 90 %"))
    assert f"flows.large.{NAME}" in experiment.metrics
    assert experiment.claims[0].value == 0.9
    with pytest.raises(BadInput, match=r"claims\.0\.value: found '5 ms'"):
        load(QUICKSTART, given("at least 5 ms"))


def test_without_its_file_there_is_no_such_metric() -> None:
    with pytest.raises(BadInput, match="an unknown metric"):
        load(QUICKSTART, [f"claims=[{{metric: flows.all.{NAME}, of: fifo, value: at least 90 %}}]"])


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("sharing.jain", "not in this file: of all flow mixes together, where there are several"),
        ("cluster.finished", "not in this file: of the jobs of a cluster, where there is one"),
        ("sharing.fairness", "an unknown metric"),
    ],
)
def test_a_claim_about_what_a_file_lacks_is_told_from_a_wrong_name(metric: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(QUICKSTART, [f"claims=[{{metric: {metric}, of: fifo, value: at least 1}}]"])
    assert said in str(caught.value)


@pytest.mark.usefixtures("one_file")
def test_it_is_in_summary_table_and_report(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(effects=EFFECTS, claims=(CLAIM,)))
    page = report.write(out).read_text(encoding="utf-8").replace(SPACE, " ")
    found = json.loads((out / "summary.json").read_text())
    strict = found["policies"]["strict-priority"]
    share = strict["flows"]["small"][NAME]
    low, high = strict["flows"]["small"]["interval_95"][NAME]
    assert 0.9 < low <= share <= high <= 1
    assert strict["change"][f"flows.small.{NAME}"]["change"] > 0
    assert found["metrics"][f"flows.CLASS.{NAME}"] == {"unit": "share", "better": "higher"}
    assert found["claims"][0]["holds"]
    row = next(
        row for row in tables.comparison_table(found)
        if (row.group, row.name) == ("Small flows", "done within 2 ms")
    )  # fmt: skip
    assert row.cells[1].verdict == "better"  # more of it is
    assert "Small flows, done within 2 ms" in printed(tables.table(found))
    assert f"flows.small.{NAME} of Strict priority: at least 90 %" in page
    assert 'aria-label="Done within 2 ms: share of flows done within 2 ms' in page


def test_a_sweep_of_before_is_measured_again_with_it(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "RESAMPLES", 50)
    out = run_folders.write_sweep(tmp_path / "out")
    before = set(sweep.load(out).table["metric"])
    request.getfixturevalue("one_file")
    grid = sweep.load(out)
    path = f"flows.small.{NAME}"
    assert path not in before
    assert before < set(grid.table["metric"])
    rows = grid.table[grid.table["metric"] == path]
    assert set(rows["unit"]) == {"share"}
    assert rows["value"].between(0, 1).all()
    page = sweep.write(out).read_text(encoding="utf-8")
    assert page.count('aria-label="Done within 2 ms of small flows, by') == 1  # a map
    console = Console(width=200, record=True, file=(tmp_path / "terminal").open("w"))
    Told(console).sweep(out)
    assert "Done within 2 ms of small" in console.export_text()


def test_a_summary_of_the_same_metrics_is_kept(tmp_path: Path) -> None:
    point = run_folders.write(tmp_path / "out", Folder(seeds=(0,), flows=40))
    found = summary.summarise(folder.load(point))
    (point / "summary.json").write_text(json.dumps(found | {"mark": 1}))
    assert sweep.measure(point)["mark"] == 1
    (point / "summary.json").write_text(json.dumps(found | {"mark": 1, "metrics": {}}))
    assert "mark" not in sweep.measure(point)
