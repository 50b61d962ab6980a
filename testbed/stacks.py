"""The training stacks that a job can run on: what each needs, and how to get it.

Looks packages up by name and imports none of them: the controller never loads torch.
"""

from dataclasses import dataclass
from importlib import metadata

from testbed import psjobs
from testbed.errors import CannotRun
from testbed.spec import Experiment
from testbed.spechosts import DOCKER


@dataclass(frozen=True)
class Stack:
    module: str  # its worker; imported once, by the nursery, before it forks
    packages: tuple[str, ...] = ()
    own_order: bool = False  # `order` and `barrier` are not for it: it decides itself


STACKS = {
    "native": Stack("workloads.worker"),
    "torch": Stack("workloads.torch_worker", ("torch",), own_order=True),
    "horovod": Stack("workloads.horovod_worker", ("torch", "horovod"), own_order=True),
}


def preload(experiment: Experiment) -> list[str]:
    """What the nursery has to import besides what it always does."""
    modules = {
        psjobs.MODULE if job.has_servers else STACKS[job.backend].module
        for job in experiment.training
    }
    return sorted(modules - {STACKS["native"].module})


def versions(experiment: Experiment) -> dict[str, str]:
    """Of the packages that this experiment's jobs use."""
    packages = {name for job in experiment.training for name in STACKS[job.backend].packages}
    return {name: found for name in sorted(packages) if (found := version(name))}


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def demand_stacks(experiment: Experiment) -> None:
    """Refuse a job whose stack is not installed, or not the one that it was built for."""
    for index, job in enumerate(experiment.training):
        if experiment.hosts == DOCKER and STACKS[job.backend].packages:
            raise CannotRun(
                f"training.{index}.backend: {job.backend} does not run on Docker hosts yet, their "
                "image has no torch: use `hosts: namespaces`"
            )
        for package in STACKS[job.backend].packages:
            if version(package) is None:
                raise CannotRun(
                    f"training.{index}.backend: {job.backend} needs {package}, which is not "
                    f"installed: run `make {package}`"
                )
        if job.backend == "horovod":
            demand_matching(version("horovod") or "", version("torch") or "")


def demand_matching(horovod: str, torch: str) -> None:
    """The version of our Horovod wheel names the torch that it was built for."""
    _, _, built_for = horovod.partition("+torch")
    if not built_for:
        raise CannotRun(
            f"the installed Horovod ({horovod}) was not built by Giveway, and lacks its patches: "
            "run `make horovod`"
        )
    if built_for != torch.partition("+")[0]:
        raise CannotRun(
            f"the installed Horovod was built for torch {built_for}, and torch {torch} is "
            "installed: run `make horovod`"
        )


def notices(experiment: Experiment) -> list[str]:
    """What the experiment asks for and a job's stack decides itself."""
    return [
        f"{job.name}: {job.backend} decides itself what it sends when (as gradients become ready, "
        "with a barrier): order and barrier are for the native backend"
        for job in experiment.training
        if STACKS[job.backend].own_order and (job.order != "fifo" or not job.barrier)
    ]
