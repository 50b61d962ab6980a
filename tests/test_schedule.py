"""Schedules: drawn from the seed alone, and every change to a file changes only what it must."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from basics.errors import BadInput
from testbed.spec import Experiment, FlowMix, load
from workloads import sizes
from workloads.schedule import Schedule, draw, read_csv, schedule_of

SECOND = 1_000_000_000
SEEDS = st.integers(0, 2**63 - 1)


def mix(
    name: str = "web",
    scale: float = 1.0,
    arrivals: str = "46 per second per host",
    pairs: str = "all-to-all",
) -> FlowMix:
    return FlowMix.model_validate(
        {"name": name, "sizes": "web-search", "scale": scale, "arrivals": arrivals, "pairs": pairs}
    )


def experiment(*flows: dict[str, Any], hosts: int = 4) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "x",
            "topology": {
                "kind": "tor",
                "hosts": hosts,
                "rate": "1 Gbit/s",
                "delay": "about 1 us",
                "queue": "10 packets",
            },
            "duration": "2 s",
            "flows": list(flows),
            "policies": ["fifo"],
            "seeds": [0],
        }
    )


def web(name: str) -> dict[str, Any]:
    return {"name": name, "sizes": "web-search", "arrivals": "50 per second per host"}


def rows(schedule: Schedule, *columns: str) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(schedule, name).tolist() for name in columns), strict=True))


WHOLE_ROW = ("start_ns", "src", "dst", "size_byte")


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_the_same_seed_gives_the_same_schedule_and_another_seed_another(seed: int) -> None:
    one, two = draw(mix(), 4, SECOND, seed), draw(mix(), 4, SECOND, seed)
    assert rows(one, *WHOLE_ROW) == rows(two, *WHOLE_ROW)
    assert rows(one, *WHOLE_ROW) != rows(draw(mix(), 4, SECOND, seed + 1), *WHOLE_ROW)


@given(SEEDS, st.integers(2, 9), st.floats(0.01, 3))
@settings(max_examples=30, deadline=None)
def test_every_flow_is_possible_and_in_order(seed: int, hosts: int, scale: float) -> None:
    drawn = draw(mix(scale=scale), hosts, SECOND, seed)
    assert np.all(drawn.src != drawn.dst)
    assert np.all((drawn.dst >= 0) & (drawn.dst < hosts))
    assert np.all((drawn.start_ns >= 0) & (drawn.start_ns < SECOND))
    assert np.all(drawn.size_byte >= 16)
    assert np.all(drawn.size_byte <= 30_000_000 * scale)
    assert drawn.flow.tolist() == list(range(len(drawn)))
    keys = rows(drawn, "start_ns", "src")
    assert keys == sorted(keys)


@given(SEEDS, st.integers(1, 5 * SECOND), st.integers(0, 5 * SECOND))
@settings(max_examples=30, deadline=None)
def test_a_longer_run_keeps_the_earlier_flows(seed: int, duration: int, more: int) -> None:
    short, long = draw(mix(), 3, duration, seed), draw(mix(), 3, duration + more, seed)
    assert rows(short, *WHOLE_ROW) == rows(long, *WHOLE_ROW)[: len(short)]


@given(SEEDS, st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_more_hosts_leave_the_arrivals_of_the_others_alone(seed: int, hosts: int, new: int) -> None:
    few, many = draw(mix(), hosts, SECOND, seed), draw(mix(), hosts + new, SECOND, seed)
    for host in range(hosts):
        columns = ("start_ns", "size_byte")
        assert rows(few.sent_by(host), *columns) == rows(many.sent_by(host), *columns)


def of_mix(schedule: Schedule, index: int) -> list[tuple[int, ...]]:
    return [row[1:] for row in rows(schedule, "mix", *WHOLE_ROW) if row[0] == index]


def test_another_mix_leaves_a_mix_alone() -> None:
    alone = schedule_of(experiment(web("a")), 3)
    beside = schedule_of(experiment(web("b"), web("a")), 3)
    renamed = schedule_of(experiment(web("c"), web("a")), 3)
    assert of_mix(alone, 0) == of_mix(beside, 1) == of_mix(renamed, 1)
    assert of_mix(beside, 0) != of_mix(renamed, 0)
    assert of_mix(beside, 0) != of_mix(beside, 1)
    assert beside.flow.tolist() == list(range(len(beside)))
    assert rows(beside, "start_ns", "src") == sorted(rows(beside, "start_ns", "src"))


def test_rates_sizes_and_targets_are_near_nominal() -> None:
    drawn = draw(mix(scale=0.1), 4, 400 * SECOND, 7)
    expected = 46 * 4 * 400
    assert len(drawn) == pytest.approx(expected, abs=4 * expected**0.5)
    mean = sizes.available()["web-search"].mean_byte * 0.1
    assert drawn.size_byte.mean() == pytest.approx(mean, rel=0.05)
    gaps = np.diff(drawn.sent_by(0).start_ns)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # exponential
    targets = np.bincount(drawn.sent_by(1).dst, minlength=4)
    assert targets[1] == 0
    assert targets[[0, 2, 3]] == pytest.approx([len(drawn.sent_by(1)) / 3] * 3, rel=0.05)


def test_schedules_cannot_be_changed_by_accident() -> None:
    drawn = draw(mix(), 4, SECOND, 0)
    with pytest.raises(ValueError, match="read-only"):
        drawn.size_byte[0] = 1


def test_no_flows_is_an_empty_schedule() -> None:
    only_training = experiment(web("a")).model_copy(update={"flows": ()})
    assert len(schedule_of(only_training, 0)) == 0


HEADER = "start_ns,src,dst,size_byte\n"


def test_a_schedule_file_is_replayed_in_order(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(HEADER + "50,h2,h1,1000\n0,h1,h3,16\n\n50,h1,h2,99\n")
    replayed = read_csv(path, ("h1", "h2", "h3"), 100)
    assert rows(replayed, "flow", *WHOLE_ROW) == [
        (0, 0, 0, 2, 16),
        (1, 50, 0, 1, 99),
        (2, 50, 1, 0, 1000),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "row 1: .*the header must be"),
        ("src,dst\n", "row 1: .*the header must be"),
        (HEADER, "no flows"),
        (HEADER + "0,h1,h2,16\n0,h1,h2\n", "row 3: found 3 columns"),
        (HEADER + "-5,h1,h2,16\n", "row 2: start_ns: found '-5'"),
        (HEADER + "0,h1,h2,10 MB\n", "row 2: size_byte: found '10 MB'"),
        (HEADER + "0,h1,h2,١٦\n", "row 2: size_byte"),
        (HEADER + "0,h1,h2," + "9" * 50 + "\n", "row 2: size_byte"),
        (HEADER + "0,h9,h2,16\n", "row 2: src: found 'h9'"),
        (HEADER + "0,h1,H2,16\n", "row 2: dst: found 'H2'"),
        (HEADER + "0,h1,h1,16\n", "row 2: dst: .*another host"),
        (HEADER + "0,h1,h2,15\n", "row 2: size_byte: found 15"),
        (HEADER + "\n\n100,h1,h2,16\n", "row 4: start_ns: found 100; it must be below"),
        (HEADER + '"0,h1', "not a CSV file"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason):
        read_csv(path, ("h1", "h2"), 100)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "missing.csv", binary):
        with pytest.raises(BadInput, match=path.name):
            read_csv(path, ("h1", "h2"), 100)


# ---- incast


@given(seed=SEEDS, hosts=st.integers(3, 12), data=st.data())
@settings(max_examples=30, deadline=None)
def test_an_incast_is_so_many_senders_to_one_at_regular_moments(
    seed: int, hosts: int, data: st.DataObject
) -> None:
    senders = data.draw(st.integers(2, hosts - 1))
    found = draw(mix(pairs=f"incast {senders}"), hosts, SECOND, seed)
    starts, counts = np.unique(found.start_ns, return_counts=True)
    assert set(counts.tolist()) == {senders}
    period_ns = SECOND * senders / (46 * hosts)
    assert starts == pytest.approx(period_ns * np.arange(1, len(starts) + 1), abs=1)
    assert starts[-1] < SECOND <= starts[-1] + 2 * period_ns
    for start in starts:
        burst = found.start_ns == start
        assert len(set(found.dst[burst].tolist())) == 1
        assert len({*found.src[burst].tolist(), int(found.dst[burst][0])}) == 1 + senders


def test_an_incast_starts_as_many_flows_as_the_same_mix_from_all_to_all() -> None:
    incast = draw(mix(pairs="incast 4"), 8, 20 * SECOND, 0)
    assert len(incast) == pytest.approx(46 * 8 * 20, rel=0.01)
    assert set(incast.dst.tolist()) == set(range(8))
    assert incast.size_byte.mean() == pytest.approx(1_711_550, rel=0.1)


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_longer_incast_begins_with_the_shorter_one(seed: int) -> None:
    short = draw(mix(pairs="incast 2"), 4, SECOND, seed)
    long = draw(mix(pairs="incast 2"), 4, 4 * SECOND, seed)
    assert rows(long, *WHOLE_ROW)[: len(short)] == rows(short, *WHOLE_ROW)


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ("incast 4", "flows.0.pairs: found incast 4; 4 hosts leave 3 that can send to one"),
        ("incast 1", "flows.0.pairs: found 'incast 1'; it must be all-to-all, or incast and how"),
        ("incast", "like incast 8"),
        ("ring", "flows.0.pairs: found 'ring'; it must be all-to-all"),
    ],
)
def test_an_incast_needs_hosts_enough(tmp_path: Path, pairs: str, says: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(experiment({**web("web"), "pairs": "incast 3"}).to_yaml())
    with pytest.raises(BadInput) as caught:
        load(path, (f"flows.0.pairs={pairs}",))
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert load(path).flows[0].senders == 3
