"""Source ports where they matter: with several ways, the five-tuple decides which one is taken.

A kernel picks source ports at random. Then the same flow could go one way under one policy and
another way under the next, and what was compared would be luck. So on such networks a flow's source
port follows from its seed and its number at its host, and a worker's from its seed, job and rank:
the same under every policy, and others with every seed.
"""

import zlib

FIRST_FLOW_SOURCE, FLOW_SOURCES = 32768, 28_000
FIRST_WORKER_SOURCE, WORKER_SOURCES = 20000, 10_000  # two each: ring, coordinator


def flow_source(seed: int, host: str, number: int) -> int:
    """The source port of a host's flow, flows being counted in the order of their starts."""
    return FIRST_FLOW_SOURCE + (_draw(f"{seed} {host}") + number) % FLOW_SOURCES


def worker_source(seed: int, job: str, rank: int) -> int:
    """The source port of a worker's connections: to its servers, or to the next in its ring.

    That to the coordinator of a ring has the next one.
    """
    return FIRST_WORKER_SOURCE + _draw(f"{seed} {job} {rank}") % (WORKER_SOURCES // 2) * 2


def _draw(text: str) -> int:
    return zlib.crc32(text.encode())
