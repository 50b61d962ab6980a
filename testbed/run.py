"""An experiment from file to report: every policy, every seed, one folder."""

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis import report
from testbed import folder, realtime
from testbed.clean import clean
from testbed.engine import Run
from testbed.folder import RunFolder
from testbed.progress import Progress
from testbed.spec import Experiment


def run_experiment(experiment: Experiment, out: Path, command: str, progress: Progress) -> None:
    """Run everything, then write summary and report."""
    realtime.demand(experiment)
    run_id = secrets.token_hex(3)
    with realtime.exclusive(), stoppable():
        for leftover in clean():
            progress.say(f"removed what a dead run left: {leftover.command} ({leftover.pid})")
        folder.create(out)
        setting = realtime.settle(experiment, progress.say, run_id)
        links = [
            {"link": f"{near}->{far}", "rate_bps": link.cable.rate_bps}
            for link in setting.topology.links
            for near, far in ((link.a, link.b), (link.b, link.a))
        ]
        folder.write_atomically(out / "experiment.yaml", experiment.to_yaml())
        folder.write_json(out / "plan.json", experiment.plan("realtime", command, links))
        for choice in experiment.policies:
            for seed in experiment.seeds:
                run = Run(experiment, choice, seed, run_id)
                run_folder = RunFolder(out / choice.label / f"seed-{seed}")
                real_ns = int(experiment.duration_ns * setting.wiring.dilation)
                with progress.run(f"{choice.label}, seed {seed}", real_ns) as on_real_time:
                    on_time = dilated(on_real_time, setting.wiring.dilation)
                    realtime.execute(run, run_folder, setting, on_time)
    progress.say("analysing …")
    report.write(out)


def dilated(on_real_time: Callable[[int], None], dilation: float) -> Callable[[int], None]:
    return lambda time_ns: on_real_time(int(time_ns * dilation))


@contextmanager
def stoppable() -> Iterator[None]:
    """A polite kill or a closed terminal ends a run as Ctrl-C does: cleaned up."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
