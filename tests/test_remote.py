"""`giveway on`, over a real SSH server on loopback."""

import io
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from basics.errors import BadInput
from testbed.processes import start_time
from testbed.remote import archive, checkout
from tests import far_machine
from tests.conftest import REPOSITORY, giveway
from tests.far_machine import Machine, fake_checkout

MAKES_A_FOLDER = """
out = pathlib.Path("runs/x-1")
(out / "fifo").mkdir(parents=True)
(out / "report.html").write_text("from there")
pathlib.Path("runs/no-folder").touch()
(out / "fifo/flows").write_bytes(bytes(range(256)) * 4096)
print("it runs")
"""
WAITS = """
import os, time
pathlib.Path("runs/x-1").mkdir()
pathlib.Path("runs/x-1/pid").write_text(str(os.getpid()))
try:
    print("started", os.getpid(), flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    pathlib.Path("runs/x-1/cleaned").touch()
    sys.exit(130)
"""


@pytest.fixture
def lab7(tmp_path: Path) -> Iterator[Machine]:
    with far_machine.machine(tmp_path / "machine") as there:
        yield there


def eventually(holds: Callable[[], bool], limit_s: float = 30) -> bool:
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.sshd
def test_results_come_home(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", MAKES_A_FOLDER)
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it runs\nreport: runs/x-1/report.html\n"
    assert "shipping" in done.stderr
    assert (root / "runs/x-1/report.html").read_text() == "from there"
    assert (root / "runs/x-1/fifo/flows").read_bytes() == bytes(range(256)) * 4096
    assert [path.name for path in (root / "runs").iterdir()] == ["x-1"]


@pytest.mark.sshd
def test_what_is_there_is_not_shipped_again(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", "print('one')")
    first = lab7.on(root, "list")
    again = lab7.on(root, "list")
    assert first.returncode == again.returncode == 0
    assert "shipping" in first.stderr
    assert "shipping" not in again.stderr
    assert len(lab7.shipped()) == 1

    (root / "experiments/new.yaml").write_text("print('two')")  # neither tracked nor ignored
    changed = lab7.on(root, "run", "experiments/new.yaml", "--engine", "fluid")
    assert "shipping" in changed.stderr
    assert changed.stdout == "two\n"
    assert len(lab7.shipped()) == 2
    # one environment for both, because their requirements are the same
    assert [len(log.read_text().split()) for log in lab7.cache.glob("venv-*/setups")] == [3]


@pytest.mark.sshd
def test_a_folder_that_is_incomplete_is_shipped_again(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", "print('whole')")
    lab7.on(root, "list")
    (place,) = lab7.shipped()
    (place / ".shipped").unlink()
    (place / "experiments/x.yaml").unlink()
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    assert done.stdout == "whole\n"


@pytest.mark.sshd
@pytest.mark.parametrize("code", [1, 2, 4])
def test_exit_code_and_results_of_a_failed_run_pass_through(
    lab7: Machine, tmp_path: Path, code: int
) -> None:
    fails = f"print('trouble', file=sys.stderr)\nsys.exit({code})\n"
    root = fake_checkout(tmp_path / "here", MAKES_A_FOLDER + fails)
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    assert done.returncode == code
    assert "trouble\n" in done.stderr
    assert (root / "runs/x-1/report.html").exists()


@pytest.mark.sshd
def test_a_folder_here_is_never_overwritten(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", MAKES_A_FOLDER)
    (root / "runs/x-1").mkdir(parents=True)  # even an empty one
    (root / "runs/x-1-2").mkdir()
    (root / "runs/x-1-2/report.html").write_text("mine")
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    assert "report: runs/x-1-3/report.html" in done.stdout
    assert (root / "runs/x-1-3/report.html").read_text() == "from there"
    assert (root / "runs/x-1-2/report.html").read_text() == "mine"
    assert list((root / "runs/x-1").iterdir()) == []


@pytest.mark.sshd
def test_only_what_the_command_changed_is_fetched(lab7: Machine, tmp_path: Path) -> None:
    grows = "import time\np = pathlib.Path('runs/grid')\np.mkdir(exist_ok=True)\n"
    grows += "(p / str(time.time_ns())).touch()\n"
    root = fake_checkout(tmp_path / "here", grows)
    lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    (lab7.shipped()[0] / "runs/old").mkdir()
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    assert "results: runs/grid-2\n" in done.stdout  # what is resumed there comes whole
    assert sorted(path.name for path in (root / "runs").iterdir()) == ["grid", "grid-2"]
    assert len(list((root / "runs/grid-2").iterdir())) == 2


def refuse(lab7: Machine) -> None:
    lab7.configure(Port=str(far_machine.free_port()))


def unknown_name(lab7: Machine) -> None:
    lab7.configure(HostName="no-such-machine.invalid")


def other_key(lab7: Machine) -> None:
    (lab7.near / ".ssh/id_ed25519").unlink()
    far_machine.make_key(lab7.near / ".ssh/id_ed25519")


def no_key(lab7: Machine) -> None:
    (lab7.near / ".ssh/id_ed25519").unlink()
    text = (lab7.near / ".ssh/config").read_text().splitlines()
    kept = [line for line in text if "IdentityFile" not in line]
    (lab7.near / ".ssh/config").write_text("\n".join(kept) + "\n")


def locked_key(lab7: Machine) -> None:
    key = str(lab7.near / ".ssh/id_ed25519")
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", key], check=True)


def host_key_unknown(lab7: Machine) -> None:
    (lab7.near / ".ssh/known_hosts").unlink()


def host_key_changed(lab7: Machine) -> None:
    other = far_machine.make_key(lab7.folder / "other_key")
    (lab7.near / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{lab7.port} {other}\n")


@pytest.mark.sshd
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (unknown_name, "no machine has this name"),
        (refuse, "no connection"),
        (other_key, "must work without a password"),
        (no_key, "must work without a password"),
        (locked_key, "must work without a password"),
        (host_key_unknown, "`ssh lab7` once"),
        (host_key_changed, "not the known one"),
    ],
)
def test_no_way_there_is_one_line_and_exit_code_3(
    lab7: Machine, tmp_path: Path, trouble: Callable[[Machine], None], said: str
) -> None:
    trouble(lab7)
    done = lab7.on(fake_checkout(tmp_path / "here", ""), "list")
    assert done.returncode == 3
    assert done.stderr.startswith("giveway: lab7: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert lab7.shipped() == []
    assert not (lab7.near / ".ssh/known_hosts.old").exists()


@pytest.mark.sshd
def test_known_hosts_of_ssh_config_are_used(lab7: Machine, tmp_path: Path) -> None:
    (lab7.near / ".ssh/known_hosts").rename(lab7.near / "elsewhere")
    lab7.configure(UserKnownHostsFile=f"/dev/null {lab7.near}/elsewhere")
    assert lab7.on(fake_checkout(tmp_path / "here", ""), "list").returncode == 0


@pytest.mark.sshd
def test_a_jump_host_is_checked_as_well(lab7: Machine, tmp_path: Path) -> None:
    lab7.configure(ProxyJump=f"localhost:{lab7.port}")  # known as 127.0.0.1 only
    done = lab7.on(fake_checkout(tmp_path / "here", ""), "list")
    assert done.returncode == 3
    assert "host key is not known" in done.stderr


@pytest.mark.sshd
def test_a_failing_setup_is_exit_code_3(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", "")
    (root / "Makefile").write_text("setup:\n\t@echo no disk left; exit 1\n")
    done = lab7.on(root, "list")
    assert done.returncode == 3
    assert "no disk left" in done.stderr
    assert "`make setup` failed there" in done.stderr


def started(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[0] == "started"
    return int(words[1])


@pytest.mark.sshd
def test_interrupting_ends_it_there_and_brings_home_what_there_is(
    lab7: Machine, tmp_path: Path
) -> None:
    root = fake_checkout(tmp_path / "here", WAITS)
    process = lab7.start(root, "run", "experiments/x.yaml", "--engine", "fluid")
    pid = started(process)
    assert start_time(pid) is not None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert start_time(pid) is None
    assert (root / "runs/x-1/cleaned").exists(), said
    assert said.splitlines()[-2:] == [
        "giveway: interrupting it there …",
        "on: fetching x-1 (0.0 MB)",
    ]


@pytest.mark.sshd
def test_losing_the_connection_ends_it_there(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", WAITS)
    process = lab7.start(root, "run", "experiments/x.yaml", "--engine", "fluid")
    pid = started(process)
    process.kill()
    process.communicate(timeout=60)
    assert eventually(lambda: start_time(pid) is None)
    assert (lab7.shipped()[0] / "runs/x-1/cleaned").exists()


@pytest.mark.sshd
def test_a_connection_that_breaks_is_exit_code_3(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", WAITS)
    process = lab7.start(root, "run", "experiments/x.yaml", "--engine", "fluid")
    pid = started(process)
    session = next(p for p in psutil.Process(pid).parents() if p.name().startswith("sshd"))
    session.kill()  # the server's end of this one connection
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the connection was lost" in said.splitlines()[-1]
    assert eventually(lambda: start_time(pid) is None)


@pytest.mark.sshd
def test_two_at_once_in_one_checkout_are_refused(lab7: Machine, tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", WAITS)
    process = lab7.start(root, "run", "experiments/x.yaml", "--engine", "fluid")
    pid = started(process)
    second = lab7.on(root, "run", "experiments/x.yaml", "--engine", "fluid")
    looking = lab7.on(root, "list")
    assert start_time(pid) is not None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert second.returncode == 3
    assert "at work there" in second.stderr
    assert looking.returncode == 0


@pytest.mark.sshd
@pytest.mark.parametrize(
    ("command", "through_sudo"),
    [
        (["run", "experiments/x.yaml", "--engine", "realtime"], True),
        (["run", "experiments/x.yaml"], True),  # auto is realtime in the fake
        (["run", "experiments/x.yaml", "--engine", "virtual"], False),
        (["clean"], True),
        (["list"], False),
    ],
)
def test_sudo_is_for_what_needs_root(
    lab7: Machine, tmp_path: Path, command: list[str], through_sudo: bool
) -> None:
    program(lab7.path / "id", "echo 1000")
    program(lab7.path / "sudo", f'echo "$@" >> {lab7.folder}/sudo.log; shift; exec "$@"')
    done = lab7.on(fake_checkout(tmp_path / "here", "print('x')"), *command)
    assert done.returncode == 0, done.stderr
    log = lab7.folder / "sudo.log"
    assert ("-m testbed" in (log.read_text() if log.exists() else "")) == through_sudo


@pytest.mark.sshd
def test_without_sudo_what_needs_root_is_refused(lab7: Machine, tmp_path: Path) -> None:
    program(lab7.path / "id", "echo 1000")
    program(lab7.path / "sudo", "exit 1")
    root = fake_checkout(tmp_path / "here", "print('x')")
    done = lab7.on(root, "run", "experiments/x.yaml", "--engine", "realtime")
    assert done.returncode == 3
    assert "needs root there" in done.stderr
    assert lab7.on(root, "doctor").returncode == 0  # sees less, and says so


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["run", "{outside}/y.yaml"], "not in"),
        (["run", "runs/y.yaml"], "git ignores it"),
        (["run", "experiments/none.yaml"], "no such file"),
        (["run", "experiments/x.yaml", "--out", "{outside}/results"], "--out"),
        (["run", "experiments/x.yaml", "--out", "runs/../../x"], "--out"),
        (["run", "experiments/x.yaml", "--out", "runs"], "--out"),
        (["run", "experiments/x.yaml", "--engine", "warp"], "warp"),
        (["run", "experiments/x.yaml", "--polcy", "fifo"], "--polcy"),
        (["report", "runs/x"], "brought home"),
        (["dance"], "dance"),
    ],
)
def test_bad_input_is_said_before_anything_is_opened(
    tmp_path: Path, command: list[str], said: str
) -> None:
    root = fake_checkout(tmp_path / "here", "")
    for folder in (tmp_path / "outside", root / "runs"):
        folder.mkdir()
        (folder / "y.yaml").touch()
    near = Machine(tmp_path, 0)
    near.near.mkdir()
    filled = [word.format(outside=tmp_path / "outside") for word in command]
    done = near.on(root, *filled, host="no-such-machine.invalid")
    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_no_checkout_is_exit_code_2(tmp_path: Path) -> None:
    near = Machine(tmp_path, 0)
    near.near.mkdir()
    done = near.on(tmp_path, "list")
    assert done.returncode == 2
    assert "not a git checkout" in done.stderr


def test_the_digest_is_of_names_contents_and_permissions(tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", "")
    file = root / "experiments/x.yaml"
    seen = {checkout.here(root).digest}
    for change in (
        lambda: file.write_text("other"),
        lambda: file.chmod(0o755),
        lambda: file.rename(file.with_name("y.yaml")),
        lambda: (root / "link").symlink_to("Makefile"),
    ):
        change()
        assert checkout.here(root).digest not in seen
        seen.add(checkout.here(root).digest)
    (root / "runs").mkdir()
    (root / "runs/ignored").touch()
    assert checkout.here(root).digest in seen


def test_a_file_that_a_link_leads_to_is_judged_by_its_own_place(tmp_path: Path) -> None:
    root = fake_checkout(tmp_path / "here", "")
    (tmp_path / "alias").symlink_to(root)
    found = checkout.here(tmp_path / "alias")
    assert found.inside(tmp_path / "alias/experiments/x.yaml") == "experiments/x.yaml"
    with pytest.raises(BadInput, match="no such file"):
        found.inside(root / "nothing.yaml")


def archived(*members: tarfile.TarInfo) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    buffer.seek(0)
    return buffer


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, int(kind == tarfile.REGTYPE)
    return info


@pytest.mark.parametrize(
    "evil",
    [
        member("../outside"),
        member("a/../../outside"),
        member("/tmp/giveway-outside"),
        member("a/link", tarfile.SYMTYPE, "/etc"),
        member("a/hard", tarfile.LNKTYPE, "a/good"),
        member("a/device", tarfile.CHRTYPE),
    ],
    ids=lambda info: info.name,
)
def test_nothing_is_unpacked_outside(tmp_path: Path, evil: tarfile.TarInfo) -> None:
    with pytest.raises(archive.Damaged):
        archive.unpack(archived(member("a/good"), evil), ["a"], tmp_path / "runs", print)
    assert list(tmp_path.rglob("*")) == [tmp_path / "runs"]


def test_an_archive_that_broke_off_leaves_nothing(tmp_path: Path) -> None:
    whole = archived(member("a/good"), member("b/good")).getvalue()
    with pytest.raises(archive.Damaged):
        archive.unpack(io.BytesIO(whole[:-20]), ["a", "b"], tmp_path, print)
    assert list(tmp_path.iterdir()) == []


def test_other_commands_do_not_load_fabric() -> None:
    loaded = "'fabric' in sys.modules or 'paramiko' in sys.modules"
    code = f"import sys, testbed.cli.commands; sys.exit({loaded})"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_help_shows_an_example() -> None:
    assert "Example: giveway on" in giveway("on", "--help").stdout


def at_work_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()) == folder
    except psutil.Error:
        return False


@pytest.mark.sshd
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_real_checkout_is_set_up_there_and_runs(lab7: Machine, tmp_path: Path) -> None:
    real = checkout.here(REPOSITORY)
    root = tmp_path / "here"
    root.mkdir()
    with tarfile.open(fileobj=io.BytesIO(real.packed())) as tar:
        tar.extractall(root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    fluid = ["--engine", "fluid", "--seed", "0", "--out", "runs/far"]
    done = lab7.on(root, "run", "experiments/quickstart.yaml", *fluid, limit_s=800)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("report: runs/far/report.html\n")
    assert "Strict priority" in done.stdout
    here = giveway("report", root / "runs/far")  # what came home is whole
    assert here.returncode == 0, here.stderr

    # Another checkout in the same environment: every process runs its own code, not the first's.
    (first,) = lab7.shipped()
    with (root / "testbed/__init__.py").open("a") as code:
        code.write("\nimport sys; print('at', __file__, file=sys.stderr)\n")
    done = lab7.on(root, "run", "experiments/quickstart.yaml", *fluid, limit_s=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (second,) = set(lab7.shipped()) - {first}
    loaded = {line for line in done.stderr.splitlines() if line.startswith("at ")}
    assert loaded == {f"at {second}/testbed/__init__.py"}
    assert len(list(lab7.cache.glob("venv-*/bin"))) == 1

    # Interrupted in the middle of a grid: everything there ends, what is finished comes home.
    process = lab7.start(root, "sweep", "experiments/thesis-grid.yaml", "--engine", "fluid")
    assert eventually(
        lambda: any(second.glob("runs/thesis-grid-fluid/points/*/*/*/manifest.json")), 120
    )
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130, said
    assert "finished runs are kept" in said
    assert (root / "runs/thesis-grid-fluid/sweep.json").exists()
    assert [p for p in psutil.process_iter() if at_work_in(p, second)] == []
