"""`giveway tune`: the best partition and credit for a job, searched for by simulation."""

import secrets
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from basics.errors import BadInput, CannotRun, RunFailed
from basics.files import write_json
from basics.folding import FoldingTable
from testbed import engines
from testbed.cli import places
from testbed.cli.sweep import INTERRUPTED
from testbed.progress import counted
from testbed.spec import load

if TYPE_CHECKING:
    from testbed.tune.play import Problem
    from testbed.tune.search import Tried

SEARCHED_ON = "fluid"
MOST_ROWS = 10
MOST_EVALUATIONS = 1000


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command()
    def tune(
        file: Annotated[Path, typer.Argument(help="an experiment file")],
        over: Annotated[str, typer.Option(help="partition, credit, or partition,credit")],
        job: Annotated[
            str | None, typer.Option(help="of this job, where there are several")
        ] = None,
        evaluations: Annotated[
            int, typer.Option(min=1, max=MOST_EVALUATIONS, help="settings to simulate")
        ] = 25,
        verify: Annotated[int, typer.Option(min=0, help="of the best, run so many again")] = 3,
        engine: Annotated[str, typer.Option(help="on this engine, if it is here")] = "virtual",
        out: Annotated[Path | None, typer.Option(help="where to put the results")] = None,
        set_: Annotated[
            list[str] | None, typer.Option("--set", help="override a key: topology.hosts=8")
        ] = None,
    ) -> None:
        """Find a transfer policy's best settings, by simulation.

        Example: giveway tune experiments/transfer-tuning.yaml --over partition,credit
        """
        from testbed.tune import play

        engines.resolve(engine)
        names = [name.strip() for name in over.split(",") if name.strip()]
        problem = play.problem(load(file, set_ or ()), job, names)
        engines.get(SEARCHED_ON).demand(problem.experiment)
        name = f"{problem.experiment.name}-tune-{datetime.now():%Y%m%d-%H%M%S}"
        out = out or Path("runs") / name
        if out.exists():
            raise BadInput(f"{out} already exists: choose another --out")
        places.demand_folder(out)
        try:
            tuned(console, problem, out, evaluations, verify, engine)
        except KeyboardInterrupt:
            print("giveway: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


def tuned(
    console: Console, problem: "Problem", out: Path, evaluations: int, verify: int, engine: str
) -> None:
    from analysis import surface
    from analysis.words import duration
    from testbed.tune import play, search

    run_id = secrets.token_hex(3)
    simulated = play.iteration_ns(problem, SEARCHED_ON, out, run_id)
    own = search.Tried(problem.own, simulated(problem.own))
    if own.value >= play.longest_ns(problem.experiment):
        raise RunFailed(
            f"job {problem.job.name}: with the file's own settings no iteration lies between "
            "warmup and cooldown; give the experiment a longer duration"
        )
    with counted(console, "settings, simulated", evaluations) as step:

        def value(point: search.Point) -> float:
            found = simulated(point)
            step()
            return found

        tried = search.least(problem.axes, value, evaluations)
    ranked = search.best(tried, len(tried))
    show(console, problem, [*ranked[:MOST_ROWS]], own, "simulated")
    checked, why_not = verified(problem, [*ranked[:verify]], own, engine, out, run_id)
    if checked:
        show(console, problem, checked[1:], checked[0], engine)
    elif why_not:
        say(console, f"not verified: {why_not}")
    results = {
        "job": problem.job.name,
        "over": list(problem.names),
        "own": plain(problem, own),
        "tried": [plain(problem, one) for one in tried],
        "verified_on": engine if checked else None,
        "verified": [plain(problem, one) for one in checked],
    }
    write_json(out / "tune.json", results)
    picture = out / "surface.png"
    surface.draw(picture, problem.names, [one.point for one in tried], [one.value for one in tried])
    settings = ", ".join(f"{key}: {value}" for key, value in problem.said(ranked[0].point).items())
    change = less_or_more(ranked[0], own)
    say(
        console,
        f"best of {len(tried)}: transfer: {{policy: {problem.transfer.policy}, {settings}}}, mean "
        f"iteration {duration(ranked[0].value)} simulated, {change} against "
        "the file's own",
    )
    say(console, f"surface: {picture}")


def verified(
    problem: "Problem",
    best: list["Tried"],
    own: "Tried",
    engine: str,
    out: Path,
    run_id: str,
) -> tuple[list["Tried"], str]:
    """The file's own setting and the best on another engine; or why not."""
    from testbed.tune import play, search

    if not best:
        return [], ""
    try:
        module = engines.get(engine)
        module.demand(problem.experiment)
        with module.exclusive(0):
            measured = play.iteration_ns(problem, engine, out, run_id)
            return [search.Tried(one.point, measured(one.point)) for one in [own, *best]], ""
    except CannotRun as error:
        return [], str(error)


def show(console: Console, problem: "Problem", rows: list["Tried"], own: "Tried", how: str) -> None:
    from analysis.words import duration

    table = FoldingTable(title=f"{problem.job.name}, {how}", title_justify="left")
    for column in (*problem.names, "mean iteration", "against the file's own"):
        table.add_column(column, justify="right")
    for one in [*rows, own]:
        change = "its own" if one is own else less_or_more(one, own)
        said = problem.said(one.point).values()
        table.add_row(*said, duration(one.value), change)
    console.print(table)


def less_or_more(one: "Tried", own: "Tried") -> str:
    from analysis.words import MINUS

    return f"{100 * (one.value / own.value - 1):+.1f} %".replace("-", MINUS)


def plain(problem: "Problem", one: "Tried") -> dict[str, object]:
    return {**dict(zip(problem.names, one.point, strict=True)), "iteration_ns": round(one.value)}


def say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
