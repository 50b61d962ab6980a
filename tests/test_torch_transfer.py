"""Transfer policies below PyTorch's DDP: real Gloo over loopback, and where buckets are cut."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import BadInput
from testbed.spec import load
from tests.conftest import REPOSITORY, giveway
from workloads.gloo_parts import NUMBER_BYTE, chunk_of, cuts
from workloads.stack_worker import Recorder, StackConfig, Transfer

SMOKE = REPOSITORY / "experiments" / "smoke-torch.yaml"
# What tests/ddp_ranks.py trains; it is not imported here, because it imports torch.
NUMBERS = 1 + 300 + 5_000 + 40_001 + 7 + 20_000
STEPS = 4


@given(
    numbers=st.integers(1, 3_000_000),
    ranks=st.integers(2, 9),
    partition_byte=st.integers(1, 20_000_000),
)
def test_parts_hold_every_number_once_in_the_chunk_that_it_has_in_the_bucket(
    numbers: int, ranks: int, partition_byte: int
) -> None:
    chunk = chunk_of(numbers, ranks)
    assert chunk * ranks >= numbers
    found = cuts(numbers, ranks, max(partition_byte, numbers * NUMBER_BYTE // 200))
    assert [one.start for one in found] == [0, *(one.end for one in found[:-1])]
    assert found[-1].end == chunk
    assert sum(one.byte for one in found) == numbers * NUMBER_BYTE
    for one in found:
        assert one.byte > 0
        assert one.room >= one.end - one.start
        assert chunk_of(ranks * one.room, ranks) == one.room, "Gloo's chunks are the rows"


def test_a_bucket_below_the_partition_is_one_part_and_one_above_it_even_parts() -> None:
    [whole] = cuts(1_000, 4, 4_000)
    assert whole.byte == 4_000
    sizes = [one.byte for one in cuts(1_000_000, 4, 160_000)]
    assert len(sizes) == 25
    assert max(sizes) - min(sizes) <= 4 * 4


def ranks_play(play: str, ranks: int, folder: Path, transfer: Any) -> list[dict[str, Any]]:
    """What every rank printed; all but those that died."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.ddp_ranks", play]
    told = [str(ranks), str(port), str(folder), json.dumps(transfer)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), *told],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        lines = [process.stdout.readline() for process in processes if process.stdout]
        return [json.loads(line) for line in lines if line]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.torch
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("ranks", "policy", "options"),
    [
        (2, "fifo", {}),
        (2, "bytescheduler", {"partition": 30_000, "credit": 70_000}),
        (3, "random", {"partition": 40_000, "credit": 50_000}),
        (4, "p3", {"partition": 16_000}),
    ],
)
def test_parts_give_the_bits_of_plain_ddp(
    ranks: int, policy: str, options: dict[str, int], tmp_path: Path
) -> None:
    told = ranks_play("trains", ranks, tmp_path, {"policy": policy, "options": options})
    assert [one["differing"] for one in told] == [0] * ranks
    assert (told[0]["sliced"] == 0) == (ranks == 2), "plain slices would do for two ranks alone"
    for one in told:
        assert one["transfers"] == told[0]["transfers"], "every rank begins the same parts"
        assert sum(byte for _, byte in one["transfers"]) == STEPS * NUMBERS * NUMBER_BYTE
    largest = max(byte for _, byte in told[0]["transfers"])
    assert largest <= options.get("partition", NUMBERS * NUMBER_BYTE)


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_what_is_wanted_first_overtakes_and_all_ranks_keep_the_order(tmp_path: Path) -> None:
    options = {"partition": 20_000, "credit": 20_001}
    told = ranks_play("overtakes", 2, tmp_path, {"policy": "bytescheduler", "options": options})
    for one in told:
        assert one["sums"] == [2_000, 800_000]
        assert one["transfers"] == told[0]["transfers"]
        layers = [tuple(layers) for layers, _ in one["transfers"]]
        assert len(layers) == 81
        assert layers.index((0,)) < 40, "it came when most of the other bucket was waiting"
        assert layers.count((0,)) == 1


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_a_peer_that_dies_ends_the_wait(tmp_path: Path) -> None:
    told = ranks_play("loses_one", 3, tmp_path, {"policy": "p3", "options": {}})
    assert len(told) == 2
    assert all(one["said"] for one in told)


def test_layers_are_exchanged_when_their_last_part_is(tmp_path: Path) -> None:
    settings = StackConfig(
        job="job",
        rank=0,
        addresses=["127.0.0.1"] * 2,
        device="lo",
        port=0,
        priority=0,
        layers=[(100, 0, 0), (100, 0, 0)],
        fusion_byte=100,
        check=False,
        dilation=1.0,
        duration_ns=10**9,
        journal=str(tmp_path / "journal"),
    )
    recorder = Recorder(settings)
    recorder.transfer(Transfer((1,), 50, 0, 10, 20, completes=False))
    assert recorder.exchanges()[1:] == (frozenset(), [(50, 10)])
    recorder.transfer(Transfer((1,), 50, 0, 20, 40))
    assert recorder.exchanges()[1:] == (frozenset({1}), [(50, 20)])
    recorder.close()


# What files say


HOROVOD = REPOSITORY / "experiments" / "smoke-horovod.yaml"


@pytest.mark.parametrize(
    "choice", ["p3", "layer", "{policy: fifo, partition: 1 MB}", "{policy: fifo, credit: 1 MB}"]
)
@pytest.mark.parametrize("key", ["training.0.transfer=%s", "transfers=[%s]"])
def test_horovod_sends_whole_tensors_as_they_become_ready(key: str, choice: str) -> None:
    with pytest.raises(BadInput, match="backend: horovod, which has no parts") as caught:
        load(HOROVOD, [key % choice])
    assert len(str(caught.value).splitlines()) == 1
    load(HOROVOD, [key % "fifo"])


def test_buckets_are_told_beside_any_transfer(tmp_path: Path) -> None:
    found = load(SMOKE, ["training.0.transfer=p3"])
    assert found.training[0].fusion_byte == 250_000
    path = tmp_path / "resolved.yaml"
    path.write_text(found.to_yaml())
    assert load(path) == found


def test_a_credit_below_a_part_of_a_bucket_is_said() -> None:
    choice = "{policy: bytescheduler, partition: 100 kB, credit: 50 kB}"
    [said] = load(SMOKE, [f"transfers=[{choice}]"]).notes
    assert "credit 50 kB is below a part of 83.3" in said


# A whole run


@pytest.mark.virtual
@pytest.mark.torch
@pytest.mark.timeout(400)
def test_a_real_stack_sends_its_buckets_in_parts(tmp_path: Path) -> None:
    """Its numbers are checked against one process as it runs (check: true)."""
    out = tmp_path / "out"
    settings = (
        "transfers=[{policy: p3, partition: 40 kB}]",
        "policies=[strict-priority]",
        "duration=700 ms",
        "warmup=100 ms",
    )
    changes = [word for setting in settings for word in ("--set", setting)]
    done = giveway("run", SMOKE, "--engine", "virtual", "--out", out, *changes, limit_s=380)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = out / "strict-priority+p3" / "seed-0"
    transfers = pd.read_parquet(folder / "transfers.parquet")
    settled = transfers[transfers.iteration == 2]
    layers = load(SMOKE).training[0].scaled_profile.layers
    model_byte = sum(-(-layer.bytes // NUMBER_BYTE) * NUMBER_BYTE for layer in layers)
    assert set(settled.groupby("worker").bytes.sum()) == {model_byte}
    assert settled.bytes.max() <= 40_000
    begun = [
        list(rows.sort_values("start_ns").first_layer) for _, rows in settled.groupby("worker")
    ]
    assert len(begun) == 4
    assert begun == [begun[0]] * 4
    links = pd.read_parquet(folder / "links.parquet")
    at_hosts = links[links.link.str.startswith("h")]
    carried = at_hosts.groupby(["link", "class"]).bytes.max().unstack()
    rounds = pd.read_parquet(folder / "iterations.parquet").iteration.max() + 1
    assert (carried["low"] > 0.9 * rounds * 1.5 * model_byte).all(), "all of it is marked"
