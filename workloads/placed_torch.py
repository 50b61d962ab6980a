"""A torch worker of a cluster's job, on one of its placements: begins, rests and ends as told.

It trains as workloads/torch_worker.py does: DDP over Gloo, compute that sleeps, real gradients.
What it learns from are samples that a sampler draws and random numbers, with Adam, so that a
checkpoint has all parts that one can have. Every rank draws the same random numbers and is as far
in its own samples, so all ranks have the same state, and any of them may give it to any other.

A thread of its own follows the daemon's words and ends it (workloads/placed_orders.py).
"""

import socket
import time
import zlib
from dataclasses import dataclass
from typing import Any

import torch

from workloads import torch_checkpoint, torch_model
from workloads.control import Control
from workloads.loop import Clock
from workloads.placed_orders import IterationTurns, Orders
from workloads.placed_ranks import KeptRows
from workloads.stack_ranks import STACK, DaemonLine
from workloads.stack_worker import Pacer, Recorder, StackConfig
from workloads.task import sleep_until
from workloads.torch_worker import DdpStack

BATCH, BATCHES = 8, 16  # samples a batch, and batches an epoch
NOISE = 0.1  # of what is learnt, beside samples of size 1
KNOCK_S = 0.001  # between two tries whether rank 0 is there


@dataclass(frozen=True)
class PlacedConfig:
    number: int
    epoch: int
    door: tuple[str, int]  # of this host's daemon
    first: int  # iteration
    first_transfer: int
    total: int  # iterations
    tos: int
    zero_ns: int  # when time zero was
    gives: bool  # its state, when it rests; others here have the same


def main(config: dict[str, Any], control: Control) -> None:
    torch.set_num_threads(1)
    placed = PlacedConfig(**config["placed"])
    other = {key: value for key, value in config.items() if key not in ("placed", "stack")}
    settings = StackConfig(**config["stack"], **other)
    hello = (placed.number, placed.epoch, STACK, settings.rank, 0)
    line = DaemonLine(placed.door, placed.tos, hello)
    try:
        state = line.hear()
    except EOFError:
        raise SystemExit(0) from None
    rows = KeptRows()
    recorder = Recorder(settings, rows, placed.first, placed.first_transfer)
    turns = IterationTurns(placed.first, placed.total)
    clock = Clock(placed.zero_ns, settings.dilation)
    orders = Orders(settings, control, line, turns, recorder, rows, clock, placed.tos)
    orders.start()
    try:
        worker = PlacedTorch(settings, placed, recorder, clock)
        worker.connect(state, orders)
        orders.say("standing")
        turns.await_go()
        worker.train(turns, orders)
    except RuntimeError as broken:  # of torch.distributed: somebody has gone, and is known of soon
        orders.say("broken", why=str(broken).splitlines()[0])
    orders.await_the_end()


class PlacedPacer(Pacer):
    """Compute that takes its time, but for a pass that is only rehearsed."""

    rehearses = False

    def work(self, phase: str, layer: int) -> None:
        if not self.rehearses:
            super().work(phase, layer)


class PlacedTorch:
    def __init__(
        self, settings: StackConfig, placed: PlacedConfig, recorder: Recorder, clock: Clock
    ) -> None:
        self._settings, self._placed = settings, placed
        self._recorder, self._clock = recorder, clock
        self._pacer = PlacedPacer(settings, recorder)
        self._pacer.clock = clock
        self._stack = DdpStack(settings)
        seed = zlib.crc32(f"{settings.seed} {settings.job}".encode())  # no two jobs are alike
        torch.manual_seed(seed)  # the same on all ranks, and a part of the checkpoint
        samples = BATCH * BATCHES * settings.workers
        draw = torch.Generator().manual_seed(seed)
        self._samples = torch.randn(samples, generator=draw)
        self._sampler = torch_checkpoint.PlacedSampler(
            samples, BATCH, settings.rank, settings.workers, seed
        )
        sizes = [size for size, _, _ in settings.layers]
        self._model = torch_model.TimedModel(sizes, self._pacer)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=torch_model.LEARNING_RATE)

    def connect(self, state: bytes, orders: Orders) -> None:
        """To the others, in its band; then all go on from the state, if there is one."""
        if self._settings.rank:
            knock(self._settings.addresses[0], self._settings.port)
        self._stack.listen()
        self._stack.join()
        orders.mark()
        self._stack.begin(self._clock, self._recorder, self._pacer)
        self._stack.wrap(self._model, self._optimizer)
        orders.mark()  # a transfer policy has connections of its own
        if state:
            parts = self._model, self._optimizer, self._sampler
            first = torch_checkpoint.resumed(state, *parts, self._rehearse)
            if first != self._placed.first:
                raise ValueError(
                    f"{self._settings.job}: a checkpoint before iteration {first} was to be one "
                    f"before {self._placed.first}"
                )

    def _rehearse(self) -> None:
        self._pacer.rehearses = True
        self._stack.backward()
        self._pacer.rehearses = False
        self._recorder.forget_transfers()

    def train(self, turns: IterationTurns, orders: Orders) -> None:
        """Until it is to rest; then it says in which state, and gives that if it is asked to."""
        compute_ns = sum(forward + backward for _, forward, backward in self._settings.layers)
        start_ns = self._clock.now_ns()
        while True:
            iteration, by_ns, held = turns.await_turn()
            if iteration is None:
                break
            start_ns = (self._clock.now_ns() if held else start_ns) + by_ns
            sleep_until(self._clock.real_ns(start_ns))
            self._pacer.due_ns = start_ns
            learnt = self._samples[self._sampler.next_batch()].mean() + NOISE * torch.randn(())
            self._pacer.target = learnt.item()
            self._stack.step()
            end_ns = self._clock.now_ns()
            self._recorder.iteration(start_ns, end_ns, compute_ns)
            if self._settings.rank == 0:
                orders.say("iterated", iteration=iteration, ns=end_ns - start_ns)
            start_ns = end_ns
        self._rest(turns.resting, orders)

    def _rest(self, before: int, orders: Orders) -> None:
        parts = self._model, self._optimizer, self._sampler
        state = torch_checkpoint.digest(*parts)
        if before == self._placed.total:
            orders.final = state
        elif self._placed.gives:
            orders.give(torch_checkpoint.saved(*parts, before))
        orders.say("rested", before=before, transfers=self._recorder.numbered, state=state)


def knock(address: str, port: int) -> None:
    """Until somebody listens there: torch itself would wait for a second before it tries again."""
    while True:
        with socket.socket() as sock:
            if sock.connect_ex((address, port)) == 0:
                return
        time.sleep(KNOCK_S)
