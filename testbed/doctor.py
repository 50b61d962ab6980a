"""`giveway doctor`: what this machine can run, and what to do about the rest."""

import secrets

from rich.console import Console

import policies
from testbed import machine
from testbed.errors import CannotRun

GOOD, BAD = "[green]yes[/]", "[red]no [/]"


def examine(console: Console, measure: bool) -> bool:
    """Print the findings; True if the realtime engine can run here."""
    here = machine.probe()
    console.print(f"kernel      {machine.kernel()}", highlight=False)
    try:
        machine.demand_realtime()
        ready = True
        console.print(f"realtime    {GOOD}")
    except CannotRun as why:
        ready = False
        console.print(f"realtime    {BAD}  {why}", highlight=False)
    if not here.root:
        console.print("Run as root to see what the kernel offers.")
        return ready
    console.print(f"qdiscs      {' '.join(sorted(here.features))}", highlight=False)
    console.print(f"tcp         {' '.join(sorted(here.tcp))}", highlight=False)
    strict = GOOD if "netem" in here.features else f"{BAD}  no netem: write `delay: about 10 us`"
    console.print(f"exact delay {strict}")
    for name, policy in policies.available().items():
        lacking = ", ".join(sorted(policy.needs - here.features))
        state = f"{BAD}  the kernel lacks {lacking}" if lacking else GOOD
        console.print(f"policy      {state}  {name}", highlight=False)
    if measure and ready:
        from testbed import capacity
        from testbed.realtime import exclusive

        with exclusive():
            for offload in (True, False):
                found = capacity.measured(offload, console.print, secrets.token_hex(3))
                state = "on " if offload else "off"
                console.print(f"capacity    {found / 1e9:.1f} Gbit/s, offloads {state}")
    return ready
