"""What the kernel is told stays what it was, byte by byte: runs of the virtual engine hang on it.

tests/golden/tc.txt was written from the policies as they were when each still wrote `tc` commands
itself: some ports in full, for people, and digests of many. After a change that is meant to tell
the kernel something else, write it again:

    python -m tests.test_tc_golden > tests/golden/tc.txt
"""

import hashlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from policies.link import LinkPolicy, Port, ServerPort, Situation, link_policies
from testbed.live import tc

GOLDEN = Path(__file__).parent / "golden" / "tc.txt"
# With so many servers.
SHOWN = {"htb-priority": 0, "prio": 0, "fq-codel": 0, "tensorlights-rr": 3, "tensorlights-both": 3}
SERVERS = (0, 1, 3, 21)
# Megabytes left of each job's broadcast, in no order; some have none.
REMAINING = {f"job-{number}": 37 * number % 11 * 1000 for number in range(max(SERVERS))}


def port(
    servers: int,
    rate_bps: int = 10**9,
    delay_ns: int = 10_000,
    slack_ns: int = 200_000,
    count_bytes: bool = False,
    mark_ns: int = 0,
) -> Port:
    held = tuple(ServerPort(f"job-{number}", 7000 + 2 * number) for number in range(servers))
    return Port(
        device="h1-eth0",
        rate_bps=rate_bps,
        queue_packets=100,
        delay_ns=delay_ns,
        slack_ns=slack_ns,
        count_bytes=count_bytes,
        mark_ns=mark_ns,
        servers=held,
        pushed_to=held[::2],
    )


def ports(servers: int) -> Iterator[Port]:
    rates = (10_000_000, 10**9, 10**10, 8_333_333_333)
    for settings in product(rates, (0, 10_000), (0, 200_000), (False, True), (0, 242_240)):
        yield port(servers, *settings)


def told(policy: LinkPolicy, at: Port) -> list[str]:
    discipline = policy.discipline_at(at)
    lines = tc.commands(discipline, at)
    lines += [f"queue {q.name} {q.class_id} {q.limit_packets}" for q in tc.queues(discipline, at)]
    remaining = REMAINING if policy.watches else {}
    for turn in (0, 1, 8) if policy.acts else ():
        situation = Situation(turn * policy.period_ns, remaining)
        lines += tc.moves(policy.discipline_at(at, situation), at)
    return lines


def listing() -> str:
    known = link_policies()
    lines = []
    for name, servers in SHOWN.items():
        lines += [f"# {name}, {servers} servers", *told(known[name], port(servers))]
    lines.append("# all policies at many ports: what they need of a kernel, and a digest")
    for name, policy in known.items():
        lines.append(f"{name}: {' '.join(sorted(tc.needs(policy)))}")
        for servers in SERVERS:
            text = "\n".join(line for one in ports(servers) for line in told(policy, one))
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            lines.append(f"{name}, {servers} servers: {digest}")
    return "\n".join(lines) + "\n"


def test_the_kernel_is_told_what_it_was_always_told() -> None:
    assert listing() == GOLDEN.read_text()


if __name__ == "__main__":
    print(listing(), end="")
