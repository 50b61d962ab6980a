"""A worker for which memory runs out, outside of containers: named, and with what to do."""

from pathlib import Path

import pytest

from testbed.crew import kills_for_memory, memory_ran_out
from testbed.engine import Run
from testbed.errors import RunFailed
from testbed.folder import RunFolder
from testbed.spec import load
from testbed.virtual import engine


@pytest.mark.virtual
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
def test_a_worker_out_of_memory_is_named(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a guest, whose memory can run out without harm to the machine."""
    changes = ["training.0.model=8 GB", "training.0.fusion=8 GB", "dilation=auto"]
    experiment = load(small_experiment, changes)
    monkeypatch.setattr(engine, "memory_byte", lambda experiment: 512 * 2**20)
    run = Run(experiment, experiment.policies[0], 0, "test00")
    setting = engine.settle(experiment, lambda line: None, run.run_id)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunFailed, match=r"(?s)Unable to allocate .*job-h\d.log"):
        engine.execute(run, folder, setting, lambda time_ns: None)
    assert '"failed"' in (folder.path / "manifest.json").read_text()


def test_a_kernel_that_counts_tells_who_was_killed_for_memory() -> None:
    assert kills_for_memory() is not None, "any ordinary kernel counts"
    assert memory_ran_out(3, 3) == ""
    assert memory_ran_out(3, 4).startswith(": memory ran out")
    assert memory_ran_out(None, None).startswith(": perhaps memory ran out")
