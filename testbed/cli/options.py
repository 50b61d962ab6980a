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
    "GIVEWAY_CACHE": "where the kernel and compiled code are kept (~/.cache/giveway)",
    "GIVEWAY_DEBUG": "1 shows the traceback of what nobody foresaw, as -v does",
    "GIVEWAY_POLICIES": "a folder with policies of your own, as --policies",
    "GIVEWAY_TOPOLOGIES": "a folder with topologies of your own, as --topologies",
    "GIVEWAY_KERNEL_SOURCE": "a Linux source to build the virtual engine's kernel from",
}
EPILOG = "Environment: " + "; ".join(f"{name}: {what}" for name, what in ENVIRONMENT.items()) + "."
