"""An experiment from file to report: every policy, every seed, one folder."""

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from analysis import report
from basics.files import write_json, write_whole
from testbed import engines, run_folder
from testbed.clean import clean
from testbed.engine import Run, Setting
from testbed.pool import PooledRun, execute_all
from testbed.progress import Progress
from testbed.spec import Experiment
from testbed.stacks import demand_stacks


def run_experiment(
    experiment: Experiment,
    out: Path,
    engine_name: str,
    command: str,
    progress: Progress,
    wait_s: float = 0,
    captures: tuple[str, ...] = (),
) -> None:
    """Run everything, then write summary and report."""
    engine = engines.get(engine_name)
    engine.demand(experiment)
    demand_stacks(experiment)
    run_id = secrets.token_hex(3)
    with engine.exclusive(wait_s), stoppable(), progress:
        for leftover in clean():
            progress.say(f"cleaning up after a dead run: {leftover}")
        for note in experiment.notes:
            progress.say(note)
        run_folder.create(out)
        setting = engine.settle(experiment, progress.say, run_id)
        describe(experiment, out, engine.NAME, command, setting)
        execute_all(engine, tasks(experiment, out, setting, run_id, captures), progress)
    progress.say("analysing …")
    report.write(out)


def describe(
    experiment: Experiment, out: Path, engine_name: str, command: str, setting: Setting
) -> None:
    """Leave the experiment in its folder: for people to run again, for analysis to read."""
    links = [
        {
            "link": f"{near}->{far}",
            "rate_bps": link.cable.rate_bps,
            "delay_ns": link.cable.delay_ns,
        }
        for link in setting.topology.links
        for near, far in ((link.a, link.b), (link.b, link.a))
    ]
    write_whole(out / "experiment.yaml", experiment.to_yaml())
    write_json(out / "plan.json", experiment.plan(engine_name, command, links))


def tasks(
    experiment: Experiment,
    out: Path,
    setting: Setting,
    run_id: str,
    captures: tuple[str, ...] = (),
) -> list[PooledRun]:
    """All runs of an experiment, each with its folder."""
    return [
        PooledRun(
            replace(run, captures=captures),
            out / run.choice.label / f"seed-{run.seed}",
            setting,
            f"{run.choice.label}, seed {run.seed}",
        )
        for run in in_turns(experiment, run_id)
    ]


def in_turns(experiment: Experiment, run_id: str) -> list[Run]:
    """Seed by seed, all policies of a seed in a row, each seed beginning with the next policy.

    A machine has better and worse minutes. Runs of one policy after those of the other would
    take that for the policies' difference.
    """
    arms = experiment.arms
    return [
        Run(experiment, arm.choice, seed, run_id, arm.placement)
        for turn, seed in enumerate(experiment.seeds)
        for at in range(len(arms))
        for arm in [arms[(turn + at) % len(arms)]]
    ]


@contextmanager
def stoppable() -> Iterator[None]:
    """A polite kill or a closed terminal ends a run as Ctrl-C does: cleaned up.

    What was ignored when we came stays ignored: `nohup` means it.
    """

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
