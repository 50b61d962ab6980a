"""The training stacks that a job can run on: what each needs, and how to get it.

Looks packages up by name and imports none of them: the controller never loads torch. On Docker
hosts it is the image's packages that count, not this machine's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from basics.errors import CannotRun
from testbed.containers import docker_engine
from testbed.containers.image import HOROVOD, NATIVE, Image
from testbed.spec import Experiment
from testbed.spec.hosts import DOCKER


@dataclass(frozen=True)
class Stack:
    module: str  # its worker; imported once, by the nursery, before it forks
    packages: tuple[str, ...] = ()


STACKS = {
    "native": Stack("workloads.host_process"),
    "torch": Stack("workloads.torch_worker", ("torch",)),
    "horovod": Stack("workloads.horovod_worker", ("torch", "horovod")),
}
PLACED = "workloads.placed_torch"  # torch's worker in a job of a cluster


def preload(experiment: Experiment) -> list[str]:
    """What the nursery has to import besides what it always does."""
    modules = {STACKS[backend].module for backend in experiment.backends}
    if experiment.cluster is not None and "torch" in experiment.backends:
        modules.add(PLACED)
    return sorted(modules - {STACKS["native"].module})


def image_of(experiment: Experiment) -> Image:
    """What its Docker hosts are started from."""
    return HOROVOD if any(STACKS[one].packages for one in experiment.backends) else NATIVE


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Place:
    """Where workers are to run, and so which packages count: this machine's, or an image's."""

    find: Callable[[str], str | None]  # the version of a package
    image: Image | None = None

    @property
    def name(self) -> str:
        return f"in the image {self.image.name}" if self.image else "installed"

    def target(self, backend: str) -> str:
        """Of make: what puts this stack there."""
        return self.image.target if self.image else backend


def here() -> Place:
    return Place(version)


def inside(image: Image) -> Place:
    return Place(docker_engine.versions_inside(docker_engine.demand_image(image)).get, image)


def place_of(experiment: Experiment) -> Place:
    return inside(image_of(experiment)) if experiment.hosts == DOCKER else here()


def versions(experiment: Experiment) -> dict[str, str]:
    """Of the packages that this experiment's jobs use, where they use them."""
    packages = {name for backend in experiment.backends for name in STACKS[backend].packages}
    if not packages:
        return {}
    find = place_of(experiment).find
    return {name: found for name in sorted(packages) if (found := find(name))}


def demand_stacks(experiment: Experiment) -> None:
    """Refuse a job whose stack is not where it is to run, or was built for another torch."""
    for index, job in enumerate(experiment.training):
        if STACKS[job.backend].packages:
            demand_stack(job.backend, place_of(experiment), f"training.{index}.backend")
    for index, entry in enumerate(experiment.cluster.jobs if experiment.cluster else ()):
        if entry.trains and STACKS[entry.job.backend].packages:
            demand_stack(entry.job.backend, here(), f"cluster.jobs.{index}.backend")


def demand_stack(backend: str, place: Place, key: str = "backend") -> None:
    for package in STACKS[backend].packages:
        if place.find(package) is None:
            raise CannotRun(
                f"{key}: {backend} needs {package}, which is not {place.name}: "
                f"run `make {place.target(backend)}`"
            )
    if backend == "horovod":
        demand_matching(place)


def demand_matching(place: Place) -> None:
    """The version of our Horovod wheel names the torch that it was built for."""
    horovod, torch = place.find("horovod") or "", place.find("torch") or ""
    _, _, built_for = horovod.partition("+torch")
    if not built_for:
        raise CannotRun(
            f"the Horovod that is {place.name} ({horovod}) was not built by Giveway, and lacks its "
            f"patches: run `make {place.target('horovod')}`"
        )
    if built_for != torch.partition("+")[0]:
        raise CannotRun(
            f"the Horovod that is {place.name} was built for torch {built_for}, and torch {torch} "
            f"is there: run `make {place.target('horovod')}`"
        )
