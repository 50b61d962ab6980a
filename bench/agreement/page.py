"""docs/agreement.md, from the numbers of both engines."""

from collections.abc import Sequence

from analysis import agreement, words
from analysis.agreement import BothEngines
from bench.agreement import noise
from bench.agreement.compared import KINDS, Compared, both_tails, percent, points
from bench.agreement.playing import LAST_CHANGE
from bench.agreement.score import answer, blind, score
from bench.agreement.where import offered

HEAD = """\
# How far the fluid engine is from the virtual one
{answer}

Written by `make agreement`; a test holds it to what the code gives. Do not edit.

## How to read this page
- `fluid` is a simulation of flows ([fluid.md](fluid.md)), `virtual` a real kernel whose clock is
  virtual ([virtual.md](virtual.md)). A *cell* is one experiment, seed 0, that both have run with
  the same flows.
- Bounds were set beforehand: mean iteration time within 3 %, mean completion time of small and of
  large flows within 15 %, what a policy changes within 5 points. What is outside is **bold**.
- *Change* is against the first policy of the cell. In the thesis's cells the policies are `same`,
  training in the flows' band, and `low`, training below it.
- The virtual engine takes minutes for a cell, so what it gave is kept in
  `bench/agreement/reference.json`, with the command and the digest of the records;
  `python -m bench.agreement --virtual` makes it again. The fluid engine is run each time.
"""


def page(cells: Sequence[Compared]) -> str:
    parts = [HEAD.format(answer=answer(cells)) + _ages(cells), score(cells)]
    parts += [blind(cells), _cells(cells)]
    for kind, title, bound in KINDS:
        lead = (
            "A line a cell and policy; **bold** is outside. On the right what the policy changes\n"
            "against the cell's first one, in both engines.\n"
        )
        head = f"## {title} (within {bound}; change within 5 points)"
        parts.append(f"{head}\n{lead}\n{_table(kind, cells)}")
    parts.append(_tails(cells))
    parts.append(_beside(cells))
    both = {one.cell.name: one for one in cells}
    parts.append(
        noise.section(
            {name: both[name].virtual for name in both}, {name: both[name].fluid for name in both}
        )
    )
    parts.append(_notes(cells))
    return "\n".join(parts)


def _ages(cells: Sequence[Compared]) -> str:
    old = [compared.cell.name for compared in cells if not compared.is_new]
    if not old:
        return ""
    return (
        f"- Kept runs of {', '.join(old)} are of the virtual engine before its last change\n"
        f"  ({LAST_CHANGE}: [virtual-tried.md](virtual-tried.md)):\n"
        "  today's kernel gives other digests and somewhat other means. All others are new.\n"
    )


def _cells(cells: Sequence[Compared]) -> str:
    lines = ["| cell | training | flows | file | settings |", "| --- | --- | --- | --- | --- |"]
    for compared in cells:
        training, flows = offered(compared.cell)
        cell = compared.cell
        settings = ", ".join(f"`{setting}`" for setting in cell.settings)
        share = "replayed" if flows is None else percent(flows, "")
        lines.append(
            f"| {cell.name} | {percent(training, '')} | {share} | `{cell.file}` | {settings} |"
        )
    head = (
        "## The cells\nTraining and flows: the share of every host's link that each asks for.\n"
        "Each cell is `giveway run FILE --engine virtual --seed 0` and `--set` for each setting.\n"
    )
    return "\n".join([head, *lines, ""])


def _table(kind: str, cells: Sequence[Compared]) -> str:
    lines = [
        "| cell | policy | virtual | fluid | difference | change: virtual | fluid | difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for compared in cells:
        for policy in compared.virtual:
            lines += [_line(compared, row) for row in compared.values(kind, policy)]
    return "\n".join([*lines, ""])


def _line(compared: Compared, row: BothEngines) -> str:
    jobs = len(next(iter(compared.virtual.values()))["iteration"])
    job = f" ({row.what.split(',')[0]})" if "iteration" in row.what and jobs > 1 else ""
    line = (
        f"| {compared.cell.name}{job} | {row.policy} | {words.duration(row.reference)} "
        f"| {words.duration(row.other)} | {_flag(row, percent(row.apart))} |"
    )
    change = compared.change(row)
    if change is None:
        return f"{line} | | |"
    return (
        f"{line} {percent(change.reference)} | {percent(change.other)} "
        f"| {_flag(change, points(change.apart))} |"
    )


def _tails(cells: Sequence[Compared]) -> str:
    """The error that Parsimon and m3 report of themselves."""
    lines = [
        "## 99th percentile of slowdown, all flows",
        "Counted within the bound of flows. Not every kept run has it: it is younger than some.",
        "",
        "| cell | policy | virtual | fluid | difference |",
        "| --- | --- | --- | --- | --- |",
    ]
    errors = []
    for name, policy, virtual, fluid in both_tails(cells):
        errors.append(fluid / virtual - 1)
        apart = percent(errors[-1])
        told = apart if abs(errors[-1]) <= agreement.FLOWS_BOUND else f"**{apart}**"
        lines.append(f"| {name} | {policy} | {virtual:.1f} | {fluid:.1f} | {told} |")
    if not errors:
        return ""
    middle = sorted(map(abs, errors))[len(errors) // 2]
    return "\n".join(
        [*lines, "", f"Median of the {len(errors)} errors: {percent(middle, '')}.", ""]
    )


def _beside(cells: Sequence[Compared]) -> str:
    """Medians, and small flows without timeouts: what the means hide."""
    lines = [
        "## Beside the means",
        "A mean of small flows hangs on the few that lost a packet and waited for a timeout",
        "(200 ms and more, 1 s for a connection's first packet). The simulation has timeouts only",
        "with queues of less than 124 packets, which one connection alone can fill; there about as",
        "many, not the same ones. With longer queues it has none, the kernel some.",
        "Medians, and means of the small flows that took at most 150 ms:",
        "",
        "| cell | policy | small, median: virtual | fluid | | small, mean up to 150 ms: virtual "
        "| fluid | | large, median: virtual | fluid | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for compared in cells:
        for policy, numbers in compared.virtual.items():
            cells_of_row = [compared.cell.name, policy]
            for name, key in (
                ("small", "median_ns"),
                ("small", "mean_without_timeouts_ns"),
                ("large", "median_ns"),
            ):
                a, b = numbers["flows"][name][key], compared.fluid[policy]["flows"][name][key]
                apart = percent(b / a - 1) if a and b else ""
                cells_of_row += [words.duration(a), words.duration(b), apart]
            lines.append("| " + " | ".join(cells_of_row) + " |")
    return "\n".join([*lines, ""])


def _notes(cells: Sequence[Compared]) -> str:
    lines = ["## Where it is worse, and what is known about it"]
    for compared in cells:
        outside = [row for row in compared.rows if not row.within]
        if not outside:
            continue
        said = "; ".join(
            f"{row.what} under {row.policy}"
            + (f", change: {points(row.apart)}" if row.is_change else f": {percent(row.apart)}")
            for row in outside
        )
        lines.append(f"- **{compared.cell.name}**: {said}.")
        lines += [f"  - {note}." for note in agreement.notes(compared.virtual, compared.fluid)]
    if len(lines) == 1:
        lines.append("Nowhere.")
    return "\n".join([*lines, ""])


def _flag(row: BothEngines, text: str) -> str:
    return text if row.within else f"**{text}**"
