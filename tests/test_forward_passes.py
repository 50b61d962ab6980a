"""Reads: jobs of forward passes alone, which push nothing, and TicTac's gate in training."""

from pathlib import Path

import pytest

from basics.errors import BadInput
from testbed.engine import Run
from testbed.job_plans import job_plan
from tests.test_transfer import EXAMPLE, UNIT, job, lengths, played
from tests.test_transfer_spec import RING, SERVERS, loaded
from workloads.server import REQUEST_BYTE


def test_reads_in_order_take_what_they_must() -> None:
    """Reads of 3, 6 and 3 units, one after another; each pass of 2 begins when its own is here."""
    network = played(job("tic", reads=True))
    made = lengths(network)
    assert made[1:] == [14 * UNIT + REQUEST_BYTE] * (len(made) - 1)


def test_nothing_but_questions_goes_to_servers() -> None:
    plan = job("tac", servers=2, workers=3, reads=True, staleness=None, steps=4)
    network = played(plan)
    up = sum(byte for (source, _), byte in network.carried.items() if source < plan.workers)
    down = sum(byte for (source, _), byte in network.carried.items() if source >= plan.workers)
    assert up == 4 * 3 * len(EXAMPLE) * REQUEST_BYTE
    assert down == 4 * 3 * sum(layer.bytes for layer in EXAMPLE)
    phases = {row[4] for row in network.rows if row[0] == "computes"}
    assert phases == {"forward"}


def test_a_barrier_waits_for_the_whole_model() -> None:
    made = lengths(played(job("tic", reads=True, barrier=True)))
    assert made[1:] == [(12 + 6) * UNIT + REQUEST_BYTE] * (len(made) - 1)


def test_the_file_says_it_and_the_plan_has_forward_times_alone(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, SERVERS, "training.0.passes=forward")
    plan = job_plan(Run(experiment, experiment.choices[0], 0, "test"), experiment.training[0])
    assert plan.reads
    assert sum(layer.backward_ns for layer in plan.layers) == 0
    [planned] = experiment.plan("fluid", "test")["jobs"]
    assert planned["compute_ns"] == sum(layer.forward_ns for layer in plan.layers)
    assert len(planned["moves_ns"]) == 1
    [both] = loaded(tmp_path, SERVERS).plan("fluid", "test")["jobs"]
    assert both["moves_ns"] == planned["moves_ns"] * 2


@pytest.mark.parametrize(
    ("text", "settings", "says"),
    [
        (RING, ["training.0.passes=forward"], "parameter-server jobs with transfer"),
        (SERVERS, ["training.0.passes=backward"], "did you mean forward"),
        (SERVERS, ["training.0.passes=forward", "training.0.update=1 MB/s"], "updates nothing"),
    ],
)
def test_where_it_does_not_fit_one_line_says_so(
    tmp_path: Path, text: str, settings: list[str], says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        loaded(tmp_path, text, *settings)


def test_training_under_a_gate_reads_nothing_before_its_backward_pass_is_over() -> None:
    network = played(job("random"))
    backward = {
        int(row[3]): int(row[7])
        for row in network.rows
        if row[0] == "computes" and row[4:6] == ("backward", 0)
    }
    transfers = [row for row in network.rows if row[0] == "transfers"]
    for row in transfers:
        assert int(row[11]) >= backward[int(row[3])] + int(row[7])  # its bytes, one a nanosecond
    assert transfers
