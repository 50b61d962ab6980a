"""`giveway export` and `giveway compare`: a look inside a run, and one run held against another."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from basics.errors import BadInput
from basics.files import write_whole
from basics.hints import nearest
from testbed.cli import places

TRACE = "trace.json"


def add_to(app: typer.Typer, console: Console) -> None:
    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    @app.command()
    def export(
        folder: Annotated[Path, typer.Argument(help="the folder of a run")],
        perfetto: Annotated[
            bool, typer.Option("--perfetto", help="a trace for ui.perfetto.dev, chrome://tracing")
        ] = False,
        policy: Annotated[
            list[str] | None, typer.Option(help="only this policy (repeatable)")
        ] = None,
        seed: Annotated[list[int] | None, typer.Option(help="only this seed (repeatable)")] = None,
    ) -> None:
        """Write each run as a trace, for Perfetto.

        Example: giveway export runs/first --perfetto --policy fifo --seed 0
        """
        places.demand_results(folder)
        if not perfetto:
            raise BadInput("export: say what to write: --perfetto")
        from analysis.folder import load
        from analysis.perfetto import trace

        results = load(folder)
        for name, asked, known in (
            ("--policy", policy, [one.label for one in results.plan.policies]),
            ("--seed", seed, list(results.plan.seeds)),
        ):
            for one in asked or ():
                if one not in known:
                    raise BadInput(f"{name} {one}: not in {folder}{nearest(one, known)}")
        for (label, number), run in results.runs.items():
            if label in (policy or [label]) and number in (seed or [number]):
                say(str(write_whole(run.folder / TRACE, trace(run, results.plan))))

    @app.command()
    def compare(
        first: Annotated[Path, typer.Argument(help="the folder of a run")],
        second: Annotated[Path, typer.Argument(help="the folder of another")],
        every: Annotated[
            bool, typer.Option("--all", help="every metric, not those of the report alone")
        ] = False,
    ) -> None:
        """Say what differs between two runs: keys, metrics, records.

        Example: giveway compare runs/first runs/second
        """
        for folder in (first, second):
            places.demand_results(folder)
        from analysis.two_folders import compared

        for part in compared(first, second, every=every):
            if isinstance(part, str):
                say(part)
            else:
                console.print(part)
