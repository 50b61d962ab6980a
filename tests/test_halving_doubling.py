"""A collective that is one file, played in every world and on a rack with real numbers."""

from pathlib import Path

import pandas as pd
import pytest

from basics.errors import BadInput
from testbed.engine import Run
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.spec import Experiment, load
from tests.conftest import giveway
from tests.toy_world import ToyNetwork
from workloads.collectives.halving_doubling import part
from workloads.job_plan import JobPlan
from workloads.profiles import Layer

RACK = """
name: halving
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: about 10 us, queue: 1000 packets}
duration: 400 ms
training:
  - {name: job, profile: resnet50-thesis, model: 1 MB, iteration: 50 ms, fusion: 200 kB,
     aggregation: halving-doubling, check: true, steps: 4}
policies: [fifo]
seeds: [0]
"""


def rack(folder: Path, *settings: str) -> Experiment:
    (folder / "my.yaml").write_text(RACK)
    return load(folder / "my.yaml", settings)


def test_partners_are_half_a_group_apart_then_a_quarter() -> None:
    assert [send.to for send in part(0, 8).sends] == [4, 2, 1, 1, 2, 4]
    assert [send.blocks[1] for send in part(5, 8).sends] == [4, 2, 1, 1, 2, 4]


def test_on_links_that_are_numbers_it_takes_as_long_as_its_bytes() -> None:
    """2 (N-1)/N of 1,200 bytes at a byte a nanosecond, after 12 ns of compute."""
    plan = JobPlan(
        name="job", aggregation="halving-doubling", workers=4, layers=(Layer(1200, 5, 7),),
        fusion_byte=10**6, barrier=True, start_ns=0, steps=1, check=False,
        bands=("all",), band="all",
    )  # fmt: skip
    network = ToyNetwork(plan)
    for rank in network.ranks:
        network.at(0, rank.begin)  # type: ignore[union-attr]
    network.run()
    assert [row[5] for row in network.rows if row[0] == "iterations"] == [12 + 1800] * 4


def test_the_simulation_plays_it_like_any_other(tmp_path: Path) -> None:
    iteration_ns = {}
    for aggregation in ("halving-doubling", "ring"):
        experiment = rack(
            tmp_path, f"training.0.aggregation={aggregation}", "training.0.check=false"
        )
        records = Records()
        run = Run(experiment, experiment.policies[0], 0, "test00")
        setting = fluid.settle(experiment, print, "test00")
        fluid.perform(run, setting, records, lambda time_ns: None)
        rows = records.tables["iterations"]
        assert len(rows) == 4 * 4
        iteration_ns[aggregation] = sum(row[4] - row[3] for row in rows) / len(rows)
    # The same bytes, in fewer and larger messages.
    assert iteration_ns["halving-doubling"] == pytest.approx(iteration_ns["ring"], rel=0.05)


@pytest.mark.virtual
def test_real_numbers_are_summed_on_a_virtual_rack(tmp_path: Path) -> None:
    rack(tmp_path)
    out = tmp_path / "out"
    done = giveway("run", tmp_path / "my.yaml", "--engine", "virtual", "--out", out, limit_s=300)
    assert done.returncode == 0, done.stderr
    iterations = pd.read_parquet(out / "fifo" / "seed-0" / "iterations.parquet")
    assert iterations.groupby("worker").size().to_dict() == dict.fromkeys(range(4), 4)


def test_a_group_that_is_no_power_of_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"found 3 workers; halving-doubling needs a power of two"):
        rack(tmp_path, "training.0.workers=3")
