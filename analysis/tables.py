"""The comparison as a table: the same rows in the terminal and in the report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.markup import escape

from analysis import metrics, tenants, words
from analysis.absent import JOB, MIX, SIZE
from analysis.claims import value_of
from analysis.metrics import ALL, FLOWS, MIXES, SUBJECTS, TRAINING, Metric, Subject
from basics.folding import FoldingTable

STYLES = {"better": "green", "worse": "red", "unclear": "dim", "few": "dim", "other": "default"}
MOST_JOBS = 8  # more have no rows of their own
NOTHING, SOME = "none", "some"
UNITS_OF = {JOB: "iterations in the window", MIX: "finished flows", SIZE: "finished"}
CLARITY = {"unclear": "no clear change", "few": "too few to tell"}


@dataclass(frozen=True)
class TableField:
    """A value under one policy, and how it differs from the first policy."""

    value: str
    change: str = ""
    interval: str = ""
    verdict: str = ""  # better, worse, unclear, few, or nothing to say
    share: float | None = None  # the change as a number, for a picture


@dataclass(frozen=True)
class TableRow:
    group: str
    name: str
    cells: tuple[TableField, ...]  # in the order of the policies


def comparison_table(summary: Mapping[str, Any]) -> list[TableRow]:
    """What each side gets under each policy.

    Rows with no value at all are left out, but one of every tenant stays.
    """
    rows = [
        TableRow(
            group,
            metric.title,
            tuple(_cell(entry, metric, whose) for entry in summary["policies"].values()),
        )
        for group, metric, whose in _wanted(summary)
    ]
    kept = [row for row in rows if any(cell.value != words.NONE for cell in row.cells)]
    kept += _without(summary)
    counts = [entry["flows"][ALL] for entry in summary["policies"].values()]
    if any(count["unfinished"] for count in counts):
        cells = tuple(TableField(f"{c['unfinished']} of {c['count']}") for c in counts)
        kept.append(TableRow(_heading(FLOWS, ALL), "unfinished", cells))
    return kept


def _without(summary: Mapping[str, Any]) -> Iterator[TableRow]:
    """A row for each tenant that has nothing, or no rows of its own, under some policies."""
    found: dict[tuple[str, str], set[str]] = {}
    for entry in summary["absent"]:
        found.setdefault((entry["kind"], entry["who"]), set()).update(entry["policies"])
    for (kind, who), labels in found.items():
        if kind != MIX and len(labels) < len(summary["policies"]):
            continue  # its rows have a value under the other policies
        group = _heading(FLOWS if kind == SIZE else TRAINING, who)
        cells = tuple(
            TableField(NOTHING if label in labels else SOME) for label in summary["policies"]
        )
        yield TableRow(group, UNITS_OF[kind], cells)


@dataclass(frozen=True)
class Matrix:
    """Who gains, who pays: the first policy's means, and every other policy's changes."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[TableField, ...]], ...]


def tenants_table(summary: Mapping[str, Any], *, short: bool) -> Matrix:
    """Policies against tenants; the fewer of them are the columns, so that it stays narrow.

    Short names of policies are their labels in the experiment file.
    """
    found, policies = summary["tenants"], summary["policies"]
    titles = {
        label: (label if short else entry["title"]) + _warning(entry)
        for label, entry in policies.items()
    }
    if len(found) > len(policies):
        rows = [(t["title"], tuple(_tenant_cell(t, label) for label in policies)) for t in found]
        return Matrix(tuple(titles.values()), tuple(rows))
    by_policy = [
        (title, tuple(_tenant_cell(tenant, label) for tenant in found))
        for label, title in titles.items()
    ]
    return Matrix(tuple(tenant["title"] for tenant in found), tuple(by_policy))


def tenants_said(summary: Mapping[str, Any]) -> str:
    """What the numbers of the table of tenants are."""
    found = summary["tenants"]
    first = next(iter(summary["policies"].values()))["title"]
    times = [
        what
        for what, of_jobs in (("completion time of flows", False), ("iteration time of jobs", True))
        if any(bool(tenant["jobs"]) == of_jobs for tenant in found)
    ]
    return (
        f"Mean {words.and_list(times)} under {first}, and its change under every other policy "
        f"with the 95{words.SPACE}% interval; minus is sooner."
    )


def for_terminal(summary: Mapping[str, Any]) -> FoldingTable:
    """The long table, or, where that is beyond reading, who gains and who pays."""
    return tenants_for_terminal(summary) if tenants.many(summary) else table(summary)


def tenants_for_terminal(summary: Mapping[str, Any]) -> FoldingTable:
    found = tenants_table(summary, short=True)
    shown = FoldingTable(
        title=f"{escape(summary['name'])}: who gains, who pays{_simulated(summary)}",
        caption=tenants_said(summary) + " Everything else is in the report.",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    shown.add_column("")
    for title in found.columns:
        shown.add_column(escape(words.two_lines(title)), justify="right")
    for title, cells in found.rows:
        shown.add_row(escape(title), *(_terminal_tenant(cell) for cell in cells))
    return shown


def _terminal_tenant(cell: TableField) -> str:
    if not cell.change:
        return cell.value
    style = STYLES[cell.verdict]
    return f"[{style}]{cell.change}\n{cell.interval or CLARITY['few']}[/{style}]"


def _tenant_cell(tenant: Mapping[str, Any], label: str) -> TableField:
    entry = tenant["policies"][label]
    value = NOTHING if entry["mean_ns"] is None else words.duration(entry["mean_ns"])
    if entry.get("change") is None:
        return TableField(value)
    return TableField(
        value,
        words.percent(entry["change"]),
        words.short_interval(entry["interval_95"]),
        words.verdict(entry),
        float(entry["change"]),
    )


def _simulated(summary: Mapping[str, Any]) -> str:
    verdicts = {entry["fidelity"]["verdict"] for entry in summary["policies"].values()}
    return " (simulated)" if "simulated" in verdicts else ""


def _warning(entry: Mapping[str, Any]) -> str:
    verdict = entry["fidelity"]["verdict"]
    return "" if verdict in ("faithful", "simulated") else f" ({verdict})"


def table(summary: Mapping[str, Any]) -> FoldingTable:
    """The comparison for the terminal."""
    policies = summary["policies"].values()
    shown = FoldingTable(
        title=escape(summary["name"]), title_justify="left", caption_justify="left"
    )
    if len(policies) > 1:
        shown.caption = "Change against the first policy, with its 95 % interval."
    shown.add_column("")
    for entry in policies:
        verdict = entry["fidelity"]["verdict"]
        warning = "" if verdict == "faithful" else f"\n({verdict})"
        shown.add_column(escape(entry["title"]) + warning, justify="right")
    apart = " " if len(policies) <= 2 else "\n"  # or an interval would be broken anywhere
    for row in comparison_table(summary):
        texts = [_terminal(cell, apart) for cell in row.cells]
        shown.add_row(escape(f"{row.group}, {row.name}"), *texts)
    return shown


def _terminal(cell: TableField, apart: str) -> str:
    if not cell.change:
        return cell.value
    beside = cell.interval or CLARITY["few"]
    style = STYLES[cell.verdict]
    return f"{cell.value}\n[{style}]{cell.change}{apart}({beside})[/{style}]"


def _wanted(summary: Mapping[str, Any]) -> Iterator[tuple[str, Metric, str]]:
    """Heading, metric and whose of every row, subject by subject."""
    first = next(iter(summary["policies"].values()))
    for subject in SUBJECTS:
        places = [whose for whose in subject.places(first) if (subject, whose) != (FLOWS, ALL)]
        if subject is TRAINING and len(places) > MOST_JOBS:
            continue
        if subject is MIXES and len(places) < 2:
            continue  # how fast its flows are is said by their completion times
        for whose in places:
            for metric in sorted(metrics.of(subject), key=lambda one: one.row_at):
                if metric.row:
                    yield _heading(subject, whose), metric, whose


def _heading(subject: Subject, whose: str) -> str:
    text = subject.called(whose)
    return text if subject is TRAINING else text[0].upper() + text[1:]


def _cell(entry: Mapping[str, Any], metric: Metric, whose: str) -> TableField:
    value, _ = value_of(entry, metric, whose)
    if value is None:
        return TableField(words.NONE)
    shown = metric.unit.shown(value)
    change = entry.get("change", {}).get(metric.path(whose))
    if change is None or change["change"] is None:
        return TableField(shown)
    return TableField(
        shown,
        words.percent(change["change"]),
        words.percent_interval(change["interval_95"]),
        words.verdict(change, metric.better),
    )


def carried_table(summary: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What links carry by tier, policy by policy; nothing where there is one rack alone."""
    policies = [entry["links"] for entry in summary["policies"].values()]
    if not any(links.get("carried_racks_byte") for links in policies):
        return []
    return [
        (metric.title.removeprefix("carried by "), [words.size(one[key]) for one in policies])
        for metric in metrics.of(metrics.LINKS)
        for key in [f"{metric.name}_byte"]
        if metric.name.startswith("carried_")
    ]
