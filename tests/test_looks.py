"""How policies appear in reports: told apart as long as there is anything to do so by."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.look import MARKERS, looks_of
from analysis.metrics import TRAINING, headline
from analysis.metrics.unit import TIME
from analysis.sweep import Grid
from analysis.sweep_plots import Curve, MapField, lines
from analysis.sweep_report import Headline, answer
from analysis.words import SPACE
from testbed.spec import load
from tests.conftest import REPOSITORY


def seen(labels: list[str]) -> list[tuple[str, str]]:
    return [(one.name, one.marker) for one in looks_of({at: at for at in labels}).values()]


def test_a_few_differ_in_colour_and_in_marker() -> None:
    found = seen([f"policy-{at}" for at in range(len(MARKERS))])
    assert len({name for name, _ in found}) == len({marker for _, marker in found}) == 8
    assert seen(["fifo+p3", "fifo+layer"]) == found[:2]


def test_of_many_that_are_crossed_each_policy_has_a_colour_and_each_transfer_a_marker() -> None:
    labels = [f"{policy}+{transfer}" for policy in "abcd" for transfer in "wxyz"]
    found = seen(labels)
    assert len(set(found)) == 16
    assert len({name for name, _ in found[:4]}) == 1
    assert len({marker for _, marker in found[::4]}) == 1


def test_no_two_of_many_that_are_not_crossed_look_alike() -> None:
    found = seen([f"policy-{at}" for at in range(17)])
    assert len(set(found)) == 17


def test_the_seven_placements_of_the_shipped_cluster_are_told_apart() -> None:
    labels = [arm.label for arm in load(REPOSITORY / "experiments" / "cluster.yaml").arms]
    assert len(labels) == 7
    assert len(set(seen(labels))) == 7
    assert len({str(one.dash) for one in looks_of({at: at for at in labels}).values()}) == 7


@pytest.mark.parametrize(("value", "said"), [(None, True), (2e9, False)])
def test_lines_without_values_say_so_and_have_no_unit(value: float | None, said: bool) -> None:
    [look] = looks_of({"fifo": "FIFO"}).values()
    curve = Curve(look, {"23": MapField(value), "46": MapField(value)})
    found = lines([curve], ("load", ["23", "46"]), "ratio 16", "x", "mean iteration", unit=TIME)
    assert ("nothing was measured" in found.svg) == said
    assert ("mean iteration (ns)" in found.svg) is False
    assert ("mean iteration (s)" in found.svg) != said


def test_a_sweep_says_where_too_little_was_measured_to_tell(tmp_path: Path) -> None:
    iteration = headline(TRAINING)
    path = iteration.path("job")
    points = {(at,): tmp_path for at in "123"}
    grid = Grid(tmp_path, "grid", "", "fluid", "", (), points, ("a", "b"), (0,))
    changes = [(0.05, 0.04, 0.06), (1.39, None, None), (0.0, -0.01, 0.01)]
    grid.__dict__["summaries"] = {("1",): {"policies": {"a": {"title": "A"}, "b": {"title": "B"}}}}
    grid.__dict__["table"] = pd.DataFrame(
        [
            {"metric": path, "policy": "b", "change": one, "change_low": low, "change_high": high}
            for one, low, high in changes
        ]
    )
    said = answer(grid, {path: Headline(iteration, "Iteration time")}).replace(SPACE, " ")
    assert said.endswith("is clearly longer at 1 (by up to 5.0 %) (too few to tell at 1).")
