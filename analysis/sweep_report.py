"""One HTML page for a whole sweep: who gains and who pays where, as maps and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import look, metrics, sweep_plots, sweep_words, words
from analysis.folder import VERDICTS
from analysis.look import Picture
from analysis.metrics import ALL, CLUSTER, FLOWS, JOBS, SUBJECTS, TRAINING, Metric
from analysis.page import template
from analysis.sweep import Grid, GridAxis
from analysis.sweep_plots import Curve, SweepRow, cell_of

MOST_PANELS = 12  # of one metric: more would be a page that nobody reads
MOST_ROWS = 400  # of the table of all points
MOST_JOBS = 4  # that have pictures of their own; more are shown by what they have in common

Rest = Mapping[str, str]  # the labels on the axes that a panel does not show


@dataclass(frozen=True)
class Headline:
    """A metric that the page is about."""

    metric: Metric
    title: str


def headline_metrics(grid: Grid) -> dict[str, Headline]:
    """The metrics that the page is about, by their names in the table."""
    first = next(iter(grid.first["policies"].values()))
    many = len(first["training"]) > MOST_JOBS and bool(first["jobs"].get("finished"))
    chosen = {subject: subject.places(first) for subject in SUBJECTS}
    chosen[TRAINING] = [] if many else chosen[TRAINING]
    chosen[JOBS] = [""] if many else []
    chosen[CLUSTER] = [""] if first.get(CLUSTER.section) else []
    chosen[FLOWS] = [name for name in ("small", "large") if first["flows"][name]["count"]]
    if not chosen[FLOWS] and first["flows"][ALL]["count"]:
        chosen[FLOWS] = [ALL]
    # Training first: it is what the axes of most sweeps change.
    order = sorted(chosen, key=lambda subject: subject not in (TRAINING, JOBS))
    return {
        metric.path(whose): Headline(metric, _title(metric, whose, len(chosen[subject])))
        for subject in order
        for whose in chosen[subject]
        for metric in metrics.of(subject)
        if metric.swept
    }


def _title(metric: Metric, whose: str, several: int) -> str:
    """ "FCT of small flows"; a job that is the only one is not named."""
    named = bool(whose) and (metric.of is not TRAINING or several > 1)
    return f"{metric.alone} of {metric.of.called(whose)}" if named else metric.alone


def render(grid: Grid) -> str:
    headline = headline_metrics(grid)
    looks = look.looks_of({label: grid.title_of(label) for label in grid.policies})
    rows = point_rows(grid, headline)
    return template("sweep.html").render(
        grid=grid,
        answer=answer(grid, headline),
        looks=looks,
        maps=list(maps(grid, headline)),
        curves=list(curves(grid, headline, looks)),
        headline=headline,
        rows=rows[:MOST_ROWS],
        hidden=len(rows) - len(rows[:MOST_ROWS]),
        panels_left_out=_left_out(grid),
        fidelity=worst_fidelity(grid),
        cautions=cautions(grid),
        claims=sweep_words.failed_claims(grid),
        absent=sweep_words.told_absent(grid),
        resamples=grid.first["interval"]["resamples"],
    )


def answer(grid: Grid, headline: Mapping[str, Headline]) -> str:
    """One sentence for each policy but the first: where it clearly helps, and where it costs."""
    if not grid.policies[1:]:
        return f"{len(grid.points)} points, one policy: nothing to compare."
    table = grid.table
    sentences = []
    for label in grid.policies[1:]:
        found = []
        for path, shown in headline.items():
            unit = shown.metric.unit
            rows = table[(table["metric"] == path) & (table["policy"] == label)]
            less, more = rows[rows["change_high"] < 0], rows[rows["change_low"] > 0]
            told = [
                f"{word} at {len(part)} (by up to {words.percent(most, signed=False)})"
                for word, part, most in (
                    (unit.less, less, -less["change"].min()),
                    (unit.more, more, more["change"].max()),
                )
                if len(part)
            ]
            title = shown.title
            name = title if title[:2].isupper() else title[0].lower() + title[1:]
            few = int((rows["change"].notna() & rows["change_high"].isna()).sum())
            said = f"is clearly {words.and_list(told)}" if told else "shows no clear change"
            found.append(f"{name} {said}" + (f" (too few to tell at {few})" if few else ""))
        sentences.append(
            f"Under {grid.title_of(label)} instead of {grid.title_of(grid.policies[0])}, of "
            f"{len(grid.points)} points: {'; '.join(found)}."
        )
    return " ".join(sentences)


def worst_fidelity(grid: Grid) -> tuple[str, list[str]]:
    """The worst verdict of all points, and where it was given."""
    verdicts = {
        f"{', '.join(labels)}, {label}": str(entry["fidelity"]["verdict"])
        for labels, summary in grid.summaries.items()
        for label, entry in summary["policies"].items()
    }
    worst = max(verdicts.values(), key=VERDICTS.index)
    return worst, [where for where, verdict in verdicts.items() if verdict == worst]


def cautions(grid: Grid) -> list[str]:
    """Why simulated runs of some points may be far off: each said once."""
    entries = [entry for one in grid.summaries.values() for entry in one["policies"].values()]
    return list(
        dict.fromkeys(
            reason.partition(": ")[2]  # after the seed that it was said of
            for entry in entries
            if entry["fidelity"]["verdict"] == "simulated"
            for reason in entry["fidelity"]["reasons"]
        )
    )


def maps(grid: Grid, headline: Mapping[str, Headline]) -> Iterator[tuple[str, list[Picture]]]:
    """For each policy but the first, the change of each metric over the last two axes."""
    if len(grid.axes) < 2:
        return
    *_, rows, columns = grid.axes
    others = grid.policies[1:] or grid.policies
    column = "change" if grid.policies[1:] else "value"
    for label in others:
        pictures = []
        for path, shown in headline.items():
            metric = shown.metric
            for number, (rest, table) in enumerate(_panels(grid, (rows, columns), path, label)):
                found = {
                    (row[rows.name], row[columns.name]): cell_of(row, column)
                    for row in table.to_dict("records")
                }
                values = [cell.value for cell in found.values()]
                pictures.append(
                    sweep_plots.cells(
                        found,
                        (rows.title, rows.labels),
                        (columns.title, columns.labels),
                        shown.title,
                        _slug("map", label, path, str(number)),
                        sweep_plots.by_sign(values, metric.better),
                        words.percent if column == "change" else metric.unit.shown,
                        _said(rest),
                    )
                )
        against = f" against {grid.title_of(grid.policies[0])}" if grid.policies[1:] else ""
        yield f"{grid.title_of(label)}{against}", pictures


def curves(
    grid: Grid, headline: Mapping[str, Headline], looks: Mapping[str, look.Look]
) -> Iterator[tuple[str, list[Picture]]]:
    """Each metric under every policy over the last axis, one panel for what the others are at."""
    axis = grid.axes[-1]
    for path, shown in headline.items():
        by_policy = {
            label: {
                tuple(rest.items()): table for rest, table in _panels(grid, (axis,), path, label)
            }
            for label in grid.policies
        }
        pictures = []
        for number, key in enumerate(by_policy[grid.policies[0]]):
            drawn = [
                Curve(
                    looks[label],
                    {
                        row[axis.name]: cell_of(row, "value")
                        for row in tables[key].to_dict("records")
                    },
                )
                for label, tables in by_policy.items()
            ]
            pictures.append(
                sweep_plots.lines(
                    drawn,
                    (axis.title, axis.labels),
                    _said(dict(key)) or shown.title,
                    _slug("lines", path, str(number)),
                    shown.metric.title,
                    unit=shown.metric.unit,
                )
            )
        yield shown.title, pictures


def point_rows(grid: Grid, headline: Mapping[str, Headline]) -> list[dict[str, Any]]:
    """A row for each point and policy, with the headline metrics and their changes."""
    table = grid.table
    found = {
        (row["point"], row["policy"], row["metric"]): row
        for row in table[table["metric"].isin(list(headline))].to_dict("records")
    }
    return [
        {
            "at": labels,
            "label": label,
            "cells": [
                _table_cell(found.get((path.name, label, name)), shown.metric)
                for name, shown in headline.items()
            ],
        }
        for labels, path in grid.points.items()
        for label in grid.policies
    ]


def _table_cell(row: SweepRow | None, metric: Metric) -> dict[str, str]:
    if row is None or pd.isna(row["value"]):
        return {"value": words.NONE, "change": "", "interval": "", "verdict": ""}
    change = cell_of(row, "change")
    known = {"change": change.value, "interval_95": change.interval}
    return {
        "value": metric.unit.shown(row["value"]),
        "change": "" if change.value is None else words.percent(change.value),
        "interval": words.percent_interval(change.interval),
        "verdict": words.verdict(known, metric.better),
    }


def _panels(
    grid: Grid, shown: Sequence[GridAxis], metric: str, label: str
) -> Sequence[tuple[Rest, pd.DataFrame]]:
    """The rows of one metric and policy, a table for each place on the axes not shown."""
    table = grid.table
    chosen = table[(table["metric"] == metric) & (table["policy"] == label)]
    rest = [axis.name for axis in grid.axes if axis not in shown]
    if not rest:
        return [({}, chosen)]
    groups = chosen.groupby(rest, sort=False)
    found = [
        (dict(zip(rest, map(str, key if isinstance(key, tuple) else (key,)), strict=True)), part)
        for key, part in groups
    ]
    return found[:MOST_PANELS]


def _left_out(grid: Grid) -> bool:
    count = 1
    for axis in grid.axes[:-1]:
        count *= len(axis.labels)
    return count > MOST_PANELS


def _said(rest: Rest) -> str:
    return ", ".join(f"{name} {label}" for name, label in rest.items())


def _slug(*parts: str) -> str:
    return "-".join("".join(c if c.isalnum() else "-" for c in part) for part in parts)
