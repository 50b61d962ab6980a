"""The benchmarks work: they run, report ratios, and judge them. How fast we are is not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import bench
from bench.all_reduce import bus_bandwidths_bps
from bench.base import Ratio
from bench.flow_starts import arrived_share, late_p99_ms, schedule
from bench.stack_all_reduce import bandwidths_bps
from bench.virtual_profile import MACHINE, REST, TASKS, TakenSample, grouped
from tests.conftest import REPOSITORY


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_the_median_is_held_to_the_goal() -> None:
    assert Ratio("speed", (1.0, 5.0, 6.0), goal=4).met is True
    assert Ratio("speed", (1.0, 3.0, 6.0), goal=4).met is False
    assert Ratio("late", (0.5, 0.7, 9.0), goal=1, bound="at most").met is True
    assert Ratio("speed", (), goal=4, note="this machine is too small").met is None


def test_an_unknown_benchmark_is_answered_with_the_known_ones() -> None:
    done = run_bench("--only", "nonsense")
    assert done.returncode == 2
    assert all(name in done.stderr for name in bench.available())


def test_bus_bandwidth_counts_large_transfers_that_every_worker_finished() -> None:
    rows = [
        # iteration, transfer, worker, bytes, start, end
        (0, 0, 0, 100, 0, 10),
        (0, 0, 1, 100, 0, 10),
        (1, 1, 0, 10, 10, 12),
        (1, 1, 1, 10, 10, 12),
        (1, 2, 0, 90, 20, 100),
        (1, 2, 1, 90, 30, 110),
        (2, 3, 0, 90, 120, 200),
    ]
    columns = ["iteration", "transfer", "worker", "bytes", "start_ns", "end_ns"]
    found = bus_bandwidths_bps(pd.DataFrame(rows, columns=columns), workers=2, model_byte=100)
    assert found == [pytest.approx(90 * 8 / 90e-9)]


def test_a_stacks_all_reduce_is_told_by_its_size_and_counts_if_all_took_part() -> None:
    rows = [
        # iteration, transfer, worker, bytes, start, end
        (0, 0, 0, 100, 0, 10),
        (1, 1, 0, 90, 20, 100),
        (1, 2, 1, 90, 30, 110),  # another worker may number it otherwise
        (1, 1, 1, 10, 0, 500),
        (2, 3, 0, 90, 120, 200),
    ]
    columns = ["iteration", "transfer", "worker", "bytes", "start_ns", "end_ns"]
    found = bandwidths_bps(pd.DataFrame(rows, columns=columns), workers=2, model_byte=100)
    assert found == [pytest.approx(90 * 8 / 90e-9)]


def test_only_flows_that_had_time_to_finish_are_asked_for() -> None:
    flows = pd.DataFrame(
        {
            "size_byte": [100, 300, 500],
            "scheduled_ns": [0, 400_000_000, 900_000_000],
            "start_ns": [2_000_000, 400_000_000, None],
            "end_ns": [5_000_000, None, None],
        }
    )
    assert arrived_share(flows, 1_000_000_000) == 0.25
    assert late_p99_ms(flows) == float("inf")
    assert late_p99_ms(flows[:2]) == 2


def test_the_flow_schedule_is_half_load_and_the_same_for_the_same_seed() -> None:
    text = schedule(0, 100, 1000)
    assert text == schedule(0, 100, 1000)
    sizes = [int(line.split(",")[3]) for line in text.splitlines()[1:]]
    assert sum(sizes) * 8 == 0.5 * 8 * 100e6


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", bench.available())
def test_a_benchmark_reports_ratios(name: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    done = run_bench("--tiny", "--wait", "--repeats", "1", "--only", name, "--json", str(out))
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(out.read_text())
    assert set(found) == {name}
    assert found[name]
    for ratio in found[name]:
        assert ratio["met"] is not None or ratio["note"]
        assert all(value > 0 for value in ratio["values"])


def test_a_profile_tells_the_parts_of_a_guest_apart() -> None:
    functions = [(0x1000, "htb_dequeue"), (0x2000, "tcp_ack"), (0x3000, "mtree_load")]
    taken = [
        TakenSample("linux", 0x1FFF, "/cache/kernel-7.2.11/linux"),
        TakenSample("linux", 0x2000, "/cache/kernel-7.2.11/linux"),
        TakenSample("linux", 0x3001, "/cache/kernel-7.2.11/linux"),
        TakenSample("linux", 0xFFFF_FFFF_8000_0000, "[kernel.kallsyms]"),
        TakenSample("uml-userspace", 0x2000, "/usr/bin/python3"),
    ]
    counted = grouped(taken, functions)
    assert counted == {"queues: htb, netem, filters": 1, "TCP": 1, REST: 1, MACHINE: 1, TASKS: 1}
