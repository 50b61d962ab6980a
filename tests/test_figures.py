"""The figures of a report as files: all three kinds, and the CSV holds what is drawn."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import compare, figures, look, report, window
from analysis.folder import load
from tests.conftest import giveway
from tests.run_folders import Folder, write, write_sweep


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(tmp_path_factory.mktemp("runs") / "out", Folder(seeds=(0, 1), flows=120))
    report.write(folder)
    return folder


@pytest.fixture(scope="module")
def drawn(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures") / "new"
    done = giveway("report", out, "--figures", folder)
    assert done.returncode == 0, done.stderr
    assert f"files in {folder}" in done.stdout
    return folder


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, comment="#")


def test_every_figure_of_the_page_is_there_three_times(out: Path, drawn: Path) -> None:
    names = {path.stem for path in drawn.iterdir()}
    in_page = (out / "report.html").read_text().count('<svg class="picture"')
    assert len(names) == in_page >= 8
    assert {path.name for path in drawn.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "csv")
    }
    for path in drawn.glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")
    for path in drawn.glob("*.svg"):
        assert "<svg" in path.read_text()
        assert "var(--" not in path.read_text()  # colours of its own, not of our page


def test_the_csv_of_a_cdf_is_the_flows(out: Path, drawn: Path) -> None:
    results = load(out)
    flows = compare.pooled_flows(results)
    table = read(drawn / "cdf-small.csv")
    for policy in results.plan.policies:
        curve = table[table.series == policy.title]
        fct = window.of_class(flows[policy.label], "small").fct_ns.dropna()
        longest, unit = fct.max(), {"µ": 1e3, "m": 1e6}
        [said] = [
            line for line in (drawn / "cdf-small.csv").read_text().splitlines() if "# x" in line
        ]
        scale = unit[said.split("(")[1][0]]
        assert curve.x.max() * scale == pytest.approx(longest)
        assert curve.y.max() == pytest.approx(100)


def test_rows_that_have_names_keep_them(drawn: Path) -> None:
    table = read(drawn / "change-0.csv")
    bars = table[table.kind == "bar"]
    assert set(bars.series) == {"Strict priority"}
    assert bars.row.notna().all()
    timeline = read(drawn / "timeline-0.csv")
    assert {"forward", "backward", "wait", "transfer"} <= set(timeline.series)
    assert set(timeline.row) == {"h1", "h2", "h3", "h4"}


def test_lines_across_a_panel_are_no_data() -> None:
    figure, axes = look.new_figure()
    axes.axvline(3)
    axes.axvspan(1, 2)
    axes.plot([1, 2], [3, 4], label="mine")
    axes.set_title("Title", loc="left")
    text = figures.as_csv(figure, {})
    assert text.startswith("# figure: Title\n")
    table = pd.read_csv(io.StringIO(text), comment="#")
    assert table.series.tolist() == ["mine", "mine"]
    assert np.allclose(table[["x", "y"]], [[1, 3], [2, 4]])


def test_the_same_figures_are_the_same_files(out: Path, drawn: Path, tmp_path: Path) -> None:
    report.write_figures(out, tmp_path)
    for path in drawn.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_a_sweep_has_its_figures_in_its_points(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "sweep")
    done = giveway("report", sweep, "--figures", tmp_path / "figures")
    assert done.returncode == 2
    assert "name one of its points" in done.stderr
