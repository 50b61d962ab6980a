"""Settling connections of one level, few or thousands: what the plain way gives, to the bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fluid import state as states
from testbed.fluid.alike import fill_alike
from testbed.fluid.by_link import fill_by_link
from testbed.fluid.filling import are_alike, fill_by_round, take_part
from testbed.fluid.rates import join
from testbed.fluid.waits import limit_by_row, limit_by_window

FEW_AT_FIRST = settings(deadline=None, max_examples=300)  # the first loads compiled code

# Sums of the last three depend on their order.
RATES = st.sampled_from([0.5, 1.0, 1.25, 3.0, 0.1, 0.3, 0.7])
CAPS = st.one_of(st.just(np.inf), RATES, st.floats(0.01, 4.0), st.sampled_from([0.1 / 3, 0.05]))


@st.composite
def tables(draw: st.DrawFn) -> tuple[states.Table, states.Table, states.Scratch]:
    """Connections of one level; some have a rate already, as if shares were guaranteed before."""
    links = draw(st.integers(1, 8))
    paths = st.lists(st.sampled_from(range(links)), min_size=1, max_size=5, unique=True)
    all_paths = draw(st.lists(paths, min_size=1, max_size=24))
    count = len(all_paths)
    c = states.connections(count)
    w = states.links(np.ones(links), np.full(links, np.inf))
    x = states.scratch(count, links, 1, [0.0])
    w["residue"] = [draw(RATES) for _ in range(links)]
    for one, path in enumerate(all_paths):
        c["hops"][one] = len(path)
        c["path"][one, : len(path)] = path
        c["cap"][one] = draw(CAPS)
        c["new_rate"][one] = draw(st.sampled_from([0.0, 0.0, 0.05]))
    x.members[:] = draw(st.permutations(range(count)))
    x.touched[:] = draw(st.permutations(range(links)))
    return c, w, x


@FEW_AT_FIRST
@given(tables(), st.data())
def test_other_ways_to_fill_are_filling_by_round_to_the_bit(
    made: tuple[states.Table, states.Table, states.Scratch], data: st.DataObject
) -> None:
    c, w, x = made
    c["bottleneck"] = -1
    only = data.draw(st.sampled_from([-1, 0, 1]))  # 0 and 1: a guaranteed share of that level
    levels = [0, 1] if only >= 0 else [0]
    for one in range(len(c)):
        c["level"][one] = data.draw(st.sampled_from(levels))
    taking_part = len(c) if only < 0 else int((c["level"][:, 0] == only).sum())
    found = []
    for way in (fill_by_round, fill_by_link, fill_alike):
        its_c, its_w = c.copy(), w.copy()
        running = take_part(its_c, x, len(c), only)
        assert running == taking_part
        assert are_alike(its_c, x, len(c))
        way(its_c, its_w, x, len(c), len(w), running)
        columns = [its_c["new_rate"], its_c["bottleneck"], its_c["frozen"], its_w["residue"]]
        found.append([column.tobytes() for column in columns])
    assert found[0] == found[1], "by link"
    assert found[0] == found[2], "alike"


def test_a_second_level_is_settled_the_plain_way() -> None:
    c, x = states.connections(2), states.scratch(2, 1, 1, [0.0, 0.0])
    c["hops"], x.members[:] = 1, (0, 1)
    assert take_part(c, x, 2, -1) == 2
    assert are_alike(c, x, 2)
    c["level"][1, 0] = 1
    assert take_part(c, x, 2, -1) == 2
    assert not are_alike(c, x, 2)
    assert take_part(c, x, 2, 1) == 1
    assert are_alike(c, x, 2)


@FEW_AT_FIRST
@given(tables(), st.data())
def test_windows_by_row_are_windows_one_by_one_to_the_bit(
    made: tuple[states.Table, states.Table, states.Scratch], data: st.DataObject
) -> None:
    c, w, x = made
    links, count = len(w), len(c)
    w["limit"] = data.draw(st.sampled_from([2_000.0, 30_000.0, 1e6]))
    w["first"] = -1
    back = st.lists(st.sampled_from(range(links)), min_size=links, max_size=links, unique=True)
    for one in range(count):
        hops = int(c["hops"][one])
        c["back"][one, :hops] = data.draw(back)[:hops]
        c["level"][one, :hops] = data.draw(st.sampled_from([0, 0, 0, 1]))
        c["ack_level"][one] = data.draw(st.sampled_from([-1, 0]))
        c["bottleneck"][one] = data.draw(st.integers(-1, hops - 1))
        phases = [states.AVOIDANCE, states.AVOIDANCE, states.SLOW_START, states.FINAL]
        c["phase"][one] = data.draw(st.sampled_from(phases))
        c["window"][one] = data.draw(st.floats(1_500, 90_000))
        c["rate"][one] = data.draw(st.floats(0.0, 1.0))
        join(c, w, x, one)
    c["left"], c["delay"], c["receive"], c["partner"] = 1e6, 5_000.0, 6e6, -1
    c["wait_back"] = 0.3 * c["window"]
    x.clock[0] = 100.0
    plain, by_row = c.copy(), c.copy()
    for one in x.members:
        limit_by_window(plain, w, x, one)
    limit_by_row(by_row, w, x, count)
    assert plain.tobytes() == by_row.tobytes()
