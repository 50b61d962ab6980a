"""A worker that dies while parts of its tensors are on their way ends the run, with its name."""

import os
import signal
from pathlib import Path

import pytest

from tests.test_realtime import Going

# 20 MB at 200 Mbit/s: slices are on their way for most of a second before the first are back.
SLICED = """
name: sliced
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: about 10 us, queue: 100 packets}
duration: 30 s
training:
  - {name: ps, profile: resnet32-cpu, model: 20 MB, iteration: 20 ms, barrier: false,
     aggregation: parameter-server, servers_on: [h1], workers: [h2, h3],
     transfer: {policy: p3, partition: 16 kB}}
policies: [fifo]
seeds: [0]
dilation: 1
"""


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_a_worker_that_dies_amid_slices_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(SLICED)
    going = Going(tmp_path / "my.yaml", tmp_path / "out")
    os.kill(going.task("jobs-h2.log"), signal.SIGKILL)
    code, errors = going.ends_within(60)
    assert code == 4
    assert "jobs-h2 was killed by signal 9" in errors or "ps: lost worker 0" in errors
