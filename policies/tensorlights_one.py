"""TensorLights, One: a fixed priority for every job at a host with several parameter servers."""

from policies.tensorlights import fixed, policy

POLICY = policy(
    "tensorlights-one",
    "TensorLights-One",
    "servers that share a host send in a fixed order of jobs; all else is FIFO",
    fixed,
)
