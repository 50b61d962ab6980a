"""The short cuts of large simulations give what the plain way gives, to the bit, in whole runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ["1", "4", "5", "8"]


def ran(way: str, seeds: list[str] = SEEDS) -> list[str]:
    """Without the compiler, which would not see other thresholds."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.both_ways", way, *seeds],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_runs_by_short_cuts_are_plain_runs_to_the_bit() -> None:
    plain = ran("plain")
    assert len(plain) == len(SEEDS)
    assert ran("quick") == plain


def test_what_is_known_of_a_link_is_what_a_look_at_each_finds() -> None:
    seeds = [str(seed) for seed in range(12)]
    assert len(ran("links", seeds)) == len(seeds)
