"""The torch training worker: DistributedDataParallel over Gloo, as its users run it.

DDP packs gradients into buckets in the order in which they become ready and all-reduces each bucket
as soon as it is full; the step waits for all of them. `fusion` is its bucket size. `order` and
`barrier` are the native worker's: DDP has its own, first come first served, with a barrier. With
`transfer` its buckets go in parts, in the policy's order (workloads/torch_transfer.py).

Records. computes and iterations: exact. transfers, from DDP's communication hook: `ready_ns` is
when the bucket was full, `start_ns` when it or its part was handed to Gloo (which may still be busy
with the one before), `end_ns` when Gloo's future was complete.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch._dynamo  # DDP and every optimizer load it when they are made: a second for each worker
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from workloads import torch_model
from workloads.control import Control
from workloads.loop import Clock
from workloads.stack_steering import StackSteering
from workloads.stack_worker import Pacer, Recorder, StackConfig, Transfer, Warden, layers_of
from workloads.task import sleep_until
from workloads.torch_transfer import PartSender

INIT_LIMIT = timedelta(hours=1)  # a starved job is slow, not dead


class Framework(Protocol):
    """What differs between frameworks. Made in the worker's own process, after the fork."""

    def listen(self) -> None:
        """Open what the others connect to."""

    def connect(self, model: torch_model.TimedModel) -> None:
        """Connect to all others; afterwards every connection stands."""

    def begin(self, clock: Clock, recorder: Recorder, pacer: Pacer) -> None:
        """Time zero is known: record from here on."""

    def step(self) -> None:
        """One iteration but for its end: forward, backward, gradients summed, weights moved."""


def main(config: dict[str, Any], control: Control) -> None:
    train(StackConfig(**config), control, DdpStack)


def train(
    settings: StackConfig, control: Control, make: Callable[[StackConfig], Framework]
) -> None:
    torch.set_num_threads(1)
    warden = Warden(settings, control)
    warden.start()
    stack = make(settings)
    stack.listen()
    warden.say("listening")
    sleep_until(warden.hear()["connect_ns"])
    recorder = Recorder(settings)
    pacer = Pacer(settings, recorder)
    model = torch_model.TimedModel([size for size, _, _ in settings.layers], pacer)
    stack.connect(model)
    warden.say("ready")
    clock = Clock(warden.hear()["epoch_ns"], settings.dilation)
    pacer.clock = clock
    warden.go(clock, recorder, StackSteering(settings, recorder) if settings.steered_by else None)
    stack.begin(clock, recorder, pacer)
    try:
        iterate(settings, clock, stack, model, recorder, pacer)
    except Exception:
        if warden.finished:
            warden.await_the_end()
        raise


def iterate(
    settings: StackConfig,
    clock: Clock,
    stack: Framework,
    model: torch_model.TimedModel,
    recorder: Recorder,
    pacer: Pacer,
) -> None:
    """Train until somebody ends the process."""
    sleep_until(clock.real_ns(0))
    compute_ns = sum(forward + backward for _, forward, backward in settings.layers)
    start_ns, iteration = 0, 0
    while True:
        pacer.due_ns = start_ns
        pacer.target = torch_model.target(settings.rank, iteration)
        stack.step()
        iteration += 1
        if settings.check:
            recorder.digests[iteration] = torch_model.check(model, settings.workers, iteration)
        end_ns = clock.now_ns()
        recorder.iteration(start_ns, end_ns, compute_ns)
        start_ns = end_ns


class DdpStack:
    def __init__(self, settings: StackConfig) -> None:
        self._settings = settings
        self._store: Any = None
        self._clock = Clock(0)  # the run's own, once time zero is known
        self._sender: PartSender | None = None
        os.environ["GLOO_SOCKET_IFNAME"] = settings.device

    def listen(self) -> None:
        if self._settings.rank == 0:
            self._store = self._make_store()

    def _make_store(self) -> Any:
        settings = self._settings
        return dist.TCPStore(
            settings.addresses[0],
            settings.port,
            settings.workers,
            is_master=settings.rank == 0,
            timeout=INIT_LIMIT,
            wait_for_workers=False,
        )

    def connect(self, model: torch_model.TimedModel) -> None:
        self.join()
        self.wrap(model, torch.optim.SGD(model.parameters(), lr=torch_model.LEARNING_RATE))

    def join(self) -> None:
        """Connect to all others."""
        settings = self._settings
        dist.init_process_group(
            "gloo",
            store=self._store or self._make_store(),
            rank=settings.rank,
            world_size=settings.workers,
            timeout=INIT_LIMIT,
        )

    def wrap(self, model: torch_model.TimedModel, optimizer: torch.optim.Optimizer) -> None:
        """From here on this model is all of theirs: they get the weights of rank 0."""
        settings = self._settings
        self._layer_of = {id(weight): layer for layer, weight in enumerate(model.weights)}
        self._model = DistributedDataParallel(model, bucket_cap_mb=settings.fusion_byte / 2**20)
        self._model.register_comm_hook(None, self._send)
        if settings.transfer is not None:
            self._sender = PartSender(settings, lambda: self._clock.now_ns(), self._record)
        self._optimizer = optimizer

    def begin(self, clock: Clock, recorder: Recorder, pacer: Pacer) -> None:
        self._clock, self._recorder = clock, recorder

    def step(self) -> None:
        self.backward()
        self._optimizer.step()

    def backward(self) -> None:
        self._optimizer.zero_grad()
        self._model(torch.zeros(1)).sum().backward()

    def _send(self, _state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """DDP's communication hook: its own default (sum over the workers), written down."""
        ready_ns = self._clock.now_ns()
        buffer = bucket.buffer()
        layers = layers_of(bucket.parameters(), self._layer_of)
        buffer.mul_(1 / self._settings.workers)  # as DDP without a hook; `div_` has other bits
        if self._sender is not None:
            return self._sender.send(buffer, layers, last=bucket.is_last())

        def arrived(future: Any) -> Any:
            end_ns = self._clock.now_ns()
            size_byte = buffer.numel() * buffer.element_size()
            self._record(Transfer(layers, size_byte, ready_ns, ready_ns, end_ns))
            return future.value()[0]

        return dist.all_reduce(buffer, async_op=True).get_future().then(arrived)

    def _record(self, done: Transfer) -> None:
        self._recorder.transfer(done)
