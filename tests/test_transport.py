"""Transport is a setting: control, windows, timeouts; and receivers do not change what TCP does."""

import json
import socket
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import BadInput, CannotRun
from bench import neutral_receivers
from testbed.engine import Wiring
from testbed.live.transport import demand_timers, held, settings
from testbed.spec import load
from testbed.spec.transport import CONTROLS, LARGEST_WINDOW_BYTE, Transport
from tests.conftest import giveway
from workloads import sockets

PORT = """
name: port
topology: {{kind: tor, hosts: 8, rate: 1 Gbit/s, delay: 10 us, queue: {queue} packets}}
duration: 700 ms
flows: [{{name: flows, schedule: flows.csv}}]
policies: [fifo]
seeds: [0]
"""
LONG = "0,h1,h8,6000000\n0,h2,h8,6000000\n30000000,h3,h8,2000\n"
INCAST = "".join(f"{at * 1000},h{at % 7 + 1},h8,{30000 + 1000 * at}\n" for at in range(28))


@given(
    st.sampled_from(CONTROLS),
    st.none() | st.integers(4096, LARGEST_WINDOW_BYTE),
    st.none() | st.integers(1, 60 * 10**9),
)
def test_what_is_written_is_read_back(control: str, window: int | None, rto: int | None) -> None:
    asked = Transport(control=control)
    asked = asked.model_copy(update={"window_byte": window, "rto_min_ns": rto})
    assert Transport.model_validate(asked.plain()) == asked


@pytest.mark.parametrize(
    ("tcp", "says"),
    [
        ("{window: 2 GB}", "tcp.window: found '2 GB'"),
        ("{window: 1 B}", "tcp.window: found '1 B'"),
        ("{rto_min: 0 ms}", "tcp.rto_min: found '0 ms'"),
        ("{rto_min: 2 h}", "tcp.rto_min: found '2 h'"),
        ("{controls: reno}", "tcp.controls: unknown key"),
    ],
)
def test_what_tcp_cannot_be_is_refused(tcp: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "port.yaml").write_text(PORT.format(queue=100))
    (tmp_path / "flows.csv").write_text("start_ns,src,dst,size_byte\n" + LONG)
    with pytest.raises(BadInput, match=says.replace("{", "\\{")):
        load(tmp_path / "port.yaml", [f"tcp={tcp}"])


@pytest.mark.parametrize(
    ("setting", "engine", "code"),
    [
        ("tcp={window: 2 GB}", "fluid", 2),
        ("tcp={window: 2 GB}", "virtual", 2),
        ("policies=[{policy: first-bytes, threshold: 0 kB}]", "fluid", 2),
        ("policies=[{policy: first-bytes, second_threshold: 0 B}]", "fluid", 2),
        ("policies=[{policy: slack-aware, threshold: 0 kB}]", "fluid", 2),
        ("flows.0.pairs=incast 8", "fluid", 2),
        ("sample=tcp", "fluid", 3),
        pytest.param("tcp={rto_min: 1 us}", "virtual", 3, marks=pytest.mark.virtual),
    ],
)
def test_bad_input_is_one_line_and_a_code(
    setting: str, engine: str, code: int, tmp_path: Path
) -> None:
    flows = "{name: flows, sizes: web-search, arrivals: 10 per second per host}"
    text = PORT.format(queue=100).replace("{name: flows, schedule: flows.csv}", flows)
    (tmp_path / "port.yaml").write_text(text)
    told = ("--engine", engine, "--out", tmp_path / "out", "--set", setting)
    done = giveway("run", tmp_path / "port.yaml", *told)
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert setting.split("=")[0].split(".")[0] in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_dilated_clock_has_finer_ticks() -> None:
    wiring = Wiring(dilation=10, rto_min_ns=1_000_000)
    demand_timers(wiring, 4_000_000, "this kernel")
    assert settings(wiring) == {"tcp_rto_min_us": "10000"}
    assert held(wiring, 4_000_000)["tcp_rto_min_ns"] == 1_200_000
    with pytest.raises(CannotRun, match="below a tick of this kernel, 4 ms"):
        demand_timers(Wiring(rto_min_ns=1_000_000), 4_000_000, "this kernel")


def test_only_the_virtual_kernel_drops_bytes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "drains", True)
    with socket.socket() as sock:
        assert sockets.drain(sock, 1_000_000) == 0
    assert not sockets.drains


# On the virtual engine


@pytest.mark.virtual
def test_receivers_leave_tcp_as_prompt_ones_do() -> None:
    first, *_ = neutral_receivers.EXPERIMENTS
    for ratio in neutral_receivers.deviations(first):
        assert ratio.met, f"{ratio.name} {ratio.values}: {ratio.note}"


def played(
    folder: Path, queue: int, flows: str, tcp: str
) -> tuple[pd.DataFrame, dict[str, object]]:
    (folder / "port.yaml").write_text(PORT.format(queue=queue))
    (folder / "flows.csv").write_text("start_ns,src,dst,size_byte\n" + flows)
    out = folder / str(abs(hash(tcp)))
    done = giveway(
        "run", folder / "port.yaml", "--engine", "virtual", "--out", out, "--set", f"tcp={tcp}"
    )
    assert done.returncode == 0, done.stderr
    run = out / "fifo" / "seed-0"
    manifest = json.loads((run / "manifest.json").read_text())
    return pd.read_parquet(run / "flows.parquet"), manifest["network"]


@pytest.mark.virtual
def test_a_queue_is_as_long_as_the_windows_before_it(tmp_path: Path) -> None:
    """A short flow to a port where two long ones meet waits for what their windows hold."""
    took_ms = {}
    for window, byte in (("40 kB", 40_000), ("160 kB", 160_000)):
        flows, network = played(tmp_path, 1000, LONG, f"{{control: reno, window: {window}}}")
        took_ms[window] = (flows.end_ns[2] - flows.start_ns[2]) / 1e6
        assert network["tcp_window_byte"] == byte
    assert took_ms["160 kB"] > 2 * took_ms["40 kB"], took_ms


@pytest.mark.virtual
def test_the_shortest_timeout_is_what_was_asked_in_whole_ticks(tmp_path: Path) -> None:
    longest_ms = {}
    for rto_min in ("auto", "5 ms"):
        flows, network = played(tmp_path, 10, INCAST, f"{{control: reno, rto_min: {rto_min}}}")
        assert flows.end_ns.notna().all()
        longest_ms[rto_min] = (flows.end_ns - flows.start_ns).max() / 1e6
        assert network.get("tcp_rto_min_ns") == {"5 ms": 8_000_000}.get(rto_min)
    assert longest_ms["auto"] > 200 > longest_ms["5 ms"], longest_ms


PAIR = """
name: pair
topology: {kind: tor, hosts: 2, rate: 1068700 kbit/s, delay: 10 us, queue: 100 packets}
duration: 6 s
training:
  - {name: a, bytes: 25 MB, compute: 300 ms, fusion: 1 GB}
  - {name: b, bytes: 25 MB, compute: 300 ms, fusion: 1 GB}
policies: [fifo]
seeds: [0]
"""
ALONE_MS = 528  # an iteration of a job that has the network for itself, with Reno


@pytest.mark.virtual
def test_jobs_slide_apart_within_ten_iterations_under_mltcp_alone(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(PAIR)
    mean_ms = {}
    for control in ("reno", "mltcp"):
        out = tmp_path / control
        told = ("--engine", "virtual", "--out", out, "--set", f"tcp={control}")
        done = giveway("run", tmp_path / "pair.yaml", *told)
        assert done.returncode == 0, done.stderr
        table = pd.read_parquet(out / "fifo" / "seed-0" / "iterations.parquet")
        late = table[table.iteration.between(7, 8)]
        mean_ms[control] = (late.end_ns - late.start_ns).mean() / 1e6
    assert mean_ms["mltcp"] < 1.05 * ALONE_MS, mean_ms
    assert mean_ms["reno"] > 1.1 * ALONE_MS, mean_ms
