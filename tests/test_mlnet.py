"""MLNet's arithmetic in the simulation: how long a push takes, at a tenth of its size.

800 workers in racks of 8 and P servers take as long as 80 and P/10: in times of a worker's bytes
over a link, 800/P straight, 7 + 100/P through one worker of each rack, 2 + 100/P up a tree there.

In pieces, a rack's first worker sends a server's part on while it still sums it: all but the last
server's part is then there early, and of 7 and 2 only (P - 1)/P is waited for. With 800 workers and
ten servers or more that is at most 4 % less.
"""

import re
from functools import partial

import pytest

from bench.mlnet_push import BYTE, PIECES, RACK, UNIT_NS, Fabric
from testbed.fluid.step_tables import StepList
from tests.conftest import REPOSITORY
from workloads.collectives import aggregation

TENTH = Fabric(workers=80, leaves=20, spines=8)
ROOTS = TENTH.workers // RACK


@pytest.mark.parametrize("servers", [1, 4, 10, 20])
def test_a_push_takes_what_mlnets_arithmetic_says(servers: int) -> None:
    early = (servers - 1) / servers
    for push, units in (
        (TENTH.straight(servers), TENTH.workers / servers),
        (TENTH.summed(servers, None), RACK - 1 + ROOTS / servers),
        (TENTH.summed(servers, None, PIECES), (RACK - 1) * early + ROOTS / servers),
        (TENTH.summed(servers, 2, PIECES), 2 * early + ROOTS / servers),
    ):
        assert TENTH.push_units(push, servers) == pytest.approx(units, rel=0.05)


def synchronised(servers: int, models_level: int) -> tuple[float, float]:
    """When the last server has its part, and the last worker the model, up and down a tree."""
    how = TENTH.summing(servers, 2, PIECES)
    ranks = range(how.ranks)
    streams = {edge: at for at, edge in enumerate(how.edges)}
    lists = [
        StepList([part(rank, how) for rank in ranks], how.blocks, streams)
        for part in (aggregation.push, aggregation.pull)
    ]
    up = {edge for rank in ranks for one in lists[0].parts[rank].sends for edge in [(rank, one.to)]}
    levels = {edge: 0 if edge in up else models_level for edge in streams}
    simulation = TENTH.simulation(levels, servers, lists)
    pushes, pulls = simulation.players
    pushed: list[float] = []
    ends: list[float] = []

    def has_pushed(rank: int) -> None:
        pushed.append(simulation.now_ns)
        simulation.begin_steps(pulls[rank], BYTE)

    for rank in ranks:
        simulation.on_steps_done[pushes[rank]] = partial(has_pushed, rank)
        simulation.on_steps_done[pulls[rank]] = lambda: ends.append(simulation.now_ns)
        simulation.begin_steps(pushes[rank], BYTE)
    simulation.run(10**11)
    assert len(ends) == len(ranks)
    return max(pushed) / UNIT_NS, max(ends) / UNIT_NS


def test_models_of_servers_that_are_done_hold_up_gradients_for_the_others() -> None:
    """Both go through the links of a rack's first worker. Behind the gradients, they do not."""
    push, pull = 2 * 19 / 20 + 10 / 20, 2
    alike, behind = synchronised(20, 0), synchronised(20, 1)
    assert alike[0] > 1.2 * push
    assert behind[0] == pytest.approx(push, rel=0.05)
    assert behind[1] == pytest.approx(push + pull, rel=0.05)
    assert behind[1] < 0.9 * alike[1]


@pytest.mark.parametrize(
    "name",
    [
        "traffic-reduction", "oversubscribed", "both", "prioritisation", "prioritisation-full",
        "full-size",
    ],
)  # fmt: skip
def test_the_page_has_the_numbers_of_its_reproductions(name: str) -> None:
    docs = REPOSITORY / "docs"
    page, kept = ((docs / f"{one}.md").read_text() for one in ("mlnet", "reproductions"))
    [section] = re.findall(rf"^## mlnet/{name}\n(.*?)(?=^## )", kept, re.M | re.S)
    rows = [line.split(" | ") for line in section.splitlines() if line.endswith("reproduced |")]
    ours = [row[2].strip("-% ") for row in rows]
    assert ours
    assert [said for said in ours if said not in page] == []
