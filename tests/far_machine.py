"""Another machine for tests of `giveway on`: an SSH server on loopback, with a home of its own."""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY, SSHD

# A checkout whose experiments are Python programs: what they do is what the test needs.
FAKE = {
    ".gitignore": "/runs/\n.venv\n",
    "Makefile": (
        "setup:\n\t@mkdir -p .venv/bin && ln -sf /usr/bin/python3 .venv/bin/python\n"
        "\t@echo made >> .venv/setups\n"
    ),
    "pyproject.toml": "",
    "requirements.txt": "",
    "testbed/__init__.py": "",
    "testbed/engines.py": "def resolve(name): return 'realtime'\n",
    "testbed/__main__.py": (
        "import sys, pathlib\n"
        "if sys.argv[1] == 'run': exec(pathlib.Path(sys.argv[2]).read_text())\n"
        "else: print(*sys.argv[1:])\n"
    ),
}


@dataclass
class Machine:
    """The far machine, called `lab7` in the near user's ~/.ssh/config, and both homes."""

    folder: Path
    port: int

    @property
    def near(self) -> Path:
        return self.folder / "near"

    @property
    def cache(self) -> Path:
        return self.folder / "far/.cache/giveway/on"

    @property
    def path(self) -> Path:
        """A folder of programs that the far machine finds first."""
        return self.folder / "path"

    def shipped(self) -> list[Path]:
        """The checkouts that are there."""
        return sorted(marker.parent for marker in self.cache.glob("*/.shipped"))

    def start(self, checkout: Path, *command: str, host: str = "lab7") -> subprocess.Popen[str]:
        environment = {**os.environ, "HOME": str(self.near)}
        environment.pop("SSH_AUTH_SOCK", None)
        return subprocess.Popen(
            [Path(sys.executable).parent / "giveway", "on", host, *command],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on(
        self, checkout: Path, *command: str, host: str = "lab7", limit_s: float = 100
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(checkout, *command, host=host)
        try:
            out, err = process.communicate(timeout=limit_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def configure(self, **changed: str) -> None:
        """Write the near ~/.ssh/config, with other values than those that work."""
        settings = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": getpass.getuser(),
            "IdentityFile": str(self.near / ".ssh/id_ed25519"),
            **changed,
        }
        lines = [f"  {key} {value}\n" for key, value in settings.items()]
        (self.near / ".ssh/config").write_text("Host lab7\n" + "".join(lines))


def make_key(path: Path) -> str:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    there = Machine(folder, free_port())
    for name in ("near/.ssh", "far", "path"):
        (folder / name).mkdir(parents=True, mode=0o700)
    user_key = make_key(there.near / ".ssh/id_ed25519")
    host_key = make_key(folder / "host_key")
    (there.near / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{there.port} {host_key}\n")
    (folder / "authorized_keys").write_text(user_key + "\n")
    there.configure()
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{there.port}\n"
        f"HostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\n"
        f"PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
        f"SetEnv HOME={folder}/far PATH={there.path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where the server locks its children in
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        wait_for_port(server, there.port, folder / "sshd.log")
        yield there
    finally:
        server.terminate()
        server.wait(10)
        shutil.rmtree(folder / "far")  # a real environment is large


def wait_for_port(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"sshd did not start: {log.read_text()}")


def write_checkout(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def fake_checkout(root: Path, experiment: str) -> Path:
    """A checkout with one experiment, experiments/x.yaml: a Python program."""
    far_end = (REPOSITORY / "scripts/until-hangup.sh").read_text()
    files = {**FAKE, "scripts/until-hangup.sh": far_end, "experiments/x.yaml": experiment}
    return write_checkout(root, files)
