"""`giveway tune`: the search, what it refuses, and a small problem from file to picture."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.tune.search import TunedOption, best, least
from tests.conftest import giveway

AXES = [TunedOption("partition", 64_000, 10_000_000), TunedOption("credit", 64_000, 60_000_000)]
FILE = """
name: tuned
topology: {kind: tor, hosts: 2, rate: 836500 kbit/s, delay: 10 us, queue: 1000 packets}
duration: 1500 ms
warmup: 300 ms
training:
  - {name: example, profile: bytescheduler-example, aggregation: parameter-server, servers: 1,
     servers_on: [h2], workers: [h1], transfer: bytescheduler, barrier: false}
policies: [fifo]
seeds: [0]
"""


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.2, 5))
def test_the_bottom_of_a_bowl_is_found_in_25_evaluations(x: float, y: float, tilt: float) -> None:
    def bowl(point: tuple[int, ...]) -> float:
        across, up = (axis.share(value) for axis, value in zip(AXES, point, strict=True))
        return 1 + (across - x) ** 2 + tilt * (up - y) ** 2

    tried = least(AXES, bowl, 25)
    assert len(tried) <= 25
    assert len({one.point for one in tried}) == len(tried)
    [found] = best(tried)
    # A grid of 25 points is 1/8 from the bottom along each axis at worst.
    assert found.value - 1 <= (1 + tilt) / 64
    for one in tried:
        assert all(a.low <= value <= a.high for a, value in zip(AXES, one.point, strict=True))


@given(st.integers(1, 40))
def test_a_search_is_cut_short_and_never_longer_than_asked(evaluations: int) -> None:
    calls = []
    tried = least(AXES[:1], lambda point: calls.append(point) or math.sin(point[0]), evaluations)
    assert len(calls) == len(tried) <= evaluations


def test_one_value_is_left_where_there_is_no_choice() -> None:
    assert [one.point for one in least([TunedOption("partition", 5, 5)], lambda point: 1.0, 9)] == [
        (5,)
    ]


def test_the_best_is_found_and_shown(tmp_path: Path) -> None:
    (tmp_path / "tuned.yaml").write_text(FILE)
    out = tmp_path / "out"
    done = giveway(
        "tune", tmp_path / "tuned.yaml", "--over", "partition,credit", "--evaluations", "9",
        "--verify", "0", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "best of 9: transfer: {policy: bytescheduler, partition:" in done.stdout
    results = json.loads((out / "tune.json").read_text())
    assert len(results["tried"]) == 9
    least_ns = min(one["iteration_ns"] for one in results["tried"])
    # By hand, 180 ms with unit parts; 4 MB and 16 MB cut one layer in two: 230 ms or more.
    assert 170e6 < least_ns < 190e6 < results["own"]["iteration_ns"]
    assert (out / "surface.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--over", "nonsense"], "--over nonsense: unknown"),
        (["--over", ""], "name partition, credit, or both"),
        (["--over", "credit,credit"], "each once"),
        (["--over", "credit", "--job", "exampel"], "did you mean example"),
        (["--over", "credit", "--set", "training.0.transfer=tic"], "holds nothing back"),
        (
            ["--over", "credit", "--set", "training.0={name: x, profile: resnet32-cpu}"],
            "no transfer",
        ),
        (["--over", "credit", "--set", "transfers=[fifo, p3]"], "transfers: holds for every job"),
        (["--over", "credit", "--engine", "nonsense"], "nonsense"),
        (["--over", "partition", "--set", "duration=310 ms"], "longer duration"),
    ],
)
def test_what_cannot_be_tuned_is_answered_by_one_line(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "tuned.yaml").write_text(FILE)
    done = giveway("tune", tmp_path / "tuned.yaml", *arguments, "--out", tmp_path / "out")
    assert done.returncode in (2, 4)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
