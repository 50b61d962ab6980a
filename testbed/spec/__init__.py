"""The door: an experiment file is read, checked and frozen here, once."""

from testbed.spec.experiment import (
    Claim,
    Delay,
    Experiment,
    FlowMix,
    PolicyChoice,
    TopologySpec,
    TrainingJob,
    load,
)

__all__ = [
    "Claim", "Delay", "Experiment", "FlowMix", "PolicyChoice", "TopologySpec", "TrainingJob", "load"
]  # fmt: skip
