"""The folder of a run, as tables of pandas."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # else when a table is asked for: the command imports this package too
    import pandas as pd


class CommandFailed(Exception):
    """What the command said; `exit_code` is its own (README)."""

    def __init__(self, said: str, exit_code: int) -> None:
        super().__init__(said)
        self.exit_code = exit_code


@dataclass(frozen=True)
class LoadedFolder:
    """Every table has the columns `policy` (its label) and `seed`, then those of the records."""

    folder: Path

    @cached_property
    def plan(self) -> dict[str, Any]:
        return self._json("plan.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every metric with its interval, as summary.json has it."""
        return self._json("summary.json")

    @property
    def policies(self) -> list[str]:
        return [policy["label"] for policy in self.plan["policies"]]

    @property
    def seeds(self) -> list[int]:
        return list(self.plan["seeds"])

    @property
    def answer(self) -> str:
        return str(self.summary["answer"])

    @property
    def digest(self) -> str:
        return str(self.summary["digest"])

    @property
    def claims(self) -> list[dict[str, Any]]:
        return list(self.summary["claims"])

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @cached_property
    def flows(self) -> "pd.DataFrame":
        return self.table("flows")

    @cached_property
    def iterations(self) -> "pd.DataFrame":
        return self.table("iterations")

    @cached_property
    def transfers(self) -> "pd.DataFrame":
        return self.table("transfers")

    @cached_property
    def links(self) -> "pd.DataFrame":
        return self.table("links")

    def table(self, name: str) -> "pd.DataFrame":
        """A table of the records, all policies and seeds in one: docs/api.md lists them."""
        import pandas as pd

        parts = []
        for policy in self.policies:
            for seed in self.seeds:
                path = self.folder / policy / f"seed-{seed}" / f"{name}.parquet"
                if not path.is_file():
                    known = sorted(file.stem for file in path.parent.glob("*.parquet"))
                    raise CommandFailed(f"{path}: no such table; known: {', '.join(known)}", 2)
                rows = pd.read_parquet(path)
                rows.insert(0, "policy", policy)
                rows.insert(1, "seed", seed)
                parts.append(rows)
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def metrics(self) -> "pd.DataFrame":
        """Every metric of every policy: value, interval, and change against the first policy."""
        import pandas as pd

        from giveway.running import command

        return pd.DataFrame(command("report", str(self.folder), "--json")["metrics"])

    def _json(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return content


def load(folder: str | Path) -> LoadedFolder:
    """The results in a folder that `giveway run` has written to its end."""
    place = Path(folder)
    if not (place / "plan.json").is_file():
        raise CommandFailed(f"{place}: not the folder of a run: it has no plan.json", 2)
    if not (place / "summary.json").is_file():
        raise CommandFailed(f"{place}: not finished: run it again, or `giveway report {place}`", 2)
    return LoadedFolder(place)
