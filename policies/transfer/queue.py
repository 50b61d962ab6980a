"""Parts that wait to be sent: the best first, as long as there is credit. Pure."""

import heapq
from collections.abc import Iterable, Sequence

from policies.transfer.parts import TensorPart


class PartQueue:
    """`credit_byte`: a part is begun only while less than this is on its way, or nothing.

    So what is on its way may exceed it by less than one part. Where a part `overtakes`, those that
    rank behind it do not count: workers who wait for each other at a server would otherwise wait
    for ever, each with its credit in parts that the others have not begun.
    """

    def __init__(self, credit_byte: int, *, overtakes: bool = False) -> None:
        self._credit_byte = credit_byte
        self._overtakes = overtakes
        self._waiting: list[tuple[int, int, TensorPart]] = []
        self._count = 0  # of those that ever came: first come, first served without ranks
        self._flying: dict[int, tuple[int, int]] = {}  # rank and bytes, by part
        self.flying_byte = 0

    def add(self, parts: Iterable[TensorPart], ranks: Sequence[int] | None) -> None:
        """A part of several layers has the rank of the one that is wanted first."""
        for part in parts:
            self._count += 1
            if ranks is None:
                rank = self._count
            elif len(part.layers) == 1:  # as a rule: there are thousands
                rank = ranks[part.layers[0]]
            else:
                rank = min([ranks[layer] for layer in part.layers])
            heapq.heappush(self._waiting, (rank, part.number, part))

    def take(self) -> TensorPart | None:
        """The next part, if one waits and there is credit; its bytes are then on their way."""
        if not self._waiting:
            return None
        if self.flying_byte >= self._credit_byte and not self._may_overtake():
            return None
        return self._begun()

    def take_along(self, room_byte: int) -> TensorPart | None:
        """The next one if it is whole and fits into what room a transfer has left."""
        if not self._waiting:
            return None
        part = self._waiting[0][2]
        return self._begun() if part.whole and part.byte <= room_byte else None

    def give_back(self, parts: Iterable[TensorPart]) -> None:
        for part in parts:
            _, byte = self._flying.pop(part.number)
            self.flying_byte -= byte

    def _may_overtake(self) -> bool:
        if not self._overtakes:
            return False
        best = self._waiting[0][0]
        before = sum(byte for rank, byte in self._flying.values() if rank <= best)
        return before < self._credit_byte

    def _begun(self) -> TensorPart:
        rank, _, part = heapq.heappop(self._waiting)
        self._flying[part.number] = rank, part.byte
        self.flying_byte += part.byte
        return part
