"""`giveway run --pcap LINK`: which links, and where their packets are."""

import json
from collections.abc import Sequence
from pathlib import Path

from basics.errors import BadInput
from testbed.cli.results import Told
from testbed.engine import capture_file, topology_of
from testbed.spec import Experiment


def links_asked(asked: Sequence[str], experiment: Experiment, engine: str) -> tuple[str, ...]:
    """The links, if there are packets on them; a shell takes an unquoted > for itself."""
    if asked and engine == "fluid":
        raise BadInput("--pcap: a simulation has no packets: use --engine virtual or realtime")
    known = topology_of(experiment).link_names
    for link in asked:
        if link not in known:
            some = ", ".join(f"'{name}'" for name in known[:6])
            more = f", … ({len(known)} in all)" if len(known) > 6 else ""
            raise BadInput(f"--pcap {link}: no such link; there are, in quotes, {some}{more}")
    return tuple(dict.fromkeys(asked))


def tell(out: Path, links: Sequence[str], told: Told) -> None:
    """Where the packets are, and of how many runs some are missing."""
    for link in links:
        told.line(f"packets of {link}: {out}/*/seed-*/{capture_file(link)}")
    lost = 0
    for path in out.glob("*/seed-*/manifest.json") if links else ():
        measured = json.loads(path.read_text(encoding="utf-8"))["fidelity"]["measured"]
        lost += measured.get("capture_lost", 0)
    if lost:
        told.line(f"{lost} packets were too many at once and are not in the files")
