"""One HTML page for a whole sweep: who gains and who pays where, as maps and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import look, sweep_plots, words
from analysis.folder import VERDICTS
from analysis.look import Picture
from analysis.page import template
from analysis.sweep import Axis, Grid, unit_of
from analysis.sweep_plots import Line, Row, cell_of

MOST_PANELS = 12  # of one metric: more would be a page that nobody reads
MOST_ROWS = 400  # of the table of all points
MOST_JOBS = 4  # that have pictures of their own; more are shown by what they have in common
OF_ALL_JOBS = {
    "jobs.jct_mean": "Job completion time",
    "jobs.barrier_wait_mean": "Mean wait at a barrier",
    "jobs.barrier_wait_variance": "Variance of the waits at a barrier",
}

Rest = Mapping[str, str]  # the labels on the axes that a panel does not show


def headline_metrics(grid: Grid) -> dict[str, str]:
    """The metrics that the page is about, with their titles."""
    first = next(iter(grid.first["policies"].values()))
    jobs = list(first["training"])
    if len(jobs) > MOST_JOBS and first["jobs"].get("finished"):
        chosen = dict(OF_ALL_JOBS)
    else:
        chosen = {
            f"training.{job}.iteration_mean": "Iteration time"
            + (f" of {job}" if len(jobs) > 1 else "")
            for job in jobs
        }
    for name in ("small", "large"):
        if first["flows"][name]["count"]:
            chosen[f"flows.{name}.fct_mean"] = f"FCT of {name} flows"
    if not any(name.startswith("flows.") for name in chosen) and first["flows"]["all"]["count"]:
        chosen["flows.all.fct_mean"] = "FCT of all flows"
    return chosen


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
        claims=failed_claims(grid),
        resamples=grid.first["interval"]["resamples"],
    )


def answer(grid: Grid, headline: Mapping[str, str]) -> str:
    """One sentence for each policy but the first: where it clearly helps, and where it costs."""
    if not grid.policies[1:]:
        return f"{len(grid.points)} points, one policy: nothing to compare."
    table = grid.table
    sentences = []
    for label in grid.policies[1:]:
        found = []
        for metric, title in headline.items():
            rows = table[(table["metric"] == metric) & (table["policy"] == label)]
            sooner, longer = rows[rows["change_high"] < 0], rows[rows["change_low"] > 0]
            told = [
                f"{word} at {len(part)} (by up to {words.percent(most, signed=False)})"
                for word, part, most in (
                    ("shorter", sooner, -sooner["change"].min()),
                    ("longer", longer, longer["change"].max()),
                )
                if len(part)
            ]
            name = title[0].lower() + title[1:] if not title.startswith("FCT") else title
            found.append(
                f"{name} is clearly {words.and_list(told)}"
                if told
                else f"{name} shows no clear change"
            )
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


def failed_claims(grid: Grid) -> list[str]:
    """Claims of the experiment file that do not hold, with the points where they do not."""
    failed: dict[str, list[str]] = {}
    for labels, summary in grid.summaries.items():
        for claim in summary["claims"]:
            if not claim["holds"]:
                said = f"{claim['metric']} of {claim['of']}: {claim['text']}"
                failed.setdefault(said, []).append(", ".join(labels))
    return [
        f"{said} does not hold at {len(where)} of {len(grid.points)} points ({'; '.join(where[:8])}"
        f"{'; …' if len(where) > 8 else ''})"
        for said, where in failed.items()
    ]


def maps(grid: Grid, headline: Mapping[str, str]) -> Iterator[tuple[str, list[Picture]]]:
    """For each policy but the first, the change of each metric over the last two axes."""
    if len(grid.axes) < 2:
        return
    *_, rows, columns = grid.axes
    others = grid.policies[1:] or grid.policies
    column = "change" if grid.policies[1:] else "value"
    for label in others:
        pictures = []
        for metric, title in headline.items():
            for number, (rest, table) in enumerate(_panels(grid, (rows, columns), metric, label)):
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
                        title,
                        _slug("map", label, metric, str(number)),
                        sweep_plots.by_sign(values),
                        words.percent if column == "change" else words.duration,
                        _said(rest),
                    )
                )
        against = f" against {grid.title_of(grid.policies[0])}" if grid.policies[1:] else ""
        yield f"{grid.title_of(label)}{against}", pictures


def curves(
    grid: Grid, headline: Mapping[str, str], looks: Mapping[str, look.Look]
) -> Iterator[tuple[str, list[Picture]]]:
    """Each metric under every policy over the last axis, one panel for what the others are at."""
    axis = grid.axes[-1]
    for metric, title in headline.items():
        by_policy = {
            label: {
                tuple(rest.items()): table for rest, table in _panels(grid, (axis,), metric, label)
            }
            for label in grid.policies
        }
        pictures = []
        for number, key in enumerate(by_policy[grid.policies[0]]):
            drawn = [
                Line(
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
                    _said(dict(key)) or title,
                    _slug("lines", metric, str(number)),
                    "mean",
                    unit=unit_of(metric),
                )
            )
        yield title, pictures


def point_rows(grid: Grid, headline: Mapping[str, str]) -> list[dict[str, Any]]:
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
                _table_cell(found.get((path.name, label, metric)), unit_of(metric))
                for metric in headline
            ],
        }
        for labels, path in grid.points.items()
        for label in grid.policies
    ]


def _table_cell(row: Row | None, unit: str) -> dict[str, str]:
    if row is None or pd.isna(row["value"]):
        return {"value": words.NONE, "change": "", "interval": "", "verdict": ""}
    change = cell_of(row, "change")
    known = {"change": change.value, "interval_95": change.interval}
    return {
        "value": words.duration(row["value"]) if unit == "ns" else f"{row['value']:.3g}",
        "change": "" if change.value is None else words.percent(change.value),
        "interval": words.percent_interval(change.interval),
        "verdict": words.verdict(known),
    }


def _panels(
    grid: Grid, shown: Sequence[Axis], metric: str, label: str
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
