"""Tasks have an owner: they start, they speak, and they go when it goes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from basics.errors import CannotRun, RunFailed
from testbed import processes
from testbed.live.crew import Crew
from testbed.processes import Nursery, start_time
from workloads.control import Control


def obedient(config: dict[str, object], control: Control) -> None:
    control.say("ready", got=config)
    control.hear()


def aborting_at_the_end(config: dict[str, object], control: Control) -> None:
    control.say("done")
    control.hear()
    os.abort()


def failing(config: dict[str, object], control: Control) -> None:
    control.say("ready")
    print("about to fail")
    raise ValueError("on purpose")


def silent(config: dict[str, object], control: Control) -> None:
    time.sleep(60)


def alive(pid: int | None) -> bool:
    return pid is not None and start_time(pid) is not None


def wait_gone(pid: int | None) -> None:
    for _ in range(300):
        if not alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def crew_of(nursery: Nursery, target: str, tmp_path: Path) -> Crew:
    task = nursery.start(
        f"tests.test_processes:{target}", {"x": 1}, name=target, log=tmp_path / "task.log"
    )
    return Crew(nursery, [task])


def test_a_task_gets_its_configuration_and_ends_when_told(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        crew = crew_of(nursery, "obedient", tmp_path)
        crew.await_all("ready")
        assert crew.tasks[0].said["ready"]["got"] == {"x": 1}
        crew.dismiss()
        assert crew.tasks[0].exit_code == 0


def test_how_a_task_ends_after_its_work_does_not_matter(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        crew = crew_of(nursery, "aborting_at_the_end", tmp_path)
        crew.await_all("done")
        crew.dismiss()
        assert crew.tasks[0].exit_code == -signal.SIGABRT


def test_a_task_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        crew = crew_of(nursery, "failing", tmp_path)
        with pytest.raises(RunFailed, match=r"(?s)failing ended with code 1.*on purpose"):
            crew.await_all("done")


def test_a_silent_task_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.live.crew.HANG_LIMIT_S", 0.5)
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        crew = crew_of(nursery, "silent", tmp_path)
        with pytest.raises(RunFailed, match=r"silent \(process \d+\) has been silent"):
            crew.await_all("ready")


def test_leaving_the_nursery_ends_every_task(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        crew = crew_of(nursery, "obedient", tmp_path)
        crew.await_all("ready")
        pid = crew.tasks[0].pid
        assert alive(pid)
    wait_gone(pid)


def test_tasks_die_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from testbed.processes import Nursery
        from testbed.live.crew import Crew
        nursery = Nursery("test00", Path({str(tmp_path)!r}) / "nursery.log").__enter__()
        crew = Crew(nursery, [nursery.start("tests.test_processes:obedient", {{}},
                    name="a", log=Path({str(tmp_path)!r}) / "a.log")])
        crew.await_all("ready")
        print(crew.tasks[0].pid, flush=True)
        import time; time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        pid = int(controller.stdout.readline())
        assert alive(pid)
        controller.kill()
    wait_gone(pid)


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(RunFailed, match=r"`sh -c echo no >&2; exit 3` failed \(3\): no"):
        processes.run(["sh", "-c", "echo no >&2; exit 3"])


def test_a_missing_command_says_what_to_do() -> None:
    with pytest.raises(CannotRun, match="make setup"):
        processes.run(["no-such-command-at-all"])


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(RunFailed, match="did not end within"):
        processes.run(["sleep", "20"], limit_s=0.2)


def test_start_time_tells_a_process_from_its_successor() -> None:
    assert start_time(os.getpid()) == start_time(os.getpid())
    assert start_time(2**22 - 1) is None
