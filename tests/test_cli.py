"""The command line: help, bad input, lists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from policies.link import link_policies
from testbed import __version__
from testbed.cli.options import ENVIRONMENT
from tests.conftest import REPOSITORY, giveway
from tests.run_folders import Folder, write
from workloads import profiles, sizes


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "sweep",
        "report",
        "reproduce",
        "profile",
        "doctor",
        "list",
        "clean",
        "export",
        "compare",
        "build-kernel",
    ],
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


def test_the_list_has_a_line_for_everything_and_all_of_it_where_it_is_asked_for() -> None:
    short, whole = giveway("list").stdout, giveway("list", "policies", "profiles").stdout
    everything = [*link_policies(), *profiles.available()]
    for name in everything:
        [line] = [line for line in short.splitlines() if line.split()[:1] == [name]][:1]
        assert len(line) <= 80
    assert "threshold: " in whole
    assert "threshold: " not in short
    assert all(name in whole for name in everything)
    assert "web-search" not in [line.split()[0] for line in whole.splitlines() if line.strip()]
    assert all(word in short.splitlines()[-1] for word in ("profiles", "sizes"))


def test_a_mistyped_experiment_is_answered_by_those_that_ship() -> None:
    done = giveway("run", "quikstart")
    assert done.returncode == 2
    assert done.stderr == (
        "giveway: quikstart: there is no such file; did you mean quickstart? "
        "`giveway list experiments` has all\n"
    )
    assert "did you mean" not in giveway("run", "nothing/like/it.yaml").stderr


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


def test_help_lists_the_environment() -> None:
    done = giveway("--help")
    assert all(name in done.stdout for name in ENVIRONMENT)
    _, *lines = done.stdout.splitlines()
    assert not [line for line in lines if "..." in line or len(line) > 80]  # none is cut


def test_every_variable_that_commands_read_is_in_the_help() -> None:
    """Those of set-up scripts, and what a run tells its own processes, are no user's."""
    inner = {"GIVEWAY_RUN", "GIVEWAY_CONTROLLER", "GIVEWAY_PID_NAMESPACE", "GIVEWAY_COMPILE"}
    read = {
        name
        for folder in ("basics", "testbed", "workloads", "analysis")
        for path in (REPOSITORY / folder).rglob("*.py")
        for name in re.findall(r"\bGIVEWAY_[A-Z_]*[A-Z]", path.read_text())
    }
    assert read - inner - {"GIVEWAY_DOCKER_RUN"} == ENVIRONMENT.keys()


def test_the_version_is_the_packages() -> None:
    assert giveway("--version").stdout == f"giveway {__version__}\n"


def test_quiet_says_nothing_and_verbose_says_more(tmp_path: Path) -> None:
    out = write(tmp_path / "out", Folder(seeds=(0,), flows=60))
    usual, wordy = (giveway(*words, "report", out) for words in ([], ["-v"]))
    assert giveway("-q", "report", out).stdout == ""
    assert "fifo, seed 0: faithful, digest " in wordy.stdout
    assert "fifo, seed 0" not in usual.stdout
    refused = giveway("-q", "report", tmp_path / "nothing")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert giveway("-q", "-v", "report", out).returncode == 2


def test_the_shell_can_complete_commands() -> None:
    asked = {"_GIVEWAY_COMPLETE": "complete_bash", "COMP_WORDS": "giveway rep", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("giveway")], env={**os.environ, **asked},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["reproduce", "report"]


def test_an_experiment_that_ships_is_found_from_anywhere(tmp_path: Path) -> None:
    for name in ("quickstart", "experiments/quickstart.yaml"):
        done = giveway("run", name, "--engine", "warp", cwd=tmp_path)
        assert "--engine warp" in done.stderr  # the file was no trouble
        done = giveway("run", name, "--seed", "-1", cwd=tmp_path)
        assert "--seed" in done.stderr
    assert "pyproject" in giveway("run", "pyproject.toml", cwd=tmp_path).stderr
