"""Folders of CSV files that experiment files can name, one file a name; people add their own.

A file is read when it is used, so one that is broken spoils nothing but what names it.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from basics.errors import BadInput
from basics.files import open_regular
from basics.units import shown

LARGEST_FILE_BYTE = 4_000_000
LONGEST_CELL = 40  # characters

Item = TypeVar("Item")


class Shelf(Mapping[str, Item]):
    """What is in a folder, by the names of its CSV files."""

    def __init__(self, folder: Path, read: Callable[[Path], Item]) -> None:
        self._folder = folder
        self._read = read
        self._known: dict[str, Item] = {}

    @cached_property
    def _names(self) -> dict[str, Path]:
        paths = sorted(self._folder.glob("*.csv"))
        return {path.stem: path for path in paths if not path.name.startswith(".")}

    def __getitem__(self, name: str) -> Item:
        """Raises BadInput, in one line, if the file cannot be used."""
        path = self._names[name]
        if name not in self._known:
            self._known[name] = self._read(path)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def commented_csv(path: Path, header: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The `#` lines of a CSV file without their mark, and its rows with their line numbers."""
    lines = _text(path).split("\n")
    comments = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    table = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    cells = [(n, _cells(path, n, line)) for n, line in table]
    if not cells or cells[0][1] != header:
        raise BadInput(f"{path}: the first row must be {','.join(header)}")
    for n, row in cells:
        if len(row) != len(header):
            raise BadInput(f"{path}:{n}: found {len(row)} columns instead of {len(header)}")
    return comments, cells[1:]


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST_FILE_BYTE + 1) or b""
    except OSError as error:
        raise BadInput(f"{path}: cannot read this: {error.strerror or error}") from None
    if len(raw) > LARGEST_FILE_BYTE:
        raise BadInput(f"{path}: found more than {LARGEST_FILE_BYTE // 10**6} MB")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}:{line}: found bytes that are not UTF-8 text") from None


def _cells(path: Path, number: int, line: str) -> list[str]:
    try:
        cells = next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise BadInput(f"{path}:{number}: not a row of a CSV file: {error}") from None
    for cell in cells:
        if len(cell) > LONGEST_CELL:
            raise BadInput(f"{path}:{number}: found {shown(cell)}; a cell is a number")
    return cells
