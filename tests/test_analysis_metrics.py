"""Metrics against values worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis import metrics
from analysis.folder import Mix

WINDOW = (100, 200)
MIXES = [Mix("web", 1_000, 10_000), Mix("mining", 10, 20)]
RATES = {"h1->s1": 8e9, "s1->h1": 8e9, "h2->s1": 8e9, "s1->h2": 4e9}  # 1 and 0.5 byte a ns


def flow(
    number: int,
    size: int,
    scheduled: int,
    start: int,
    end: float,
    mix: str = "web",
    dst: str = "h1",
) -> dict[str, object]:
    return {
        "flow": number,
        "mix": mix,
        "src": "h2" if dst == "h1" else "h1",
        "dst": dst,
        "size_byte": size,
        "priority": 0,
        "scheduled_ns": scheduled,
        "start_ns": start,
        "end_ns": end,
    }


FLOWS = pd.DataFrame(
    [
        flow(0, 1_000, 99, 105, 500),  # scheduled before the window, started in it
        flow(1, 1_000, 100, 110, 2_110),  # small: 2,000 ns, twice its ideal 1,000
        flow(2, 1_001, 199, 205, 4_205),  # medium: 4,000 ns
        flow(3, 10_000, 150, 150, np.nan),  # large, unfinished
        flow(4, 10_000, 150, 150, 80_150, dst="h2"),  # large: 80,000 ns, ideal 20,000
        flow(5, 500, 200, 200, 300),  # scheduled at the end of the window: out
        flow(6, 15, 150, 150, 180, mix="mining"),  # medium by its own mix: 30 ns, ideal 15
    ]
)


def chosen(size_class: str = "all") -> pd.DataFrame:
    return metrics.of_class(metrics.flows_in_window(FLOWS, WINDOW, MIXES, RATES), size_class)


def test_the_window_goes_by_the_schedule() -> None:
    assert list(chosen()["flow"]) == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("size_class", "expected"), [("small", [1]), ("medium", [2, 6]), ("large", [3, 4])]
)
def test_classes_go_by_the_bounds_of_the_mix(size_class: str, expected: list[int]) -> None:
    assert list(chosen(size_class)["flow"]) == expected


def test_statistics_are_over_finished_flows_and_count_the_others() -> None:
    found = metrics.flow_statistics(chosen("large"))
    assert (found["count"], found["unfinished"]) == (2, 1)
    assert found["fct_mean_ns"] == found["fct_p99_ns"] == 80_000


def test_slowdown_is_against_the_slower_of_the_two_links() -> None:
    assert metrics.flow_statistics(chosen("large"))["slowdown_mean"] == 4
    assert metrics.flow_statistics(chosen("small"))["slowdown_mean"] == 2


def test_no_flow_gives_no_number_and_no_error() -> None:
    found = metrics.flow_statistics(chosen().iloc[:0])
    assert found["count"] == found["unfinished"] == 0
    assert np.isnan(found["fct_mean_ns"])
    assert np.isnan(found["fct_p99_ns"])


def test_quantiles_are_values_that_occurred() -> None:
    values = np.arange(1.0, 101.0)
    assert [metrics.quantile(values, q) for q in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert metrics.quantile(np.array([7.0]), 0.99) == 7


@given(
    some.lists(some.floats(0, 1e12), min_size=1, max_size=300), some.sampled_from([0.5, 0.95, 0.99])
)
def test_quantile_agrees_with_numpy(values: list[float], share: float) -> None:
    array = np.array(values)
    assert metrics.quantile(array, share) == np.quantile(array, share, method="inverted_cdf")


ITERATIONS = pd.DataFrame(
    [
        # job, worker, iteration, start, end, compute, wait
        ("a", 0, 0, 90, 110, 15, 5),  # begins before the window
        ("a", 0, 1, 110, 130, 15, 5),
        ("a", 1, 1, 112, 142, 15, 15),
        ("a", 0, 2, 130, 200, 15, 55),  # ends with the window: in
        ("a", 1, 2, 142, 201, 15, 44),  # ends after it
        ("b", 0, 1, 110, 120, 5, 5),
    ],
    columns=["job", "worker", "iteration", "start_ns", "end_ns", "compute_ns", "wait_ns"],
)


def test_only_whole_iterations_of_the_job_count() -> None:
    found = metrics.training_statistics(
        metrics.iterations_in_window(ITERATIONS, "a", WINDOW), compute_ns=15
    )
    assert found["count"] == 3
    assert found["iteration_mean_ns"] == (20 + 30 + 70) / 3
    assert found["iteration_p99_ns"] == 70
    assert found["slowdown"] == pytest.approx(40 / 15)
    assert found["wait_share"] == pytest.approx((5 + 15 + 55) / 120)


def test_no_iteration_gives_no_number() -> None:
    found = metrics.training_statistics(
        metrics.iterations_in_window(ITERATIONS, "c", WINDOW), compute_ns=15
    )
    assert found["count"] == 0
    assert np.isnan(found["slowdown"])
    assert np.isnan(found["wait_share"])


def counters(link: str, name: str, times: list[int], counts: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {"time_ns": times, "link": link, "class": name, "bytes": counts, "drops": counts}
    )


LINKS = pd.concat(
    [
        # readings lie beside the edges of the window: 90 and 210 instead of 100 and 200
        counters("h1->s1", "high", [0, 90, 210, 300], [0, 90, 150, 150]),
        counters("h1->s1", "low", [0, 90, 210, 300], [0, 0, 24, 100]),
    ]
)


def test_utilisation_is_what_the_counters_gained_in_the_window() -> None:
    use = metrics.link_use(LINKS, WINDOW, RATES)["h1->s1"]
    assert use.by_class["high"] == pytest.approx(50 / 100)  # half a byte a ns of one
    assert use.by_class["low"] == pytest.approx(20 / 100)
    assert use.total == pytest.approx(0.7)
    assert use.drops == 70


def test_utilisation_over_time_is_per_interval() -> None:
    edges, shares = metrics.use_over_time(LINKS, "h1->s1", 8e9)
    assert list(edges) == [0, 90, 210, 300]
    assert list(shares["high"]) == pytest.approx([1, 0.5, 0])
    assert list(shares["low"]) == pytest.approx([0, 0.2, 76 / 90])


def test_utilisation_over_time_keeps_the_bytes_when_thinned() -> None:
    times = list(range(0, 10_001, 10))
    links = counters("h1->s1", "all", times, times)
    edges, shares = metrics.use_over_time(links, "h1->s1", 8e9, most=50)
    assert len(edges) == 50
    assert float(np.sum(shares["all"] * np.diff(edges))) == pytest.approx(10_000)


def test_a_port_that_was_never_read_has_no_curve() -> None:
    edges, shares = metrics.use_over_time(LINKS, "s1->h2", 4e9)
    assert len(edges) == 0
    assert shares == {}
