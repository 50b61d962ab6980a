"""What each policy promises to two senders that fill one port, and how to measure it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.flow_starts import MOST_STEAL, TRIES_A_REPEAT
from tests.conftest import REPOSITORY, giveway

SATURATED = """
name: saturated
question: Who gets what when two senders fill one port?
topology: {{{topology}, rate: 100 Mbit/s, delay: about 10 us, queue: 100 packets}}
duration: 3 s
warmup: 1 s
flows:
  - {{name: urgent, schedule: urgent.csv}}
  - {{name: patient, schedule: patient.csv}}
policies: [{policy}]
seeds: [0]
"""
HEADER = "start_ns,src,dst,size_byte\n"
RATE_BPS = 100_000_000
FLOWS, FLOW_BYTE = 4, 100_000_000  # each would take 8 s alone
MEASURED_S = 2


@dataclass(frozen=True)
class Promise:
    urgent: tuple[float, float]  # the least and the most of the port that the urgent sender gets
    bands: bool = True  # whether the policy tells the two apart
    same_as: str | None = None  # to flows it has the same discipline: not measured again


PROMISES = {
    "fifo": Promise((0.25, 0.75), bands=False),
    "fq-codel": Promise((0.45, 0.55), bands=False),
    "strict-priority": Promise((0.97, 1.0)),
    # Urgent flows end up in the middle, patient ones are low from the start.
    "first-bytes": Promise((0.97, 1.0)),
    "prio": Promise((0.97, 1.0)),
    "htb-priority": Promise((0.76, 0.84)),
    "job-order-least": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "job-order": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "job-order-shortest": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "tensorlights-acks": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "tensorlights-both": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "slack-aware-1": Promise((0.97, 1.0), same_as="strict-priority"),
    "slack-aware": Promise((0.97, 1.0), same_as="first-bytes"),
    "tensorlights-one": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "tensorlights-rr": Promise((0.25, 0.75), bands=False, same_as="fifo"),
    "tensorlights-srf": Promise((0.25, 0.75), bands=False, same_as="fifo"),
}
MEASURED = [name for name, promise in PROMISES.items() if promise.same_as is None]
# (source, destination, a link that only this sender's bytes cross) of both senders.
# At the switch: two hosts send to a third. At the host: one host sends to two others.
PLACES = {
    "switch": (("h1", "h3", "h1->s1"), ("h2", "h3", "h2->s1")),
    "host": (("h1", "h2", "s1->h2"), ("h1", "h3", "s1->h3")),
}
RACK = "kind: tor, hosts: 3"
# At a spine: hosts of two racks send to two hosts of a third, whose one uplink is as fast as one.
SPINE = (("h1", "h5", "leaf1->spine1"), ("h3", "h6", "leaf2->spine1"))
RACKS = "kind: leaf-spine, hosts: 6, leaves: 3, spines: 1, oversubscription: 2"


def urgent_share(
    engine: str, policy: str, place: str, folder: Path, checkout: Path = REPOSITORY
) -> float:
    """The share of a full port that the urgent sender gets, over the last two of three seconds."""
    bands = ", bands: {urgent: high, patient: low}" if told_apart(policy) else ""
    choice = f"{{policy: {policy}{bands}}}"
    senders, topology = (SPINE, RACKS) if place == "spine" else (PLACES[place], RACK)
    text = SATURATED.format(policy=choice, topology=topology)
    (folder / "saturated.yaml").write_text(text)
    for name, (src, dst, _) in zip(("urgent", "patient"), senders, strict=True):
        rows = "".join(f"{start},{src},{dst},{FLOW_BYTE}\n" for start in range(FLOWS))
        (folder / f"{name}.csv").write_text(HEADER + rows)
    links = pd.read_parquet(undisturbed(engine, folder, checkout) / "links.parquet")
    late = links[links.time_ns > 1_000_000_000]
    urgent, patient = (passed_byte(late[late.link == link]) for _, _, link in senders)
    assert (urgent + patient) * 8 / MEASURED_S > 0.9 * RATE_BPS, "the port was not full"
    return urgent / (urgent + patient)


def told_apart(policy: str) -> bool:
    return policy not in PROMISES or PROMISES[policy].bands


def undisturbed(engine: str, folder: Path, checkout: Path) -> Path:
    """A run in which other machines on the same hardware took next to nothing of the processors.

    No shaper is on time while somebody else has them. After some tries, whatever there is.
    """
    for attempt in range(TRIES_A_REPEAT):
        out = folder / f"out-{attempt}"
        file = folder / "saturated.yaml"
        done = giveway("run", file, "--engine", engine, "--out", out, cwd=checkout)
        assert done.returncode == 0, done.stderr
        (manifest,) = out.glob("*/seed-0/manifest.json")
        measured = json.loads(manifest.read_text())["fidelity"]["measured"]
        if measured["cpu_steal_share"] <= MOST_STEAL:
            break
    return manifest.parent


def passed_byte(links: pd.DataFrame) -> int:
    """Bytes that passed, over all classes."""
    counted = links.groupby("class")["bytes"]
    return int((counted.max() - counted.min()).sum())
