"""Which flow starts when, from where, to where, how large: drawn from a seed or read from a CSV.

A schedule depends on the experiment file and the seed alone, so every policy and every engine
sees the same flows. Each host of each mix has random streams of its own, keyed by seed, mix name
and host index: adding a mix, adding a host or running for longer leaves all other draws alone.
"""

import csv
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from basics.errors import BadInput
from basics.files import open_regular
from basics.units import multiplied, shown
from workloads import sizes

Integers = npt.NDArray[np.int64]

MOST_FLOWS = 20_000_000  # of a seed; more would not fit in memory
LARGEST_FILE_BYTE = 2_000_000_000  # room for as many rows
LONGEST_LINE_BYTE = 1000
SMALLEST_FLOW_BYTE = 16  # a 16-byte header names the flow
HEADER = ["start_ns", "src", "dst", "size_byte"]
_BATCH = 256  # gaps drawn at a time; fixed, so that a longer duration only draws more batches


class Mix(Protocol):
    """What a schedule needs to know of a flow mix: how to draw it, or the file that lists it."""

    name: str
    sizes: str | None
    arrivals_per_second: float | None
    scale: float
    schedule: Path | None

    @property
    def senders(self) -> int | None:
        """Of an incast; None: everybody to anybody."""


class Scheduled(Protocol):
    """What has flows: an experiment."""

    duration_ns: int

    @property
    def flows(self) -> Sequence[Mix]: ...

    @property
    def host_names(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False)
class Schedule:
    """Flows in the order (start_ns, src): arrays of equal length, one entry a flow."""

    flow: Integers  # ids, 0 … n-1 in this order
    mix: Integers  # index into the experiment's flows
    src: Integers  # host indexes: 0 is h1
    dst: Integers
    size_byte: Integers
    start_ns: Integers

    def __len__(self) -> int:
        return len(self.flow)

    def sent_by(self, host: int) -> "Schedule":
        """The part of this schedule that one host sends; flow ids stay."""
        mine = self.src == host
        return Schedule(*(column[mine] for column in self._columns()))

    def _columns(self) -> tuple[Integers, ...]:
        return self.flow, self.mix, self.src, self.dst, self.size_byte, self.start_ns


def schedule_of(experiment: Scheduled, seed: int) -> Schedule:
    """All flows of an experiment, ids unique over its mixes."""
    hosts = experiment.host_names
    parts = []
    for mix in experiment.flows:
        if mix.schedule is not None:
            parts.append(read_csv(mix.schedule, hosts, experiment.duration_ns))
        else:
            parts.append(draw(mix, len(hosts), experiment.duration_ns, seed))
    return _merged(parts)


def draw(mix: Mix, hosts: int, duration_ns: int, seed: int) -> Schedule:
    """Poisson arrivals at every host over [0, duration), each to some other host; or an incast."""
    if mix.sizes is None or mix.arrivals_per_second is None:
        raise ValueError(f"mix {mix.name} is replayed from a file, not drawn")
    cdf = sizes.available()[mix.sizes]
    if mix.senders is not None:
        return _incast(mix, cdf, mix.senders, hosts, duration_ns, seed)
    parts = []
    for host in range(hosts):
        key = (zlib.crc32(mix.name.encode()), host)
        gaps, lengths, targets = (
            np.random.default_rng(stream)
            for stream in np.random.SeedSequence(seed, spawn_key=key).spawn(3)
        )
        start_ns = _arrivals(gaps, mix.arrivals_per_second, duration_ns)
        count = len(start_ns)
        other = np.floor(targets.random(count) * (hosts - 1)).astype(np.int64)
        parts.append(
            _schedule(
                src=np.full(count, host, dtype=np.int64),
                dst=other + (other >= host),  # skip oneself
                size_byte=_sizes(lengths, cdf, mix.scale, count),
                start_ns=start_ns,
            )
        )
    return _alone(parts)


def _incast(
    mix: Mix, cdf: sizes.SizeCdf, senders: int, hosts: int, duration_ns: int, seed: int
) -> Schedule:
    """Every so often some host gets a flow from each of `senders` others, all at one moment.

    So often that a host starts as many flows a second as the mix says, on average.
    """
    key = (zlib.crc32(mix.name.encode()),)
    lengths, places = (
        np.random.default_rng(stream)
        for stream in np.random.SeedSequence(seed, spawn_key=key).spawn(2)
    )
    period_ns = 1e9 * senders / ((mix.arrivals_per_second or 0.0) * hosts)
    bursts = max(0, math.ceil(duration_ns / period_ns) - 1)
    # Hosts in some order, burst by burst: the first receives, those after it send.
    orders = [np.empty((0, 1 + senders), dtype=np.int64)]
    for first in range(0, bursts, _BATCH):
        drawn = places.random((min(_BATCH, bursts - first), hosts))
        orders.append(np.argsort(drawn, axis=1)[:, : 1 + senders])
    chosen = np.concatenate(orders)
    start_ns = np.floor(period_ns * np.arange(1, bursts + 1)).astype(np.int64)
    several = _schedule(
        src=chosen[:, 1:].ravel(),
        dst=np.repeat(chosen[:, 0], senders),
        size_byte=_sizes(lengths, cdf, mix.scale, bursts * senders),
        start_ns=np.repeat(start_ns, senders),
    )
    return _alone([several])


def _sizes(rng: np.random.Generator, cdf: sizes.SizeCdf, scale: float, count: int) -> Integers:
    drawn = np.floor(cdf.quantile(rng.random(count)) * scale).astype(np.int64)
    return np.maximum(drawn, SMALLEST_FLOW_BYTE)


def _alone(parts: Sequence[Schedule]) -> Schedule:
    """All of one mix."""
    merged = _merged(parts)
    return _schedule(merged.src, merged.dst, merged.size_byte, merged.start_ns)


def _arrivals(rng: np.random.Generator, per_second: float, duration_ns: int) -> Integers:
    times: list[npt.NDArray[np.float64]] = []
    last = 0.0
    while last < duration_ns:
        batch = last + np.cumsum(rng.exponential(1e9 / per_second, _BATCH))
        times.append(batch)
        last = float(batch[-1])
    every = np.concatenate(times) if times else np.empty(0)
    return np.floor(every[every < duration_ns]).astype(np.int64)


def read_csv(path: Path, hosts: Sequence[str], duration_ns: int) -> Schedule:
    """A schedule written by hand or by another tool. Raises BadInput that names the bad row."""
    index = {name: number for number, name in enumerate(hosts)}
    rows = []
    wrong: list[str] = []
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE_BYTE:
                raise BadInput(f"{path}: found more than {LARGEST_FILE_BYTE // 10**9} GB")
            for line, cells in _rows(path, _lines(path, file)):
                problem = _problem(cells, index, duration_ns)
                if problem:
                    wrong.append(f"row {line}: {problem}" if not wrong else "")
                    continue
                start, src, dst, size = cells
                rows.append((index[src], index[dst], int(size), int(start)))
    except OSError as error:
        raise BadInput(f"{path}: cannot read this schedule: {error.strerror or error}") from None
    except csv.Error as error:
        raise BadInput(f"{path}: not a CSV file: {error}") from None
    if wrong:
        others = f" (and {len(wrong) - 1} more such rows)" if len(wrong) > 1 else ""
        raise BadInput(f"{path}: {wrong[0]}{others}")
    if not rows:
        raise BadInput(f"{path}: no flows below the header {','.join(HEADER)}")
    return _merged([_schedule(*np.array(rows, dtype=np.int64).T)])


def _lines(path: Path, file: BinaryIO) -> Iterator[str]:
    """The lines of a file, none of them longer than a row can be."""
    first = True
    while raw := file.readline(LONGEST_LINE_BYTE + 1):
        if len(raw) > LONGEST_LINE_BYTE:
            raise BadInput(
                f"{path}: not a CSV file: a line is longer than {LONGEST_LINE_BYTE} bytes"
            )
        try:
            yield raw.decode("utf-8-sig" if first else "utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{path}: not a CSV file: it is not UTF-8 text") from None
        first = False


def _rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows with their line numbers in the file, the header checked and left out."""
    reader = csv.reader(file, strict=True)
    header: list[str] = next(reader, [])
    if header != HEADER:
        raise BadInput(
            f"{path}: row 1: found {shown(','.join(header))}; the header must be {','.join(HEADER)}"
        )
    for number, cells in enumerate(reader):
        if number >= MOST_FLOWS:
            raise BadInput(f"{path}: found more than {MOST_FLOWS} flows")
        if cells:
            yield reader.line_num, cells


def _problem(cells: list[str], hosts: dict[str, int], duration_ns: int) -> str | None:
    """What is wrong with a row of a schedule file, if anything."""
    if len(cells) != len(HEADER):
        return f"found {len(cells)} columns; a row is {','.join(HEADER)}"
    start, src, dst, size = cells
    for name, text in (("start_ns", start), ("size_byte", size)):
        if not re.fullmatch("[0-9]{1,18}", text):
            return f"{name}: found {shown(text)}; it must be a whole number like 1500000, no unit"
    for name, text in (("src", src), ("dst", dst)):
        if text not in hosts:
            return f"{name}: found {shown(text)}; hosts here are h1 to h{len(hosts)}"
    if src == dst:
        return f"dst: found {shown(dst)}, which is also src; a flow goes to another host"
    if int(size) < SMALLEST_FLOW_BYTE:
        return f"size_byte: found {size}; the smallest flow is {SMALLEST_FLOW_BYTE} bytes"
    if int(start) >= duration_ns:
        return f"start_ns: found {start}; it must be below the duration, {duration_ns}"
    return None


def expected_flows(mix: Mix, hosts: int, duration_ns: int) -> float:
    """How many flows a drawn mix has on average."""
    return (mix.arrivals_per_second or 0.0) * hosts * duration_ns / 1e9


def class_bounds_byte(scale: float) -> tuple[int, int]:
    """(largest small flow, smallest large flow): 100 kB and 10 MB, scaled like the flows."""
    return multiplied(100_000, scale), multiplied(10_000_000, scale)


def _schedule(src: Integers, dst: Integers, size_byte: Integers, start_ns: Integers) -> Schedule:
    """One mix, in the order given."""
    ids = np.arange(len(src), dtype=np.int64)
    return Schedule(ids, np.zeros_like(ids), src, dst, size_byte, start_ns)


def _merged(parts: Sequence[Schedule]) -> Schedule:
    """Several schedules as one, in the order (start_ns, src, part), read-only."""
    if not parts:
        return Schedule(*(np.empty(0, dtype=np.int64) for _ in range(6)))
    mix = np.concatenate([np.full(len(part), n, dtype=np.int64) for n, part in enumerate(parts)])
    src, dst, size_byte, start_ns = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("src", "dst", "size_byte", "start_ns")
    )
    order = np.lexsort((mix, src, start_ns))
    ids = np.arange(len(order), dtype=np.int64)
    columns = (ids, mix[order], src[order], dst[order], size_byte[order], start_ns[order])
    for column in columns:
        column.setflags(write=False)
    return Schedule(*columns)
