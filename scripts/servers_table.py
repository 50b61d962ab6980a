"""Prints what an order among jobs gave at every point of a sweep, as Markdown, for docs/servers.md.

giveway sweep experiments/tensorlights-needs.yaml --engine virtual --out runs/needs
.venv/bin/python -m scripts.servers_table runs/needs
"""

import json
import sys
from pathlib import Path

import pandas as pd

HEAD = ("case", "policy", "mean completion", "change", "first, last job", "servers' link out, in",
        "packets lost", "a step's gradients apart")  # fmt: skip


def main(folder: Path) -> None:
    print(row(*HEAD))
    print(row(*["---"] * len(HEAD)))
    for point in sorted((folder / "points").iterdir()):
        plan = json.loads((point / "plan.json").read_text())
        first_ms = 0.0
        for label in (policy["label"] for policy in plan["policies"]):
            run = point / label / f"seed-{plan['seeds'][0]}"
            mean_ms, *cells = found(run, {one["link"]: one["rate_bps"] for one in plan["links"]})
            first_ms = first_ms or mean_ms
            change = f"{mean_ms / first_ms - 1:+.0%}" if mean_ms != first_ms else ""
            case = point.name.partition("-")[2].replace("-", " ")
            print(row(case, f"`{label}`", f"{mean_ms:.0f} ms", change, *cells))


def found(run: Path, rates_bps: dict[str, int]) -> tuple[float, str, str, str, str]:
    """The mean completion time of a run's jobs in ms, and what else the table has."""
    jobs, links, barriers = (
        pd.read_parquet(run / f"{name}.parquet") for name in ("jobs", "links", "barriers")
    )
    lengths_ms = (jobs.end_ns - jobs.start_ns) / 1e6
    counted = links.groupby(["link", "class"])[["bytes", "drops"]].max().groupby("link").sum()
    out = counted.bytes[[link for link in counted.index if link.startswith("h")]].idxmax()
    ways = (out, "->".join(out.split("->")[::-1]))  # of the host that sends most
    busy_s = jobs.end_ns.max() / 1e9
    use = [f"{counted.bytes[link] * 8 / rates_bps[link] / busy_s:.0%}" for link in ways]
    steps = barriers.groupby(["job", "server", "iteration"]).enter_ns
    apart_ms = (steps.max() - steps.min()).mean() / 1e6
    return (
        lengths_ms.mean(),
        f"{lengths_ms.min():.0f}, {lengths_ms.max():.0f} ms",
        ", ".join(use),
        f"{counted.drops.sum():,}",
        f"{apart_ms:.0f} ms",
    )


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
