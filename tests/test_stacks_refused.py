"""What a training stack cannot do is said before anything starts."""

import pytest

from basics.errors import CannotRun
from testbed import stacks
from testbed.cli import doctor
from testbed.containers import docker_engine, image
from testbed.spec import load
from testbed.stacks import demand_stacks, image_of
from tests.conftest import REPOSITORY

SMOKE = REPOSITORY / "experiments" / "smoke-docker.yaml"
AS_STACKS_DO = ["training.0.order=fifo", "training.0.barrier=true"]


def test_docker_hosts_take_the_image_that_their_jobs_need() -> None:
    assert image_of(load(SMOKE)) is image.NATIVE
    for backend in ("torch", "horovod"):
        on_stack = load(SMOKE, [f"training.0.backend={backend}", *AS_STACKS_DO])
        assert image_of(on_stack) is image.HOROVOD


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
    monkeypatch.setattr(docker_engine, "demand_image", lambda wanted: "sha256:0")
    monkeypatch.setattr(docker_engine, "versions_inside", lambda image_id: held)
    with pytest.raises(CannotRun) as refused:
        demand_stacks(load(SMOKE, ["training.0.backend=horovod", *AS_STACKS_DO]))
    assert said in str(refused.value)
    assert "run `make image-horovod`" in str(refused.value)


def test_docker_hosts_run_the_native_backend_without_a_stack() -> None:
    demand_stacks(load(SMOKE))


def doctors_lines() -> dict[str, tuple[bool, str]]:
    found = {}

    def line(name: str, ready: bool, text: str) -> None:
        found[name.strip()] = (ready, text)

    doctor._stacks(line)
    return found


def test_doctor_says_what_each_stack_lacks_and_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "version", lambda package: None)
    monkeypatch.setattr(docker_engine, "engine", lambda: None)
    found = doctors_lines()
    assert found["native"][0]
    for name, target in (("torch", "make torch"), ("horovod", "make horovod")):
        ready, text = found[name]
        assert not ready
        assert target in text
    assert not found["in Docker"][0]
    assert "needs a Docker engine" in found["in Docker"][1]


def test_doctor_says_what_each_stack_was_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"torch": "2.13.0+cpu", "horovod": "0.28.1+torch2.12.0"}
    inside = here | {"horovod": "0.28.1+torch2.13.0"}
    monkeypatch.setattr(stacks, "version", here.get)
    monkeypatch.setattr(docker_engine, "demand_image", lambda wanted: "sha256:0")
    monkeypatch.setattr(docker_engine, "versions_inside", lambda image_id: inside)
    found = doctors_lines()
    assert found["torch"] == (True, "torch 2.13.0+cpu")
    ready, text = found["horovod"]
    assert not ready
    assert "built for torch 2.12.0, and torch 2.13.0+cpu is there" in text
    assert found["in Docker"] == (True, "torch 2.13.0+cpu, horovod 0.28.1+torch2.13.0")
