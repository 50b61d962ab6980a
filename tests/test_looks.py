"""How policies appear in reports: told apart as long as there is anything to do so by."""

import pytest

from analysis.look import MARKERS, looks_of
from analysis.metrics.unit import TIME
from analysis.sweep_plots import Curve, MapField, lines
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
    assert len(set(seen([*labels, "alone"]))) == len(MARKERS)


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
