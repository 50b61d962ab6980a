"""How experiment files write where a job runs, and how fast its servers are."""

import re

from basics import units
from basics.units import shown
from policies.cluster.placements import PLACEMENTS, SERVERS_BY_RACK
from testbed.spec.mistakes import Mistakes
from testbed.spec.values import above_zero
from workloads.profiles import Layer, Profile

MOST_SERVERS = 100_000  # of all jobs


def read_workers(value: object) -> str | int | tuple[str, ...]:
    if value == "all":
        return "all"
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f"found {shown(value)}; it must be all, a number, or host names like [h1, h2]")


def read_servers_on(value: object) -> str | tuple[str, ...]:
    """A placement's name, or hosts: [h1 x16, h2 x5] -> h1 sixteen times, then h2 five times."""
    known = (*PLACEMENTS, *SERVERS_BY_RACK)
    if isinstance(value, str) and value in known:
        return value
    if not isinstance(value, list) or not value:
        names = ", ".join(known)
        raise ValueError(
            f"found {shown(value)}; it must be hosts like [h1 x16, h2 x5], or one of {names}"
        )
    places: list[tuple[str, int]] = []
    mistakes = Mistakes()
    for index, entry in enumerate(value):
        found = re.fullmatch(r"(\S+)(?: x([0-9]{1,6}))?", entry) if isinstance(entry, str) else None
        if found is None or found[2] == "0" * len(found[2] or "x"):
            mistakes.add([index], f"found {shown(entry)}; it must be a host like h1, or h1 x16")
        else:
            places.append((found[1], int(found[2] or 1)))
    total = sum(servers for _, servers in places)
    if total > MOST_SERVERS:
        mistakes.add([], f"found places for {total} servers; {MOST_SERVERS} are the most")
    mistakes.refuse()
    return tuple(host for host, servers in places for _ in range(servers))


def byte_rate(value: object) -> int:
    """ "2.6 GB/s" -> 2_600_000_000."""
    if isinstance(value, str) and value.endswith("/s"):
        try:
            return above_zero(units.size_byte)(value.removesuffix("/s"))
        except ValueError:
            pass
    raise ValueError(f"found {shown(value)}; it must be bytes a second, like 2.6 GB/s")


def read_compute(value: object) -> tuple[int, int]:
    """ "20 s", or "uniform(15 s, 30 s)": the least and the most that an iteration computes."""
    text = value if isinstance(value, str) else ""
    found = re.fullmatch(r"\s*uniform\(([^,]+),([^,]+)\)\s*", text)
    ends = found.groups() if found else (value, value)
    try:
        low, high = (above_zero(units.time_ns)(end) for end in ends)
    except ValueError as error:
        raise ValueError(f"{error}, or uniform(15 s, 30 s)") from None
    if low > high:
        raise ValueError(f"found {shown(value)}; write the shorter one first")
    return low, high


def format_compute(ends: tuple[int, int]) -> str:
    low, high = map(units.format_time, ends)
    return low if low == high else f"uniform({low}, {high})"


def without_layers(byte: int, compute_ns: tuple[int, int]) -> Profile:
    """A model of which nothing is known but its size: ready as a whole when all is computed."""
    mean_ns = sum(compute_ns) // 2
    return Profile("bytes", "", (Layer(byte, 0, mean_ns),), byte, mean_ns)
