"""Prints "who gains, who pays" of a finished run as Markdown, for docs/shared-rack.md.

giveway run experiments/shared-rack.yaml --engine virtual --out runs/rack
.venv/bin/python scripts/tenant_table.py runs/rack
"""

import json
import sys
from pathlib import Path
from typing import Any

from analysis import words


def main(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    tenants = summary["tenants"]
    first, *others = summary["policies"]
    print(row("policy", *(tenant["title"] for tenant in tenants)))
    print(row(*["---"] * (len(tenants) + 1)))
    means = [words.duration(tenant["policies"][first]["mean_ns"]) for tenant in tenants]
    print(row(f"`{first}`", *means))
    for label in others:
        print(row(f"`{label}`", *(cell(tenant["policies"][label]) for tenant in tenants)))


def cell(found: dict[str, Any]) -> str:
    change = words.percent(found["change"])
    sure = words.verdict(found) in ("better", "worse")
    return f"{f'**{change}**' if sure else change} ({words.short_interval(found['interval_95'])})"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace(words.SPACE, " ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
