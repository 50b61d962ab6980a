"""Network slack: how long a layer's gradient may be under way before the worker waits for it.

Computed, not run: the state machine of the workers on a network that takes no time at all says
when each gradient is ready and when the next forward pass asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.compute import BACKWARD, Trainee, layer_by_layer
from workloads.profiles import Layer, Profile


@dataclass(frozen=True)
class LayerSlack:
    layer: int
    bytes: int
    ready_ns: int
    needed_ns: int  # by the layer itself: without the barrier
    barrier_ns: int  # by the barrier: when the next forward pass wants to begin

    @property
    def slack_ns(self) -> int:
        return self.needed_ns - self.ready_ns

    @property
    def barrier_slack_ns(self) -> int:
        return self.barrier_ns - self.ready_ns


def slack(profile: Profile) -> list[LayerSlack]:
    """Of every layer; time zero is the start of the iteration whose gradients these are."""
    ready, needed = _watched(profile.layers, barrier=False)
    _, at_barrier = _watched(profile.layers, barrier=True)
    return [
        LayerSlack(number, layer.bytes, ready[number], needed[number], at_barrier[number])
        for number, layer in enumerate(profile.layers)
    ]


def _watched(layers: Sequence[Layer], barrier: bool) -> tuple[dict[int, int], dict[int, int]]:
    """When each gradient of the first iteration was ready, and when it was wanted."""
    trainee = Trainee(layer_by_layer(layers, barrier=barrier))
    trainee.start(0)
    ready: dict[int, int] = {}
    while trainee.running is not None:
        running = trainee.running
        if running.iteration == 1 and running.stretch.phase == BACKWARD:
            return ready, dict(trainee.wanted_ns)
        done = trainee.compute_done()
        ready.update(dict.fromkeys(done, running.end_ns))
        trainee.gradients_arrived(done, running.end_ns)
    raise AssertionError("a worker stopped on a network that takes no time")
