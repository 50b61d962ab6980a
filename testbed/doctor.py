"""`giveway doctor`: what this machine can run, and what to do about the rest."""

import secrets
from collections.abc import Callable

from rich.console import Console

import policies
from testbed import docker, image, isolation, machine, stacks
from testbed.engine import MULTIPATH
from testbed.errors import CannotRun
from testbed.virtual.build import find
from testbed.virtual.features import features, tcp_names

SEVERAL_WAYS = "leaf-spine and fat-tree: flows are shared out by five-tuple"
OLD = "that needs Linux 6.11 with IP_ROUTE_MULTIPATH"
Line = Callable[[str, bool, str], None]
YES, NO = "[green]yes[/]", "[red]no [/]"


def examine(console: Console, measure: bool) -> bool:
    """Print the findings; True if any engine can run here."""
    here = machine.probe()
    built = find()

    def line(name: str, ready: bool, text: str = "") -> None:
        console.print(f"{name:14}{YES if ready else NO}  {text}", highlight=False)

    console.print("[bold]engines[/]")
    line(
        "virtual",
        built is not None,
        f"Linux {built.version} with a virtual clock, no root needed"
        if built
        else "its kernel is not built: run `make virtual`",
    )
    try:
        machine.demand_realtime()
        realtime = True
        line("realtime", True, machine.kernel())
    except CannotRun as why:
        realtime = False
        line("realtime", False, str(why))

    _docker(line, realtime)
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
        qdiscs = sorted(here.features - {MULTIPATH})
        console.print(f"{'qdiscs':14}{' '.join(qdiscs)}", highlight=False)
        console.print(f"{'tcp':14}{' '.join(sorted(here.tcp))}", highlight=False)
    if built:
        console.print("\n[bold]virtual engine[/]")
        line("several ways", MULTIPATH in features(), SEVERAL_WAYS)
        qdiscs = sorted(features() - {MULTIPATH})
        console.print(f"{'qdiscs':14}{' '.join(qdiscs)}", highlight=False)
        console.print(f"{'tcp':14}{' '.join(sorted(tcp_names()))}", highlight=False)
    console.print("\n[bold]policies[/]")
    for name, policy in policies.available().items():
        able = [engine for engine, offered in offers.items() if policy.needs <= offered]
        where = " and ".join(able) or "no engine here has its qdiscs"
        console.print(f"{name:18}{YES if able else NO}  {where}", highlight=False)
    if measure and realtime:
        _measure(console)
    return realtime or built is not None


def _docker(line: Line, realtime: bool) -> None:
    """Whether hosts can be containers here, and whether those are as alone as they should be."""
    try:
        found = docker.demand_engine()
        image_id = docker.demand_image()
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
    from testbed import capacity
    from testbed.realtime import exclusive

    with exclusive():
        for offload, rate_bps in ((True, 10**9), (True, 10**10), (False, 10**10)):
            found = capacity.measured(offload, rate_bps, console.print, secrets.token_hex(3))
            links = f"{rate_bps // 10**9} Gbit/s links, offloads {'on' if offload else 'off'}"
            console.print(f"capacity    {found / 1e9:.1f} Gbit/s over {links}", highlight=False)
