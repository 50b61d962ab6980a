"""A trace as a table: rows whose every cell can say what is wrong with it, and where."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from basics.errors import BadInput
from basics.files import open_regular
from basics.units import LARGEST, shown

SECOND_NS = 10**9
LARGEST_FILE_BYTE = 200_000_000
MOST_GPUS = 100_000  # of one job


@dataclass(frozen=True)
class TraceRow:
    path: Path
    number: int  # the line of the file, or the entry of a list
    cells: Mapping[str, str]

    def wrong(self, column: str, what: str) -> BadInput:
        return BadInput(f"{self.path}: row {self.number}: {column}: {what}")

    def text(self, column: str) -> str:
        return (self.cells.get(column) or "").strip()

    def amount(self, column: str, unit: int = 1, default: int | None = None) -> int:
        """A number of so many base units, 0 or more; an empty cell is the default."""
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number * unit <= LARGEST / 4:
            raise self.wrong(column, f"found {shown(text)}; it must be a number, 0 or more")
        return round(number * unit)

    def count(self, column: str) -> int:
        number = self.amount(column)
        if not 1 <= number <= MOST_GPUS or str(number) != self.text(column).removesuffix(".0"):
            found = shown(self.text(column))
            raise self.wrong(column, f"found {found}; it must be a whole number from 1 on")
        return number

    def seconds(self, column: str) -> int:
        return self.amount(column, SECOND_NS)


def content(path: Path) -> str:
    """The text of a file that is not too large."""
    try:
        with open_regular(path) as file:
            found = file.read(LARGEST_FILE_BYTE + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(found) > LARGEST_FILE_BYTE:
        raise BadInput(f"{path}: a trace of more than {LARGEST_FILE_BYTE} bytes")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not a trace: it is not UTF-8 text") from None


def csv_rows(path: Path, needed: Sequence[str]) -> Iterator[TraceRow]:
    """The rows below a header that has these columns."""
    reader = csv.reader(StringIO(content(path)), strict=True)
    try:
        header = next(reader, [])
        for column in needed:
            if column not in header:
                raise BadInput(f"{path}: row 1: {column}: missing; needed are {', '.join(needed)}")
        for cells in reader:
            if not cells:
                continue
            row = TraceRow(path, reader.line_num, dict(zip(header, cells, strict=False)))
            if len(cells) != len(header):
                raise row.wrong(header[0], f"found {len(cells)} cells below {len(header)} columns")
            yield row
    except csv.Error as error:
        raise BadInput(f"{path}: row {reader.line_num}: not CSV: {error}") from None


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    made = StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return made.getvalue()


def whole_seconds(ns: int | None) -> int:
    return round((ns or 0) / SECOND_NS)
