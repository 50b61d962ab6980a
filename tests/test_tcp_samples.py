"""`sample: tcp`: what TCP knew of every connection, bounded, and without changing the run."""

import json
import socket
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from basics.errors import BadInput
from testbed.spec import load
from tests.conftest import giveway
from workloads import tcp_samples
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.tcp_samples import TcpSamples, numbers

RACK = """
name: rack
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: 10 us, queue: 60 packets}
duration: 300 ms
training:
  - {name: ring, profile: resnet50-thesis, model: 2 MB, iteration: 40 ms, fusion: 500 kB}
flows:
  - {name: web, sizes: web-search, scale: 0.05, arrivals: 100 per second per host}
policies: [fifo]
seeds: [0]
"""


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        sender = socket.create_connection(door.getsockname())
        return sender, door.accept()[0]


def test_what_a_connection_has_under_way_is_in_its_numbers() -> None:
    sender, receiver = pair()
    with sender, receiver:
        assert numbers(sender, 1.0) is None  # nothing is under way
        sender.setblocking(False)
        handed = sender.send(bytes(8_000_000))
        found = numbers(sender, 1.0)
        assert found is not None
        acked, sacked, in_flight, unsent, cwnd, *_ = found
        assert handed - 3 <= acked + sacked + in_flight + unsent <= handed + 3
        assert unsent > 0  # nobody reads
        assert cwnd > 0
    assert numbers(sender, 1.0) is None


def test_samples_are_bounded_and_still_of_the_whole_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tcp_samples, "MOST_ROWS", 20)
    sender, receiver = pair()
    loop = Loop(Clock(time.monotonic_ns()))
    samples = TcpSamples(loop, "tcp_of_flows", 500_000)
    with sender, receiver:
        sender.setblocking(False)
        sender.send(bytes(8_000_000))
        samples.add((7,), sender)
        loop.at(100_000_000, loop.stop)
        loop.run()
    with Journal(tmp_path / "journal") as journal:
        samples.write(journal)
    rows = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    times = [row[1] for row in rows]
    assert 5 <= len(rows) <= 20
    assert {row[2] for row in rows} == {7}
    assert min(times) < 40_000_000 < 60_000_000 < max(times)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("sample=udp", "sample.udp: unknown key"),
        ("sample={tcp: 1 us}", "sample.tcp: found '1 us'; it must be 10 us to 1 s"),
        ("sample={tcp: 1}", "sample.tcp: found 1"),
        ("sample={tcp: 1 s}", "sample.tcp: found 1 s, and the run is over before that"),
        ("sample={}", "sample.tcp: missing"),
    ],
)
def test_what_cannot_be_sampled_is_refused(setting: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "rack.yaml").write_text(RACK)
    with pytest.raises(BadInput, match=says.replace("{", "\\{")):
        load(tmp_path / "rack.yaml", [setting])


def test_a_stack_of_others_keeps_its_connections_to_itself(tmp_path: Path) -> None:
    text = RACK.replace("fusion: 500 kB", "fusion: 500 kB, backend: torch")
    (tmp_path / "rack.yaml").write_text(text)
    assert load(tmp_path / "rack.yaml", ["sample=tcp"]).sample_ns == 1_000_000  # of the flows
    with pytest.raises(BadInput, match="sample: found tcp, but there are no flows and no native"):
        load(tmp_path / "rack.yaml", ["sample=tcp", "flows=[]"])


# On the virtual engine


def played(folder: Path, name: str, *more: str) -> Path:
    (folder / "rack.yaml").write_text(RACK)
    done = giveway(
        "run", folder / "rack.yaml", "--engine", "virtual", "--out", folder / name, *more
    )
    assert done.returncode == 0, done.stderr
    return folder / name / "fifo" / "seed-0"


@pytest.mark.virtual
@pytest.mark.timeout(300)
def test_a_sampled_run_is_the_same_to_the_nanosecond(tmp_path: Path) -> None:
    plain = played(tmp_path, "plain")
    sampled = played(tmp_path, "sampled", "--set", "sample={tcp: 200 us}")
    for table in ("flows", "iterations", "transfers", "acknowledged"):
        one, other = (pd.read_parquet(run / f"{table}.parquet") for run in (plain, sampled))
        assert len(one)
        pd.testing.assert_frame_equal(one, other)
    assert pd.read_parquet(plain / "tcp.parquet").empty
    check_samples(sampled)
    check_acknowledgements(sampled)


def check_samples(run: Path) -> None:
    tcp = pd.read_parquet(run / "tcp.parquet")
    assert set(tcp["tenant"]) == {"web", "ring"}
    assert (tcp["flow"].notna() == (tcp["tenant"] == "web")).all()
    assert (tcp["rank"].notna() == (tcp["tenant"] == "ring")).all()
    assert tcp["time_ns"].is_monotonic_increasing
    for column in ("cwnd_byte", "window_byte", "srtt_ns"):
        assert (tcp[column] > 0).all(), column
    flows = pd.read_parquet(run / "flows.parquet").set_index("flow")
    for flow, rows in tcp[tcp["flow"].notna()].groupby("flow"):
        assert rows["time_ns"].min() >= flows["start_ns"][flow]
        assert rows["acked_byte"].is_monotonic_increasing
        carried = rows[["acked_byte", "sacked_byte", "in_flight_byte", "unsent_byte"]].sum(axis=1)
        assert carried.max() <= flows["size_byte"][flow] + 3 * 1448


def check_acknowledgements(run: Path) -> None:
    """A sender hears of the last byte when its acknowledgement has come back, not before."""
    flows = pd.read_parquet(run / "flows.parquet").set_index("flow")
    acked = pd.read_parquet(run / "acknowledged.parquet").set_index("flow")["acked_ns"]
    assert 0.9 * flows["end_ns"].notna().sum() <= len(acked) <= flows["end_ns"].notna().sum()
    back_ns = acked - flows["end_ns"].loc[acked.index]
    assert back_ns.min() >= 20_000  # two links of 10 us
    assert np.median(back_ns) < 2_000_000
