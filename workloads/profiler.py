"""Measuring a layer profile: `giveway profile`.

Builds a model in torch, times its layers in real training iterations on this machine's CPU, and
leaves a file that `workloads.profiles` reads. What is measured is a CPU, and the file says so in
its first line: the shares of the layers are worth more than their sum, which is why `scale_to`
exists.

One thread computes and its processor time is taken: on a busy machine threads wait for each other,
and wall-clock times of layers are then mostly times of other programs. Every timed iteration has a
neighbour without hooks, so that the profile can say what the hooks cost. The controller never
imports torch; here it is imported by the one function that measures.
"""

import platform
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil

from basics import units
from basics.errors import BadInput, CannotRun, RunFailed
from basics.hints import nearest
from basics.home import how
from workloads.profiles import Layer, Profile
from workloads.stopwatch import Lap, Stopwatch

# The models of workloads/models.py, which cannot be asked without torch; a test compares.
MODELS = ("resnet18", "resnet32", "resnet50", "resnet101", "vgg16", "transformer")
WARMUPS = 2
MOST = 100_000  # samples or repeats; more is a slip of the finger


@dataclass(frozen=True)
class Order:
    """What is to be measured. Raises BadInput if that makes no sense."""

    model: str
    batch: int
    repeats: int
    scale_to_ns: int | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise BadInput(f"--model: no model {units.shown(self.model)}{self._nearest()}")
        for option, value in (("--batch", self.batch), ("--repeats", self.repeats)):
            if not 1 <= value <= MOST:
                raise BadInput(f"{option}: found {value}; it must be a whole number, 1 to {MOST}")
        if self.scale_to_ns == 0:
            raise BadInput("--scale-to: an iteration must take longer than nothing, like 280ms")

    def _nearest(self) -> str:
        return nearest(self.model.lower().replace("-", ""), MODELS)

    @property
    def command(self) -> str:
        words = ["giveway", "profile", "--model", self.model, "--batch", str(self.batch)]
        words += ["--repeats", str(self.repeats)]
        if self.scale_to_ns is not None:
            words += ["--scale-to", units.format_time(self.scale_to_ns).replace(" ", "")]
        return shlex.join(words)


@dataclass(frozen=True)
class Stopwatched:
    """What came out of the stopwatch, and of which machine."""

    title: str
    layers: tuple[Layer, ...]
    laps_ns: tuple[int, ...]
    bare_ns: tuple[int, ...]  # the same iterations without hooks
    between_share: float  # of the time, between layers with parameters
    software: str


def profile(order: Order, name: str, step: Callable[[], None] = lambda: None) -> Profile:
    """Measure, and scale if asked. Calls `step` after each of `steps(order)` iterations."""
    return as_profile(order, name, measure(order, step))


def steps(order: Order) -> int:
    return 2 * (WARMUPS + order.repeats)


def measure(order: Order, step: Callable[[], None]) -> Stopwatched:
    """Time the model's layers.

    Raises CannotRun without torch or memory, RunFailed for a model that cannot be timed.
    """
    torch = import_torch()
    from workloads import models

    model = models.MODELS[order.model]
    # initial weights and dropout draw from torch's own state; leave that and the threads alone
    with torch.random.fork_rng(devices=[]), one_thread(torch):
        torch.manual_seed(0)
        network = model.network().train()
        draw = torch.Generator().manual_seed(0)

        def forward(samples: Any, targets: Any) -> Any:
            return torch.nn.functional.cross_entropy(network(samples), targets)

        with complaints(order):
            _check_memory(torch, network, order.batch, lambda: forward(*model.batch(1, draw)))
            samples, targets = model.batch(order.batch, draw)
            run = partial(forward, samples, targets)
            warm, _ = _laps(network, run, WARMUPS, step, inside=True)
            laps, bare_ns = _laps(network, run, order.repeats, step)
    watched = list(Stopwatch(network).layers.values())
    return Stopwatched(
        title=model.title,
        layers=medians([_byte(watched[index]) for index in laps[0].order], laps),
        laps_ns=tuple(lap.whole_ns for lap in laps),
        bare_ns=tuple(bare_ns),
        between_share=1 - (warm[-1].inside_ns or 0) / warm[-1].whole_ns,
        software=f"torch {torch.__version__}, Python {platform.python_version()}",
    )


def import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        reason = "is not installed" if error.name == "torch" else f"cannot be loaded: {error}"
        raise CannotRun(
            f"giveway profile needs torch, which {reason}: run `{how('make torch')}`"
        ) from None
    return torch


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def complaints(order: Order) -> Iterator[None]:
    """Say what torch and the stopwatch complain about in words that help."""
    try:
        yield
    except ValueError as error:
        raise RunFailed(f"workloads/models.py: {order.model}: {error}") from None
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        raise CannotRun(_too_large(order.batch)) from None


def _laps(
    network: Any,
    forward: Callable[[], Any],
    repeats: int,
    step: Callable[[], None],
    inside: bool = False,
) -> tuple[list[Lap], list[int]]:
    """Iterations with hooks, and the times of as many without, in turns."""
    laps, bare_ns = [], []
    for _ in range(repeats):
        network.zero_grad(set_to_none=True)
        started_ns = time.thread_time_ns()
        forward().backward()
        bare_ns.append(time.thread_time_ns() - started_ns)
        step()
        network.zero_grad(set_to_none=True)
        with Stopwatch(network, inside) as watch:
            laps.append(watch.lap(forward))
        step()
    return laps, bare_ns


def _check_memory(torch: Any, network: Any, batch: int, forward: Callable[[], Any]) -> None:
    """Refuse a batch that would have the kernel kill us: extrapolate from a batch of one."""
    parameters = {p.untyped_storage().data_ptr(): p.nbytes for p in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward()
    del loss
    need_byte = batch * sum(kept.values()) + sum(parameters.values())  # and its gradients
    free_byte = psutil.virtual_memory().available
    if need_byte > free_byte:
        detail = f"it needs about {need_byte / 1e9:.1f} GB and {free_byte / 1e9:.1f} GB are free"
        raise CannotRun(f"{_too_large(batch)} ({detail})")


def _too_large(batch: int) -> str:
    return f"--batch: a batch of {batch} does not fit in this machine's memory: take a smaller one"


def _byte(layer: Any) -> int:
    return sum(int(parameter.nbytes) for parameter in layer.parameters(recurse=False))


def medians(layer_byte: Sequence[int], laps: Sequence[Lap]) -> tuple[Layer, ...]:
    """One layer each, with its median times: a lap that was disturbed does not count."""
    forward = zip(*(lap.forward_ns for lap in laps), strict=True)
    backward = zip(*(lap.backward_ns for lap in laps), strict=True)
    return tuple(
        Layer(byte, round(median(there)), round(median(back)))
        for byte, there, back in zip(layer_byte, forward, backward, strict=True)
    )


def as_profile(order: Order, name: str, measured: Stopwatched) -> Profile:
    """Nominal is what was measured, or what it is scaled to."""
    unscaled = Profile(name, "", measured.layers, 1, 1)
    found = replace(
        unscaled,
        provenance="\n".join(provenance(order, measured, unscaled.compute_ns)),
        nominal_model_byte=unscaled.total_byte,
        nominal_iteration_ns=unscaled.compute_ns,
    )
    return found if order.scale_to_ns is None else found.scaled(iteration_ns=order.scale_to_ns)


def provenance(order: Order, measured: Stopwatched, compute_ns: int) -> list[str]:
    samples = "1 sample" if order.batch == 1 else f"{order.batch} samples"
    low_ns, middle_ns, high_ns = _quartiles(measured.laps_ns)
    bare_ns = round(median(measured.bare_ns))
    scaled = "not scaled"
    if order.scale_to_ns is not None:
        scaled = f"SCALED from {_about(compute_ns)} to {units.format_time(order.scale_to_ns)}"
    return [
        f"{measured.title}, {samples} a batch, measured on a CPU, not on a GPU; {scaled}.",
        f"Machine: {processor()}, one thread. {measured.software}, float32.",
        f"Made on {datetime.now(UTC):%Y-%m-%d} by: {order.command}",
        f"Forward, loss and backward took {_about(middle_ns)} of processor time (median; quartiles "
        f"{_about(low_ns)} to {_about(high_ns)}),",
        f"{_about(bare_ns)} without hooks; the optimiser is not in it. What lies between layers "
        f"with parameters ({100 * measured.between_share:.0f} %:",
        "activations, pooling, loss) is counted with the neighbouring layer.",
    ]


def _quartiles(values: Sequence[int]) -> tuple[int, int, int]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return round(low), round(middle), round(high)


def _about(ns: int) -> str:
    """Three digits: "1.23 s"."""
    return units.format_time(round(ns, 3 - len(str(ns))) if ns > 999 else ns)


def processor() -> str:
    """What the kernel calls it; no host name, because profiles are passed on."""
    name = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
        name = " ".join(models[0].split()) if models else ""
    return f"{name or 'unnamed processor'} ({platform.machine()})"
