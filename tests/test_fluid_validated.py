"""What the simulation was compared on: its range is that of the cells, and outside it warns."""

import json
from pathlib import Path

import pytest

from analysis import agreement
from bench.agreement.cells import CELLS, FAR_OFF
from bench.agreement.playing import played
from testbed.fluid.validated import RANGES, Range, cautions
from testbed.spec import Experiment, load
from tests.conftest import REPOSITORY, giveway


@pytest.mark.parametrize("span", RANGES, ids=lambda span: span.what)
def test_a_range_is_that_of_the_cells_of_the_agreement(span: Range) -> None:
    found = [span.found(cell.experiment) for cell in CELLS if cell.name not in FAR_OFF]
    assert (min(found), max(found)) == (span.least, span.most)


def quickstart(*settings: str) -> Experiment:
    return load(REPOSITORY / "experiments" / "quickstart.yaml", settings)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("topology.queue=299 packets", "queue: 299 packets is outside of what"),
        ("topology.queue=1001 packets", "queue: 1001 packets is outside of what"),
        ("topology.rate=100 Gbit/s", "200 Mbit/s to 10 Gbit/s"),
        ("topology.delay=1 ms", "delay: 1 ms is outside of what"),
        ("tcp={window: 16 MB}", "window: 16 MB is outside of what"),
        ("tcp=mltcp", "tcp: mltcp was compared with a kernel only where two equal jobs meet"),
    ],
)
def test_outside_one_sentence_names_the_range(setting: str, said: str) -> None:
    (sentence,) = cautions(quickstart(setting))
    assert said in sentence
    assert "--engine virtual" in sentence


def test_inside_nothing_is_said() -> None:
    assert cautions(quickstart()) == []
    assert cautions(load(REPOSITORY / "experiments" / "backends.yaml")) == []  # training alone


def test_senders_that_the_plan_has_come_together_are_counted() -> None:
    flows = "flows.0.pairs=incast 17"
    (sentence,) = cautions(quickstart("topology.hosts=20", "training.0.workers=[h1, h2]", flows))
    assert sentence.startswith("senders into one host at once: 17 is outside of what")


def test_terminal_and_report_say_it_once(small_experiment: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = ("training.0.check=false", "topology.queue=5 packets", "seeds=[0, 1]")
    chosen = [word for setting in settings for word in ("--set", setting)]
    done = giveway("run", small_experiment, "--engine", "fluid", "--out", out, *chosen)
    assert done.returncode == 0, done.stderr
    said = "queue: 5 packets is outside of what the simulation was compared with a kernel on"
    terminal, page = (
        (" ".join(text.split()))
        for text in (done.stdout + done.stderr, (out / "report.html").read_text())
    )
    assert terminal.count(said) == 1
    assert page.count(said) == 1
    manifest = json.loads((out / "fifo" / "seed-0" / "manifest.json").read_text())
    assert manifest["fidelity"]["verdict"] == "simulated"
    assert said in manifest["fidelity"]["reasons"][0]


def test_a_ring_waits_for_a_timer_where_queues_are_short(tmp_path: Path) -> None:
    """A message to rank 0 is one packet: without its loss an iteration takes 484 ms here."""
    cell = next(cell for cell in CELLS if cell.name == "queue-10")
    found = agreement.measured(played(cell, "fluid", tmp_path / "queue-10", lambda _: None))
    assert found["fifo"]["iteration"]["resnet50"] > 600e6
