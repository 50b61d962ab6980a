"""The first bytes of every flow first; the rest of it, and training, after them.

Small flows have no more than first bytes, and all first bytes together are a few percent of what
flows carry: so small flows wait for nobody, and nobody has to know beforehand which ones are small.
PIAS (NSDI 2015) demotes flows between queues in this way.
"""

from dataclasses import replace

from basics.options import Option
from policies.link import Demotion, Discipline, LinkPolicy, Port, three_bands
from policies.link.discipline import NEVER_BYTE

FIRST_BYTE = 100_000  # where the literature ends its small flows, and so do ours


def demoting(
    threshold_byte: int, second_threshold_byte: int, fair: int, kernel: int = 0
) -> Discipline:
    """Strict priority in which a flow moves down after so many bytes, and once more later."""
    demotions = {
        "high": Demotion(threshold_byte, "middle"),
        "middle": Demotion(second_threshold_byte, "low"),
    }
    bands = three_bands()
    demoted = (
        replace(one, demotion=demotions.get(one.name), queue_per_flow=bool(fair))
        for one in bands.classes
    )
    return replace(bands, classes=tuple(demoted), kernel_marks=bool(kernel))


def discipline(
    port: Port, threshold_byte: int, second_threshold_byte: int, fair: int, kernel: int
) -> Discipline:
    return demoting(threshold_byte, second_threshold_byte, fair, kernel)


def threshold(meaning: str, default: int) -> Option:
    return Option(f"{meaning}, times the mix's scale", 1, NEVER_BYTE, default, unit="byte")


OPTIONS = {
    "threshold": threshold("the bytes of a flow that go first", FIRST_BYTE),
    "second_threshold": threshold("after so many the rest goes last", NEVER_BYTE),
    "fair": Option("1: each band has a queue for every flow (FQ-CoDel)", 0, 1, 0),
    "kernel": Option("1: the kernel of each host marks, whatever program sends", 0, 1, 0),
}
POLICY = LinkPolicy(
    name="first-bytes",
    title="First bytes first",
    description="three queues; a flow's first bytes high, the rest middle, where training is",
    flows="high",
    training="middle",
    discipline=discipline,
    options=OPTIONS,
)
