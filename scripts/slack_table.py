"""Writes the table of docs/slack-aware.md from the results of its sweep.

giveway sweep experiments/slack-aware.yaml --engine fluid --out runs/slack
.venv/bin/python scripts/slack_table.py runs/slack
"""

import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

PAGE = Path(__file__).parent.parent / "docs" / "slack-aware.md"
BLOCK = re.compile(r"(<!-- table: .*? -->\n).*?(<!-- /table -->)", re.DOTALL)
METRICS = {
    "iteration": "training.resnet50.iteration_mean",
    "small": "flows.small.fct_mean",
    "large": "flows.large.fct_mean",
}
TRAINING_SHARE = {"16": 0.0625, "8": 0.125, "4": 0.25, "2": 0.5}
FLOW_SHARE = {"23": 0.03125, "46": 0.0625, "92": 0.125, "184": 0.25}
GREEN = 0.01  # the thesis's bound of "training pays nothing"
KEPT = 0.8  # of the gain of all-low priority, in its green cells


def main(folder: Path) -> None:
    rows = pd.read_parquet(folder / "summary.parquet")
    rows = rows.astype({"ratio": str, "load": str})
    table = {
        (row.ratio, row.load, row.policy, row.metric): row for row in rows.itertuples(index=False)
    }
    head = [
        "| R | flows/s | total | iteration: low | slack-aware | small FCT: low | slack-aware "
        "| large FCT: low | slack-aware | goal |",
        "| --- " * 10 + "|",
    ]
    lines = [line(table, ratio, load) for ratio in TRAINING_SHARE for load in FLOW_SHARE]
    met = sum(text.endswith("met |") for text in lines)
    text = "\n".join([*head, *lines, "", f"Goal met in {met} of {len(lines)} cells.", ""])
    PAGE.write_text(BLOCK.sub(lambda block: block[1] + text + block[2], PAGE.read_text()))
    print(text)


def line(table: dict[Any, Any], ratio: str, load: str) -> str:
    total = TRAINING_SHARE[ratio] + FLOW_SHARE[load]
    low = {key: table[ratio, load, "strict-priority", name] for key, name in METRICS.items()}
    ours = {key: table[ratio, load, "slack-aware", name] for key, name in METRICS.items()}
    cells = [
        f"{shown(low[key])} | {shown(ours[key])}"
        + (kept(low[key], ours[key]) if key != "iteration" else "")
        for key in METRICS
    ]
    missed = failures(total, low, ours)
    verdict = "met" if not missed else "missed: " + ", ".join(missed)
    return f"| {ratio} | {load} | {100 * total:.3g} % | {' | '.join(cells)} | {verdict} |"


def failures(total: float, low: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Which parts of issue 5's goal this cell misses, by the means."""
    allowed = 0.02 if total <= 0.625 else 0.05
    missed = ["iteration"] if ours["iteration"].change > allowed else []
    for key in ("small", "large"):
        green = low["iteration"].change < GREEN
        enough = KEPT * low[key].change if green else 0.0
        if ours[key].change >= enough:
            missed.append(key)
    return missed


def shown(row: Any) -> str:
    text = f"{100 * row.change:+.1f} %"
    if pd.notna(row.change_low):
        text += f" ({100 * row.change_low:+.1f} to {100 * row.change_high:+.1f})"
    return text.replace("-", "−")


def kept(low: Any, ours: Any) -> str:
    return f", keeps {100 * ours.change / low.change:.0f} %" if low.change < 0 else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
