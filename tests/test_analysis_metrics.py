"""Metrics against values worked out by hand."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis import link_use, metrics, window
from analysis.folder import Job, MixClasses
from analysis.metrics import FLOWS, SHARING, TRAINING, Subject

WINDOW = (100, 200)
MIXES = [MixClasses("web", 1_000, 10_000), MixClasses("mining", 10, 20)]
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


FLOW_ROWS = pd.DataFrame(
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


def chosen(size_class: str = "all", delays: Mapping[str, float] = {}) -> pd.DataFrame:
    found = window.flows_in_window(FLOW_ROWS, WINDOW, MIXES, RATES, delays)
    return window.of_class(found, size_class)


def numbers(subject: Subject, table: pd.DataFrame) -> dict[str, float]:
    return {metric.name: metric.how.value(table) for metric in metrics.of(subject)}


def test_the_window_goes_by_the_schedule() -> None:
    assert list(chosen()["flow"]) == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("size_class", "expected"), [("small", [1]), ("medium", [2, 6]), ("large", [3, 4])]
)
def test_classes_go_by_the_bounds_of_the_mix(size_class: str, expected: list[int]) -> None:
    assert list(chosen(size_class)["flow"]) == expected


def test_statistics_are_over_finished_flows_and_count_the_others() -> None:
    found = numbers(FLOWS, chosen("large"))
    assert (found["count"], found["unfinished"]) == (2, 1)
    assert found["fct_mean"] == found["fct_p99"] == found["fct_p999"] == 80_000


def test_the_senders_time_is_until_the_last_acknowledgement() -> None:
    rows = FLOW_ROWS.assign(acked_ns=FLOW_ROWS["end_ns"].where(FLOW_ROWS["flow"] != 2) + 20)
    acked = window.of_class(window.flows_in_window(rows, WINDOW, MIXES, RATES, {}), "small")
    assert numbers(FLOWS, acked)["fct_sender_mean"] == 2_020
    assert numbers(FLOWS, acked)["fct_mean"] == 2_000
    assert np.isnan(numbers(FLOWS, chosen("small"))["fct_sender_mean"])  # nobody wrote it down


def test_slowdown_is_against_the_slower_of_the_two_links() -> None:
    assert numbers(FLOWS, chosen("large"))["slowdown_mean"] == 4
    assert numbers(FLOWS, chosen("small"))["slowdown_p99"] == 2


def test_the_ideal_of_a_flow_has_a_round_trip_on_its_way() -> None:
    ways = {"h1->s1": 50, "s1->h1": 50, "h2->s2": 70, "s1->s2": 400, "s2->s1": 400, "s1->h9": 1}
    delays = {**ways, "s1->s3": 10, "s3->s2": 20, "s3->s1": 10, "s2->s3": 20, "s2->h2": 70}
    # 50 + 10 + 20 + 70, there and back, for its ideal 1,000 ns of bytes
    assert numbers(FLOWS, chosen("small", delays))["slowdown_mean"] == 2_000 / 1_300


def test_shares_within_a_bound_count_unfinished_flows_as_late() -> None:
    large = numbers(FLOWS, chosen("large"))
    assert (large["within_2x"], large["within_5x"]) == (0, 0.5)
    assert large["within_1ms"] == 0.5
    small = numbers(FLOWS, chosen("small"))
    assert (small["within_2x"], small["within_100ms"]) == (1, 1)
    assert np.isnan(numbers(FLOWS, chosen().iloc[:0])["within_2x"])


LIVES = pd.DataFrame(
    [
        # flow, mix, size, start, end
        (0, "a", 1_000, 50, 150),  # half of its life in the window
        (1, "a", 400, 120, 160),
        (2, "b", 10_000, 0, None),  # 3,000 bytes until 300: a third of them in the window
        (3, "b", 10_000, 250, None),  # after it
        (4, "b", 10_000, None, None),  # never started
    ],
    columns=["flow", "mix", "size_byte", "start_ns", "end_ns"],
).astype({"start_ns": "Int64", "end_ns": "Int64"})
GOT = pd.DataFrame({"flow": [2, 3], "received_byte": [3_000, 900]})


def test_goodput_counts_what_flows_had_got_even_if_they_never_end() -> None:
    found = window.goodputs(LIVES, GOT, WINDOW, end_ns=300)
    assert found.to_dict() == pytest.approx({"a": 900 * 8e9 / 100, "b": 1_000 * 8e9 / 100})
    nothing_known = window.goodputs(LIVES, GOT.iloc[:0], WINDOW, end_ns=300)
    assert nothing_known["b"] == 0


@given(some.lists(some.floats(0, 1e10), min_size=1, max_size=20))
def test_jains_index_is_between_one_over_the_number_and_one(goodputs: list[float]) -> None:
    table = pd.DataFrame({"seed": 0, "mix": range(len(goodputs)), "goodput_bps": goodputs})
    index = numbers(SHARING, table)["jain"]
    if max(goodputs) < 1e-100:
        return  # nobody got anything
    assert 1 / len(goodputs) - 1e-9 <= index <= 1 + 1e-9
    same = table.assign(goodput_bps=max(goodputs))
    assert numbers(SHARING, same)["jain"] == pytest.approx(1)
    alone = table.assign(goodput_bps=[max(goodputs), *([0.0] * (len(goodputs) - 1))])
    assert numbers(SHARING, alone)["jain"] == pytest.approx(1 / len(goodputs))


def test_jains_index_is_the_mean_over_seeds() -> None:
    table = pd.DataFrame({"seed": [0, 0, 1, 1], "mix": [*"abab"], "goodput_bps": [1.0, 1, 1, 0]})
    assert numbers(SHARING, table)["jain"] == 0.75


def test_no_flow_gives_no_number_and_no_error() -> None:
    found = numbers(FLOWS, chosen().iloc[:0])
    assert found["count"] == found["unfinished"] == 0
    assert np.isnan(found["fct_mean"])
    assert np.isnan(found["fct_p99"])


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


def iterations(job: str) -> pd.DataFrame:
    of = Job(job, 2, ("h1", "h2"), compute_ns=15, model_byte=1)
    return window.iterations_in_window(ITERATIONS, of, WINDOW).assign(seed=0)


def test_only_whole_iterations_of_the_job_count() -> None:
    found = numbers(TRAINING, iterations("a"))
    assert found["count"] == 3
    assert found["iterations"] == 2
    assert found["iteration_mean"] == (20 + 30 + 70) / 3
    assert found["iteration_p99"] == 70
    assert found["compute"] == 15
    assert found["slowdown"] == pytest.approx(40 / 15)
    assert found["wait_share"] == pytest.approx((5 + 15 + 55) / 120)


def test_an_order_is_measured_between_no_overlap_and_the_longest_alone() -> None:
    of = Job("a", 2, ("h1", "h2"), compute_ns=25, model_byte=1, moves_ns=(10.0, 15.0))
    rows = window.iterations_in_window(ITERATIONS, of, WINDOW).assign(seed=0)
    # 40 on average, 50 one after another, 25 for compute alone
    assert numbers(TRAINING, rows)["order_efficiency"] == pytest.approx((50 - 40) / (50 - 25))
    assert np.isnan(numbers(TRAINING, iterations("a"))["order_efficiency"])  # no servers


def test_no_iteration_gives_no_number() -> None:
    found = numbers(TRAINING, iterations("c"))
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
    use = link_use.link_use(LINKS, WINDOW, RATES)["h1->s1"]
    assert use.by_class["high"] == pytest.approx(50 / 100)  # half a byte a ns of one
    assert use.by_class["low"] == pytest.approx(20 / 100)
    assert use.total == pytest.approx(0.7)
    assert use.drops == 70


def test_utilisation_over_time_is_per_interval() -> None:
    edges, shares = link_use.use_over_time(LINKS, "h1->s1", 8e9)
    assert list(edges) == [0, 90, 210, 300]
    assert list(shares["high"]) == pytest.approx([1, 0.5, 0])
    assert list(shares["low"]) == pytest.approx([0, 0.2, 76 / 90])


def test_utilisation_over_time_keeps_the_bytes_when_thinned() -> None:
    times = list(range(0, 10_001, 10))
    links = counters("h1->s1", "all", times, times)
    edges, shares = link_use.use_over_time(links, "h1->s1", 8e9, most=50)
    assert len(edges) == 50
    assert float(np.sum(shares["all"] * np.diff(edges))) == pytest.approx(10_000)


def test_a_port_that_was_never_read_has_no_curve() -> None:
    edges, shares = link_use.use_over_time(LINKS, "s1->h2", 4e9)
    assert len(edges) == 0
    assert shares == {}
