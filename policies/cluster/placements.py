"""Which job's servers run where: placement policies, pure.

A placement is the number of jobs whose (first) server each host holds. The eight from `packed` to
`spread` go from the most skewed to the uniform one; with 21 jobs they are 21, 16+5, 11+10, 7+7+7,
6+5+5+5, 5+4+4+4+4, seven times 3, and one each. Those by racks know where racks end.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import chain, repeat, zip_longest

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


Racks = Sequence[Sequence[str]]
Hosts = list[str]


def rack_by_rack(racks: Racks) -> Hosts:
    return [host for rack in racks for host in rack]


def in_turn(racks: Racks) -> Hosts:
    """One host of each rack, then a second of each."""
    return [host for turn in zip_longest(*racks) for host in turn if host is not None]


# In which order the racks' hosts are taken, by workers and by servers.
BY_RACK: dict[str, Callable[[Racks], Hosts]] = {"packed": rack_by_rack, "spread": in_turn}
SERVERS_BY_RACK = {f"racks-{name}": order for name, order in BY_RACK.items()}


def left_by(workers: Sequence[str], racks: Racks) -> list[list[str]]:
    """The racks without these hosts."""
    taken = set(workers)
    return [[host for host in rack if host not in taken] for rack in racks]


def last_free(racks: Racks, taken: Collection[str]) -> list[str]:
    """The last host of each rack that is none of these, where there is one."""
    left = ([host for host in rack if host not in taken] for rack in racks)
    return [hosts[-1] for hosts in left if hosts]


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
