"""`hosts` and `container` of an experiment file: what may be written, and what is refused."""

from pathlib import Path

import pytest

from basics.errors import CannotRun
from testbed import engines
from testbed.containers import image
from testbed.spec import load
from tests.conftest import REPOSITORY, giveway

SMOKE = REPOSITORY / "experiments" / "smoke-docker.yaml"


def test_hosts_are_namespaces_unless_asked_otherwise() -> None:
    experiment = load(REPOSITORY / "experiments" / "quickstart.yaml")
    assert (experiment.hosts, experiment.container) == ("namespaces", None)


def test_limits_come_back_from_the_resolved_file(tmp_path: Path) -> None:
    experiment = load(SMOKE, ["container={cpus: 0.5, memory: 256 MB}"])
    assert experiment.container is not None
    assert (experiment.container.cpus, experiment.container.memory_byte) == (0.5, 256_000_000)
    (tmp_path / "again.yaml").write_text(experiment.to_yaml())
    assert load(tmp_path / "again.yaml") == experiment


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hosts", "dokcer"], "docker"),
        (["--hosts", "namespaces"], "add hosts: docker"),  # the file has limits
        (["--set", "container.cpus=0"], "container.cpus"),
        (["--set", "container.memory=1 MB"], "or more"),
        (["--set", "container.disk=1 GB"], "container.disk"),
    ],
)
def test_bad_hosts_are_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = giveway("run", SMOKE, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_containers_mean_the_realtime_engine() -> None:
    assert engines.resolve("auto", containers=True) == "realtime"


@pytest.mark.virtual
def test_the_virtual_engine_refuses_containers() -> None:
    with pytest.raises(CannotRun, match="realtime"):
        engines.get("virtual").demand(load(SMOKE))


def test_the_image_holds_what_its_workers_import_and_no_more() -> None:
    names = set(map(str, image.inputs()))
    assert {"workloads/rank.py", "testbed/live/nursery.py", "basics/units.py"} <= names
    assert "policies/link/slack_aware.py" in names  # a steered worker looks it up by its name
    assert not names & {"testbed/cli/doctor.py", "testbed/spec/experiment.py"}


def test_a_changed_patch_makes_only_the_image_with_horovod_stale() -> None:
    more = set(map(str, image.inputs(image.HOROVOD))) - set(map(str, image.inputs()))
    assert "workloads/horovod-patches/2-interface.patch" in more
    assert "requirements-torch.txt" in more


def test_a_changed_worker_makes_the_image_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.digest()
    read = Path.read_bytes
    changed = REPOSITORY / "workloads" / "rank.py"
    monkeypatch.setattr(Path, "read_bytes", lambda p: read(p) + (b"#" if p == changed else b""))
    assert image.digest() != before
