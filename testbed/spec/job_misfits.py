"""What does not fit together in one training job of an experiment file, each with its key."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from basics import units
from testbed.spec.mistakes import At
from workloads.collectives.parameter_server import NUMBER_BYTE
from workloads.job_plan import READY

if TYPE_CHECKING:
    from testbed.spec.jobs import TrainingJob

RING = "ring"
BOTH, FORWARD = "both", "forward"  # passes
OF_SERVERS = ("gradient", "servers", "servers_on", "synchronisation", "stale", "update")


def misfits(job: "TrainingJob") -> Iterator[At]:
    given = job.model_fields_set
    if job.stagger_ns and job.count is None:
        yield At(["stagger"], "found without count; one job has start alone")
    if "workers_on" in given and isinstance(job.workers, tuple):
        yield At(["workers_on"], "found beside workers that are listed; leave it out")
    if job.has_servers and job.backend != "native":
        yield At(
            ["backend"], f"found {job.backend}; a parameter-server job is native: leave it out"
        )
    elif job.backend != "native":
        yield from _misfits_of_its_stack(job)
    profile = job.scaled_profile
    if max(profile.total_byte, profile.compute_ns) > units.LARGEST:
        yield At(["model"], f"found more than {units.LARGEST} bytes or ns of {job.profile}")
    yield from _misfits_of_its_transfers(job)
    yield from _misfits_of_its_passes(job)
    if not job.has_servers:
        for key in (*OF_SERVERS, "reduce"):
            if given & {key, f"{key}_byte", f"{key}_byte_s"}:
                why = f"found beside aggregation: {job.aggregation}; it is for "
                yield At([key], why + "parameter-server jobs")
        return
    whole = job.transfer is None
    for key, other in (
        ("order", job.order != "fifo"),
        ("barrier", not job.barrier and whole),
    ):
        if other:
            yield At(
                [key],
                "found in a parameter-server job, which pushes gradients as they become ready "
                "and waits as synchronisation and stale say: leave it out, or add transfer",
            )
    if job.reduce is not None and job.staleness != 0:
        yield At(
            ["reduce"],
            "found in a job whose workers do not wait for each other; a sum needs all of them: "
            "leave out stale and synchronisation",
        )
    if job.update_byte_s is not None and whole:
        yield At(["update"], "found without transfer; whole models are updated in no time")
    if job.stale and job.synchronisation == "async":
        yield At(["stale"], "found beside synchronisation: async, which waits for nobody")
    if job.servers * NUMBER_BYTE > profile.total_byte:
        yield At(
            ["servers"],
            f"found {job.servers}; a model of {units.format_size(job.model_byte)} does not "
            "have that many numbers",
        )
    elif job.gradient_byte is not None:
        yield from _misfits_of_its_gradient(job, job.gradient_byte)


def misfits_of_its_work(data: Mapping[str, Any], filled: Mapping[str, Any]) -> Iterator[At]:
    """Layers of a profile, or bytes and compute, and with those what they fill in."""
    if "bytes" not in data:
        for key in ("compute", "every"):
            if key in data:
                yield At([key], "found without bytes; a profile has times of its own")
    elif "profile" in data:
        yield At(["bytes"], "found beside profile; a job has layers, or bytes and compute")
    else:
        for key in ("model", "iteration"):
            if data.get(key) != filled.get(key):
                yield At([key], "found beside bytes and compute, which say it")


def _misfits_of_its_gradient(job: "TrainingJob", gradient_byte: int) -> Iterator[At]:
    found = f"found {units.format_size(gradient_byte)}"
    if not job.servers * NUMBER_BYTE <= gradient_byte <= job.model_byte:
        yield At(
            ["gradient"],
            f"{found}; it is at most the model, {units.format_size(job.model_byte)}, and a "
            "number or more for each server",
        )
    elif job.check:
        yield At(["gradient"], f"{found} beside check: true, which adds whole gradients up")


def _misfits_of_its_transfers(job: "TrainingJob") -> Iterator[At]:
    given = job.model_fields_set
    if job.groups != READY and (job.has_servers or job.backend != "native"):
        yield At(["groups"], f"found {job.groups}; it is for native jobs with a collective")
    if job.transfer is None:
        return
    name = job.transfer.policy
    if "order" in given:
        yield At(["order"], "found beside transfer, of which it is the short form")
    if job.backend == "native" and (job.has_servers or not job.transfer.transfer_policy.fuses):
        if "fusion_byte" in given:
            yield At(["fusion"], f"found beside transfer: {name}, which fuses nothing here")
        if job.groups != READY and not job.has_servers:
            yield At(["groups"], f"found beside transfer: {name}, which fuses nothing")
    fault = job.fault_of(job.transfer)
    if fault is not None:
        yield At(["transfer"], fault)


def _misfits_of_its_passes(job: "TrainingJob") -> Iterator[At]:
    """Without backward passes there is nothing to sum: all that is left is to read a model."""
    if job.passes == BOTH:
        return
    found = f"found {job.passes}"
    if not job.has_servers or job.transfer is None:
        yield At(["passes"], f"{found}; it is for parameter-server jobs with transfer")
    if job.update_byte_s is not None:
        yield At(["update"], f"found beside passes: {job.passes}, which updates nothing")


def _misfits_of_its_stack(job: "TrainingJob") -> Iterator[At]:
    """A real stack starts at once, trains to the end, and decides itself what it sends when."""
    if job.profile is None:
        yield At(["bytes"], f"found beside backend: {job.backend}, which trains layers")
    late = {"steps": job.steps, "start": job.start_ns, "stagger": job.stagger_ns}
    for key in (key for key, value in late.items() if value):
        yield At([key], f"found beside backend: {job.backend}; it is for the native backend")
    for key, own, found in (("order", "fifo", job.order), ("barrier", True, job.barrier)):
        if found != own:
            instead = "leave it out"
            if (key, job.backend) == ("order", "torch"):
                instead += f", or say transfer: {found}"
            yield At(
                [key],
                f"found {str(found).lower()} beside backend: {job.backend}, which sends "
                f"gradients as they become ready and waits for all of them: {instead}",
            )
    if job.aggregation != RING and not job.has_servers:
        yield At(["aggregation"], f"found {job.aggregation}; {job.backend} has its ring")
