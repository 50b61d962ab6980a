"""One HTML file that answers the question of an experiment and shows on what grounds.

It needs no network, no script and no other file: pictures are set into the page.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import (
    absent,
    backends,
    claims,
    cluster_plots,
    compare,
    figures,
    inside,
    look,
    metric_plots,
    metrics,
    overlay,
    plots,
    straggler_plots,
    tables,
    tenant_plots,
    tenants,
    timeline,
    words,
)
from analysis.facts import facts_of, is_simulated
from analysis.folder import VERDICTS, Results, load
from analysis.metrics import ALL, FLOWS, SIZES, Metric
from analysis.page import template
from analysis.stats import FEWEST_UNITS
from analysis.summary import Summary, summarise
from basics.errors import BadInput
from basics.files import write_whole


def write(out: Path) -> Path:
    """Write summary.json and report.html into a folder of finished runs."""
    results = load(out)
    summary = summarise(results)
    write_whole(out / "summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
    return write_whole(out / "report.html", render(results, summary))


def draw(out: Path, path: Path) -> Path:
    """Who gains, who pays, as a PNG file, from the summary that `write` has left."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    if len(summary["policies"]) < 2:
        raise BadInput(f"{out}: one policy, so there is nothing to compare.")
    if not tenants.measured(summary):
        why = absent.briefly(summary)
        raise BadInput(f"{out}: there is nothing to compare. {why}".rstrip())
    return tenant_plots.write_png(summary, path)


def render(results: Results, summary: Summary) -> str:
    return template("report.html").render(_shown(results, summary))


def write_figures(out: Path, folder: Path) -> list[Path]:
    """Every figure of the report as files of its own, from the summary that `write` has left."""
    results = load(out)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    shown = _shown(results, summary)
    return figures.write(shown, look.looks(results.plan), folder)


def _shown(results: Results, summary: Summary) -> dict[str, Any]:
    """All that the page shows, by the names of its template."""
    plan = results.plan
    looks = look.looks(plan)
    many = tenants.many(summary)
    titles = {policy.label: policy.title for policy in plan.policies}
    return dict(
        summary=summary,
        plan=plan,
        looks=looks,
        rows=tables.comparison_table(summary),
        tenants=tables.tenants_table(summary, short=False) if many else None,
        tenants_said=tables.tenants_said(summary) if many else "",
        tenants_picture=tenant_plots.matrix(summary) if many else [],
        fidelity=_worst(results),
        cautions=_cautions(results),
        fine=("faithful", "simulated"),
        runs=list(results.runs.values()),
        facts=facts_of(results),
        claims=claims.told_all(summary),
        all_claims_hold=all(claim["holds"] for claim in summary["claims"]),
        clarity=tables.CLARITY,
        fewest=FEWEST_UNITS,
        flow_changes=_flow_changes(summary),
        flow_numbers=_flow_numbers(summary),
        unfinished=_unfinished(summary),
        carried=tables.carried_table(summary),
        absent=absent.told(summary),
        backends=backends.sentences(
            summary["backends"],
            titles,
            flows=bool(plan.mixes),
        ),
        job_sentences=straggler_words(results, summary),
        overlays=overlay.sent_by_stack(results),
        **_pictures(results, summary, looks),
        host_uses=straggler_plots.host_uses(),
        **straggler_plots.pictures(results, summary, looks),
        **cluster_plots.pictures(results, looks),
        **inside.pictures(results, looks),
        cluster_left=cluster_plots.said(summary),
    )


def straggler_words(results: Results, summary: Summary) -> list[str]:
    """What became of the jobs, where some did not end as asked."""
    said = []
    for policy in results.plan.policies:
        found = summary["policies"][policy.label]["jobs"]
        if found.get("failed"):
            said.append(f"{policy.title}: {found['failed']} of {found['count']} jobs broke.")
        for run in results.of(policy.label):
            lost = run.manifest.get("lost", [])
            said += [f"{policy.title}, seed {run.seed}: {task}." for task in lost]
    return said


def _pictures(results: Results, summary: Summary, looks: Mapping[str, look.Look]) -> dict[str, Any]:
    plan = results.plan
    port = plots.busiest_port(results, summary)
    iterations = {job.name: compare.pooled_iterations(results, job) for job in plan.jobs}
    timelines, timeline_note = timeline.timelines(results, looks)
    bands = dict.fromkeys(band for policy in plan.policies for band in policy.bands)
    return {
        "cdfs": plots.fct_cdfs(compare.pooled_flows(results), looks),
        "bars": metric_plots.change_bars(summary, plan, looks),
        "values": metric_plots.values(summary, looks),
        "iterations": plots.iteration_times(iterations, summary, plan, looks),
        "port": port,
        "uses": plots.utilisation(results, port, looks) if port else [],
        "bands": {band: look.class_colour_name(band) for band in bands},
        "timelines": timelines,
        "timeline_note": timeline_note,
    }


def _worst(results: Results) -> dict[str, Any]:
    """The worst verdict of all runs, and every reason, those of the worst runs first."""
    titles = {policy.label: policy.title for policy in results.plan.policies}
    runs = sorted(results.runs.values(), key=lambda run: -VERDICTS.index(run.fidelity["verdict"]))
    return {
        "verdict": runs[0].fidelity["verdict"],
        "reasons": [
            f"{titles[run.label]}, seed {run.seed}: {reason}"
            for run in runs
            for reason in run.fidelity.get("reasons") or []
        ],
    }


def _cautions(results: Results) -> list[str]:
    """Why simulated runs may be far off: said once, as it is the same of every seed."""
    runs = (run for run in results.runs.values() if is_simulated(run))
    return list(dict.fromkeys(one for run in runs for one in run.fidelity.get("reasons") or []))


def _flow_changes(summary: Summary) -> list[dict[str, Any]]:
    """Rows of the table that gives both definitions of the FCT change."""
    return [
        {
            "policy": entry["title"],
            "metric": f"{size}.{metric.name}",
            "verdict": words.verdict(change, metric.better),
            **change,
        }
        for entry in summary["policies"].values()
        for size in entry["flows"]
        for metric in metrics.of(FLOWS)
        if metric.row
        and (change := entry.get("change", {}).get(metric.path(size)))
        and change["change"] is not None
    ]


def _flow_numbers(summary: Summary) -> tuple[list[Metric], list[dict[str, Any]]]:
    """Every metric of flows, and a row for each policy and size class with all of them."""
    shown = metrics.of(FLOWS)
    rows = []
    for entry in summary["policies"].values():
        for size in entry["flows"]:
            found = [(one, *claims.value_of(entry, one, size)) for one in shown]
            cells = [(one.unit.shown(v), one.unit.interval(interval)) for one, v, interval in found]
            rows.append({"policy": entry["title"], "size": size, "cells": cells})
    return shown, rows


def _unfinished(summary: Summary) -> list[str]:
    found = []
    for entry in summary["policies"].values():
        flows = entry["flows"][ALL]
        if flows["unfinished"]:
            by_class = words.and_list(
                [
                    f"{entry['flows'][name]['unfinished']} {name}"
                    for name in SIZES
                    if entry["flows"][name]["unfinished"]
                ]
            )
            found.append(
                f"{entry['title']}: {flows['unfinished']} of {flows['count']} ({by_class})"
            )
    return found
