"""Prints "who gains, who pays" of a finished run as Markdown; with a page, writes its block ENGINE.

giveway run experiments/shared-rack.yaml --engine virtual --out runs/rack
.venv/bin/python -m scripts.tenant_table runs/rack docs/shared-rack.md
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis import words
from scripts import blocks


def main(folder: Path, page: Path | None) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    table = "\n".join(rows(summary))
    if page is None:
        print(table)
    else:
        blocks.write(page, summary["engine"], table)


def rows(summary: dict[str, Any]) -> Iterator[str]:
    tenants = summary["tenants"]
    first, *others = summary["policies"]
    yield row("policy", *(tenant["title"] for tenant in tenants))
    yield row(*["---"] * (len(tenants) + 1))
    means = [words.duration(tenant["policies"][first]["mean_ns"]) for tenant in tenants]
    yield row(f"`{first}`", *means)
    for label in others:
        yield row(f"`{label}`", *(cell(tenant["policies"][label]) for tenant in tenants))


def cell(found: dict[str, Any]) -> str:
    change = words.percent(found["change"])
    sure = words.verdict(found) in ("better", "worse")
    return f"{f'**{change}**' if sure else change} ({words.short_interval(found['interval_95'])})"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace(words.SPACE, " ")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
