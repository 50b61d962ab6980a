"""Two senders whose flows never end: what each gets is measured, compared and claimed."""

import json
from pathlib import Path

import pytest

from tests.conftest import giveway

SATURATED = """
name: saturated
question: Who gets what when two senders fill one port?
topology: {kind: tor, hosts: 3, rate: 100 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 500 ms
warmup: 100 ms
flows:
  - {name: urgent, schedule: urgent.csv}
  - {name: patient, schedule: patient.csv}
policies: [fifo, {policy: strict-priority, bands: {urgent: high, patient: low}}]
seeds: [0]
claims:
  - {metric: mixes.urgent.goodput, of: strict-priority, value: at least 90 Mbit/s}
  - {metric: sharing.jain, of: strict-priority, value: at most 0.6}
  - {metric: sharing.jain, of: fifo, value: at least 0.9}
"""


@pytest.mark.parametrize("engine", ["fluid", pytest.param("virtual", marks=pytest.mark.virtual)])
def test_who_gets_what_is_said_where_no_flow_ends(engine: str, tmp_path: Path) -> None:
    (tmp_path / "saturated.yaml").write_text(SATURATED)
    for name, src in (("urgent", "h1"), ("patient", "h2")):
        rows = "".join(f"{start},{src},h3,100000000\n" for start in range(4))
        (tmp_path / f"{name}.csv").write_text("start_ns,src,dst,size_byte\n" + rows)
    out = tmp_path / "out"
    done = giveway("run", tmp_path / "saturated.yaml", "--engine", engine, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert "flows of urgent get 9" in summary["answer"]
    assert "can be compared" not in summary["answer"]
    for policy in summary["policies"].values():
        total = sum(mix["goodput_bps"] for mix in policy["mixes"].values())
        assert total == pytest.approx(100e6 * 1448 / 1514, rel=0.03)
