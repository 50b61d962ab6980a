"""On the kernel's own TCP: a part that comes first overtakes all but what the kernel has taken."""

from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import giveway
from workloads.connection import UNSENT_BYTE

pytestmark = pytest.mark.virtual

PART_BYTE, WINDOW_BYTE = 160_000, 64_000
BUFFER_BYTE = 1 << 16  # that the kernel may be filling when it has enough
EXPERIMENT = """
name: overtaking
topology: {kind: tor, hosts: 2, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 1 s
tcp: {window: 64 kB}
training:
  - {name: job, profile: bytescheduler-example, aggregation: parameter-server, servers: 1,
     workers: [h1], servers_on: [h2], barrier: false, transfer: p3, steps: 3}
policies: [fifo]
transfers: [{policy: fifo, partition: 160 kB}, p3]
seeds: [0]
"""


def test_a_part_that_comes_first_waits_for_no_more_than_the_kernel_has_taken(
    tmp_path: Path,
) -> None:
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    out = tmp_path / "out"
    done = giveway("run", tmp_path / "experiment.yaml", "--engine", "virtual", "--out", out)
    assert done.returncode == 0, done.stderr
    waits_ns = {}
    for arm in ("fifo+fifo", "fifo+p3"):
        sent = pd.read_parquet(out / arm / "seed-0" / "transfers.parquet")
        wait_ns = (sent.end_ns - sent.ready_ns)[sent.first_layer == 0]
        first_back_ns = wait_ns.groupby(sent.iteration).min()
        assert len(first_back_ns) >= 2
        waits_ns[arm] = first_back_ns.max()
    # Layer 0 is ready while 6 MB of layer 1 are on their way: 51 ms.
    # There: the part that is being handed over, what is unsent, what is under way, and itself.
    # Back: itself, and what is left of the part before it.
    bound_byte = 4 * PART_BYTE + UNSENT_BYTE + BUFFER_BYTE + WINDOW_BYTE
    assert waits_ns["fifo+p3"] <= bound_byte * 8 * 1514 / 1448
    assert waits_ns["fifo+fifo"] > 4 * waits_ns["fifo+p3"]
