"""How much of the guest's memory real training stacks take: their libraries, and every worker."""

from testbed.spec import Experiment, TrainingJob

MIB = 2**20
MEMORY_A_STACK = 1024 * MIB  # the pages of torch's libraries, read from the host's files
MEMORY_A_TORCH_WORKER = 96 * MIB  # besides its weights, gradients, buckets and fusion buffers
MODELS = 5  # weights, gradients, buckets
# In a cluster: Adam's too, a checkpoint as torch writes it, as bytes, and on its way.
MODELS_OF_PLACED = 16


def of_stacks(experiment: Experiment) -> int:
    entries = () if experiment.cluster is None else experiment.cluster.jobs
    real = [entry for entry in entries if entry.is_real]
    under_training = sum(
        MEMORY_A_STACK + len(job.host_names) * of_worker(job, MODELS)
        for job in experiment.training
        if job.backend != "native"
    )
    return under_training + sum(
        MEMORY_A_STACK
        + (entry.count or 0) * (entry.workers or (0, 0))[1] * of_worker(entry.job, MODELS_OF_PLACED)
        for entry in real
    )


def of_worker(job: TrainingJob, models: int) -> int:
    return MEMORY_A_TORCH_WORKER + models * job.scaled_profile.total_byte + 2 * job.fusion_byte
