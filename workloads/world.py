"""All that a rank knows of where it runs.

A rank is a worker or a server of a training job. It is told the time, it asks to be woken, it sends
bytes to other ranks of its job and is told when some have arrived. Whether these bytes are real
(workloads/socket_world.py), calculated (testbed/fluid/world.py) or a line of a test
(tests/toy_world.py), it cannot know.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """Bytes from another rank, all of them here."""

    source: int
    byte: int
    tag: int = 0  # what the sender calls it
    content: memoryview | None = None  # in test mode, where numbers are real


class Hears(Protocol):
    """A rank, as its world sees it."""

    def message_arrived(self, message: Message) -> None: ...

    def told(self, source: int, numbers: tuple[int, ...]) -> None: ...


class World(Protocol):
    def now_ns(self) -> int: ...

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        """Wake me then."""

    def send(
        self,
        to: int,
        byte: int,
        *,
        tag: int = 0,
        content: memoryview | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """So many bytes to a rank, after those that are on their way to it.

        It hears `message_arrived` when they are all there. `sent` is called when they are out of
        the sender's hands, all but a few that the kernel keeps (docs/transfer.md).
        """

    def tell(self, to: int, *numbers: int) -> None:
        """A word to a rank, beside all bytes; it hears `told`."""

    def play(self, number: int, byte: int, done: Callable[[], None]) -> None:
        """Take part in the job's collective number `number`, over so many bytes."""

    def left_byte(self) -> int:
        """What is still to arrive here of the collectives under way, as bytes of their vectors."""

    def unsent_byte(self, to: int) -> int:
        """What a rank has not got yet of what it was sent."""

    def change_band(self, band: str, to: int | None = None) -> None:
        """Send what follows in this band, to one rank or to all."""
