"""The comparison as a table: the same rows in the terminal and in the report."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from analysis import tenants, words
from analysis.claims import metric_of

STYLES = {"better": "green", "worse": "red", "unclear": "dim", "few": "dim"}
ALL_JOBS = "All jobs"
MOST_JOBS = 8  # more have no rows of their own
SHOWN: dict[str, Callable[[float], str]] = {
    "barrier_wait_variance": lambda value: f"{value:.3g}{words.SPACE}ms²",
    "straggler_share": lambda value: words.percent(value, signed=False),
}
CLARITY = {"unclear": "no clear change", "few": "too few to tell"}


@dataclass(frozen=True)
class Cell:
    """A value under one policy, and how it differs from the first policy."""

    value: str
    change: str = ""
    interval: str = ""
    verdict: str = ""  # better, worse, unclear, few, or nothing to say
    share: float | None = None  # the change as a number, for a picture


@dataclass(frozen=True)
class Row:
    group: str
    name: str
    cells: tuple[Cell, ...]  # in the order of the policies


def comparison_table(summary: Mapping[str, Any]) -> list[Row]:
    """What each side gets under each policy; rows with no value at all are left out."""
    rows = [
        Row(group, name, tuple(_cell(entry, metric) for entry in summary["policies"].values()))
        for group, name, metric in _wanted(summary)
    ]
    kept = [row for row in rows if any(cell.value != words.NONE for cell in row.cells)]
    counts = [entry["flows"]["all"] for entry in summary["policies"].values()]
    if any(count["unfinished"] for count in counts):
        cells = tuple(Cell(f"{c['unfinished']} of {c['count']}") for c in counts)
        kept.append(Row("All flows", "unfinished", cells))
    return kept


@dataclass(frozen=True)
class Matrix:
    """Who gains, who pays: the first policy's means, and every other policy's changes."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


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
    metrics = [
        what
        for what, metric in (
            ("completion time of flows", tenants.FLOW_METRIC),
            ("iteration time of jobs", tenants.JOB_METRIC),
        )
        if any(tenant["metric"] == metric for tenant in found)
    ]
    return (
        f"Mean {words.and_list(metrics)} under {first}, and its change under every other policy "
        f"with the 95{words.SPACE}% interval; minus is sooner."
    )


def for_terminal(summary: Mapping[str, Any]) -> Table:
    """The long table, or, where that is beyond reading, who gains and who pays."""
    return tenants_for_terminal(summary) if tenants.many(summary) else table(summary)


def tenants_for_terminal(summary: Mapping[str, Any]) -> Table:
    found = tenants_table(summary, short=True)
    shown = Table(
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


def _terminal_tenant(cell: Cell) -> str:
    if not cell.change:
        return cell.value
    style = STYLES[cell.verdict]
    return f"[{style}]{cell.change}\n{cell.interval or CLARITY['few']}[/{style}]"


def _tenant_cell(tenant: Mapping[str, Any], label: str) -> Cell:
    entry = tenant["policies"][label]
    value = words.duration(entry["mean_ns"])
    if entry.get("change") is None:
        return Cell(value)
    return Cell(
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


def table(summary: Mapping[str, Any]) -> Table:
    """The comparison for the terminal."""
    policies = summary["policies"].values()
    shown = Table(title=escape(summary["name"]), title_justify="left", caption_justify="left")
    if len(policies) > 1:
        shown.caption = "Change against the first policy, with its 95 % interval."
    shown.add_column("")
    for entry in policies:
        verdict = entry["fidelity"]["verdict"]
        warning = "" if verdict == "faithful" else f"\n({verdict})"
        shown.add_column(escape(entry["title"]) + warning, justify="right")
    for row in comparison_table(summary):
        texts = [_terminal(cell) for cell in row.cells]
        shown.add_row(escape(f"{row.group}, {row.name}"), *texts)
    return shown


def _terminal(cell: Cell) -> str:
    if not cell.change:
        return cell.value
    beside = cell.interval or CLARITY["few"]
    style = STYLES[cell.verdict]
    return f"{cell.value}\n[{style}]{cell.change} ({beside})[/{style}]"


def _wanted(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in ("small", "medium", "large"):
        for statistic, title in (("mean", "mean FCT"), ("p99", "p99 FCT")):
            yield f"{name.capitalize()} flows", title, f"flows.{name}.fct_{statistic}"
    first = next(iter(summary["policies"].values()))
    yield ALL_JOBS, "mean completion time", "jobs.jct_mean"
    yield ALL_JOBS, "mean wait at a barrier", "jobs.barrier_wait_mean"
    yield ALL_JOBS, "variance of the waits at a barrier", "jobs.barrier_wait_variance"
    yield ALL_JOBS, "share of time lost to the last worker", "jobs.straggler_share"
    listed = first["training"] if len(first["training"]) <= MOST_JOBS else {}
    for job in listed:
        yield job, "mean iteration", f"training.{job}.iteration_mean"
        yield job, "p99 iteration", f"training.{job}.iteration_p99"
        yield job, "time over compute alone", f"training.{job}.slowdown"
        yield job, "share of time waiting", f"training.{job}.wait_share"
    yield "Links", "mean utilisation", "links.utilisation_mean"
    for tier in first.get("tiers", {}):
        yield f"Links {tier}", "mean utilisation", f"tiers.{tier}.utilisation_mean"


def _cell(entry: Mapping[str, Any], metric: str) -> Cell:
    value, _ = metric_of(entry, metric)
    if value is None:
        return Cell(words.NONE)
    leaf = metric.rpartition(".")[2]
    if leaf in ("wait_share", "utilisation_mean"):
        return Cell(words.percent(value, signed=False))
    shown = SHOWN.get(leaf, words.duration)(value)
    if leaf == "slowdown":
        return Cell(f"{value:.3f}{words.SPACE}×")
    change = entry.get("change", {}).get(metric)
    if change is None or change["change"] is None:
        return Cell(shown)
    return Cell(
        shown,
        words.percent(change["change"]),
        words.percent_interval(change["interval_95"]),
        words.verdict(change),
    )
