"""The private Docker engine: it starts, answers, and leaves nothing but its images."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.root


def processes_naming(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


def test_a_private_engine_starts_and_stops_without_a_trace(tmp_path: Path) -> None:
    if shutil.which("dockerd") is None:
        pytest.skip("dockerd is not installed: make image")
    folder = tempfile.mkdtemp(prefix="gw-", dir="/run")  # short: a socket's path has 107 letters
    script = str(REPOSITORY / "scripts" / "docker-engine.sh")
    environment = {
        **os.environ,
        "GIVEWAY_DOCKER_RUN": folder,
        "GIVEWAY_DOCKER_DATA": str(tmp_path / "data"),
    }
    links = subprocess.check_output(["ip", "-o", "link"], text=True)
    try:
        for _ in range(2):  # the second time it is there already
            subprocess.run([script, "start"], env=environment, check=True)
        subprocess.run([script, "status"], env=environment, check=True)
        ask = ["docker", "-H", f"unix://{folder}/docker.sock", "network", "ls", "--format"]
        networks = subprocess.check_output([*ask, "{{.Name}}"], text=True).split()
        assert "bridge" not in networks
        assert subprocess.check_output(["ip", "-o", "link"], text=True) == links
    finally:
        subprocess.run([script, "stop"], env=environment, check=True)
    assert not Path(folder).exists()
    assert processes_naming(folder) == []
    assert folder not in Path("/proc/mounts").read_text()
    assert str(tmp_path / "data") not in Path("/proc/mounts").read_text()
    assert subprocess.run([script, "status"], env=environment, check=False).returncode == 1
