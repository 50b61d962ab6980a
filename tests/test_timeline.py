"""What the timeline of an iteration shows of parts: bytes under way, and those held back."""

import re
from pathlib import Path

import pandas as pd

from analysis.timeline import MOST_PARTS, _between
from tests.conftest import giveway


def parts(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["ready_ns", "start_ns", "end_ns", "bytes"])


def test_bytes_are_under_way_from_their_start_and_held_back_from_when_they_are_ready() -> None:
    sent = parts((0, 10, 30, 5), (0, 20, 40, 7), (90, 95, 200, 1))
    under_way = _between(sent, "start_ns", "end_ns", (0, 50))
    assert under_way == [(10, 5), (20, 12), (30, 7), (40, 0), (40, 0)]
    held_back = _between(sent, "ready_ns", "start_ns", (0, 50))
    assert held_back == [(0, 12), (10, 7), (20, 0), (20, 0)]


def test_what_began_before_the_iteration_counts_from_its_beginning() -> None:
    begun = parts((0, 0, 30, 5))
    assert _between(begun, "start_ns", "end_ns", (10, 20)) == [(10, 5), (20, 0), (20, 0)]
    assert _between(parts(), "start_ns", "end_ns", (10, 20)) == []


def test_thousands_of_parts_are_thinned_out() -> None:
    many = parts(*((at, at, at + 2, 1) for at in range(10_000)))
    steps = _between(many, "start_ns", "end_ns", (0, 20_000))
    assert len(steps) < 2 * MOST_PARTS
    assert steps[-1][1] == 0


SLICED = """
name: sliced
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 500 ms
training:
  - {name: ps, profile: resnet32-cpu, model: 300 kB, iteration: 20 ms, barrier: false,
     aggregation: parameter-server, servers_on: [h1], workers: [h2, h3], transfer: fifo}
policies: [fifo]
transfers: [fifo, {policy: bytescheduler, partition: 8 kB, credit: 16 kB}]
seeds: [0]
"""


def test_a_report_shows_parts_what_is_under_way_and_what_waits(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(SLICED)
    out, drawn = tmp_path / "out", tmp_path / "figures"
    done = giveway("run", tmp_path / "my.yaml", "--engine", "fluid", "--out", out)
    assert done.returncode == 0, done.stderr
    done = giveway("report", out, "--figures", drawn)
    assert done.returncode == 0, done.stderr
    for panel in ("timeline-0", "timeline-1"):
        shown = set(pd.read_csv(drawn / f"{panel}.csv", comment="#").series)
        assert {"forward", "backward", "wait", "transfer", "part", "flight"} <= shown
    said = re.findall(r"had at most ([\d.]+)\s+kB under way", (out / "report.html").read_text())
    whole, in_parts = (float(one) for one in said)
    assert in_parts < whole


def test_a_ring_that_sends_one_slice_at_a_time_holds_the_others_back(tmp_path: Path) -> None:
    ring = re.sub(r"aggregation: .*\}", "workers: all}", SLICED).replace("name: ps", "name: ring")
    (tmp_path / "my.yaml").write_text(re.sub("transfers: .*", "transfers: [p3]", ring))
    out, drawn = tmp_path / "out", tmp_path / "figures"
    done = giveway("run", tmp_path / "my.yaml", "--engine", "fluid", "--out", out)
    assert done.returncode == 0, done.stderr
    done = giveway("report", out, "--figures", drawn)
    assert done.returncode == 0, done.stderr
    shown = pd.read_csv(drawn / "timeline-0.csv", comment="#")
    areas = {name: shown[shown.series == name] for name in ("flight", "queued")}
    assert all(len(area) for area in areas.values())
    # each in a lane of its own: those held back below those under way
    assert areas["flight"].y_end.min() < areas["queued"].y.min()
    assert re.search(r"[\d.]+\s+kB held back", (out / "report.html").read_text())
