"""How the workers of a parameter-server job aggregate on the way to their servers, and back."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from basics import units
from testbed.spec.mistakes import At
from testbed.spec.values import Flag, SomeSize, Spec, integer, one_of
from workloads.collectives.aggregation import DIRECT, TREE

RACK = "rack"
WORKER, HOST = "worker", "host"
MOST_DEGREE = 1024


class Reduction(Spec):
    """`reduce: rack` is short for `reduce: {by: rack}`."""

    what: ClassVar[str] = "reduce"

    by: Annotated[str, BeforeValidator(one_of("way to aggregate", RACK, TREE))]
    aggregator: Annotated[str, BeforeValidator(one_of("aggregator", WORKER, HOST))] = WORKER
    degree: Annotated[int, BeforeValidator(integer(2, MOST_DEGREE))] = 2
    chunk_byte: SomeSize = Field(alias="chunk", default=4_000_000)
    across: Annotated[str, BeforeValidator(one_of("way across racks", DIRECT, TREE))] = DIRECT
    multicast: Flag = True

    @classmethod
    def normal(cls, data: Any) -> Any:
        return {"by": data} if isinstance(data, str) else data

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        if data.get("by") == RACK and "degree" in data and data.get("across") != TREE:
            yield At(["degree"], "found beside by: rack, which has no tree; take by: tree")

    @property
    def planned(self) -> dict[str, Any]:
        """For the plan of the job; a rack without a tree has no degree."""
        return {
            "degree": self.degree if self.by == TREE else None,
            "degree_across": self.degree,
            "across": self.across,
            "chunk_byte": self.chunk_byte,
            "multicast": self.multicast,
            "on_hosts": self.aggregator == HOST,
        }

    def plain(self) -> dict[str, Any]:
        treed = self.by == TREE or self.across == TREE
        return {
            "by": self.by,
            **({"aggregator": self.aggregator} if self.aggregator == HOST else {}),
            **({"degree": self.degree} if treed else {}),
            "chunk": units.format_size(self.chunk_byte),
            "across": self.across,
            "multicast": self.multicast,
        }
