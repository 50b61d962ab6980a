"""The virtual engine: the same network and tasks inside a Linux kernel whose clock is virtual.

No processing takes time on that clock, so rates are exact however slow the machine, and a run
gives the same records to the nanosecond every time. Needs no root.
"""

import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from basics.errors import CannotRun, RunFailed
from basics.files import disk_full, is_full, write_json, write_whole, writing
from basics.home import how
from testbed import own_files
from testbed.engine import (
    Performance,
    Run,
    Setting,
    Wiring,
    demand_features,
    topology_of,
)
from testbed.live.limits import demand_bridge, demand_delay, demand_files, tasks_of
from testbed.live.transport import demand_timers
from testbed.machine import MININET, NO_MININET, importable
from testbed.run_folder import RunFolder
from testbed.sealing import sealed
from testbed.spec import Experiment
from testbed.spec.hosts import DOCKER
from testbed.virtual import guest_main
from testbed.virtual.build import Kernel, find
from testbed.virtual.edits import TICK_NS
from testbed.virtual.features import features, tcp_names
from testbed.virtual.guest import FOLDER, Guest, boot, memory_folder
from testbed.virtual.stack_memory import of_stacks

NAME = "virtual"
IN_PROCESSES = False
MIB = 2**20
BASE_MEMORY = 512 * MIB
MEMORY_A_HOST = 64 * MIB  # two interpreters, their buffers, the queues of two ports
MEMORY_A_SWITCH = 8 * MIB  # a shell and a namespace
MEMORY_A_LINK = 4 * MIB  # the queues of its two ports
MEMORY_A_FLOW = 4_000
MEMORY_A_CONNECTION = 2 * MIB  # of a parameter-server job: what its two sockets and queues hold
FULL_WINDOWS = 8  # of a fixed size, that a host may hold at once
FILES, FILES_A_TASK, FILES_OF_STACKS = 256, 4, 512
CHECKOUT = Path(__file__).parents[2]
# A guest that says nothing for this long is stuck. A packet costs it some 20 us; between two
# words of progress there may be SAMPLE of a run's packets, and a busy machine is slower.
SILENCE_S = 60.0
SILENCE_FACTOR = 20
PACKET_S = 30e-6
NODE_START_S = 1.0  # a shell, its addresses and its queues; a fifth of that on an idle machine
TASK_START_S = 1.0  # a process is forked in a tenth of that, and a busy machine is slower
STACK_START_S = 120.0  # importing torch takes 10 s of an idle machine, and shows nothing
SAMPLE = 0.01

_cancelled = threading.Event()
_free_cores: queue.SimpleQueue[int] = queue.SimpleQueue()
_cores = sorted(os.sched_getaffinity(0))
for _at in range(len(_cores)):  # not all begin with the first: other commands have guests too
    _free_cores.put(_cores[(os.getpid() + _at) % len(_cores)])


def exclusive(wait_s: float = 0) -> AbstractContextManager[None]:
    """Guests do not disturb each other: a busy machine changes no result."""
    return nullcontext()


def cancel() -> None:
    _cancelled.set()


def kernel() -> Kernel:
    found = find()
    if found is None:
        raise CannotRun(
            f"the virtual engine's kernel has not been built: run `{how('make virtual')}`"
        )
    return found


def demand(experiment: Experiment) -> None:
    """Refuse what the guest's kernel cannot do, before anything is started."""
    kernel()
    if not importable(MININET):
        raise CannotRun(NO_MININET)
    if experiment.hosts == DOCKER:
        raise CannotRun(
            "hosts: docker needs `--engine realtime`: containers live on this machine's own "
            "kernel, not in the virtual engine's"
        )
    if experiment.dilation not in ("auto", 1.0):
        raise CannotRun(
            f"dilation: {experiment.dilation} makes no sense in the virtual engine, whose time is "
            "exact already: leave it out"
        )
    demand_features(experiment, features(), tcp_names(), "the guest's kernel")
    demand_timers(wiring_of(experiment), TICK_NS, "the guest's kernel")
    demand_bridge(experiment)
    demand_delay(experiment)
    needed, free = memory_byte(experiment), psutil.virtual_memory().available
    if needed > free:
        raise CannotRun(
            f"this experiment needs {needed / 2**30:.1f} GiB of memory in the guest, and "
            f"{free / 2**30:.1f} GiB are free"
        )
    memory_folder(needed)
    demand_files(files_outside(experiment), "this experiment's guest needs")


def memory_byte(experiment: Experiment) -> int:
    """What the guest gets; pages that it never touches cost nothing."""
    hosts, graph = experiment.topology.hosts, topology_of(experiment)
    inner_links = len(graph.links) - hosts
    switches = len(graph.switches) - 1  # the one of a rack is in the base
    flows = sum(
        (mix.arrivals_per_second or 0) * hosts * experiment.duration_ns / 1e9
        for mix in experiment.flows
    )
    inner = switches * MEMORY_A_SWITCH + inner_links * MEMORY_A_LINK
    connections = sum(len(job.host_names) * len(job.server_names) for job in experiment.training)
    many = connections * MEMORY_A_CONNECTION + int(flows * MEMORY_A_FLOW)
    many += hosts * FULL_WINDOWS * (experiment.transport.window_byte or 0)
    return BASE_MEMORY + hosts * MEMORY_A_HOST + inner + many + of_stacks(experiment)


def files_outside(experiment: Experiment) -> int:
    """How many files the guest's kernel has open: one for each that is open or mapped inside."""
    stacks = bool(experiment.backends - {"native"})
    return FILES + FILES_A_TASK * tasks_of(experiment) + FILES_OF_STACKS * stacks


def parallel(experiment: Experiment) -> int:
    """How many guests at once: one a core, as far as memory goes."""
    fitting = int(psutil.virtual_memory().available * 0.8) // memory_byte(experiment)
    return max(1, min(len(os.sched_getaffinity(0)), fitting))


def settle(experiment: Experiment, say: Callable[[str], None], run_id: str) -> Setting:
    return Setting(topology_of(experiment), wiring_of(experiment))


def wiring_of(experiment: Experiment) -> Wiring:
    return Wiring(
        dilation=1.0,
        offload=experiment.offload is True,
        netem=True,
        tcp=experiment.tcp,
        window_byte=experiment.transport.window_byte,
        rto_min_ns=experiment.transport.rto_min_ns,
        timer_slack_ns=0,
    )


def execute(run: Run, folder: RunFolder, setting: Setting, on_time: Callable[[int], None]) -> None:
    """Boot a guest that plays the run, then seal what it left."""
    built = kernel()

    def play() -> Performance:
        inside, copies = with_schedules_inside(run.experiment, folder.path)
        own = own_files.copied(folder.path)
        write_whole(folder.path / "experiment.yaml", inside.to_yaml())
        write_json(
            folder.path / guest_main.ORDER,
            {
                "label": run.choice.label,
                "seed": run.seed,
                "wiring": asdict(setting.wiring),
                "captures": run.captures,
            },
        )
        guest = Guest(
            kernel=built.program,
            folder=folder.path,
            command=in_guest(own),
            memory_byte=memory_byte(run.experiment),
            silence_s=silence_s(run.experiment, setting),
            run_id=run.run_id,
            seed=run.seed,
        )
        heard = Heard(on_time)
        with a_core() as core:
            try:
                boot(replace(guest, core=core), folder.logs / "console.log", heard, _cancelled)
            except RunFailed:
                if is_full(folder.path):  # on which processes in the guest die of anything
                    raise disk_full(folder.path) from None
                if heard.failure is None:
                    raise
                why = heard.failure.replace(FOLDER, str(folder.path))
                raise RunFailed(f"{why}; all logs of the guest: {folder.logs}") from None
        result = folder.path / guest_main.RESULT
        if not result.exists():
            raise RunFailed(f"the guest left no result; its console: {folder.logs / 'console.log'}")
        performance = Performance(**json.loads(result.read_text()))
        for name in (guest_main.ORDER, guest_main.RESULT, "experiment.yaml", *copies):
            (folder.path / name).unlink()
        own_files.forget(folder.path, own)
        return performance

    sealed(run, folder, setting, NAME, play, kernel=f"Linux {built.version}, virtual clock")


def with_schedules_inside(experiment: Experiment, folder: Path) -> tuple[Experiment, list[str]]:
    """The experiment with its schedules copied beside it, and the copies' names.

    The guest has a /run, /tmp and /dev/shm of its own, and cannot see everything on the machine.
    """
    mixes, copies = [], []
    for index, mix in enumerate(experiment.flows):
        if mix.schedule is not None:
            name = f"schedule-{index}.csv"
            with writing(folder / name):
                shutil.copyfile(mix.schedule, folder / name)
            copies.append(name)
            mix = mix.model_copy(update={"schedule": Path(name)})
        mixes.append(mix)
    return experiment.model_copy(update={"flows": tuple(mixes)}), copies


class Heard:
    """What a guest says while it plays: how far it is, or why it cannot go on."""

    def __init__(self, on_time: Callable[[int], None]) -> None:
        self._on_time = on_time
        self.failure: str | None = None

    def __call__(self, line: str) -> None:
        if line.isdecimal():
            self._on_time(int(line))
        elif line.startswith(guest_main.FAILED):
            self.failure = line.removeprefix(guest_main.FAILED)


@contextmanager
def a_core() -> Iterator[int | None]:
    """A processor core that no other guest of ours runs on, if there is one."""
    try:
        core = _free_cores.get_nowait()
    except queue.Empty:
        yield None
        return
    try:
        yield core
    finally:
        _free_cores.put(core)


def in_guest(own: Mapping[str, str] | None = None) -> list[str]:
    """The command that the guest runs; what could differ from run to run is pinned.

    `own`: folders in the run's that hold policies and topologies of the user's.
    """
    pinned = ["PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1"]
    if sys.version_info < (3, 12):  # Mininet wants distutils; setuptools' own loads forty modules
        pinned += ["SETUPTOOLS_USE_DISTUTILS=stdlib"]
    pinned += [f"PYTHONPATH={CHECKOUT}"]  # the guest plays this code, whatever .venv has installed
    pinned += [f"{variable}={FOLDER}/{name}" for variable, name in (own or {}).items()]
    return ["env", *pinned, sys.executable, "-m", "testbed.virtual.guest_main", FOLDER]


def silence_s(experiment: Experiment, setting: Setting) -> float:
    """How long a guest may say nothing: it grows with the packets between two words."""
    links_bps = sum(link.cable.rate_bps for link in setting.topology.links)
    frame_byte = 15_000 if setting.wiring.offload else 1_500
    packets = links_bps / 8 * experiment.duration_ns / 1e9 / frame_byte * SAMPLE
    stacks = STACK_START_S * bool(experiment.backends - {"native"})
    nodes = NODE_START_S * (len(setting.topology.hosts) + len(setting.topology.switches))
    rings = sum(len(job.host_names) for job in experiment.training if not job.has_servers)
    starts = nodes + TASK_START_S * (rings + 2 * experiment.topology.hosts)
    return SILENCE_S + starts + stacks + SILENCE_FACTOR * packets * PACKET_S
