"""Engines compared: what is within the bounds, what is not, and the page that says so."""

import dataclasses
import json
from pathlib import Path

import pytest

from analysis import agreement
from analysis.folder import load
from basics.errors import BadInput
from bench.agreement.__main__ import PAGE, SHORT_BLOCK, SHORT_PAGE, in_short, written
from bench.agreement.cells import CELLS
from bench.agreement.playing import reference
from tests.conftest import giveway
from tests.run_folders import Effect, Folder, write


def numbers(iteration: int, small: int, large: int, timeouts: int = 0) -> dict[str, object]:
    flows = {
        "small": {
            "count": 100,
            "unfinished": 0,
            "mean_ns": small,
            "median_ns": small,
            "timeouts": timeouts,
            "mean_without_timeouts_ns": small,
        },
        "large": {"count": 50, "unfinished": 0, "mean_ns": large, "median_ns": large},
    }
    return {"iteration": {"job": iteration}, "flows": flows}


def test_each_number_is_held_to_its_own_bound() -> None:
    kernel = {"fifo": numbers(1000, 1000, 1000), "strict": numbers(1000, 500, 1000)}
    fluid = {"fifo": numbers(1029, 1149, 849), "strict": numbers(1031, 575, 990)}
    found = {(row.what, row.policy, row.is_change): row for row in agreement.rows(kernel, fluid)}
    outside = {at for at, row in found.items() if not row.within}
    assert outside == {
        ("job, iteration", "strict", False),
        ("large flows", "fifo", False),
        ("large flows", "strict", True),
    }
    # -50 % there, 575/1149 - 1 here
    assert found["small flows", "strict", True].apart == pytest.approx(0.5 - 1 + 575 / 1149)


def test_timeouts_are_named_where_they_move_a_mean() -> None:
    kernel, fluid = {"fifo": numbers(1, 10**6, 1, timeouts=3)}, {"fifo": numbers(1, 10**6, 1)}
    (note,) = agreement.notes(kernel, fluid)
    assert note.startswith("fifo: in the reference 3 of 100 small flows waited for a timeout")


def test_a_folder_agrees_with_itself(tmp_path: Path) -> None:
    results = load(write(tmp_path / "a"))
    agreement.demand_same(results, results)
    kept = json.loads(json.dumps(agreement.measured(results)))
    assert all(row.apart == 0 for row in agreement.rows(kept, agreement.measured(results)))


def test_two_folders_are_compared_in_the_terminal(tmp_path: Path) -> None:
    first = write(tmp_path / "a")
    slower = {"fifo": Effect(6.0, 2.2, 1.6, 1.08), "strict-priority": Effect(5.0, 1.7, 1.5, 1.13)}
    second = write(tmp_path / "b", Folder(effects=slower))
    done = giveway("agree", first, second)
    assert done.returncode == 0, done.stderr
    assert "(outside)" in done.stdout
    assert "numbers are within their bounds" in done.stdout


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"duration_ns": 9 * 10**9}, "duration_ns differs"),
        ({"flows": 200}, "not the same flows as in"),
    ],
)
def test_other_experiments_are_refused_in_one_line(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    first = load(write(tmp_path / "a"))
    second = load(write(tmp_path / "b", dataclasses.replace(Folder(), **changes)))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=said):
        agreement.demand_same(first, second)


def test_the_seeds_that_both_have_are_compared(tmp_path: Path) -> None:
    first = write(tmp_path / "a", dataclasses.replace(Folder(), seeds=(0, 1, 2)))
    second = write(tmp_path / "b", dataclasses.replace(Folder(), seeds=(5, 2, 1)))
    same = write(tmp_path / "c", dataclasses.replace(Folder(), seeds=(1, 2)))
    done = giveway("agree", first, second)
    assert done.returncode == 0, done.stderr
    assert f"Left out, only in {first}: seed 0." in done.stdout
    assert f"Left out, only in {second}: seed 5." in done.stdout
    by_hand = agreement.rows(agreement.measured(load(same)), agreement.measured(load(same)))
    both = agreement.in_common(load(first), load(second))
    assert agreement.rows(*map(agreement.measured, both)) == by_hand
    assert "Left out" not in giveway("agree", same, same).stdout


def test_no_seed_in_common_is_refused_in_one_line(tmp_path: Path) -> None:
    first = write(tmp_path / "a")
    second = write(tmp_path / "b", dataclasses.replace(Folder(), seeds=(7, 8)))
    done = giveway("agree", first, second)
    assert done.returncode == 2
    assert "no seed in common" in done.stderr
    assert "7, 8 and 0, 1, 2" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_cells_are_at_least_twelve_with_light_and_heavy_load() -> None:
    assert len(CELLS) >= 12
    assert set(reference()) == {cell.name for cell in CELLS}
    assert all(cell.command == reference()[cell.name]["command"] for cell in CELLS)


@pytest.mark.timeout(600)
def test_the_page_is_what_the_code_gives() -> None:
    assert written() == PAGE.read_text(), "the fluid engine has changed: make agreement"


def test_the_page_of_the_engine_shows_the_same_numbers() -> None:
    _, _, rest = SHORT_PAGE.read_text().partition(f"<!-- {SHORT_BLOCK} -->\n")
    shown, end, _ = rest.partition(f"\n<!-- /{SHORT_BLOCK} -->")
    assert end
    assert shown == in_short(PAGE.read_text()), "make agreement"
