"""A few numbers that one process writes and another reads while a run goes on: a shared file.

Tasks publish here what a policy wants to know of them; testbed/live/policy_agent.py reads it.
"""

import mmap
import struct
from pathlib import Path
from typing import Self

_NUMBER = struct.Struct("=q")


class Board:
    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @classmethod
    def create(cls, path: Path, places: int) -> Self:
        path.write_bytes(bytes(_NUMBER.size * max(1, places)))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), 0))

    def __len__(self) -> int:
        return len(self._memory) // _NUMBER.size

    def __getitem__(self, place: int) -> int:
        return int(_NUMBER.unpack_from(self._memory, place * _NUMBER.size)[0])

    def __setitem__(self, place: int, number: int) -> None:
        _NUMBER.pack_into(self._memory, place * _NUMBER.size, number)
