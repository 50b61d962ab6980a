"""Three queues, the higher one always first: the thesis's arrangement.

htb stands in for the prio qdisc, which many kernels lack: each band may borrow the whole line,
the bands borrow in the order of `prio`, and what a band owns without asking is next to nothing.
"""

from policies.base import BAND_TOS, LinkPolicy, Port, band_queues, banded

OWN_RATE_BPS = 8_000  # htb wants a rate above zero; this is one full frame in 1.5 s


def commands(port: Port) -> list[str]:
    return banded(port, dict.fromkeys(BAND_TOS, OWN_RATE_BPS))


POLICY = LinkPolicy(
    name="strict-priority",
    title="Strict priority",
    description="three queues; a packet waits while any higher queue holds one",
    bands=tuple(BAND_TOS),
    flows="high",
    training="low",
    commands=commands,
    queues=band_queues,
)
