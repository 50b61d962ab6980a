"""What an engine makes of an experiment file, as far as it can be seen without a network.

A live engine is stopped when it has planned every node and is about to lead its tasks: by then all
that the kernel and the tasks would be told is known, and nothing has been started. The fluid engine
is run. `parts` gives either as named parts, to be compared with those of another file.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import pytest

from testbed import machine
from testbed.containers import docker_engine
from testbed.containers.hosts import Containers
from testbed.engine import Engine, Run
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.live import kernel_marks, limits, play, stage
from testbed.live.batch_mininet import BatchMininet, BatchNode
from testbed.live.network import Network
from testbed.realtime import capacity
from testbed.realtime import engine as realtime
from testbed.run import in_turns
from testbed.run_folder import RunFolder
from testbed.spec import Experiment
from testbed.virtual import engine as virtual
from testbed.virtual.features import features, tcp_names

ENGINES: dict[str, Engine] = {"realtime": realtime, "virtual": virtual, "fluid": fluid}

Parts = dict[str, Any]


class EverybodyStarted(Exception):
    """As far as this goes: the tasks of a run have been given their configurations."""


@contextmanager
def a_machine(lacking: frozenset[str] = frozenset()) -> Iterator[pytest.MonkeyPatch]:
    """One that can run everything but what is named, whatever this one can."""
    here = machine.Machine(True, (), features() - lacking, tcp_names() - lacking)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "probe", lambda: here)
        patch.setattr(capacity, "measured", lambda *_: 1e12)
        patch.setattr(docker_engine, "demand_image", lambda *_: "sha256:0")
        patch.setattr(limits, "demand_room", lambda *_: None)
        patch.setattr(virtual, "kernel", lambda: None)
        patch.setattr(kernel_marks, "program", lambda: "nft")
        yield patch


def parts(engine: str, experiment: Experiment, folder: Path) -> Parts:
    """What becomes of an experiment's first run; the rest of it is in `plan` and `runs`."""
    with a_machine() as patch:
        ENGINES[engine].demand(experiment)
        first, *_ = runs = in_turns(experiment, "test00")
        play_it = simulated if engine == "fluid" else told
        return {
            "plan": experiment.plan(engine, "test"),
            "runs": [(run.choice.label, run.seed) for run in runs],
            **play_it(engine, first, folder, patch),
        }


def simulated(engine: str, run: Run, folder: Path, patch: pytest.MonkeyPatch) -> Parts:
    records = Records()
    setting = fluid.settle(run.experiment, print, run.run_id)
    performance = fluid.perform(run, setting, records, lambda time_ns: None)
    return {"records": dict(records.tables), "network": performance.network}


def told(engine: str, run: Run, folder: Path, patch: pytest.MonkeyPatch) -> Parts:
    """What nodes and tasks would be told by a live engine, and how containers would be started."""
    found: Parts = {"nodes": {}, "marks": {}, "tasks": {}, "containers": {}}
    pretend_nodes(patch, found)
    pretend_containers(patch, found)

    class Listener:
        """In the place of the nursery: notes who is to be started, and with what."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def start(self, target: str, config: dict[str, Any], *, name: str, **_: object) -> None:
            found["tasks"][name] = (target, config)

    def everybody(*_: object) -> None:
        raise EverybodyStarted

    patch.setattr(play, "Nursery", Listener)
    patch.setattr(play, "Crew", everybody)
    setting = ENGINES[engine].settle(run.experiment, print, run.run_id)
    with pytest.raises(EverybodyStarted):
        play.perform(run, setting, RunFolder(folder), lambda time_ns: None, measure_link=False)
    return {"wiring": asdict(setting.wiring), **found}


def pretend_nodes(patch: pytest.MonkeyPatch, found: Parts) -> None:
    """Mininet plans as ever, but no node has a shell, and nobody asks the kernel anything."""

    def start(net: BatchMininet) -> None:
        for node in net.all_nodes:
            found["nodes"][node.name] = (
                node.tc_batch,
                node.ip_batch,
                node.settings,
                getattr(node, "routes", {}),
            )

    def no_shell(node: BatchNode, mnopts: str | None = None) -> None:
        node.pid = 0

    def set_up(pid: int, host: str, marking: kernel_marks.Marking) -> None:
        found["marks"][host] = kernel_marks.rules(marking)

    nothing: Callable[..., Any] = lambda *_: None  # noqa: E731 (many names for it below)
    for owner, name, instead in (
        (BatchNode, "startShell", no_shell),
        (BatchMininet, "start", start),
        (kernel_marks, "set_up", set_up),
        (BatchMininet, "stop", nothing),
        (Network, "_read_back", nothing),
        (Network, "_find_no_way_out", nothing),
        (Network, "idle_rtt_ns", nothing),
        (Network, "asked_and_read_bps", lambda *_: ()),
        (stage, "device_indexes", lambda *_: defaultdict(int)),
    ):
        patch.setattr(owner, name, instead)


def pretend_containers(patch: pytest.MonkeyPatch, found: Parts) -> None:
    def enter(containers: Containers) -> Containers:
        for host in containers._hosts:
            found["containers"][host] = containers._options(host, host, Path("control"))
        return containers

    patch.setattr(Containers, "__enter__", enter)
    patch.setattr(Containers, "__exit__", lambda *_: None)
