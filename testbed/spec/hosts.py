"""What a host of an experiment is: a bare network namespace, or a Docker container with limits."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator

from basics import units
from testbed.spec.values import SomeSize, Spec, number, one_of

NAMESPACES, DOCKER = "namespaces", "docker"
LEAST_MEMORY_BYTE = 32_000_000  # an interpreter with numpy, forked twice

HostKind = Annotated[str, BeforeValidator(one_of("kind of hosts", NAMESPACES, DOCKER))]
_Cpus = Annotated[
    float, BeforeValidator(number(0.01, 1024, "a number of processors, 0.01 to 1024"))
]


class ContainerSpec(Spec):
    """The limits of one host that is a container; None is as much as the machine has."""

    what: ClassVar[str] = "a container"

    cpus: _Cpus | None = None
    memory_byte: SomeSize | None = Field(alias="memory", default=None)

    @field_validator("memory_byte")
    @classmethod
    def _room_for_python(cls, memory_byte: int | None) -> int | None:
        if memory_byte is not None and memory_byte < LEAST_MEMORY_BYTE:
            raise ValueError(
                f"found {units.format_size(memory_byte)}; a host's workers need "
                f"{units.format_size(LEAST_MEMORY_BYTE)} or more"
            )
        return memory_byte

    def plain(self) -> dict[str, Any]:
        memory = None if self.memory_byte is None else units.format_size(self.memory_byte)
        given = {"cpus": self.cpus, "memory": memory}
        return {key: value for key, value in given.items() if value is not None}
