"""Runs take turns, so that a machine's worse minutes hit every policy alike."""

from testbed.run import in_turns
from testbed.spec import load
from tests.conftest import REPOSITORY

QUICKSTART = load(REPOSITORY / "experiments" / "quickstart.yaml")


def test_every_policy_meets_every_seed_once() -> None:
    runs = [(run.choice.label, run.seed) for run in in_turns(QUICKSTART, "test00")]
    labels = [choice.label for choice in QUICKSTART.policies]
    assert sorted(runs) == sorted((label, seed) for label in labels for seed in QUICKSTART.seeds)


def test_the_policies_of_a_seed_follow_each_other_and_take_turns_to_begin() -> None:
    runs = in_turns(QUICKSTART, "test00")
    assert [run.seed for run in runs] == [0, 0, 1, 1, 2, 2]
    first = [run.choice.label for run in runs[::2]]
    assert first == ["fifo", "strict-priority", "fifo"]
