"""Who gains, who pays: families of jobs and classes of flows, in summary, terminal, report, PNG."""

import io
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis import folder, report, summary, tables, tenant_plots, tenants, words
from tests import run_folders
from tests.conftest import giveway
from tests.run_folders import Effect, Folder

RINGS, SERVERS = ("ring-1", "ring-2"), ("ps-1", "ps-2")
FAMILIES = dict.fromkeys(RINGS, "ring") | dict.fromkeys(SERVERS, "ps")
# Rings alone pay a fifth, servers alone gain a tenth.
SPLIT = dict.fromkeys(RINGS, 1.2) | dict.fromkeys(SERVERS, 0.9)
TWO = Folder(
    effects={
        "fifo": Effect(small=4.0, medium=2.0, training=1.5),
        "strict-priority": Effect(small=2.0, medium=2.0, training=1.5, jobs=SPLIT),
    },
    jobs=(*RINGS, *SERVERS, "alone"),
    families=FAMILIES,
    noise=0.0,
)
NAMES = ("fifo", "fq-codel", "prio", "strict-priority", "htb-priority",
         "tensorlights-one", "tensorlights-rr", "tensorlights-srf", "slack-aware")  # fmt: skip
MANY = Folder(
    effects={
        name: Effect(small=6.0 / (1 + index), large=1.0 + 0.1 * index, jobs=SPLIT if index else {})
        for index, name in enumerate(NAMES)
    },
    seeds=(0, 1),
    flows=120,
    jobs=(*RINGS, *SERVERS),
    families=FAMILIES,
)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = summary.summarise
    monkeypatch.setattr(report, "summarise", lambda results: whole(results, 100))


def summary_of(tmp_path: Path, what: Folder) -> dict[str, Any]:
    return summary.summarise(folder.load(run_folders.write(tmp_path / "out", what)), 100)


def changes(found: dict[str, Any], label: str) -> dict[str, float]:
    return {t["name"]: t["policies"][label]["change"] for t in found["tenants"]}


def terminal(found: dict[str, Any], width: int) -> str:
    shown = io.StringIO()
    Console(width=width, file=shown).print(tables.for_terminal(found))
    return shown.getvalue()


def test_the_answer_speaks_of_families_and_not_of_their_jobs(tmp_path: Path) -> None:
    found = summary_of(tmp_path, TWO)["answer"].replace(words.SPACE, " ")
    assert "in return, iterations of ring (2 jobs) take 20 % longer" in found
    assert "iterations of ps (2 jobs) end 10 % sooner" in found
    assert "iterations of alone show no clear change" in found
    assert "ring-1" not in found


def test_jobs_of_one_entry_gain_and_pay_together(tmp_path: Path) -> None:
    found = summary_of(tmp_path, TWO)
    measured = changes(found, "strict-priority")
    assert list(measured) == ["small", "medium", "large", "ring", "ps", "alone"]
    assert measured["ring"] == pytest.approx(0.2, abs=1e-3)
    assert measured["ps"] == pytest.approx(-0.1, abs=1e-3)
    assert measured["alone"] == 0
    assert [tenant["jobs"] for tenant in found["tenants"][3:]] == [
        list(RINGS), list(SERVERS), ["alone"],
    ]  # fmt: skip
    assert "change" not in found["tenants"][0]["policies"]["fifo"]


def test_classes_and_single_jobs_have_the_numbers_of_the_long_table(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Folder())
    long = found["policies"]["strict-priority"]["change"]
    for tenant, metric in zip(
        found["tenants"],
        [f"flows.{name}.fct_mean" for name in ("small", "medium", "large")]
        + ["training.resnet50.iteration_mean"],
        strict=True,
    ):
        entry = tenant["policies"]["strict-priority"]
        assert entry["change"] == long[metric]["change"]
        assert entry["interval_95"] == long[metric]["interval_95"]
        assert entry["pairs"] == long[metric]["pairs"]


def test_the_mean_of_a_family_lies_among_those_of_its_jobs(tmp_path: Path) -> None:
    found = summary_of(tmp_path, MANY)
    ring = next(tenant for tenant in found["tenants"] if tenant["name"] == "ring")
    low, high = ring["policies"]["prio"]["interval_95"]
    assert low < ring["policies"]["prio"]["change"] < high
    means = [found["policies"]["prio"]["training"][job]["iteration_mean_ns"] for job in RINGS]
    assert min(means) <= ring["policies"]["prio"]["mean_ns"] <= max(means)


def test_who_was_not_there_is_no_tenant(tmp_path: Path) -> None:
    found = summary_of(tmp_path / "a", Folder(flows=0))
    assert [tenant["name"] for tenant in found["tenants"]] == ["resnet50"]
    found = summary_of(tmp_path / "b", Folder(jobs=(), sizes="small"))
    assert [tenant["name"] for tenant in found["tenants"]] == ["small"]


def test_many_policies_fit_a_terminal_of_80_columns(tmp_path: Path) -> None:
    found = summary_of(tmp_path, MANY)
    text = terminal(found, 80)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "who gains, who pays" in lines[0]
    assert max(len(line) for line in lines) <= 80
    assert "p99" not in text  # of the long table
    # A line of changes and a line of intervals for each policy but the first: nothing folded.
    caption = next(at for at, line in enumerate(lines) if line.startswith("Mean "))
    assert caption == 1 + 3 + 1 + 2 * (len(NAMES) - 1)
    for label in NAMES:
        assert any(line.startswith(f"{label} ") for line in lines)


def test_many_jobs_turn_the_table_round(tmp_path: Path) -> None:
    measured = summary_of(tmp_path, TWO)
    assert tenants.many(measured)
    found = tables.tenants_table(measured, short=False)
    assert found.columns == ("FIFO", "Strict priority")
    titles = [title for title, _ in found.rows]
    assert titles[3:] == ["ring (2\N{NO-BREAK SPACE}jobs)", "ps (2\N{NO-BREAK SPACE}jobs)", "alone"]
    assert found.rows[3][1][1].verdict == "worse"
    assert found.rows[4][1][1].verdict == "better"


def test_two_policies_and_one_job_keep_the_long_table(tmp_path: Path) -> None:
    assert "p99 FCT" in terminal(summary_of(tmp_path, Folder()), 120)
    html = report.write(run_folders.write(tmp_path / "b", Folder())).read_text()
    assert 'id="tenants"' not in html


def test_the_report_begins_with_who_gains_and_who_pays(tmp_path: Path) -> None:
    html = report.write(run_folders.write(tmp_path / "out", MANY)).read_text()
    first, fold, long = (
        html.index(text) for text in ('id="tenants"', "Every number, job by job", "p99 FCT")
    )
    assert html.index('class="answer"') < first < fold < long < html.index("</details>")
    folded = (
        "Every number, job by job",
        "Every change as a bar",
        "Both, of every policy",
        "All flow",
    )
    assert html.count("<details>") == html.count("</details>") == len(folded)
    assert all(said in html for said in folded)


def test_the_picture_is_a_command(tmp_path: Path) -> None:
    out, png = run_folders.write(tmp_path / "out", MANY), tmp_path / "rack.png"
    done = giveway("report", out, "--picture", png)
    assert done.returncode == 0, done.stderr
    head = png.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:24])
    assert width == tenant_plots.WIDE_INCH * tenant_plots.WIDE_DPI > height
    refused = giveway("report", out, "--picture", tmp_path / "rack.gif")
    assert refused.returncode == 2
    assert "must be a .png file" in refused.stderr


@given(st.floats(-0.99, 5), st.floats(0, 5))
def test_a_short_interval_keeps_its_sides_of_zero(low: float, width: float) -> None:
    ends = (low, low + width)
    texts = words.short_interval(ends).replace(words.MINUS, "-").split(" to ")
    shown = [float(text) for text in texts]
    assert shown[0] <= shown[1]
    for end, value in zip(ends, shown, strict=True):
        assert abs(100 * end - value) <= 0.5 + 1e-9
        assert value * end > 0 or abs(end) < 0.0051  # rounded to 0 only where that is near


@given(st.floats(-0.95, 20))
def test_halved_and_doubled_are_coloured_alike(change: float) -> None:
    back = 1 / (1 + change) - 1
    assert tenant_plots.strength(change) == pytest.approx(tenant_plots.strength(back))
    assert 0 <= tenant_plots.strength(change) <= 1
    assert tenant_plots.strength(-0.5) == tenant_plots.strength(1.0) == 1
    assert math.isclose(tenant_plots.strength(0.0), 0)
