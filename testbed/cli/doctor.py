"""`giveway doctor`: what this machine can run, and what to do about the rest."""

import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console

from basics.errors import CannotRun
from basics.folding import FoldingTable
from basics.home import IS_CLONE, how
from policies.link import LinkPolicy, Port, link_policies
from testbed import cache, machine, stacks
from testbed.containers import docker_engine, image, isolation
from testbed.engine import KERNEL_MARKS, MULTIPATH, lacking, no_kernel_marks
from testbed.virtual.build import find
from testbed.virtual.confine import MOUNTS
from testbed.virtual.features import features, tcp_names
from testbed.virtual.guest import held_by

SEVERAL_WAYS = "leaf-spine and fat-tree: flows are shared out by five-tuple"
OLD = "that needs Linux 6.11 with IP_ROUTE_MULTIPATH"
FIRST_FILE = "experiments/quickstart.yaml"
A_PORT = Port("h1-eth0", rate_bps=10**9, queue_packets=1000)
Line = Callable[[str, bool, str], None]
YES, NO = "[green]yes[/]", "[red]no [/]"


def examine(console: Console, measure: bool) -> bool:
    """Print the findings; True if any engine can run here."""
    here = machine.probe()
    simulated, virtual, realtime = _fluid(), _virtual(), _realtime()
    built = find() if virtual.ready else None

    def line(name: str, ready: bool, text: str = "") -> None:
        hanging(console, 19, f"{name:14}{YES if ready else NO}", text)

    engines = {"fluid": simulated, "virtual": virtual, "realtime": realtime}
    for text in first_words(engines):
        console.print(text, highlight=False, soft_wrap=True)
    console.print("\n[bold]engines[/]")
    for name, found in engines.items():
        line(name, found.ready, found.text)

    _docker(line, realtime.ready)
    console.print("\n[bold]training stacks[/]")
    _stacks(line)

    offers = {"virtual": features() if built else frozenset()}
    if here.root:
        offers["realtime"] = here.features
        console.print("\n[bold]realtime engine[/]")
        netem = "netem" in here.features
        line("exact delay", netem, "" if netem else "no netem: write `delay: about 10 us`")
        ways = MULTIPATH in here.features
        line("several ways", ways, SEVERAL_WAYS if ways else "no leaf-spine, no fat-tree: " + OLD)
        line("kernel marks", *_kernel_marks(here.features))
        qdiscs = sorted(here.features - {MULTIPATH, KERNEL_MARKS})
        hanging(console, 14, "qdiscs", " ".join(qdiscs))
        hanging(console, 14, "tcp", " ".join(sorted(here.tcp)))
    if built:
        console.print("\n[bold]virtual engine[/]")
        line("confined", *_confined(held_by()))
        line("several ways", MULTIPATH in features(), SEVERAL_WAYS)
        line("kernel marks", *_kernel_marks(features()))
        qdiscs = sorted(features() - {MULTIPATH, KERNEL_MARKS})
        hanging(console, 14, "qdiscs", " ".join(qdiscs))
        hanging(console, 14, "tcp", " ".join(sorted(tcp_names())))
    console.print("\n[bold]policies[/]")
    wide = max(map(len, link_policies())) + 2
    for name, policy in link_policies().items():
        able = [engine for engine, offered in offers.items() if not lacking(policy, offered)]
        if simulated.ready and simulable(policy):
            able.insert(0, "fluid")
        where = ", ".join(able) or "no engine here has what it needs"
        console.print(f"{name:{wide}}{YES if able else NO}  {where}", highlight=False)
    if measure and realtime.ready:
        _measure(console)
    return any(found.ready for found in engines.values())


def hanging(console: Console, width: int, head: str, text: str) -> None:
    """A line whose text goes on below itself where the terminal is too narrow for it."""
    grid = FoldingTable.grid()
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(head, text)
    console.print(grid, highlight=False)


@dataclass(frozen=True)
class EngineHere:
    """Whether an engine can run on this machine: what it is then, or what to do about it."""

    ready: bool
    text: str
    more: str = ""  # the one command that makes it work


def first_words(engines: Mapping[str, EngineHere]) -> Iterator[str]:
    """What works now and how to try it; and the one command that makes more work."""
    ready = [name for name, found in engines.items() if found.ready]
    if ready:
        yield f"works now     {', '.join(ready)}: giveway run {FIRST_FILE} --engine {ready[0]}"
    else:
        yield "works now     nothing; the lines below say why"
    for found in engines.values():
        if found.more:
            yield f"for more      {found.more}"
            return


def _fluid() -> EngineHere:
    try:
        cache.made()
    except CannotRun as why:
        return EngineHere(False, str(why))
    return EngineHere(True, "a simulation of flows; no root, no kernel, any machine")


def simulable(policy: LinkPolicy) -> bool:
    from testbed.fluid.disciplines import refusal

    return refusal(policy, [A_PORT]) is None


def _virtual() -> EngineHere:
    try:
        built = find()
    except CannotRun as why:
        return EngineHere(False, str(why))
    if built is None:
        make = how("make virtual")
        better = f"`{make}`, once, about 5 minutes: a real kernel with a virtual clock, no root"
        return EngineHere(False, f"its kernel is not built: run `{make}`", better)
    if not machine.importable(machine.MININET):
        return EngineHere(False, machine.NO_MININET)
    return EngineHere(True, f"Linux {built.version} with a virtual clock, no root needed")


def _realtime() -> EngineHere:
    try:
        machine.demand_realtime()
    except CannotRun as why:
        if machine.probe().root:
            return EngineHere(
                False, str(why), f"`{how('make setup')}`: what the realtime engine needs"
            )
        program = ".venv/bin/giveway" if IS_CLONE else sys.argv[0]
        sudo = f"`sudo {program} …`: the realtime engine, on this machine's own kernel"
        return EngineHere(False, machine.NO_ROOT, sudo)
    return EngineHere(True, machine.kernel())


def _confined(means: list[str]) -> tuple[bool, str]:
    """Whether guests are held to their folders from outside, too."""
    if not means:
        return False, "only its own mount flags keep a guest from this machine's files"
    left = "" if MOUNTS in means else "; modes and times of files are left open to a guest's root"
    return True, f"guests write in their run folder only: {', '.join(means)}{left}"


def _kernel_marks(offered: frozenset[str]) -> tuple[bool, str]:
    """Whether `kernel: 1` of first-bytes and slack-aware can be had."""
    why_not = no_kernel_marks(offered, "this kernel")
    return why_not is None, why_not or "first bytes of any program (`kernel: 1`)"


def _docker(line: Line, realtime: bool) -> None:
    """Whether hosts can be containers here, and whether those are as alone as they should be."""
    try:
        found = docker_engine.demand_engine()
        image_id = docker_engine.demand_image()
    except CannotRun as why:
        line("docker hosts", False, str(why))
        return
    current = f"Docker {found.version}, image {image.NATIVE.name} is up to date"
    line("docker hosts", realtime, current)
    reached = isolation.look_from_inside(image_id)
    alone = "no interface but lo, no route, no capability, not root"
    line("isolation", not reached, f"a container has {', '.join(reached)}" if reached else alone)


def _stacks(line: Line) -> None:
    """The backends of training jobs: what is there, and what it was built for."""
    line("native", True, "Giveway's own")
    for backend in ("torch", "horovod"):
        _stack(line, backend, backend, stacks.here)
    _stack(line, "  in Docker", "horovod", lambda: stacks.inside(image.HOROVOD))


def _stack(line: Line, name: str, backend: str, place: Callable[[], stacks.Place]) -> None:
    try:
        found = place()
        stacks.demand_stack(backend, found)
    except CannotRun as why:
        line(name, False, str(why))
        return
    packages = stacks.STACKS[backend].packages
    line(name, True, ", ".join(f"{package} {found.find(package)}" for package in packages))


def _measure(console: Console) -> None:
    from testbed.realtime import capacity
    from testbed.realtime.engine import exclusive

    with exclusive():
        for offload, rate_bps in ((True, 10**9), (True, 10**10), (False, 10**10)):
            found = capacity.measured(offload, rate_bps, console.print, secrets.token_hex(3))
            links = f"{rate_bps // 10**9} Gbit/s links, offloads {'on' if offload else 'off'}"
            console.print(f"capacity    {found / 1e9:.1f} Gbit/s over {links}", highlight=False)
