"""The account of slack-aware: what iterations cost decides what a worker dares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.account import EARNED, FIRST, FULL, Account
from policies.link.slack_aware import POLICY
from policies.slack import PATIENT, SlackRule, slack_ns
from policies.steering import Gradient, Sight

MS = 1_000_000
ITERATION_NS = 100 * MS
TOLERANCE_NS = ITERATION_NS // 100
LATE = Sight(0, (), 0, (Gradient(0, MS, 0, -ITERATION_NS),))
EARLY = Sight(0, (), 0, (Gradient(0, MS, 0, 10 * ITERATION_NS),))

waits = st.integers(0, ITERATION_NS)
iterations = st.lists(st.tuples(waits, st.booleans()), max_size=30)


def after(history: list[tuple[int, bool]], tolerance_ns: float = TOLERANCE_NS) -> Account:
    account = Account(tolerance_ns)
    for waited_ns, beside in history:
        account.iterated(waited_ns, beside=beside)
    return account


@given(history=iterations, tolerance_ns=st.integers(0, ITERATION_NS))
def test_it_never_holds_less_than_nothing_or_more_than_full(
    history: list[tuple[int, bool]], tolerance_ns: int
) -> None:
    account = after(history, tolerance_ns)
    assert 0 <= account.left <= FULL
    assert 0 <= account.sure <= 1


@given(history=iterations, waited_ns=waits, more_ns=waits)
def test_a_later_iteration_never_leaves_more(
    history: list[tuple[int, bool]], waited_ns: int, more_ns: int
) -> None:
    history = [(0, True), *history]  # what is usual is known
    sooner = after([*history, (waited_ns, False)])
    later = after([*history, (waited_ns + more_ns, False)])
    assert later.left <= sooner.left


@given(usual_ns=waits, times=st.integers(1, 20))
def test_what_flows_cost_anyway_is_not_drawn(usual_ns: int, times: int) -> None:
    account = after([(usual_ns, True)] * times)
    assert account.usual_ns == pytest.approx(usual_ns)
    assert account.left == pytest.approx(min(FULL, FIRST + times * EARNED), abs=1e-6)


def test_iterations_that_cost_what_is_earned_keep_it_where_it_is() -> None:
    late_ns = round(EARNED * TOLERANCE_NS)
    account = after([(MS, True)] * 3)
    before = account.left
    for _ in range(50):
        account.iterated(MS + late_ns, beside=False)
    assert account.left == pytest.approx(before)


def test_one_iteration_of_any_length_is_forgotten_after_as_many_as_fill_it() -> None:
    good = [(0, True)] * round(FULL / EARNED)
    assert after([(0, True), (10**12, False), *good]).left == FULL


def test_before_one_was_beside_the_flows_the_least_is_usual() -> None:
    assert after([(5 * MS, False), (3 * MS, False), (4 * MS, False)]).usual_ns == 3 * MS
    assert after([(3 * MS, False), (5 * MS, True)]).usual_ns == 5 * MS


def test_who_tolerates_nothing_never_gives_way() -> None:
    rule = SlackRule(ITERATION_NS, 0, "middle", stays=True, account=True)
    assert rule.decide(EARLY).band == "middle"


def steered() -> SlackRule:
    return SlackRule(ITERATION_NS, 0.01, "middle", stays=True, account=True)


def test_with_an_empty_account_it_stays_beside_the_flows_and_that_is_what_is_usual() -> None:
    rule = steered()
    account = rule.account
    assert account is not None
    assert rule.decide(EARLY).band == PATIENT
    rule.iterated(0)
    rule.iterated(50 * MS)
    assert account.left == 0
    decision = rule.decide(EARLY)
    assert (decision.band, decision.look_ns) == ("middle", None)
    rule.iterated(9 * MS)  # it was low at its beginning
    assert account.usual_ns == 0
    rule.decide(EARLY)
    rule.iterated(9 * MS)  # the first wholly beside the flows
    assert account.usual_ns == 9 * MS
    assert account.left == EARNED
    assert rule.decide(EARLY).band == PATIENT


def test_an_iteration_in_which_it_gave_way_at_any_time_is_not_usual() -> None:
    rule = steered()
    rule.decide(LATE)
    rule.iterated(7 * MS)
    rule.decide(EARLY)  # down
    rule.decide(LATE)  # and up again
    rule.iterated(9 * MS)
    assert rule.account is not None
    assert rule.account.usual_ns == 7 * MS  # the least: none was measured


@given(left=st.floats(0, FULL), less=st.floats(0, FULL))
def test_who_has_less_left_counts_on_less(left: float, less: float) -> None:
    rich, poor = steered(), steered()
    for rule, holds in ((rich, max(left, less)), (poor, min(left, less))):
        rule.learn(MS, MS)
        assert rule.account is not None
        rule.account.left = holds
    assert poor.rate <= rich.rate


def test_what_is_not_made_yet_is_excused_its_time_on_an_empty_wire() -> None:
    made, to_come = Gradient(1, 4 * MS, 0, 50 * MS), Gradient(0, 6 * MS, 40 * MS, 40 * MS)
    sight = Sight(0, (), 0, (made, to_come))
    # At half a byte a nanosecond the second arrives at 52 instead of 40; at best 46.
    assert slack_ns(sight, 0.5) == -12 * MS
    assert slack_ns(sight, 0.5, best=1.0) == -6 * MS
    assert slack_ns(Sight(40 * MS, (), 0, (to_come,)), 0.5, best=1.0) == -12 * MS


def test_the_option_makes_the_account_and_without_it_there_is_none() -> None:
    with_account, without = POLICY.told({"account": 1}).steering, POLICY.steering
    assert with_account is not None
    assert without is not None
    rule = without(ITERATION_NS)
    assert isinstance(rule, SlackRule)
    assert rule.account is None
    rule.iterated(ITERATION_NS)  # nothing to draw from
    rule = with_account(ITERATION_NS)
    assert isinstance(rule, SlackRule)
    assert rule.account is not None
