"""What is sent as one: a layer, some layers together, or a part of one layer. Pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

ARRAY_BOUND_BYTE = 4_000_000  # MXNet's: arrays of 1,000,000 numbers and more are split
HASH = 9973  # and its rule for the others: key times this, modulo the servers


@dataclass(frozen=True)
class TensorPart:
    number: int
    layers: tuple[int, ...]
    byte: int
    whole: bool = True  # all of its layers; such may share a transfer
    server: int = 0


def even(total: int, count: int) -> list[int]:
    """So many lengths that add up to `total` and differ by at most one."""
    return [total * (at + 1) // count - total * at // count for at in range(count)]


def cut_layers(layer_bytes: Sequence[int], partition_byte: int) -> list[TensorPart]:
    """Every layer, cut evenly into as few parts as are not above the partition."""
    found: list[TensorPart] = []
    for layer, size in enumerate(layer_bytes):
        count = max(1, -(-size // partition_byte))
        for byte in even(size, count):
            found.append(TensorPart(len(found), (layer,), byte, whole=count == 1))
    return found


def groups_from_first(layer_bytes: Sequence[int], fusion_byte: int) -> list[TensorPart]:
    """From the first layer up, layers join a group until the next would exceed the buffer."""
    groups: list[list[int]] = []
    byte = 0
    for layer, size in enumerate(layer_bytes):
        if not groups or byte + size > fusion_byte:
            groups.append([])
            byte = 0
        groups[-1].append(layer)
        byte += size
    return [
        TensorPart(at, tuple(group), sum(layer_bytes[layer] for layer in group), whole=False)
        for at, group in enumerate(groups)
    ]


def groups_from_last(layer_bytes: Sequence[int], fusion_byte: int) -> list[TensorPart]:
    """The same from the last layer down."""
    last = len(layer_bytes) - 1
    return [
        replace(part, layers=tuple(last - layer for layer in reversed(part.layers)))
        for part in groups_from_first(layer_bytes[::-1], fusion_byte)
    ]


def slices(parts: Sequence[TensorPart], servers: int) -> list[TensorPart]:
    """TensorPart i at server i mod n, as P3 has it."""
    return [replace(part, server=part.number % servers) for part in parts]


def layers_at_servers(parts: Sequence[TensorPart], servers: int) -> list[TensorPart]:
    """As MXNet has it: a large array is split evenly over all servers, another lies at one."""
    found: list[TensorPart] = []
    for part in parts:
        if servers == 1 or part.byte < ARRAY_BOUND_BYTE:
            at = part.number * HASH % servers
            found.append(replace(part, number=len(found), server=at))
            continue
        for server, byte in enumerate(even(part.byte, servers)):
            found.append(TensorPart(len(found), part.layers, byte, whole=False, server=server))
    return found
