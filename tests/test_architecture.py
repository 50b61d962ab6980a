"""ARCHITECTURE.md's invariants are absences; here they are looked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGES = ("testbed", "topologies", "workloads", "policies", "analysis")


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((REPOSITORY / package).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", sources("analysis"), ids=lambda path: path.name)
def test_analysis_knows_nothing_of_the_testbed_but_records_and_errors(path: Path) -> None:
    used = {name for name in imports(path) if name.split(".")[0] in PACKAGES}
    ours = {name for name in used if not name.startswith("analysis")}
    assert all(name.startswith(("testbed.records", "testbed.errors")) for name in ours)


@pytest.mark.parametrize("path", sources("topologies", "policies"), ids=lambda path: path.name)
def test_topologies_and_policies_do_no_io(path: Path) -> None:
    assert not imports(path) & {"os", "subprocess", "socket", "pathlib", "time", "random"}
    assert "open(" not in path.read_text()


# The nursery forks tasks for processes.py; pool.py has helpers that simulate and analyse; the
# kernel recipe runs apt and make, no part of a run.
STARTERS = {
    "testbed/processes.py",
    "testbed/nursery.py",
    "testbed/pool.py",
    "testbed/virtual/build.py",
    "testbed/virtual/source.py",
    "testbed/virtual/measure.py",
}


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=lambda path: path.name)
def test_only_one_module_starts_processes(path: Path) -> None:
    text = path.read_text()
    if str(path.relative_to(REPOSITORY)) in STARTERS:
        return
    for word in ("subprocess.run", "Popen(", "os.system", "os.fork", "multiprocessing"):
        assert word not in text.replace("processes.popen(", "")


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=lambda path: path.name)
def test_no_global_random_state(path: Path) -> None:
    assert "random" not in imports(path)
    assert "np.random.seed" not in path.read_text()
    assert "np.random.rand" not in path.read_text()


def test_the_controller_starts_without_torch_and_mininet() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['mininet'] = None; import testbed.cli; "
        "from testbed.spec import load; from pathlib import Path; "
        "load(Path('experiments/quickstart.yaml'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_the_docker_folder_does_not_shadow_the_docker_package() -> None:
    assert not (REPOSITORY / "docker" / "__init__.py").exists()


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=lambda path: path.name)
def test_files_can_be_read_in_a_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 450
