"""One HTML file that answers the question of an experiment and shows on what grounds.

It needs no network, no script and no other file: pictures are set into the page.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import (
    backends,
    compare,
    look,
    overlay,
    plots,
    straggler_plots,
    tables,
    tenant_plots,
    tenants,
    timeline,
    words,
)
from analysis.files import write_whole
from analysis.folder import VERDICTS, Results, load
from analysis.page import template
from analysis.stats import FEWEST_UNITS
from analysis.summary import Summary, summarise
from testbed.errors import BadInput


def write(out: Path) -> Path:
    """Write summary.json and report.html into a folder of finished runs."""
    results = load(out)
    summary = summarise(results)
    write_whole(out / "summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
    return write_whole(out / "report.html", render(results, summary))


def draw(out: Path, path: Path) -> Path:
    """Who gains, who pays, as a PNG file, from the summary that `write` has left."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    if len(summary["policies"]) < 2 or not summary["tenants"]:
        raise BadInput(f"{out}: one policy, or nothing measured, so there is nothing to compare.")
    return tenant_plots.write_png(summary, path)


def render(results: Results, summary: Summary) -> str:
    plan = results.plan
    looks = look.looks(plan)
    many = tenants.many(summary)
    return template("report.html").render(
        summary=summary,
        plan=plan,
        looks=looks,
        rows=tables.comparison_table(summary),
        tenants=tables.tenants_table(summary, short=False) if many else None,
        tenants_said=tables.tenants_said(summary) if many else "",
        tenants_picture=tenant_plots.matrix(summary) if many else [],
        fidelity=_worst(results),
        fine=("faithful", "simulated"),
        runs=list(results.runs.values()),
        facts=_facts(results),
        claims=[_claim(claim, summary) for claim in summary["claims"]],
        all_claims_hold=all(claim["holds"] for claim in summary["claims"]),
        clarity=tables.CLARITY,
        fewest=FEWEST_UNITS,
        flow_changes=_flow_changes(summary),
        unfinished=_unfinished(summary),
        backends=backends.sentences(
            summary["backends"],
            {policy.label: policy.title for policy in plan.policies},
            flows=bool(plan.mixes),
        ),
        job_sentences=straggler_words(results, summary),
        overlays=overlay.sent_by_stack(results),
        **_pictures(results, summary, looks),
        **straggler_plots.pictures(results, summary, looks),
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
        "bars": plots.change_bars(summary, plan, looks),
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


def _claim(claim: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    """A claim in the words of the report."""
    titles = {label: entry["title"] for label, entry in summary["policies"].items()}
    of = titles.get(claim["of"], claim["of"])
    if claim["kind"] == "change":
        against = titles.get(claim["against"], claim["against"])
        bound = words.percent(claim["value"])
        said = f"{claim['metric']} of {of} against {against}: {claim['bound']} {bound}"
        measured = words.percent(claim["measured"])
        interval = words.percent_interval(claim["interval_95"])
    else:
        timed = not claim["metric"].endswith(("slowdown", "slowdown_mean", "share", "count"))
        timed = timed and not claim["metric"].startswith("links.")

        def show(value: float | None) -> str:
            return words.duration(value) if timed else f"{value:.3g}" if value is not None else "–"

        said = f"{claim['metric']} of {of}: {claim['bound']} {show(claim['value'])}"
        measured = show(claim["measured"])
        ends = words.known(claim["interval_95"])
        interval = words.duration_interval(ends) if ends and timed else ""
    return {
        "said": said,
        "measured": measured,
        "interval": interval,
        "verdict": "holds" if claim["holds"] else "does not hold",
        "certainty": claim["certainty"] or "",
        "problem": claim["problem"] or "",
    }


def _flow_changes(summary: Summary) -> list[dict[str, Any]]:
    """Rows of the table that gives both definitions of the FCT change."""
    return [
        {"policy": entry["title"], "metric": metric.removeprefix("flows."), **change}
        for entry in summary["policies"].values()
        for metric, change in entry.get("change", {}).items()
        if metric.startswith("flows.")
        and metric.endswith(("mean", "p99"))
        and change["change"] is not None
    ]


def _unfinished(summary: Summary) -> list[str]:
    found = []
    for entry in summary["policies"].values():
        flows = entry["flows"]["all"]
        if flows["unfinished"]:
            by_class = words.and_list(
                [
                    f"{entry['flows'][name]['unfinished']} {name}"
                    for name in ("small", "medium", "large")
                    if entry["flows"][name]["unfinished"]
                ]
            )
            found.append(
                f"{entry['title']}: {flows['unfinished']} of {flows['count']} ({by_class})"
            )
    return found


def _facts(results: Results) -> list[tuple[str, str]]:
    """What somebody needs to know to get the same numbers again."""
    plan = results.plan
    manifests = [run.manifest for run in results.runs.values()]
    networks = [manifest.get("network") or {} for manifest in manifests]
    versions: dict[str, set[str]] = {}
    for manifest in manifests:
        for name, version in (manifest.get("versions") or {}).items():
            versions.setdefault(name, set()).add(str(version))
    begin, end = plan.window_ns
    facts = [
        ("Seeds", ", ".join(str(seed) for seed in plan.seeds)),
        (
            "Measured window",
            f"{begin / 1e9:g} s to {end / 1e9:g} s of {plan.duration_ns / 1e9:g} s",
        ),
        ("Engine", _distinct(manifest.get("engine") for manifest in manifests)),
        ("Dilation", _distinct(_dilation(manifest.get("dilation")) for manifest in manifests)),
        ("Kernel", _distinct(manifest.get("kernel") for manifest in manifests)),
        ("TCP", _distinct(network.get("tcp") for network in networks)),
        (
            "Segmentation offload",
            _distinct(_on_off(network.get("offload")) for network in networks),
        ),
        ("Link delay asked for", _distinct(_delay(network) for network in networks)),
        (
            "Idle round trip measured",
            _range([n["idle_rtt_ns"] for n in networks if n.get("idle_rtt_ns") is not None]),
        ),
        (
            "Versions",
            ", ".join(f"{name} {' / '.join(sorted(found))}" for name, found in versions.items()),
        ),
        ("Started", _when(min(str(manifest.get("started") or "") for manifest in manifests))),
    ]
    return [(name, value) for name, value in facts if value]


def _delay(network: Mapping[str, Any]) -> str | None:
    asked = network.get("delay_asked_ns")
    if asked is None:
        return None
    return ("" if network.get("delay_strict") else "about ") + words.duration(asked)


def _dilation(factor: float | None) -> str | None:
    if factor is None:
        return None
    return "1 (real time)" if factor == 1 else f"{factor:g} (every second took {factor:g} s)"


def _when(started: str) -> str:
    try:
        return datetime.fromisoformat(started).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return started


def _on_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _distinct(values: Iterable[Any]) -> str:
    shown = (f"{v:g}" if isinstance(v, float) else str(v) for v in values if v is not None)
    return ", ".join(dict.fromkeys(shown))


def _range(values: list[float]) -> str:
    if not values:
        return ""
    if min(values) == max(values):
        return words.duration(values[0])
    return words.duration_interval([min(values), max(values)])
