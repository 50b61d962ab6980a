"""Giveway from Python: docs/api.md. It brings no other module of Giveway into your process.

What runs is the command, in a process of its own: `run` starts it and waits, `load` reads what it
has left.
"""

from giveway.loaded import CommandFailed, LoadedFolder, load
from giveway.running import experiment, policy, run

__all__ = ["CommandFailed", "LoadedFolder", "experiment", "load", "policy", "run"]
