"""The report of every shape of experiment: whole, self-contained, honest, never half written."""

import errno
import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from rich.console import Console

from analysis import folder, plots, report, stats, summary, tables
from analysis.facts import measured_window
from basics import files
from basics.errors import GivewayError
from tests import run_folders
from tests.run_folders import SECOND, Effect, Folder

SHAPES = {
    "usual": Folder(claims=(run_folders.claim(),)),
    "no training": Folder(jobs=()),
    "no flows": Folder(flows=0),
    "neither": Folder(flows=0, jobs=()),
    "one policy": Folder(effects={"fifo": Effect()}),
    "one seed": Folder(seeds=(7,)),
    "no small flow": Folder(sizes="large"),
    "all unfinished": Folder(unfinished={"fifo": 1.0, "strict-priority": 1.0}),
    "one side unfinished": Folder(unfinished={"fifo": 1.0}),
    "one iteration": Folder(compute_ns=SECOND * 3 // 4, seeds=(0,)),
    "no whole iteration": Folder(compute_ns=3 * SECOND),
    "eight policies": Folder(
        effects={f"p{n}": Effect(small=9.0 - n) for n in range(8)}, seeds=(0,)
    ),
    "many workers": Folder(hosts=12, seeds=(0,)),
    "three jobs": Folder(jobs=("a", "b", "c")),
    "one flow": Folder(flows=1),
}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = summary.summarise
    monkeypatch.setattr(report, "summarise", lambda results: whole(results, 100))


def render(tmp_path: Path, what: Folder) -> str:
    return report.write(run_folders.write(tmp_path / "out", what)).read_text(encoding="utf-8")


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_experiment_has_a_report(tmp_path: Path, shape: str) -> None:
    html = render(tmp_path, SHAPES[shape])
    found = json.loads((tmp_path / "out/summary.json").read_text())
    shown = " ".join(re.sub(r"<[^>]*>", "", html).split())
    assert escape(" ".join(found["answer"].split())) in shown
    assert len(html) < 3_000_000
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", shown)
    console = Console(width=200, record=True, file=(tmp_path / "terminal").open("w"))
    console.print(tables.table(found))
    assert found["name"] in console.export_text()


class Outside(HTMLParser):
    """Collects what a page would fetch, and identifiers used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.identifiers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not str(value).startswith(("#", "data:")):
                self.fetched.append(str(value))
            if name == "id":
                self.identifiers.append(str(value))
        assert tag != "script"


def test_the_report_is_self_contained(tmp_path: Path) -> None:
    page = Outside()
    page.feed(render(tmp_path, Folder()))
    assert page.fetched == []
    assert len(set(page.identifiers)) == len(page.identifiers)


def test_sentences_that_are_there_or_not_stand_apart(tmp_path: Path) -> None:
    after = render(tmp_path, Folder()).split("<h2>What each side gets</h2>")[1]
    said = " ".join(after.split("<p>")[1].split("</p>")[0].split())
    assert "p99 is the time" in said
    assert not re.search(r"\.[A-Za-z]", said)


def test_every_picture_has_words_for_those_who_cannot_see_it(tmp_path: Path) -> None:
    html = render(tmp_path, Folder())
    pictures = re.findall(r'<svg class="picture" role="img" aria-label="([^"]*)"', html)
    assert len(pictures) == html.count("<svg") == 3 + 2 + 1 + 1 + 2 + 2
    assert all(len(alt) > 40 for alt in pictures)


def test_a_broken_run_is_said_before_any_number(tmp_path: Path) -> None:
    html = render(tmp_path, Folder(verdicts={"fifo": "broken"}))
    answer = html.index("Not to be relied on")
    banner = html.index("At least one run was broken")
    assert answer < banner < html.index("What each side gets")
    assert "reached only 61 %" in html
    assert html.count("broken run") >= 4  # at the table and at every legend


def test_unfinished_flows_are_shown(tmp_path: Path) -> None:
    html = render(tmp_path, Folder(unfinished={"fifo": 0.2}))
    assert "Some flows did not finish" in html
    assert re.search(r"FIFO: \d+ of \d+ \(\d+ small, \d+ medium and \d+ large\)", html)


def test_one_seed_is_said_to_be_one(tmp_path: Path) -> None:
    assert "There is only one seed" in render(tmp_path, Folder(seeds=(0,)))


def test_what_people_write_is_not_taken_for_html(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder(jobs=("<script>alert(1)</script>[red]",)))
    plan = json.loads((out / "plan.json").read_text())
    plan["question"] = "<img src=x>"
    plan["policies"][1]["title"] = '<b>Strict</b> & "co"'
    (out / "plan.json").write_text(json.dumps(plan))
    html = report.write(out).read_text()
    page = Outside()
    page.feed(html)
    assert page.fetched == []
    assert "<b>Strict" not in html
    console = Console(width=200, record=True, file=(tmp_path / "terminal").open("w"))
    console.print(tables.table(json.loads((out / "summary.json").read_text())))
    assert "[red]" in console.export_text()


def test_the_same_records_give_the_same_files(tmp_path: Path) -> None:
    out = run_folders.write(tmp_path / "out", Folder())
    first = report.write(out).read_bytes(), (out / "summary.json").read_bytes()
    assert (report.write(out).read_bytes(), (out / "summary.json").read_bytes()) == first


def test_a_full_disk_is_reported_and_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run_folders.write(tmp_path / "out", Folder(seeds=(0,)))
    report.write(out)
    before = sorted(path.name for path in out.iterdir())
    old = (out / "summary.json").read_bytes()

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(GivewayError, match=r"the disk is full: cannot write .*summary\.json"):
        report.write(out)
    assert sorted(path.name for path in out.iterdir()) == before
    assert (out / "summary.json").read_bytes() == old


def test_the_table_marks_what_is_better_worse_and_unclear(tmp_path: Path) -> None:
    same = Effect(small=2.0, medium=2.0, large=2.0, training=1.1)
    other = Effect(small=1.0, medium=2.0, large=4.0, training=1.1)
    out = run_folders.write(tmp_path / "out", Folder(effects={"fifo": same, "other": other}))
    rows = tables.comparison_table(summary.summarise(folder.load(out), 300))
    found = {(row.group, row.name): row.cells for row in rows}
    assert found["Small flows", "mean FCT"][1].verdict == "better"
    assert found["Large flows", "mean FCT"][1].verdict == "worse"
    assert found["resnet50", "mean iteration"][1].verdict == "unclear"
    assert found["Small flows", "mean FCT"][0].change == ""


def test_the_report_uses_the_number_of_draws_that_it_names(tmp_path: Path) -> None:
    assert f"{100} draws" in render(tmp_path, Folder())
    assert stats.RESAMPLES == 2000


@pytest.mark.parametrize("verdict", ["faithful", "simulated"])
def test_a_simulation_of_an_earlier_version_shows_nothing_as_measured(
    verdict: str, tmp_path: Path
) -> None:
    """Its manifest still notes a round trip, offloads and a dilation; the folder stays readable."""
    every = dict.fromkeys(("fifo", "strict-priority"), verdict)
    out = run_folders.write(tmp_path / "out", Folder(seeds=(0,), verdicts=every))
    page = report.write(out).read_text(encoding="utf-8")
    assert "Link delay asked for" in page
    for measured in ("Idle round trip measured", "Segmentation offload", "Dilation"):
        assert (measured in page) == (verdict == "faithful")


def test_no_interval_is_broken_in_a_terminal_of_80_columns(tmp_path: Path) -> None:
    effects = {name: Effect(small=small) for name, small in (("a", 3.0), ("b", 2.0), ("c", 1.5))}
    out = run_folders.write(tmp_path / "out", Folder(effects=effects))
    report.write(out)
    console = Console(width=80, record=True, file=(tmp_path / "terminal").open("w"))
    console.print(tables.table(json.loads((out / "summary.json").read_text())))
    said = console.export_text()
    assert said.count("(") == len(re.findall(r"\([^()│]+\)", said)) > 10


@given(low=st.floats(0.01, 1e4), factor=st.floats(1.05, 1000))
@example(low=101.0, factor=51.0)  # of powers of ten there is 1000 alone
@settings(max_examples=60, deadline=None)
def test_a_log_axis_has_two_numbers_however_short_it_is(low: float, factor: float) -> None:
    axes = Figure().add_subplot()
    axes.set_xscale("log")
    axes.set_xlim(low, low * factor)
    plots.log_ticks(axes)
    assert sum(low <= tick <= low * factor for tick in axes.get_xticks()) >= 2


@pytest.mark.parametrize(
    ("window_s", "said"),
    [((1, 3, 4), "1 s to 3 s of 4 s"), ((0, 3_600_000, 3_600_000), "0 h to 1000 h of 1000 h")],
)
def test_the_measured_window_has_no_powers_of_ten(
    window_s: tuple[int, int, int], said: str
) -> None:
    begin, end, whole = (10**9 * second for second in window_s)
    assert measured_window(begin, end, whole) == said
