"""The ring all-reduce: N workers, 2(N-1) steps, 1/N of the bytes in each.

`spans` and `steps` are pure. `RingTransfer` plays them over two TCP connections, one to the next
worker and one from the last. Its bytes are real but meaningless: they are sent from a memory
file and dropped by the receiving kernel (MSG_TRUNC), so that no core is spent on copying.
`NumberTransfer` does the same with float32 numbers that are really summed: the test mode.
"""

import os
import socket
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.sockets import Patience

PIECE_BYTE = 1 << 20  # one system call's worth


def spans(total: int, parts: int) -> list[tuple[int, int]]:
    """Cut `total` units into `parts` spans (start, length) whose lengths differ by at most one."""
    small, larger = divmod(total, parts)
    lengths = [small + (part < larger) for part in range(parts)]
    starts = [sum(lengths[:part]) for part in range(parts)]
    return list(zip(starts, lengths, strict=True))


@dataclass(frozen=True)
class Step:
    send: int  # span sent to the next worker
    receive: int  # span received from the one before
    adds: bool  # reduce-scatter adds what arrives, all-gather replaces


def steps(rank: int, workers: int) -> list[Step]:
    """The 2(N-1) steps of one worker: reduce-scatter, then all-gather."""
    scatter = [
        Step((rank - s) % workers, (rank - s - 1) % workers, True) for s in range(workers - 1)
    ]
    gather = [
        Step((rank + 1 - s) % workers, (rank - s) % workers, False) for s in range(workers - 1)
    ]
    return scatter + gather


class RingTransfer:
    """One all-reduce in progress, driven by readiness.

    A worker may send step k once it has received step k-1; it receives without waiting for its
    own sending. Call `pump_out` when the next worker's socket takes bytes and `pump_in` when the
    last one's has some.
    """

    def __init__(
        self,
        total_byte: int,
        rank: int,
        workers: int,
        outgoing: socket.socket,
        incoming: socket.socket,
    ) -> None:
        self._steps = steps(rank, workers)
        self._spans = spans(total_byte, workers)
        self._outgoing = outgoing
        self._incoming = incoming
        self._patience = Patience(incoming)
        self._sent_steps = 0
        self._sent_byte = 0  # of the step being sent
        self._received_steps = 0
        self._received_byte = 0

    @property
    def done(self) -> bool:
        return self._sent_steps == self._received_steps == len(self._steps)

    @property
    def can_send(self) -> bool:
        return self._sent_steps < len(self._steps) and self._sent_steps <= self._received_steps

    @property
    def can_receive(self) -> bool:
        return self._received_steps < len(self._steps)

    @property
    def left_byte(self) -> int:
        """What is still to arrive, as bytes of gradient: a ring carries each almost twice."""
        left = sum(self._spans[step.receive][1] for step in self._steps[self._received_steps :])
        return (left - self._received_byte) * len(self._spans) // max(1, len(self._steps))

    def pump_out(self) -> None:
        """Send what may be sent, as far as the socket takes it."""
        while self.can_send:
            start, length = self._spans[self._steps[self._sent_steps].send]
            if self._sent_byte < length:
                try:
                    self._sent_byte += self._put(start + self._sent_byte, length - self._sent_byte)
                except BlockingIOError:
                    return
            if self._sent_byte >= length:
                self._sent_steps += 1
                self._sent_byte = 0

    def pump_in(self) -> None:
        """Take what has arrived, no further than the current step's end."""
        while self.can_receive:
            step = self._steps[self._received_steps]
            start, length = self._spans[step.receive]
            if self._received_byte < length:
                missing = length - self._received_byte
                try:
                    count = self._take(start + self._received_byte, missing)
                except BlockingIOError:
                    self._patience.wait_for(missing)
                    return
                if count == 0:
                    raise ConnectionError("the worker before this one closed its connection")
                self._received_byte += count
            if self._received_byte >= length:
                self._step_received(step)
                self._received_steps += 1
                self._received_byte = 0

    def _put(self, offset: int, length: int) -> int:
        return os.sendfile(self._outgoing.fileno(), blank_file(), 0, min(length, PIECE_BYTE))

    def _take(self, offset: int, length: int) -> int:
        return self._incoming.recv_into(SCRATCH, min(length, PIECE_BYTE), socket.MSG_TRUNC)

    def _step_received(self, step: Step) -> None:
        """Nothing to add up: the bytes were dropped on arrival."""


class NumberTransfer(RingTransfer):
    """An all-reduce of real float32 numbers, summed in place: the test mode."""

    def __init__(
        self,
        numbers: NDArray[np.float32],
        rank: int,
        workers: int,
        outgoing: socket.socket,
        incoming: socket.socket,
    ) -> None:
        super().__init__(numbers.size, rank, workers, outgoing, incoming)
        item = numbers.itemsize
        self._spans = [(start * item, length * item) for start, length in self._spans]
        self.numbers = numbers
        self._bytes = numbers.view(np.uint8).data
        self._arrived = np.empty_like(numbers)
        self._arrived_bytes = self._arrived.view(np.uint8).data

    def _put(self, offset: int, length: int) -> int:
        return self._outgoing.send(self._bytes[offset : offset + length])

    def _take(self, offset: int, length: int) -> int:
        return self._incoming.recv_into(self._arrived_bytes[offset : offset + length])

    def _step_received(self, step: Step) -> None:
        start, length = (unit // self.numbers.itemsize for unit in self._spans[step.receive])
        part = slice(start, start + length)
        if step.adds:
            self.numbers[part] += self._arrived[part]
        else:
            self.numbers[part] = self._arrived[part]


def sample_numbers(count: int, factor: int) -> NDArray[np.float32]:
    """Numbers that differ from place to place, so that a misplaced span shows."""
    return (factor * (1 + np.arange(count) % 97)).astype(np.float32)


def check_sum(numbers: NDArray[np.float32], workers: int) -> None:
    """What `sample_numbers(count, rank + 1)` of every rank must add up to."""
    expected = sample_numbers(numbers.size, workers * (workers + 1) // 2)
    wrong = np.flatnonzero(numbers != expected)
    if wrong.size:
        first = wrong[0]
        raise ArithmeticError(
            f"the all-reduce gave {numbers[first]} instead of {expected[first]} at place {first} "
            f"and was wrong at {wrong.size} of {numbers.size} places"
        )


SCRATCH = bytearray(PIECE_BYTE)
_blank_file: int | None = None


def blank_file() -> int:
    """A memory file of zeros to send from: sendfile hands its pages to TCP without a copy."""
    global _blank_file
    if _blank_file is None:
        _blank_file = os.memfd_create("giveway-bytes")
        os.ftruncate(_blank_file, PIECE_BYTE)
        os.pwrite(_blank_file, bytes(PIECE_BYTE), 0)
    return _blank_file
