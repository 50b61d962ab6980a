"""Where Giveway itself is: a clone; or an installation, which has no Makefile to point to."""

from pathlib import Path

HOME = Path(__file__).parents[1]
IS_CLONE = (HOME / "Makefile").is_file()
# What each target of the Makefile is where there is none.
INSTEAD = {
    "make setup": "sudo apt install mininet bridge-utils ethtool iputils-ping iproute2 iperf3",
    "make virtual": "giveway build-kernel",
    "make torch": "pip install torch torchvision",
    "make dask": "pip install 'giveway[dask]'",
}


def how(target: str) -> str:
    """The command that does what a target of the Makefile does, where this is installed."""
    return target if IS_CLONE else INSTEAD[target]


def shipped(path: Path) -> Path:
    """A file of the user's; or, where there is none, one that ships, by its path or bare name."""
    if path.is_absolute() or path.exists():
        return path
    ours = HOME / "experiments"
    for candidate in (HOME / path, ours / f"{path}.yaml", ours / path):
        if candidate.is_file() and candidate.parent != HOME:
            return candidate
    return path
