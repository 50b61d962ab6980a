"""Verdicts and dilation: pure arithmetic about the machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fidelity import BOUNDS, VERDICTS, verdict
from testbed.realtime.capacity import HEADROOM, STEP, dilation

FINE = {
    "shaped_rate_ratio": 0.99,
    "sleep_late_p99_ns": 100_000.0,
    "flow_late_p99_ns": 200_000.0,
    "cpu_headroom_share": 0.6,
    "cpu_steal_share": 0.0,
}


def test_a_run_that_kept_up_is_faithful() -> None:
    assert verdict(FINE) == ("faithful", [])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("shaped_rate_ratio", 0.9, "doubtful"),
        ("shaped_rate_ratio", 0.5, "broken"),
        ("sleep_late_p99_ns", 5e6, "doubtful"),
        ("sleep_late_p99_ns", 5e7, "broken"),
        ("flow_late_p99_ns", 5e6, "doubtful"),
        ("flow_late_p99_ns", 5e7, "broken"),
        ("cpu_headroom_share", 0.05, "doubtful"),
        ("cpu_headroom_share", 0.0, "broken"),
        ("cpu_steal_share", 0.1, "doubtful"),
        ("cpu_steal_share", 0.5, "broken"),
    ],
)
def test_one_bad_measurement_is_enough_and_is_named(name: str, value: float, expected: str) -> None:
    found, reasons = verdict({**FINE, name: value})
    assert found == expected
    assert len(reasons) == 1


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdict({**FINE, "sleep_late_p99_ns": None}) == ("faithful", [])


@given(st.fixed_dictionaries({name: st.floats(0, 1e9) for name in BOUNDS}))
def test_the_verdict_is_the_worst_bound(measured: dict[str, float]) -> None:
    worst = max(bound.judge(measured[name]) for name, bound in BOUNDS.items())
    assert verdict(measured)[0] == VERDICTS[worst]


@given(st.integers(2, 64), st.integers(10**8, 10**11), st.floats(1e9, 1e12))
def test_auto_dilation_is_the_smallest_that_fits(hosts: int, rate: int, capacity: float) -> None:
    factor = dilation(hosts * rate, capacity)
    usable = capacity * HEADROOM
    assert factor >= 1
    assert hosts * rate / factor <= usable * (1 + 1e-9)
    assert factor == 1 or hosts * rate / (factor - STEP) > usable * (1 - 1e-9)
