"""ARCHITECTURE.md's invariants are absences; here they are looked for.

The import graph is read from the sources, so an import inside a function or for type checkers
counts like any other: what a file names, it depends on.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

# Who may know of whom. A folder may import itself and what is listed; nothing else of ours.
FOLDERS: dict[str, set[str]] = {
    "basics": set(),
    "topologies": {"basics"},
    "policies": {"basics"},
    "workloads": {"basics", "topologies", "policies"},
    "analysis": {"basics"},
    "testbed": {"basics", "topologies", "policies", "workloads", "analysis"},
    "giveway": {"testbed"},
    "bench": {"basics", "topologies", "policies", "workloads", "analysis", "testbed"},
}

# The same inside testbed: a sub-package may import itself, the modules beside it, and these.
INSIDE_TESTBED: dict[str, set[str]] = {
    "spec": set(),
    "containers": {"spec", "live"},
    "live": {"spec", "containers"},
    "realtime": {"spec", "containers", "live"},
    "virtual": {"spec", "live"},
    "cluster": {"spec"},
    "fluid": {"spec", "cluster"},
    "reproduce": {"spec"},
    "remote": set(),
    "workers": {"remote"},
    "labs": set(),
    "tune": {"spec"},
    "cli": {
        "spec",
        "labs",
        "tune",
        "containers",
        "realtime",
        "virtual",
        "fluid",
        "reproduce",
        "remote",
        "workers",
    },
}

# What is longer than a sitting, and why it is one story all the same.
LONG_FILES = {
    "testbed/spec/experiment.py": "the keys of a file and the checks across them",
    "testbed/processes.py": "the one module that starts processes",
}
MOST_LINES = 300


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((REPOSITORY / package).rglob("*.py"))]


def short(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@pytest.mark.parametrize("path", sources(*FOLDERS), ids=short)
def test_folders_know_only_those_below_them(path: Path) -> None:
    folder = path.relative_to(REPOSITORY).parts[0]
    named = {name.split(".")[0] for name in imports(path)} & FOLDERS.keys()
    assert named <= FOLDERS[folder] | {folder}


@pytest.mark.parametrize("path", sources("testbed"), ids=short)
def test_parts_of_the_testbed_know_only_those_below_them(path: Path) -> None:
    part = path.relative_to(REPOSITORY).parts[1]
    named = {
        name.split(".")[1] for name in imports(path) if name.startswith("testbed.")
    } & INSIDE_TESTBED.keys()
    if part in INSIDE_TESTBED:
        assert named <= INSIDE_TESTBED[part] | {part}
    else:  # a module beside the sub-packages: what all engines share
        assert "cli" not in named or part == "__main__.py"


def test_every_part_of_the_testbed_has_its_place() -> None:
    parts = {path.parent.name for path in (REPOSITORY / "testbed").glob("*/__init__.py")}
    assert parts == INSIDE_TESTBED.keys()


@pytest.mark.parametrize("path", sources("topologies", "policies"), ids=short)
def test_topologies_and_policies_do_no_io(path: Path) -> None:
    assert not imports(path) & {"os", "subprocess", "socket", "pathlib", "time", "random"}
    assert "open(" not in path.read_text()


# The nursery forks tasks for processes.py; pool.py has helpers that simulate and analyse; the
# kernel recipe runs apt and make, no part of a run.
# From Python an experiment is the command's: giveway/running.py starts it.
STARTERS = {
    "giveway/running.py",
    "testbed/processes.py",
    "testbed/live/nursery.py",
    "testbed/pool.py",
    "testbed/virtual/build.py",
    "testbed/virtual/source.py",
    "testbed/virtual/measure.py",
}


@pytest.mark.parametrize("path", sources(*sorted(FOLDERS.keys() - {"bench"})), ids=short)
def test_only_one_module_starts_processes(path: Path) -> None:
    text = path.read_text()
    if short(path) in STARTERS:
        return
    for word in ("subprocess.run", "Popen(", "os.system", "os.fork", "multiprocessing"):
        assert word not in text.replace("processes.popen(", "")


@pytest.mark.parametrize("path", sources(*FOLDERS), ids=short)
def test_no_global_random_state(path: Path) -> None:
    assert "random" not in imports(path)
    assert "np.random.seed" not in path.read_text()
    assert "np.random.rand" not in path.read_text()


def test_the_controller_starts_without_torch_and_mininet() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['mininet'] = None; "
        "import testbed.cli.commands; from testbed.spec import load; from pathlib import Path; "
        "load(Path('experiments/quickstart.yaml'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_the_docker_folder_does_not_shadow_the_docker_package() -> None:
    assert not (REPOSITORY / "docker" / "__init__.py").exists()


def test_files_can_be_read_in_a_sitting() -> None:
    long = {short(path) for path in sources(*FOLDERS) if lines(path) > MOST_LINES}
    assert long == LONG_FILES.keys()


def test_no_half_of_a_merge_is_left() -> None:
    sides = re.compile(r"^(<{7} |>{7} )", re.MULTILINE)
    pages = [
        path for suffix in ("py", "md", "yaml") for path in REPOSITORY.glob(f"[!.]*/**/*.{suffix}")
    ]
    pages += REPOSITORY.glob("*.md")
    assert pages
    assert [path for path in pages if sides.search(path.read_text())] == []


def test_a_name_has_one_thing() -> None:
    """No two classes have the same name, wherever they stand."""
    named = Counter(
        node.name
        for path in sources(*FOLDERS)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in named.items() if count > 1] == []


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())
