"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from basics.home import shipped
from testbed import own_files


def _policies(folder: Path | None) -> Path | None:
    if folder is not None:
        own_files.adopt("--policies", own_files.POLICIES, folder)
    return folder


def _topologies(folder: Path | None) -> Path | None:
    if folder is not None:
        own_files.adopt("--topologies", own_files.TOPOLOGIES, folder)
    return folder


# Eager: what a file says is understood only once these are known.
OwnPolicies = Annotated[
    Path | None,
    typer.Option(
        "--policies", help="a folder with policies of your own", callback=_policies,
        envvar=own_files.POLICIES, is_eager=True,
    ),
]  # fmt: skip
OwnTopologies = Annotated[
    Path | None,
    typer.Option(
        "--topologies", help="a folder with topologies of your own", callback=_topologies,
        envvar=own_files.TOPOLOGIES, is_eager=True,
    ),
]  # fmt: skip
ExperimentFile = Annotated[
    Path, typer.Argument(help="an experiment file, or the name of one that ships", callback=shipped)
]
SweepFile = Annotated[
    Path, typer.Argument(help="an experiment file with a sweep: block", callback=shipped)
]

ENVIRONMENT = {
    "GIVEWAY_CACHE": "for kernel and compiled code (~/.cache/giveway)",
    "GIVEWAY_DEBUG": "1: the traceback of what nobody foresaw, as -v",
    "GIVEWAY_POLICIES": "a folder with policies of your own, as --policies",
    "GIVEWAY_TOPOLOGIES": "a folder with topologies of your own, as --topologies",
    "GIVEWAY_KERNEL_SOURCE": "Linux source for the virtual engine's kernel",
}
# After \b lines stay as they are.
EPILOG = "\n".join(
    [
        "\b",
        "Begin with:",
        "  giveway doctor                           what works on this machine",
        "  giveway run quickstart --engine fluid    an experiment, in seconds; no root",
        "  giveway list                             what else there is, a line each",
        "",
        "\b",
        "Environment:",
        *(f"  {name:22} {what}" for name, what in ENVIRONMENT.items()),
    ]
)
