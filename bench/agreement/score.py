"""How many numbers of the simulation are within bounds, and how many of the kernel's own are."""

from collections.abc import Sequence

from analysis import agreement
from bench.agreement import noise, where
from bench.agreement.cells import SEEN_ONCE
from bench.agreement.compared import (
    KINDS,
    Compared,
    both_tails,
    percent,
    points,
    within_twice,
    without_timeouts,
)


def answer(cells: Sequence[Compared]) -> str:
    """The page in three sentences."""
    told = {}
    for kind, *_ in KINDS:
        rows = [r for c in cells for r in c.rows if kind in r.what and not r.is_change]
        apart = sorted(abs(row.apart) for row in rows)
        within = f"{sum(row.within for row in rows)} of {len(rows)}"
        told[kind] = within, percent(apart[len(apart) // 2], "")
    return "\n".join(
        [
            "Mean iterations of the simulation are within 3 % of the kernel's in "
            f"{told['iteration'][0]} cases",
            f"(median difference {told['iteration'][1]}), large flows' means within 15 % in "
            f"{told['large flows'][0]} ({told['large flows'][1]}),",
            f"small flows' means in {told['small flows'][0]} ({told['small flows'][1]}): a few "
            "timeouts make those, in the kernel too.",
            f"Take the kernel where queues have less than {where.SHORT_PACKETS} packets, or where "
            "training and flows ask for most of a link.",
        ]
    )


def score(cells: Sequence[Compared]) -> str:
    virtual = {one.cell.name: one.virtual for one in cells}
    lines = [
        "| | within | median difference | largest | the kernel within the same of itself |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind, title, bound in KINDS:
        for is_change in (False, True):
            rows = [r for c in cells for r in c.rows if kind in r.what and r.is_change == is_change]
            apart = sorted(abs(row.apart) for row in rows)
            name = f"{title}: change, 5 points" if is_change else f"{title}, {bound}"
            unit = points if is_change else percent
            itself = noise.of_itself(virtual, kind, is_change)
            lines.append(
                f"| {name} | {sum(row.within for row in rows)} of {len(rows)} "
                f"| {unit(apart[len(apart) // 2], sign='')} | {unit(apart[-1], sign='')} "
                f"| {itself} |"
            )
    apart = sorted(abs(found) for c in cells for found in without_timeouts(c))
    lines.append(
        f"| Beside it: small flows that took at most 150 ms, 15 % "
        f"| {sum(one <= agreement.FLOWS_BOUND for one in apart)} of {len(apart)} "
        f"| {percent(apart[len(apart) // 2], '')} | {percent(apart[-1], '')} | |"
    )
    small = [r for c in cells for r in c.rows if "small flows" in r.what and not r.is_change]
    lines.append(
        f"| Beside it: mean completion time of small flows, a factor of two "
        f"| {sum(map(within_twice, small))} of {len(small)} | | "
        f"| {noise.of_itself(virtual, 'small flows', False, within_twice)} |"
    )
    apart = sorted(abs(theirs / ours - 1) for *_, ours, theirs in both_tails(cells))
    if apart:
        lines.append(
            f"| 99th percentile of slowdown, all flows, 15 % "
            f"| {sum(one <= agreement.FLOWS_BOUND for one in apart)} of {len(apart)} "
            f"| {percent(apart[len(apart) // 2], '')} | {percent(apart[-1], '')} | |"
        )
    lines += [
        "",
        "The last column: all cells but the thesis's, played a second time on the virtual engine",
        "with one microsecond more of delay a link, against its first run. No simulation can be",
        "expected to be within bounds of that first run more often than the kernel itself is.",
        "",
        "The same by queue, and by the share of every link that training and flows ask for (cells",
        "were sorted so after the comparison, to say where the numbers lie that are outside):",
        "",
        *where.table(cells),
    ]
    return "\n".join(["## In short", *lines, ""])


def blind(cells: Sequence[Compared]) -> str:
    """What the simulation is worth on cells that nobody had looked at."""
    some = [one for one in cells if one.cell.name in SEEN_ONCE]
    if not some:
        return ""
    told = []
    for kind, bound in ((kind, bound) for kind, _, bound in KINDS):
        for is_change in (False, True):
            rows = [r for c in some for r in c.rows if kind in r.what and r.is_change == is_change]
            name = f"{kind}, change, within 5 points" if is_change else f"{kind} within {bound}"
            told.append(f"{name}: {sum(row.within for row in rows)} of {len(rows)}")
    apart = [abs(found) for one in some for found in without_timeouts(one)]
    within = sum(found <= agreement.FLOWS_BOUND for found in apart)
    told.append(f"small flows that took at most 150 ms within 15 %: {within} of {len(apart)}")
    names = ", ".join(one.cell.name for one in some)
    return "\n".join(
        [
            "## Cells that were looked at once",
            f"{names}: chosen and committed before the last change of the simulation's laws, and",
            "compared when those were final. Of these cells alone:",
            *(f"- {line}" for line in told),
            "",
        ]
    )
