"""Training gives way while it has slack: the rule, and bands that change during a run."""

import json
import socket
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.bands import BAND_TOS
from policies.link.slack_aware import POLICY
from policies.slack import (
    PATIENT,
    RELEASE,
    SHORTEST_LOOK,
    SURE,
    TOLERANCE,
    SlackRule,
    slack_ns,
)
from policies.steering import Gradient, Sight
from testbed.engine import Run
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.spec import Experiment, load
from tests.conftest import giveway
from tests.toy_world import ToyNetwork
from workloads.compute import Trainee, layer_by_layer
from workloads.job_plan import JobPlan
from workloads.marking import tos_of
from workloads.profiles import Layer
from workloads.stack_steering import StackSteering
from workloads.stack_worker import Recorder, StackConfig, Transfer

MS = 1_000_000
ITERATION_NS = 100 * MS
PRESSED = "middle"

gradients = st.lists(
    st.builds(
        Gradient,
        layer=st.integers(0, 50),
        byte=st.integers(1, 10**7),
        ready_ns=st.integers(0, ITERATION_NS),
        due_ns=st.integers(0, 2 * ITERATION_NS),
    ),
    min_size=1,
    max_size=8,
)
sights = st.builds(
    Sight,
    now_ns=st.integers(0, ITERATION_NS),
    underway=st.just(()),
    underway_byte=st.integers(0, 10**7),
    others=gradients,
)
rates = st.floats(1e-4, 10)


def one(now_ns: int = 0, byte: int = 10 * MS, ready_ns: int = 0, due_ns: int = 0) -> Sight:
    """One gradient to send; at a byte a nanosecond, a megabyte takes a millisecond."""
    return Sight(now_ns, (), 0, (Gradient(0, byte, ready_ns, due_ns),))


def later(sight: Sight, by_ns: int) -> Sight:
    """The same, all of it due later."""
    others = [replace(gradient, due_ns=gradient.due_ns + by_ns) for gradient in sight.others]
    return replace(sight, others=others)


def new_rule() -> SlackRule:
    return SlackRule(ITERATION_NS, TOLERANCE, PRESSED)


def rule(rate: float = 1.0) -> SlackRule:
    """That counts on this rate."""
    made = new_rule()
    made.learn(round(rate / SURE * MS), MS)
    return made


def test_slack_is_what_is_left_after_sending_in_order() -> None:
    first = Gradient(0, 3 * MS, ready_ns=4 * MS, due_ns=20 * MS)
    second = Gradient(1, 5 * MS, ready_ns=0, due_ns=21 * MS)
    sight = Sight(1 * MS, (), 2 * MS, (first, second))
    # Under way until 3; the second until 8, as the first was not ready; then that until 11.
    assert slack_ns(sight, 1.0) == 9 * MS


@given(sight=sights, rate=rates, faster=st.floats(1, 100))
def test_who_sends_faster_has_no_less_slack_for_one_gradient(
    sight: Sight, rate: float, faster: float
) -> None:
    alone = replace(sight, others=sight.others[:1])
    assert slack_ns(alone, rate * faster) >= slack_ns(alone, rate) - 1


@given(sight=sights, rate=rates, by_ns=st.integers(0, ITERATION_NS))
def test_later_needs_give_exactly_as_much_more_slack(sight: Sight, rate: float, by_ns: int) -> None:
    expected = slack_ns(sight, rate) + by_ns
    assert slack_ns(later(sight, by_ns), rate) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("band", [PATIENT, PRESSED])
@given(sight=sights, rate=rates, by_ns=st.integers(0, ITERATION_NS))
def test_more_slack_never_presses(band: str, sight: Sight, rate: float, by_ns: int) -> None:
    before, after = rule(rate), rule(rate)
    before.band = after.band = band
    if before.decide(sight).band == PATIENT:
        assert after.decide(later(sight, by_ns)).band == PATIENT


@given(sight=sights, rate=rates, wobble_ns=st.integers(0, round(RELEASE * ITERATION_NS) - 10))
def test_slack_that_wobbles_by_less_than_the_release_changes_the_band_at_most_once(
    sight: Sight, rate: float, wobble_ns: int
) -> None:
    steering = rule(rate)
    steering.decide(sight)
    bands = [steering.decide(later(sight, by_ns)).band for by_ns in (wobble_ns, 0) * 5]
    assert sum(before != after for before, after in pairwise(bands)) <= 1


def test_it_presses_when_slack_and_tolerance_are_gone_and_relaxes_later_than_that() -> None:
    steering = rule()
    exact_ns = 10 * MS - round(TOLERANCE * ITERATION_NS)  # just in time, if it is sent at once
    release_ns = round(RELEASE * ITERATION_NS)
    assert steering.decide(one(due_ns=exact_ns + 1)).band == PATIENT
    assert steering.decide(one(due_ns=exact_ns)).band == PRESSED
    assert steering.decide(one(due_ns=exact_ns + release_ns)).band == PRESSED
    assert steering.decide(one(due_ns=exact_ns + release_ns + 1)).band == PATIENT
    assert steering.decide(one(due_ns=exact_ns + 1)).band == PATIENT


def test_at_its_ends_of_transfers_the_second_version_does_not_leave_others_waiting() -> None:
    steering = POLICY.steering
    assert steering is not None
    made = steering(ITERATION_NS)
    assert made.decide(one(due_ns=-ITERATION_NS)).band == PRESSED
    decision = made.decide(Sight(0, (), 0, ()))
    assert (decision.band, decision.look_ns) == (PRESSED, None)


def test_without_anything_to_send_the_first_version_gives_way_and_sleeps() -> None:
    steering = rule()
    steering.band = PRESSED
    decision = steering.decide(Sight(0, (), 0, ()))
    assert (decision.band, decision.look_ns) == (PATIENT, None)


def test_it_looks_again_when_its_slack_would_be_gone() -> None:
    steering = rule()
    look_ns = steering.decide(one(due_ns=30 * MS)).look_ns
    assert look_ns is not None
    assert steering.decide(one(now_ns=look_ns - 1, due_ns=30 * MS)).band == PATIENT
    assert steering.decide(one(now_ns=look_ns, due_ns=30 * MS)).band == PRESSED


@given(sight=sights, rate=rates)
def test_it_never_looks_more_often_than_it_says(sight: Sight, rate: float) -> None:
    look_ns = rule(rate).decide(sight).look_ns
    if look_ns is not None:
        assert look_ns >= sight.now_ns + round(SHORTEST_LOOK * ITERATION_NS)


def test_it_expects_what_it_got_among_flows_and_before_that_the_best() -> None:
    steering = rule(rate=SURE * 2.0)
    steering.learn(MS, MS)
    assert steering.rate == SURE * 2.0
    steering.decide(one(due_ns=-ITERATION_NS))  # pressed in the middle of a transfer
    steering.learn(MS, 10 * MS)
    assert steering.rate == SURE * 2.0
    steering.learn(MS, 2 * MS)  # the first that was sent among flows from its first byte
    assert steering.rate == SURE * 0.5


def test_before_the_first_transfer_it_presses_only_what_is_late() -> None:
    assert new_rule().decide(one(due_ns=1)).band == PATIENT
    assert new_rule().decide(one(now_ns=2 * MS, due_ns=0)).band == PRESSED


def test_a_trainee_foresees_what_it_will_send_and_when_that_is_due() -> None:
    trainee = Trainee(layer_by_layer([Layer(1, 10, 20), Layer(1, 30, 40)], barrier=False))
    trainee.start(100)
    assert trainee.outlook(100) == []
    trainee.compute_done()  # forward 0, at 110
    trainee.compute_done()  # forward 1, at 140
    seen = [(each.layer, each.ready_ns, each.due_ns) for each in trainee.outlook(140)]
    assert seen == [(0, 200, 200), (1, 180, 210)]
    trainee.compute_done()  # backward 1, at 180
    trainee.compute_done()  # backward 0, at 200; nothing has arrived
    seen = [(each.layer, each.ready_ns, each.due_ns) for each in trainee.outlook(205)]
    assert seen == [(0, 205, 200), (1, 205, 210)]
    trainee.gradients_arrived([0], 230)  # the next iteration starts late, and counts from there
    seen = [(each.layer, each.ready_ns, each.due_ns) for each in trainee.outlook(231)]
    assert seen == [(1, 231, 240)]


def test_with_a_barrier_everything_is_due_when_the_backward_pass_ends() -> None:
    trainee = Trainee(layer_by_layer([Layer(1, 10, 20), Layer(1, 30, 40)], barrier=True))
    trainee.start(0)
    trainee.compute_done()
    trainee.compute_done()
    assert {each.due_ns for each in trainee.outlook(40)} == {100}


# ---- engines

PRESSING = """
name: pressing
question: Does training leave the low band when its slack is gone?
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 1 s
warmup: 100 ms
cooldown: 100 ms
training:
  - {name: job, profile: resnet50-thesis, model: 5 MB, workers: all, iteration: 140 ms,
     fusion: 267 kB, order: layer, barrier: false}
flows:
  - {name: web, sizes: web-search, scale: 0.1, arrivals: 184 per second per host, pairs: all-to-all}
policies:
  - strict-priority
  - slack-aware
  - slack-aware-1
  - {policy: slack-aware-1, label: fixed, bands: {job: low}}
seeds: [0]
"""


@pytest.fixture(scope="module")
def pressing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slack") / "pressing.yaml"
    path.write_text(PRESSING)
    return path


def simulated(experiment: Experiment, label: str) -> dict[str, list[list[object]]]:
    [choice] = [choice for choice in experiment.policies if choice.label == label]
    records = Records()
    setting = fluid.settle(experiment, print, "test00")
    fluid.perform(Run(experiment, choice, 0, "test00"), setting, records, lambda time_ns: None)
    return records.tables


def bands_of(transfers: pd.DataFrame) -> set[int]:
    return set(transfers.priority)


@pytest.mark.parametrize(("policy", "pressed"), [("slack-aware", 1), ("slack-aware-1", 0)])
def test_in_a_simulation_training_leaves_the_low_band_and_iterates_sooner(
    pressing: Path, policy: str, pressed: int
) -> None:
    # Half of the flows: beside all of them there is no slack, and training is never low.
    experiment = load(pressing, ("flows.0.arrivals=92 per second per host",))
    low, steered = simulated(experiment, "strict-priority"), simulated(experiment, policy)
    assert {row[7] for row in low["transfers"]} == {2}
    assert {row[7] for row in steered["transfers"]} == {pressed, 2}
    assert len(steered["iterations"]) > len(low["iterations"])
    assert steered == simulated(experiment, policy)


def test_a_job_that_tolerates_more_gives_way_longer(pressing: Path) -> None:
    lenient = "policies.1={policy: slack-aware, tolerance: 1}"
    experiment = load(pressing, ("flows.0.arrivals=92 per second per host", lenient))
    assert {row[7] for row in simulated(experiment, "slack-aware")["transfers"]} == {2}


def test_a_band_from_the_file_is_left_alone(pressing: Path) -> None:
    experiment = load(pressing)
    assert simulated(experiment, "fixed") == simulated(experiment, "strict-priority")


SERVED = (
    "training.0.aggregation=parameter-server",
    "training.0.order=fifo",
    "training.0.barrier=true",
    "training.0.fusion=500 kB",
    "training.0.model=2 MB",
    "training.0.servers_on=[h1]",
)


def test_parameter_server_jobs_are_steered_too(pressing: Path) -> None:
    experiment = load(pressing, (*SERVED, "duration=3 s"))
    low, steered = simulated(experiment, "strict-priority"), simulated(experiment, "slack-aware-1")
    assert {row[7] for row in low["transfers"]} == {2}
    assert {row[7] for row in steered["transfers"]} == {0, 2}
    assert len(steered["iterations"]) > len(low["iterations"])
    # The model comes back in the band in which the gradient went: from h1, most of all bytes.
    models = [row for row in steered["links"] if row[1] == "h1->s1" and row[2] == "high"]
    beside = [row for row in low["links"] if row[1] == "h1->s1" and row[2] == "high"]
    assert models[-1][3] > 1.5 * beside[-1][3]


def test_a_server_answers_each_worker_in_its_own_band() -> None:
    plan = JobPlan(
        name="job", aggregation="parameter-server", workers=2, servers=1, layers=(Layer(8, 1, 1),),
        fusion_byte=8, barrier=True, start_ns=0, steps=1, check=False,
        bands=tuple(BAND_TOS), band="low", control_band="high",
        steered_by={"policy": "slack-aware", "options": {}},
    )  # fmt: skip
    network = ToyNetwork(plan)
    network.ranks[1].change_band("high")  # type: ignore[union-attr]
    network.run()
    assert network.worlds[1].bands == {None: "high"}
    assert network.worlds[2].bands == {1: "high"}


def passed_byte(folder: Path, band: str) -> int:
    links = pd.read_parquet(folder / "links.parquet")
    return int(links[links["class"] == band].groupby("link")["bytes"].max().sum())


@pytest.mark.virtual
@pytest.mark.parametrize("settings", [(), SERVED], ids=["ring", "servers"])
def test_on_a_live_network_sockets_change_their_band_the_same_way_every_time(
    pressing: Path, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    two = "policies=[strict-priority, slack-aware]"
    first = live(pressing, tmp_path / "first", (*settings, two))
    second = live(pressing, tmp_path / "second", (*settings, "policies=[slack-aware]"))
    low, steered = first / "strict-priority" / "seed-0", first / "slack-aware" / "seed-0"
    transfers = pd.read_parquet(steered / "transfers.parquet")
    assert bands_of(transfers) == {1, 2}
    assert passed_byte(steered, "low") > 0
    # Besides the flows, some of training.
    flows_byte = passed_byte(low, "high")
    assert passed_byte(steered, "high") + passed_byte(steered, "middle") > 1.1 * flows_byte
    for name in ("flows", "iterations", "transfers", "links"):
        again = second / "slack-aware" / "seed-0" / f"{name}.parquet"
        assert again.read_bytes() == (steered / f"{name}.parquet").read_bytes()


def live(experiment: Path, out: Path, settings: tuple[str, ...]) -> Path:
    changes = [word for setting in settings for word in ("--set", setting)]
    done = giveway("run", experiment, "--engine", "virtual", "--out", out, *changes, limit_s=400)
    assert done.returncode == 0, done.stderr
    return out


# ---- real training stacks


def of_a_stack(journal: Path, **told: float) -> StackConfig:
    return StackConfig(
        job="job",
        rank=0,
        addresses=["127.0.0.1", "127.0.0.1"],
        device="lo",
        port=0,
        priority=2,
        layers=[(MS, 10 * MS, 20 * MS), (MS, 30 * MS, 40 * MS)],
        fusion_byte=MS,
        check=False,
        dilation=1.0,
        duration_ns=10**9,
        journal=str(journal),
        steered_by=json.loads(json.dumps(POLICY.told(told).plain())),
    )


def test_a_worker_elsewhere_has_the_options_of_the_file(tmp_path: Path) -> None:
    settings = of_a_stack(tmp_path / "journal", tolerance=0.5)
    agent = StackSteering(settings, Recorder(settings))
    with socket.create_server(("127.0.0.1", 0)) as door:
        agent.look(145 * MS)  # 45 late, of an iteration of 100
        assert tos_of(door) == 0
        agent.look(151 * MS)
        assert tos_of(door) == BAND_TOS["middle"]


def test_an_agent_moves_the_sockets_of_its_own_process_and_back(tmp_path: Path) -> None:
    """No torch here: the agent sees what a framework's recorder has, and nothing else."""
    settings = of_a_stack(tmp_path / "journal")
    recorder = Recorder(settings)
    agent = StackSteering(settings, recorder)
    with socket.create_server(("127.0.0.1", 0)) as door:
        assert agent.period_ns == MS
        agent.look(0)
        assert tos_of(door) == 0
        agent.look(110 * MS)  # both gradients should be there since 100
        assert tos_of(door) == BAND_TOS["middle"]
        recorder.transfer(Transfer((0, 1), 2 * MS, 100 * MS, 119_900_000, 120 * MS))
        agent.look(120 * MS)
        assert tos_of(door) == BAND_TOS["middle"]  # others may still wait for what it has sent
        recorder.iteration(0, 120 * MS, 100 * MS)
        agent.look(130 * MS)  # the next iteration has its own gradients, due at 220
        assert tos_of(door) == BAND_TOS["low"]
    recorder.close()
    assert '"transfers","job",0,0,0,0,2,2000000,1,' in (tmp_path / "journal").read_text()
