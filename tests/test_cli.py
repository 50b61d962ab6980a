"""The command line: help, bad input, lists."""

import pytest

from policies.link import link_policies
from tests.conftest import giveway
from workloads import profiles, sizes


@pytest.mark.parametrize(
    "command", ["run", "sweep", "report", "reproduce", "profile", "doctor", "list", "clean"]
)
def test_help_shows_an_example(command: str) -> None:
    done = giveway(command, "--help")
    assert done.returncode == 0
    assert f"Example: giveway {command}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "no-such-file.yaml"], "no-such-file.yaml"),
        (["run", "experiments"], "directory"),
        (["run", "experiments/quickstart.yaml", "--engine", "warp"], "realtime"),
        (["run", "experiments/quickstart.yaml", "--policy", "fif"], "fifo"),
        (["run", "experiments/quickstart.yaml", "--seed", "-1"], "--seed"),
        (["run", "experiments/quickstart.yaml", "--set", "topology.rate=0 Gbit/s"], "rate"),
        (["run", "experiments/quickstart.yaml", "--set", "polices=[fifo]"], "policies"),
        (["run", "experiments/quickstart.yaml", "--set", "nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = giveway(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("giveway: ")


def test_an_unknown_option_is_exit_code_2() -> None:
    assert giveway("run", "experiments/quickstart.yaml", "--polcy", "fifo").returncode == 2


def test_list_names_everything_there_is() -> None:
    done = giveway("list")
    assert done.returncode == 0
    names = [*link_policies(), *profiles.available(), *sizes.available(), "quickstart.yaml"]
    assert all(name in done.stdout for name in names)


def test_report_refuses_what_is_not_a_run(tmp_path: object) -> None:
    done = giveway("report", str(tmp_path))
    assert done.returncode != 0
    assert done.stderr.startswith("giveway: ")
    assert "Traceback" not in done.stderr


@pytest.mark.root
def test_doctor_says_what_the_machine_can_do() -> None:
    done = giveway("doctor")
    assert done.returncode == 0
    assert "htb" in done.stdout
    assert all(name in done.stdout for name in link_policies())
