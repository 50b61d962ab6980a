"""Rates against an oracle that is slow and plainly right; the heap against sorting."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fluid import state as states
from testbed.fluid.heap import schedule
from testbed.fluid.rates import join, leave, settle

FEW_AT_FIRST = settings(deadline=None)  # the first example loads compiled code


@dataclass(frozen=True)
class Net:
    """Links, and connections with a path, a level, a cap and a weight each."""

    capacity: tuple[float, ...]
    paths: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    caps: tuple[float, ...]
    floors: tuple[float, ...]
    weights: tuple[float, ...]


@st.composite
def nets(draw: st.DrawFn, levels: int = 1, floors: bool = False, weights: bool = False) -> Net:
    capacity = draw(st.lists(st.sampled_from([0.125, 1.0, 1.25, 3.0]), min_size=1, max_size=6))
    count = draw(st.integers(1, 9))
    links = st.lists(st.sampled_from(range(len(capacity))), min_size=1, max_size=4, unique=True)
    cap = st.one_of(st.just(np.inf), st.floats(0.01, 4.0))
    weight = st.sampled_from([0.5, 0.7, 1.0, 1.4]) if weights else st.just(1.0)
    shares = draw(st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=levels, max_size=levels))
    return Net(
        tuple(capacity),
        tuple(tuple(draw(links)) for _ in range(count)),
        tuple(draw(st.integers(0, levels - 1)) for _ in range(count)),
        tuple(draw(cap) for _ in range(count)),
        tuple(shares) if floors else (0.0,) * levels,
        tuple(draw(weight) for _ in range(count)),
    )


def fill(net: Net, residue: list[float], rates: list[float], who: list[int]) -> None:
    """Progressive filling: raise `who` by weight, stop each at its cap or at a full link."""
    running = set(who)
    while running:
        steps = [(net.caps[one] - rates[one]) / net.weights[one] for one in running]
        for link, left in enumerate(residue):
            weight = sum(net.weights[one] for one in running if link in net.paths[one])
            if weight:
                steps.append(left / weight)
        step = max(0.0, min(steps))
        for one in running:
            rates[one] += step * net.weights[one]
            for link in net.paths[one]:
                residue[link] -= step * net.weights[one]
        full = {link for link, left in enumerate(residue) if left <= 1e-12}
        running = {
            one
            for one in running
            if rates[one] < net.caps[one] - 1e-12 and not full & set(net.paths[one])
        }


def oracle(net: Net) -> list[float]:
    """Guaranteed shares first, the rest level by level."""
    rates = [0.0] * len(net.paths)
    of_level = [
        [one for one, theirs in enumerate(net.levels) if theirs == level]
        for level in range(len(net.floors))
    ]
    for floor, who in zip(net.floors, of_level, strict=True):
        fill(net, [floor * capacity for capacity in net.capacity], rates, who)
    residue = list(net.capacity)
    for one, rate in enumerate(rates):
        for link in net.paths[one]:
            residue[link] -= rate
    for who in of_level:
        fill(net, residue, rates, who)
    return rates


class Settled:
    """The engine's arrays for a net, and its connections joined in some order."""

    def __init__(self, net: Net) -> None:
        count, links = len(net.paths), len(net.capacity)
        self.c = states.connections(count)
        self.w = states.links(np.array(net.capacity), np.full(links, np.inf))
        self.q = states.queue(count)
        self.x = states.scratch(count, links, 1, net.floors)
        self.x.counts[states.HAS_FLOORS] = any(net.floors)
        for one, path in enumerate(net.paths):
            self.c["hops"][one] = len(path)
            self.c["path"][one, : len(path)] = path
            self.c["back"][one, : len(path)] = path
            self.c["level"][one] = net.levels[one]
            self.c["cap"][one] = net.caps[one]
            self.c["weight"][one] = net.weights[one]
            self.c["phase"][one] = states.FINAL
            self.c["left"][one] = 1e9
            self.c["round_end"][one] = np.inf

    def join(self, one: int) -> None:
        join(self.c, self.w, self.x, one)

    def leave(self, one: int) -> None:
        leave(self.c, self.w, self.x, one)
        self.c["phase"][one] = states.IDLE

    def rates(self) -> list[float]:
        settle(self.c, self.w, self.q, self.x)
        found: list[float] = self.c["rate"].tolist()
        return found


def settled(net: Net) -> list[float]:
    made = Settled(net)
    for one in range(len(net.paths)):
        made.join(one)
    return made.rates()


@FEW_AT_FIRST
@given(nets())
def test_one_level_is_max_min_fair(net: Net) -> None:
    assert settled(net) == pytest.approx(oracle(net), abs=1e-9)


@FEW_AT_FIRST
@given(nets(levels=3))
def test_levels_are_served_one_after_the_other(net: Net) -> None:
    assert settled(net) == pytest.approx(oracle(net), abs=1e-9)


@FEW_AT_FIRST
@given(nets(levels=2, floors=True))
def test_floors_come_first_and_the_rest_goes_by_priority(net: Net) -> None:
    assert settled(net) == pytest.approx(oracle(net), abs=1e-9)


@FEW_AT_FIRST
@given(nets(levels=3, weights=True))
def test_a_level_is_shared_by_weight(net: Net) -> None:
    assert settled(net) == pytest.approx(oracle(net), abs=1e-9)


@FEW_AT_FIRST
@given(nets(levels=2, floors=True, weights=True))
def test_floors_and_what_is_left_are_shared_by_weight(net: Net) -> None:
    assert settled(net) == pytest.approx(oracle(net), abs=1e-9)


@FEW_AT_FIRST
@given(nets(), st.floats(0.1, 9.0))
def test_equal_weights_change_nothing(net: Net, weight: float) -> None:
    assert settled(replace(net, weights=(weight,) * len(net.paths))) == settled(net)


@FEW_AT_FIRST
@given(st.lists(st.floats(0.5, 1.5), min_size=1, max_size=9))
def test_on_one_link_rates_are_in_proportion_to_weights(weights: list[float]) -> None:
    count = len(weights)
    net = Net((1.25,), ((0,),) * count, (0,) * count, (np.inf,) * count, (0.0,), tuple(weights))
    shares = [1.25 * weight / sum(weights) for weight in weights]
    assert settled(net) == pytest.approx(shares, rel=1e-12)


@FEW_AT_FIRST
@given(nets(levels=3, weights=True))
def test_no_link_carries_more_than_it_can_and_nobody_waits_for_nothing(net: Net) -> None:
    rates = settled(net)
    load = [
        sum(rate for rate, path in zip(rates, net.paths, strict=True) if link in path)
        for link in range(len(net.capacity))
    ]
    assert all(
        carried <= most * (1 + 1e-9) for carried, most in zip(load, net.capacity, strict=True)
    )
    for one, path in enumerate(net.paths):
        full = [link for link in path if load[link] >= net.capacity[link] * (1 - 1e-9)]
        content = rates[one] >= net.caps[one] * (1 - 1e-9)
        # Whoever could use more is at a full link where nobody of its level or below has more of
        # what it weighs.
        assert content or any(
            all(
                rates[other] / net.weights[other] <= rates[one] / net.weights[one] + 1e-9
                for other, theirs in enumerate(net.paths)
                if link in theirs and net.levels[other] >= net.levels[one]
            )
            for link in full
        )


@FEW_AT_FIRST
@given(nets(levels=2, weights=True), st.data())
def test_what_an_event_cannot_concern_need_not_be_looked_at(net: Net, data: st.DataObject) -> None:
    """Joining one by one, with others coming and going, ends where joining at once ends."""
    made = Settled(net)
    count = len(net.paths)
    gone = data.draw(st.sets(st.sampled_from(range(count)), max_size=count - 1))
    for one in range(count):
        made.join(one)
        made.rates()
    for one in sorted(gone):
        made.leave(one)
        made.rates()
    stay = [one for one in range(count) if one not in gone]
    left = Net(
        net.capacity,
        tuple(net.paths[one] for one in stay),
        tuple(net.levels[one] for one in stay),
        tuple(net.caps[one] for one in stay),
        net.floors,
        tuple(net.weights[one] for one in stay),
    )
    rates = made.c["rate"].tolist()
    assert [rates[one] for one in stay] == pytest.approx(oracle(left), rel=2e-3, abs=1e-3)


@FEW_AT_FIRST
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.one_of(st.just(np.inf), st.floats(0, 100))), max_size=60
    )
)
def test_the_heap_always_knows_who_is_next(moves: list[tuple[int, float]]) -> None:
    q, x = states.queue(8), states.scratch(8, 1, 1, [0.0])
    expected: dict[int, float] = {}
    for one, time in moves:
        schedule(q, x, one, time)
        expected[one] = time
        waiting = [(at, who) for who, at in expected.items() if at < np.inf]
        assert x.counts[states.N_HEAP] == len(waiting)
        if waiting:
            first = int(q["order"][0])
            assert (float(q["time"][first]), first) == min(waiting)
