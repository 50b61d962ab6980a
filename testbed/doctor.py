"""`giveway doctor`: what this machine can run, and what to do about the rest."""

import secrets

from rich.console import Console

import policies
from testbed import machine
from testbed.errors import CannotRun
from testbed.virtual.build import find
from testbed.virtual.features import features, tcp_names

YES, NO = "[green]yes[/]", "[red]no [/]"


def examine(console: Console, measure: bool) -> bool:
    """Print the findings; True if any engine can run here."""
    here = machine.probe()
    built = find()

    def line(name: str, ready: bool, text: str = "") -> None:
        console.print(f"{name:12}{YES if ready else NO}  {text}", highlight=False)

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

    offers = {"virtual": features() if built else frozenset()}
    if here.root:
        offers["realtime"] = here.features
        console.print("\n[bold]realtime engine[/]")
        netem = "netem" in here.features
        line("exact delay", netem, "" if netem else "no netem: write `delay: about 10 us`")
        console.print(f"{'qdiscs':12}{' '.join(sorted(here.features))}", highlight=False)
        console.print(f"{'tcp':12}{' '.join(sorted(here.tcp))}", highlight=False)
    if built:
        console.print("\n[bold]virtual engine[/]")
        console.print(f"{'qdiscs':12}{' '.join(sorted(features()))}", highlight=False)
        console.print(f"{'tcp':12}{' '.join(sorted(tcp_names()))}", highlight=False)
    console.print("\n[bold]policies[/]")
    for name, policy in policies.available().items():
        able = [engine for engine, offered in offers.items() if policy.needs <= offered]
        where = " and ".join(able) or "no engine here has its qdiscs"
        console.print(f"{name:18}{YES if able else NO}  {where}", highlight=False)
    if measure and realtime:
        _measure(console)
    return realtime or built is not None


def _measure(console: Console) -> None:
    from testbed import capacity
    from testbed.realtime import exclusive

    with exclusive():
        for offload, rate_bps in ((True, 10**9), (True, 10**10), (False, 10**10)):
            found = capacity.measured(offload, rate_bps, console.print, secrets.token_hex(3))
            links = f"{rate_bps // 10**9} Gbit/s links, offloads {'on' if offload else 'off'}"
            console.print(f"capacity    {found / 1e9:.1f} Gbit/s over {links}", highlight=False)
