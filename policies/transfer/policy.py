"""What a transfer policy is: an order of layers, and how their bytes are cut and held back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from basics.options import Option, Options, Values, keywords
from policies.transfer.parts import TensorPart, cut_layers, layers_at_servers

MOST_BYTE = 10**12  # above every model: a tensor is one part, nothing is held back
ONE_BY_ONE = 1  # byte of credit: the next part goes when nothing is on its way


def sending_options(partition_byte: int = MOST_BYTE, credit_byte: int = ONE_BY_ONE) -> Options:
    """The two that every transfer policy has, by default as its authors have them."""
    return {
        "partition": Option(
            "a tensor above this is cut evenly", 1, MOST_BYTE, partition_byte, unit="byte"
        ),
        "credit": Option(
            "bytes on their way at which no further part is begun; below a part, one at a time",
            1,
            MOST_BYTE,
            credit_byte,
            unit="byte",
        ),
    }


@dataclass(frozen=True)
class Work:
    """A job as its transfer policy knows it."""

    layer_bytes: tuple[int, ...]
    forward_ns: tuple[int, ...]
    rate_bps: int  # of a host's link
    seed: int = 0


class Answers(Enum):
    """In which order a parameter server sends new values to a worker."""

    AS_UPDATED = "as they are updated"
    BY_RANK = "by rank, of those that are updated"
    GATED = "by rank, each after all before it, when an iteration begins with its reads"


@dataclass(frozen=True)
class TransferPolicy:
    """A rule for what a job sends next.

    `ranks` gives every layer a number, the smallest goes first; without it, first come is first
    served. It is called with the work, the worker and the iteration.

    Workers that exchange gradients by a collective are led by rank 0: at most `credit` bytes are
    on their way, and where the policy `fuses`, tensors share a transfer up to the fusion buffer.
    To parameter servers, parts go as soon as they are ready, unless the policy `holds_pushes`: then
    by rank and under credit, which comes back when a part has been handed to the kernel or, if
    `until_answered`, when its new values are here. `lay_out` says what is sent to which server;
    with `lanes`, each server has a credit of its own.
    """

    name: str
    title: str
    description: str
    ranks: Callable[[Work, int, int], Sequence[int]] | None = None
    options: Options = field(default_factory=sending_options)
    chosen: Values = field(default_factory=dict)
    fuses: bool = False
    holds_pushes: bool = False
    until_answered: bool = False
    lanes: bool = False  # credit is for each server
    answers: Answers = Answers.AS_UPDATED
    lay_out: Callable[[Sequence[TensorPart], int], list[TensorPart]] = layers_at_servers
    weighs_compute: bool = False  # it needs to know how long layers compute

    def told(self, chosen: Values) -> "TransferPolicy":
        """This policy with some of its options chosen."""
        return replace(self, chosen=dict(chosen))

    def plain(self) -> dict[str, Any]:
        """Name and options, for another process."""
        return {"policy": self.name, "options": dict(self.chosen)}

    @cached_property
    def partition_byte(self) -> int:
        return int(keywords(self.options, self.chosen)["partition_byte"])

    @cached_property
    def credit_byte(self) -> int:
        return int(keywords(self.options, self.chosen)["credit_byte"])

    def parts(self, layer_bytes: Sequence[int]) -> list[TensorPart]:
        """What a job sends in one iteration by a collective, numbered from layer 0 on."""
        return cut_layers(layer_bytes, self.partition_byte)

    def parts_at(self, layer_bytes: Sequence[int], servers: int) -> list[TensorPart]:
        """What it sends to so many servers."""
        return self.lay_out(self.parts(layer_bytes), servers)

    def ranked(self, work: Work, worker: int, iteration: int) -> Sequence[int] | None:
        return None if self.ranks is None else self.ranks(work, worker, iteration)
