"""The set-up on a fresh machine: a clean Debian in a folder; Vagrant's view of its file."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def test_the_vagrantfile_is_valid(tmp_path: Path) -> None:
    if shutil.which("vagrant") is None:
        pytest.skip("vagrant is not installed: GIVEWAY_VAGRANT=yes scripts/setup.sh")
    shutil.copy(REPOSITORY / "Vagrantfile", tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "provision.sh", tmp_path / "scripts")
    done = subprocess.run(
        ["vagrant", "validate", "--ignore-provider"],
        cwd=tmp_path,
        env={**os.environ, "VAGRANT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_provisioning_refuses_what_it_does_not_know() -> None:
    script = [REPOSITORY / "scripts" / "provision.sh", REPOSITORY, "everything"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode in (2, 3)
    assert "error" in done.stdout


@pytest.fixture
def fresh_debian(tmp_path: Path) -> Iterator[Path]:
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: make image")
    root = tmp_path / "debian"
    root.mkdir()
    try:
        unpack = 'scripts/debian.sh | tar -x -C "$0"'
        subprocess.run(
            ["bash", "-o", "pipefail", "-ec", unpack, str(root)], cwd=REPOSITORY, check=True
        )
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # start no service
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_fresh_debian_is_set_up_by_the_provisioning_script(fresh_debian: Path) -> None:
    files = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY
    )
    for name in files.decode().rstrip("\0").split("\0"):
        target = fresh_debian / "giveway" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": "/root"}
    if Path(CERTIFICATES).exists():  # a machine behind a proxy has certificates of its own
        shutil.copy(CERTIFICATES, fresh_debian / "ca.crt")
        environment["PIP_CERT"] = "/ca.crt"
    # Mounts and processes of its own: when the command ends, both are gone.
    inside = (
        'mount -t proc proc "$1/proc" && exec chroot "$1" /giveway/scripts/provision.sh "$2" setup'
    )
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child",
         "sh", "-c", inside, "sh", str(fresh_debian), "/giveway"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "quickstart.yaml" in done.stdout
    assert "strict-priority" in done.stdout
