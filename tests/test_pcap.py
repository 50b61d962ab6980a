"""`--pcap`: packets of a link in experiment time, and a run that does not notice."""

import json
import os
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from basics.errors import BadInput
from testbed.cli import commands
from testbed.live.stage import SHORTEST_SAMPLE_NS
from tests.clean_root import copy_checkout
from tests.conftest import REPOSITORY, giveway

pytestmark = pytest.mark.timeout(700)  # two guests, on a machine that may be busy

LINK, FILE = "s1->h1", "s1-h1.pcap"
DURATION_NS = 10**9
SAMPLE_NS = SHORTEST_SAMPLE_NS  # what so short a run takes


@dataclass(frozen=True)
class Packet:
    time_ns: int
    length: int
    content: bytes

    @property
    def destination(self) -> str:
        return socket.inet_ntoa(self.content[30:34]) if self.is_ip else ""

    @property
    def is_ip(self) -> bool:
        return self.content[12:14] == b"\x08\x00"


def packets(path: Path) -> list[Packet]:
    data = path.read_bytes()
    magic, major, minor, _, _, _, kind = struct.unpack_from("=IHHiIII", data)
    assert (magic, major, minor, kind) == (0xA1B23C4D, 2, 4, 1)  # nanoseconds, Ethernet
    found, at = [], 24
    while at < len(data):
        seconds, ns, kept, length = struct.unpack_from("=IIII", data, at)
        found.append(Packet(seconds * 10**9 + ns, length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    assert at == len(data)
    return found


def digest(out: Path) -> str:
    return str(json.loads((out / "summary.json").read_text())["digest"])


@pytest.fixture(scope="module")
def beside_the_sampler(small_experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small experiment, with flows that start while the sampler is awake, or just after.

    Whatever takes a nanosecond more there makes them late: elsewhere hardly anybody would notice.
    """
    place = tmp_path_factory.mktemp("beside")
    rows = [
        f"{sample * SAMPLE_NS + 6 * late},{source},{target},8000"
        for sample in range(1, DURATION_NS // SAMPLE_NS - 1)
        for late, (source, target) in enumerate((("h2", "h1"), ("h3", "h1"), ("h1", "h2")))
    ]
    (place / "beside.csv").write_text("\n".join(["start_ns,src,dst,size_byte", *rows, ""]))
    text = small_experiment.read_text()
    more = "flows:\n  - {name: beside, schedule: beside.csv}\n"
    (place / "beside.yaml").write_text(text.replace("flows:\n", more))
    return place / "beside.yaml"


def played(code: Path, experiment: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A virtual run by the code of some checkout."""
    words = ("run", experiment, "--engine", "virtual", "--policy", "fifo", "--out", out, *more)
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *map(str, words)],
        cwd=code, env={**os.environ, "PYTHONPATH": str(code)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def captured(beside_the_sampler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same virtual run without a capture (`plain`) and with one (`seen`)."""
    place = tmp_path_factory.mktemp("pcap")
    played(REPOSITORY, beside_the_sampler, place / "plain")
    done = played(REPOSITORY, beside_the_sampler, place / "seen", "--pcap", LINK)
    assert f"packets of {LINK}: {place / 'seen'}/*/seed-*/{FILE}" in done.stdout
    return place


@pytest.mark.virtual
def test_capturing_leaves_the_digest_unchanged(captured: Path) -> None:
    assert digest(captured / "seen") == digest(captured / "plain")
    assert not list((captured / "plain").rglob("*.pcap"))


@pytest.mark.virtual
def test_a_capture_that_took_a_nanosecond_would_show(
    captured: Path, beside_the_sampler: Path, tmp_path: Path
) -> None:
    copy_checkout(tmp_path / "code")
    module = tmp_path / "code" / "testbed" / "live" / "capture.py"
    head = "    def drain(self) -> None:\n"
    assert module.read_text().count(head) == 1
    module.write_text(module.read_text().replace(head, head + "        time.monotonic_ns()\n"))
    played(tmp_path / "code", beside_the_sampler, tmp_path / "out", "--pcap", LINK)
    assert digest(tmp_path / "out") != digest(captured / "plain")


@pytest.mark.virtual
def test_packets_are_those_that_the_port_counted_in_experiment_time(captured: Path) -> None:
    run = captured / "seen" / "fifo" / "seed-0"
    found = packets(run / FILE)
    times = [packet.time_ns for packet in found]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= DURATION_NS
    links = pd.read_parquet(run / "links.parquet")
    counted = links[links.link == LINK].groupby("time_ns").bytes.sum()
    to_h1 = sum(packet.length for packet in found if packet.destination == "10.0.0.1")
    assert to_h1 == counted.iloc[-1]
    measured = json.loads((run / "manifest.json").read_text())["fidelity"]["measured"]
    assert measured["capture_lost"] == 0


@pytest.mark.virtual
@pytest.mark.tshark
def test_tshark_reads_the_same_packets(captured: Path) -> None:
    path = captured / "seen" / "fifo" / "seed-0" / FILE
    fields = ("frame.time_epoch", "frame.len", "tcp.len")
    told = subprocess.run(
        ["tshark", "-n", "-r", path, "-T", "fields", *(w for one in fields for w in ("-e", one))],
        capture_output=True, text=True, check=True, timeout=100,
    ).stdout  # fmt: skip
    rows = [line.split("\t") for line in told.splitlines()]
    assert [(round(float(row[0]) * 1e9), int(row[1])) for row in rows] == [
        (packet.time_ns, packet.length) for packet in packets(path)
    ]
    assert any(row[2] == "1448" for row in rows)  # it has understood TCP


@pytest.mark.root
def test_packets_in_real_time_are_in_experiment_time_too(
    small_experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("--engine", "realtime", "--policy", "fifo", "--set", "dilation=2", "--out", out)
    done = giveway("run", small_experiment, *words, "--pcap", LINK, "--pcap", "h2->s1")
    assert done.returncode == 0, done.stderr
    for file in (FILE, "h2-s1.pcap"):
        times = [packet.time_ns for packet in packets(out / "fifo" / "seed-0" / file)]
        assert 0 <= min(times) < DURATION_NS / 5
        assert DURATION_NS / 2 < max(times) <= DURATION_NS * 1.1


@pytest.mark.parametrize(
    ("engine", "link", "said"),
    [
        ("fluid", LINK, "a simulation has no packets"),
        ("realtime", "s1-", "no such link; there are, in quotes, 'h1->s1', 's1->h1'"),
    ],
)
def test_what_cannot_be_captured_is_one_line(
    small_experiment: Path, engine: str, link: str, said: str
) -> None:
    with pytest.raises(BadInput) as why:
        commands.app(["run", str(small_experiment), "--engine", engine, "--pcap", link])
    assert said in str(why.value)
    assert "\n" not in str(why.value)
