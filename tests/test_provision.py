"""The set-up on a fresh machine: a clean Debian in a folder; Vagrant's view of its file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clean_root import CLONE, clean_debian, inside
from tests.conftest import REPOSITORY
from tests.first_steps import said


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


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_fresh_debian_is_set_up_by_the_provisioning_script(tmp_path: Path) -> None:
    with clean_debian("bookworm", tmp_path) as root:
        told = said(inside(root, "scripts/provision.sh", CLONE, "setup"))
    assert "quickstart.yaml" in told
    assert "strict-priority" in told
