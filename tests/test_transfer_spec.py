"""What experiment files say of transfers, and what is wrong with it in one line."""

import fcntl
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from basics.errors import BadInput
from testbed.engine import Run
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.job_plans import job_plan
from testbed.spec import Experiment, load
from testbed.spec.transfer import TransferChoice
from workloads.connection import UNSENT_BYTE, Connection
from workloads.loop import Clock, Loop
from workloads.profiles import Layer, Profile

SERVERS = """
name: servers
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 300 ms
training:
  - {name: ps, profile: resnet32-cpu, model: 300 kB, iteration: 20 ms, transfer: p3, barrier: false,
     aggregation: parameter-server, servers: 2, servers_on: [h1, h2], workers: [h1, h2, h3]}
policies: [fifo, strict-priority]
seeds: [0]
"""
RING = """
name: ring
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 300 ms
training:
  - {name: job, profile: resnet50-thesis, model: 300 kB, iteration: 20 ms}
policies: [fifo]
seeds: [0]
"""
SIOCOUTQNSD = 0x894B  # bytes that TCP has taken and not sent


def loaded(tmp_path: Path, text: str, *settings: str) -> Experiment:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    return load(path, settings)


@pytest.mark.parametrize(
    ("text", "setting", "says"),
    [
        (SERVERS, "training.0.transfer={policy: p3, partition: 0 B}", "must be a size, 1 B to"),
        (SERVERS, "training.0.transfer={policy: p3, partition: 3}", "partition: "),
        (SERVERS, "training.0.transfer=p4", "found 'p4', an unknown transfer policy"),
        (SERVERS, "training.0.transfer={policy: p3, credits: 1 MB}", "did you mean credit"),
        (SERVERS, "training.0.order=fifo", "training.0.order: found beside transfer"),
        (SERVERS, "training.0.check=true", "sums are checked of whole models"),
        (SERVERS, "training.0.update=fast", "bytes a second, like 2.6 GB/s"),
        (SERVERS, "training.0.update=0 GB/s", "bytes a second, like 2.6 GB/s"),
        (SERVERS, "transfers=[fifo, fifo]", "transfers.1.label: found 'fifo' twice"),
        (SERVERS, "transfers=[nothing]", "transfers.0.policy: found 'nothing', an unknown"),
        (SERVERS, "policies.0={policy: fifo, transfer: p4}", "an unknown transfer policy"),
        (RING, "training.0.groups=any", "an unknown kind of groups"),
        (RING, "training.0.update=1 GB/s", "found beside aggregation: ring"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    text: str, setting: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(tmp_path, text, setting)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 2


def test_tac_needs_to_know_how_long_layers_compute() -> None:
    layers = (Layer(1000, 0, 500_000), Layer(1000, 0, 500_000))
    untimed = Profile("untimed", "nobody", layers, 2000, 10**6)
    tac, tic = TransferChoice.named("tac"), TransferChoice.named("tic")
    fault = tac.fault(untimed, checks_models=False)
    assert fault == "found tac, which weighs compute; untimed has no times"
    assert tic.fault(untimed, checks_models=False) is None


def test_policies_are_crossed_with_transfers_and_claims_name_both(tmp_path: Path) -> None:
    claim = "claims=[{metric: training.ps.iteration_mean, of: fifo+p3, value: at most 1 s}]"
    found = loaded(tmp_path, SERVERS, "transfers=[fifo, {policy: p3, label: small}]")
    labels = [choice.label for choice in found.choices]
    assert labels == ["fifo+fifo", "fifo+small", "strict-priority+fifo", "strict-priority+small"]
    titles = [one["title"] for one in found.plan("fluid", "test")["policies"]]
    assert titles[:2] == ["FIFO + FIFO", "FIFO + small"]
    [kept] = found.only(["strict-priority+small"]).choices
    assert (kept.policy, kept.transfer and kept.transfer.policy) == ("strict-priority", "p3")
    some = found.only(["strict-priority+small"])
    assert loaded(tmp_path, some.to_yaml()) == some
    assert loaded(tmp_path, SERVERS, "transfers=[fifo, p3]", claim).claims
    with pytest.raises(BadInput, match=r"fifo\+p3"):
        loaded(tmp_path, SERVERS, claim)


def test_a_report_says_what_each_half_of_an_arm_does(tmp_path: Path) -> None:
    asked = "policies=[{policy: first-bytes, fair: 1}, {policy: tensorlights-rr, period: 1 s}]"
    crossed = "transfers=[fifo, {policy: bytescheduler, partition: 400 kB}]"
    found = loaded(tmp_path, SERVERS, asked, crossed).plan("fluid", "test")["policies"]
    first, parts, turns = (found[at]["description"] for at in (0, 1, 2))
    assert first.endswith(" (fair 1); transfers: in the order in which gradients become ready")
    assert parts.endswith("as many on their way as the credit allows (partition 400 kB)")
    assert turns.count("1 s") == 1  # a policy that acts says its period itself


def test_a_credit_below_a_part_is_said_once_and_a_partition_above_the_model_is_one_part(
    tmp_path: Path,
) -> None:
    setting = "training.0.transfer={policy: bytescheduler, partition: 1 GB, credit: 10 B}"
    found = loaded(tmp_path, SERVERS, setting, "policies=[fifo, prio]")
    [said] = found.notes
    assert "credit 10 B is below a part of" in said
    plan = job_plan(Run(found, found.choices[0], 0, "test"), found.training[0])
    assert [len(parts) for parts in plan.parts_of] == [1] * len(plan.layers)
    assert not loaded(tmp_path, SERVERS).notes


def played(found: Experiment) -> Records:
    records = Records()
    run = Run(found, found.choices[0], 0, "test")
    fluid.perform(run, fluid.settle(found, print, "test"), records, lambda time_ns: None)
    return records


def iterations(records: Records) -> Sequence[object]:
    return records.tables["iterations"]


@pytest.mark.parametrize("policy", ["fifo", "p3", "bytescheduler", "tac", "random"])
def test_the_simulation_plays_servers_beside_workers(policy: str, tmp_path: Path) -> None:
    records = played(loaded(tmp_path, SERVERS, f"training.0.transfer={policy}"))
    assert len(iterations(records)) >= 6
    carried = records.tables["links"][-1]
    assert carried


def test_several_transfers_of_a_ring_are_on_their_way_at_once(tmp_path: Path) -> None:
    choice = "training.0.transfer={policy: bytescheduler, partition: 5 kB, credit: 20 kB}"
    records = played(loaded(tmp_path, RING, choice))
    assert len(iterations(records)) >= 6
    spans = [(row[9], row[10], row[6]) for row in records.tables["transfers"] if row[1] == 0]
    most = max(
        sum(byte for start, end, byte in spans if start <= moment < end) for moment, *_ in spans
    )
    assert 5_000 < most < 25_000


def test_the_kernel_takes_no_more_than_the_bound_beyond_what_it_can_send() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        ours = socket.create_connection(door.getsockname())
        theirs, _ = door.accept()
    handed: list[int] = []
    unsent = []
    for bound in (True, False):
        connection = Connection(ours, Loop(Clock(0, 1.0)), lambda _: None, pytest.fail)
        if bound:
            connection.bound_unsent(UNSENT_BYTE)
        else:
            connection.bound_unsent(1 << 30)
        connection.send(0, 64_000_000, sent=lambda: handed.append(1))
        waiting = fcntl.ioctl(ours.fileno(), SIOCOUTQNSD, b"\0" * 4)
        unsent.append(struct.unpack("i", waiting)[0])
    theirs.close()
    ours.close()
    assert handed == []
    assert unsent[0] <= UNSENT_BYTE + (1 << 16)
    assert unsent[1] > unsent[0]
