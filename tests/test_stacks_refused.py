"""What a training stack cannot do is said before anything starts."""

import pytest

from testbed import docker, image
from testbed.errors import CannotRun
from testbed.spec import load
from testbed.stacks import demand_stacks, image_of
from tests.conftest import REPOSITORY

SMOKE = REPOSITORY / "experiments" / "smoke-docker.yaml"


def test_docker_hosts_take_the_image_that_their_jobs_need() -> None:
    assert image_of(load(SMOKE)) is image.NATIVE
    for backend in ("torch", "horovod"):
        assert image_of(load(SMOKE, [f"training.0.backend={backend}"])) is image.HOROVOD


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({}, "horovod needs torch, which is not in the image giveway-worker-horovod"),
        ({"torch": "2.13.0"}, "needs horovod, which is not in the image"),
        ({"torch": "2.13.0", "horovod": "0.28.1+torch2.12.0"}, "was built for torch 2.12.0"),
    ],
)
def test_an_image_without_the_stack_is_refused(
    held: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "demand_image", lambda wanted: "sha256:0")
    monkeypatch.setattr(docker, "versions_inside", lambda image_id: held)
    with pytest.raises(CannotRun) as refused:
        demand_stacks(load(SMOKE, ["training.0.backend=horovod"]))
    assert said in str(refused.value)
    assert "run `make image-horovod`" in str(refused.value)


def test_docker_hosts_run_the_native_backend_without_a_stack() -> None:
    demand_stacks(load(SMOKE))
