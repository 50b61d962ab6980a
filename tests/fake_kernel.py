"""A program in the place of the guest's kernel, for tests of what the engine makes of a guest.

It is started as a kernel is: in the boot folder, where `folder` leads to the run folder, with the
progress pipe as standard input and the console as standard output.
"""

from pathlib import Path
from textwrap import dedent

import pytest

from testbed.engine import Run
from testbed.run_folder import RunFolder
from testbed.spec import load
from testbed.virtual import engine
from testbed.virtual.build import Kernel


def play(
    script: str, experiment_file: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunFolder, list[int]]:
    """Execute a run whose kernel is this Python script; the folder, and the progress heard."""
    program = place / "linux"
    program.write_text("#!/usr/bin/python3\n" + dedent(script))
    program.chmod(0o755)
    monkeypatch.setattr(engine, "kernel", lambda: Kernel(program, "7.2", "", 0.0))
    experiment = load(experiment_file, ["dilation=auto"])
    run = Run(experiment, experiment.policies[0], 0, "test00")
    heard: list[int] = []
    folder = RunFolder(place / "run")
    engine.execute(run, folder, engine.settle(experiment, print, "test00"), heard.append)
    return folder, heard
