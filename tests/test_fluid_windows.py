"""What receivers let a long flow send, seen by a short one that waits behind it.

On the kernel (docs/virtual.md, "What holds a flow") a flow alone in a port of 1 Gbit/s has 144, 483
and 906 packets under way after 21, 103 and 205 ms; in one of 10 Gbit/s never more than 126.
"""

from pathlib import Path

import pytest

from analysis.agreement import FLOWS_BOUND
from testbed.engine import Run
from testbed.fluid import engine
from testbed.fluid.world import Records
from testbed.spec import load

MS = 1_000_000
EXPERIMENT = """
name: long
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 1 s
flows:
  - {name: both, schedule: both.csv}
policies: [fifo]
seeds: [0]
"""


def short_ms(folder: Path, long_byte: int, after_ms: int, *settings: str) -> float:
    """How long a packet takes that a host sends so long after it began a long flow elsewhere."""
    rows = [f"0,h1,h2,{long_byte}", f"{after_ms * MS},h1,h3,16"]
    (folder / "both.csv").write_text("\n".join(["start_ns,src,dst,size_byte", *rows]) + "\n")
    (folder / "long.yaml").write_text(EXPERIMENT)
    experiment = load(folder / "long.yaml", settings)
    run = Run(experiment, experiment.policies[0], 0, "test00")
    setting = engine.settle(experiment, lambda _: None, run.run_id)
    records = Records()
    engine.perform(run, setting, records, lambda _: None)
    return (dict(map(tuple, records.tables["end"]))[1] - after_ms * MS) / MS


def test_a_long_flow_fills_the_queue_of_a_slow_port(tmp_path: Path) -> None:
    """The short one waits twice, with its SYN and with its bytes; a packet takes 12.1 us."""
    waits = [short_ms(tmp_path, 40_000_000, after_ms) for after_ms in (20, 100, 200)]
    assert waits == pytest.approx([2 * at * 0.0121 for at in (140, 475, 890)], rel=FLOWS_BOUND)


def test_in_a_fast_port_its_receiver_holds_it(tmp_path: Path) -> None:
    fast = "topology.rate=10 Gbit/s"
    waits = [short_ms(tmp_path, 100_000_000, after_ms, fast) for after_ms in (10, 60)]
    assert waits[0] == pytest.approx(waits[1], rel=0.01)
    assert waits[1] < 0.35


@pytest.mark.parametrize(("window", "packets"), [("64 kB", 42), ("300 kB", 205)])
def test_a_fixed_window_holds_it_anywhere(tmp_path: Path, window: str, packets: int) -> None:
    found = short_ms(tmp_path, 40_000_000, 200, f"tcp={{window: {window}}}")
    assert found == pytest.approx(2 * packets * 0.0121, rel=0.15)


RENO = ["topology.rate=10 Gbit/s", "tcp={control: reno, window: 32 MB, rto_min: 4 ms}"]


def test_renos_slow_start_ends_in_a_full_queue_and_leaves_half_of_it(tmp_path: Path) -> None:
    """On the kernel 747 kB of window are left after 7 ms, and a packet more each round trip."""
    waits = [short_ms(tmp_path, 60_000_000, after_ms, *RENO) for after_ms in (10, 20, 40)]
    assert waits == pytest.approx([1.24, 1.28, 1.36], rel=FLOWS_BOUND)
    assert waits == sorted(waits)


def test_a_queue_stays_full_until_its_sender_hears_of_the_loss(tmp_path: Path) -> None:
    """Three round trips over 1,000 packets: on the kernel from 1.3 to 5 ms after the start.

    What comes meanwhile waits behind all of it, or is lost and waits for a timer.
    """
    waits = [short_ms(tmp_path, 60_000_000, after_ms, *RENO) for after_ms in (2, 3)]
    assert min(waits) > 2
    assert short_ms(tmp_path, 60_000_000, 6, *RENO) < 1.5
