"""What the timeline of an iteration shows of parts: bytes under way, and those held back."""

import pandas as pd

from analysis.timeline import MOST_PARTS, _between


def parts(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["ready_ns", "start_ns", "end_ns", "bytes"])


def test_bytes_are_under_way_from_their_start_and_held_back_from_when_they_are_ready() -> None:
    sent = parts((0, 10, 30, 5), (0, 20, 40, 7), (90, 95, 200, 1))
    assert _between(sent, "start_ns", (0, 50)) == [(10, 5), (20, 12), (30, 7), (40, 0), (40, 0)]
    assert _between(sent, "ready_ns", (0, 50))[0] == (0, 12)


def test_what_began_before_the_iteration_counts_from_its_beginning() -> None:
    assert _between(parts((0, 0, 30, 5)), "start_ns", (10, 20)) == [(10, 5), (20, 0), (20, 0)]
    assert _between(parts(), "start_ns", (10, 20)) == []


def test_thousands_of_parts_are_thinned_out() -> None:
    many = parts(*((at, at, at + 2, 1) for at in range(10_000)))
    steps = _between(many, "start_ns", (0, 20_000))
    assert len(steps) < 2 * MOST_PARTS
    assert steps[-1][1] == 0
