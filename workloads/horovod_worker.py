"""The Horovod training worker: DistributedOptimizer over Horovod's own Gloo, with no launcher.

Every gradient is announced as soon as it is ready; each cycle Horovod agrees on those that all
workers have, fuses them up to `fusion` bytes and all-reduces them in a ring; the step waits for
all. `order` and `barrier` are the native worker's: Horovod has its own, first come first served,
with a barrier.

Records. computes and iterations: exact. transfers: `ready_ns` is when the last of its gradients was
made and `end_ns` when Horovod was done with it, both exact. Horovod does not say which tensors it
fused: those that ended within FUSED_NS of each other are taken for one transfer, and `start_ns` is
the earliest instant possible, because it sends one transfer at a time: its gradients were ready and
the one before was done.
"""

import os
import threading
from typing import Any

import horovod.torch as hvd
import torch
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
from horovod.torch.mpi_ops import mpi_lib

from workloads import torch_model
from workloads.control import Control
from workloads.loop import Clock
from workloads.stack_worker import Pacer, Recorder, StackConfig, Transfer
from workloads.torch_worker import train

# Between two tensors of one transfer lies a function call, between two transfers a negotiation and
# several trips round the network.
FUSED_NS = 20_000
CYCLE_MS = 1.0  # Horovod's own default
TIMEOUT_S = 3600  # a starved job is slow, not dead


def main(config: dict[str, Any], control: Control) -> None:
    train(StackConfig(**config), control, HorovodStack)


class HorovodStack:
    def __init__(self, settings: StackConfig) -> None:
        self._settings = settings
        os.environ |= environment(settings)

    def listen(self) -> None:
        """Rank 0 has the rendezvous server, where workers leave their addresses."""
        if self._settings.rank == 0:
            address = (self._settings.addresses[0], self._settings.port)
            server = RendezvousHTTPServer(address, RendezvousHandler, 0)
            server.init([])
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def connect(self, model: torch_model.TimedModel) -> None:
        hvd.init()
        self._model = model
        self._layer_of = {id(weight): layer for layer, weight in enumerate(model.weights)}
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=torch_model.LEARNING_RATE),
            named_parameters=model.named_parameters(),
        )

    def begin(self, clock: Clock, recorder: Recorder, pacer: Pacer) -> None:
        self._clock, self._recorder, self._pacer = clock, recorder, pacer

    def step(self) -> None:
        self._optimizer.zero_grad()
        self._model(torch.zeros(1)).sum().backward()
        self._await_gradients()
        self._optimizer.step()

    def _await_gradients(self) -> None:
        """What `step` would wait for, with the instant at which each was done."""
        done = []
        for parameter, (handle, _) in self._optimizer._handles.items():
            layer = self._layer_of[id(parameter)]
            real_ns = mpi_lib.horovod_torch_done_ns(handle)
            end_ns = int((real_ns - self._clock.epoch_ns) / self._clock.dilation)
            done.append((end_ns, layer, parameter.numel() * parameter.element_size()))
        for transfer in transfers(sorted(done), self._pacer.ready_ns, self._clock.dilation):
            self._recorder.transfer(transfer)


def transfers(
    done: list[tuple[int, int, int]], ready_ns: dict[int, int], dilation: float
) -> list[Transfer]:
    """Tensors (end, layer, bytes) in the order in which they ended, as fused transfers."""
    groups: list[list[tuple[int, int, int]]] = []
    for one in done:
        if groups and one[0] - groups[-1][-1][0] < FUSED_NS / dilation:
            groups[-1].append(one)
        else:
            groups.append([one])
    made: list[Transfer] = []
    for group in groups:
        ready = max(ready_ns[layer] for _, layer, _ in group)
        made.append(
            Transfer(
                layers=tuple(layer for _, layer, _ in group),
                bytes=sum(size for _, _, size in group),
                ready_ns=ready,
                start_ns=max(ready, made[-1].end_ns) if made else ready,
                end_ns=group[-1][0],
            )
        )
    return made


def environment(settings: StackConfig) -> dict[str, str]:
    """What Horovod's launcher would set: one worker a host."""
    rank, workers = str(settings.rank), str(settings.workers)
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": settings.addresses[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(settings.port),
        "HOROVOD_GLOO_IFACE": settings.device,
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(TIMEOUT_S),
        "HOROVOD_HOSTNAME": settings.addresses[settings.rank],
        "HOROVOD_RANK": rank,
        "HOROVOD_SIZE": workers,
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": rank,
        "HOROVOD_CROSS_SIZE": workers,
        "HOROVOD_FUSION_THRESHOLD": str(settings.fusion_byte),
        "HOROVOD_CYCLE_TIME": f"{CYCLE_MS * settings.dilation:g}",
    }
