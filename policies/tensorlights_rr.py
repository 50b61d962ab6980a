"""TensorLights, RoundRobin: as One, and the priorities rotate, so that no job is always last."""

from policies.tensorlights import policy, rotated

PERIOD_NS = 20_000_000_000  # the original's; a shorter experiment says `period`

POLICY = policy(
    "tensorlights-rr",
    "TensorLights-RoundRobin",
    "servers that share a host send in an order of jobs that rotates every period (20 s)",
    rotated,
    PERIOD_NS,
)
