"""What a training stack cannot do is said before anything starts."""

import pytest

from testbed.errors import CannotRun
from testbed.spec import load
from testbed.stacks import demand_stacks
from tests.conftest import REPOSITORY

SMOKE = REPOSITORY / "experiments" / "smoke-docker.yaml"


@pytest.mark.parametrize("backend", ["torch", "horovod"])
def test_docker_hosts_refuse_a_backend_that_their_image_lacks(backend: str) -> None:
    with pytest.raises(CannotRun, match="Docker hosts"):
        demand_stacks(load(SMOKE, [f"training.0.backend={backend}"]))


def test_docker_hosts_run_the_native_backend() -> None:
    demand_stacks(load(SMOKE))
