"""One rank's part of a collective, as messages come and go. Pure: no sockets, no clock.

Worlds without a faster way of their own play any list of steps with it.
"""

from collections import defaultdict, deque
from collections.abc import Callable

from workloads.collectives import Blocks, Part, Send, cut
from workloads.counting import Numbers, as_numbers

Post = Callable[[int, int, memoryview | None], None]  # (to, bytes, content)


class Play:
    """`numbers`, in test mode, is this rank's vector: summed in place as messages arrive."""

    def __init__(
        self, part: Part, blocks: int, byte: int, post: Post, numbers: Numbers | None = None
    ) -> None:
        self._part = part
        self._byte = byte
        self._post = post
        self.numbers = numbers
        unit = 1 if numbers is None else numbers.itemsize
        units = byte if numbers is None else numbers.size
        self._spans = [(start * unit, length * unit) for start, length in cut(units, blocks)]
        self._missing = [len(send.after) for send in part.sends]
        self._unlocks: list[list[int]] = [[] for _ in part.receives]
        for at, send in enumerate(part.sends):
            for receive in send.after:
                self._unlocks[receive].append(at)
        self._expected: dict[int, deque[int]] = defaultdict(deque)  # receives, by source
        for at, got in enumerate(part.receives):
            self._expected[got.source].append(at)
        self._due: dict[int, deque[int]] = defaultdict(deque)  # sends, by receiver
        for at, send in enumerate(part.sends):
            self._due[send.to].append(at)
        self._unsent, self._awaited = len(part.sends), len(part.receives)
        self._total_byte = sum(self._span(receive.blocks)[1] for receive in part.receives)
        self._got_byte = 0

    @property
    def done(self) -> bool:
        return not self._unsent and not self._awaited

    @property
    def left_byte(self) -> int:
        """What is still to arrive here, as bytes of the vector: a ring has each almost twice."""
        left = self._total_byte - self._got_byte
        return left * self._byte // max(1, self._total_byte)

    def begin(self) -> None:
        for to in self._due:
            self._hand_over(to)

    def arrived(self, source: int, content: memoryview | None = None) -> None:
        """The next message from this rank is here."""
        at = self._expected[source].popleft()
        receive = self._part.receives[at]
        self._got_byte += self._span(receive.blocks)[1]
        self._awaited -= 1
        if self.numbers is not None:
            assert content is not None
            mine = as_numbers_at(self.numbers, self._span(receive.blocks))
            mine[:] = mine + as_numbers(content) if receive.adds else as_numbers(content)
        for send in self._unlocks[at]:
            self._missing[send] -= 1
            if not self._missing[send]:
                self._hand_over(self._part.sends[send].to)

    def _hand_over(self, to: int) -> None:
        """To one rank, what is next and waits for nothing."""
        due = self._due[to]
        while due and not self._missing[due[0]]:
            self._send(self._part.sends[due.popleft()])

    def _send(self, send: Send) -> None:
        self._unsent -= 1
        start, length = self._span(send.blocks)
        content = None
        if self.numbers is not None:
            content = memoryview(as_numbers_at(self.numbers, (start, length)).tobytes())
        self._post(send.to, length, content)

    def _span(self, blocks: Blocks) -> tuple[int, int]:
        """Where some blocks are, in bytes: (start, length)."""
        first, count = blocks
        spans = self._spans[first : first + count]
        return spans[0][0], sum(length for _, length in spans)


class Plays:
    """The collectives that a rank takes part in, by number; what came early waits for its own."""

    def __init__(self) -> None:
        self._plays: dict[int, tuple[Play, Callable[[], None]]] = {}
        self._early: dict[int, list[tuple[int, memoryview | None]]] = defaultdict(list)

    @property
    def left_byte(self) -> int:
        return sum(play.left_byte for play, _ in self._plays.values())

    def begin(self, number: int, play: Play, done: Callable[[], None]) -> None:
        self._plays[number] = play, done
        play.begin()
        for source, content in self._early.pop(number, []):
            play.arrived(source, content)
        self._end_if_done(number)

    def arrived(self, number: int, source: int, content: memoryview | None = None) -> None:
        if number in self._plays:
            self._plays[number][0].arrived(source, content)
            self._end_if_done(number)
        else:  # its sender has begun before this rank
            self._early[number].append((source, content))

    def _end_if_done(self, number: int) -> None:
        play, done = self._plays[number]
        if play.done:
            del self._plays[number]
            done()


def as_numbers_at(numbers: Numbers, span: tuple[int, int]) -> Numbers:
    start, length = (byte // numbers.itemsize for byte in span)
    return numbers[start : start + length]
