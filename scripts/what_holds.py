#!/usr/bin/env python3
"""What holds a flow: draws one 30 MB flow into a 10 Gbit/s port, alone and beside another.

    .venv/bin/python scripts/what_holds.py docs/what-holds-a-flow.png

Plays the four experiments on the virtual engine (`make virtual`), each in seconds, and prints what
each flow was held by. The picture of docs/virtual.md is made by this.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from analysis import folder, inside, look  # noqa: E402 (the checkout's own)

FILE = """
name: port
topology: {kind: tor, hosts: 4, rate: 10 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 60 ms
flows: [{name: flows, schedule: flows.csv}]
sample: {tcp: 100 us}
policies: [fifo]
seeds: [0]
"""
HEADER = "start_ns,src,dst,size_byte\n"
ALONE = "0,h1,h4,30000000\n"
BESIDE = f"{ALONE}0,h2,h4,30000000\n" + "".join(f"{ms}000000,h3,h4,30000\n" for ms in (10, 20, 30))
COLUMNS = [
    (f"{who}, {window}", flows, window)
    for window in ("auto", "16 MB")
    for who, flows in (("alone", ALONE), ("beside another", BESIDE))
]


def main(path: Path) -> None:
    with look.styled, TemporaryDirectory(prefix="giveway-holds-") as place:
        figure = Figure(figsize=(12, 4.4), facecolor="white")
        axes = figure.subplots(2, len(COLUMNS), sharex=True, height_ratios=(2, 1), squeeze=False)
        for number, (title, flows, window) in enumerate(COLUMNS):
            results = played(Path(place) / str(number), flows, window)
            run = results.runs["fifo", 0]
            course = inside.course_of(
                run, inside.SampledConnection("flows", 0, None, None), results.plan
            )
            assert course is not None, "100 samples and more"
            inside.draw(axes[0, number], axes[1, number], course)
            axes[0, number].set_title(title)
            ended = run.table("flows").set_index("flow")["end_ns"].loc[0]
            said = f"{inside.described(course)} {inside.held_by(course)}"
            print(f"{title}: {ended / 1e6:.1f} ms; {said}")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path, dpi=90, transparent=False, metadata={"Software": None})


def played(place: Path, flows: str, window: str) -> folder.Results:
    place.mkdir()
    (place / "flows.csv").write_text(HEADER + flows)
    (place / "port.yaml").write_text(FILE)
    command = [str(REPOSITORY / ".venv/bin/giveway"), "run", str(place / "port.yaml")]
    command += ["--engine", "virtual", "--out", str(place / "out")]
    subprocess.run([*command, "--set", f"tcp={{window: {window}}}"], check=True, stdout=sys.stderr)
    return folder.load(place / "out")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
