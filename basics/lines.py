"""Whole lines out of a stream that arrives in pieces.

A pipe or a socket hands over what is there, cut wherever it happens to be: in the middle of a
line, or between a line and its end.
"""


class Lines:
    def __init__(self) -> None:
        self._begun = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without their ends."""
        *whole, self._begun = (self._begun + piece).split(b"\n")
        return whole
