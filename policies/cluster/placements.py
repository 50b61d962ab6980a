"""Which job's servers run where: placement policies, pure.

A placement is the number of jobs whose (first) server each host holds. The eight from `packed` to
`spread` go from the most skewed to the uniform one; with 21 jobs they are 21, 16+5, 11+10, 7+7+7,
6+5+5+5, 5+4+4+4+4, seven times 3, and one each.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat

Shape = Callable[[int, int], list[int]]  # (jobs, hosts) -> jobs on the first host, the second …


def even(jobs: int, groups: int) -> list[int]:
    """Groups whose sizes differ by one at most, the larger ones first."""
    small, larger = divmod(jobs, groups)
    return [small + (group < larger) for group in range(groups)]


def uneven(jobs: int, hosts: int) -> list[int]:
    """Two groups, the first three times the second (16 and 5 of 21)."""
    first = jobs - jobs // 4
    return [first, jobs - first]


def groups(count: int) -> Shape:
    return lambda jobs, hosts: even(jobs, min(count, hosts))


# From the most skewed to the uniform one: reports list them in this order.
PLACEMENTS: dict[str, Shape] = {
    "packed": groups(1),
    "two-uneven": uneven,
    "two-hosts": groups(2),
    "three-hosts": groups(3),
    "four-hosts": groups(4),
    "five-hosts": groups(5),
    "seven-hosts": groups(7),
    "spread": lambda jobs, hosts: even(jobs, hosts),
}


def place(name: str, jobs: int, servers: int, hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """The hosts of every job's servers; a job's own servers are on different hosts.

    Raises ValueError if they cannot be.
    """
    return [around(at, servers, hosts) for at in firsts(name, jobs, len(hosts))]


def firsts(name: str, jobs: int, hosts: int) -> list[int]:
    """The host, counted from 0, of every job's first server."""
    sizes = PLACEMENTS[name](jobs, hosts)
    return list(chain.from_iterable(repeat(host, size) for host, size in enumerate(sizes)))


def around(first: int, servers: int, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts of one job's servers: the first one's, and those that follow it.

    Raises ValueError if there are not that many.
    """
    if servers > len(hosts):
        raise ValueError(
            f"found {servers} servers, but there are only {len(hosts)} hosts, and a job's servers "
            "must be on different ones"
        )
    return tuple(hosts[(first + server) % len(hosts)] for server in range(servers))
