"""TensorLights with the shortest remaining broadcast first: of our own, not of the original.

A model that is nearly out is finished before another is begun, whoever's it is: nobody is preferred
for longer than one broadcast.
"""

from policies.tensorlights import least_remaining, policy

PERIOD_NS = 5_000_000  # how often it looks: a sixth of a 38 MB broadcast at 10 Gbit/s

POLICY = policy(
    "tensorlights-srf",
    "TensorLights-SRF",
    "servers that share a host: who has the least left of its broadcast sends first",
    least_remaining,
    PERIOD_NS,
    watches=True,
)
