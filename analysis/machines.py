"""What a run found, for programs: one JSON document, and JUnit's XML for CI (docs/ci.md).

Claims, runs and their verdicts are test cases of JUnit: a claim that does not hold fails, and so
does a run that was broken. Values are as in summary.json.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from analysis import claims
from analysis.summary import Summary
from analysis.sweep import Grid, rows_of

DOCUMENT_VERSION = 1
WRONG = ("failure", "error")  # what a test case of JUnit can be
UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # for XML


@dataclass(frozen=True)
class CiCase:
    """A test case: what is wrong, or what there is to say although nothing is."""

    suite: str
    name: str
    failed: str = ""
    said: str = ""
    kind: str = "failure"


def run_document(out: Path, summary: Summary, exit_code: int) -> dict[str, Any]:
    return {**_head(summary, out, exit_code), **_found(summary)}


def sweep_document(grid: Grid, exit_code: int) -> dict[str, Any]:
    """The same for every point of a sweep."""
    names = [axis.name for axis in grid.axes]
    points = [
        {
            "at": dict(zip(names, labels, strict=True)),
            "folder": str(grid.points[labels]),
            **_found(summary),
        }
        for labels, summary in grid.summaries.items()
    ]
    return {**_head(grid.first, grid.folder, exit_code), "points": points}


def _head(summary: Summary, out: Path, exit_code: int) -> dict[str, Any]:
    return {
        "document_version": DOCUMENT_VERSION,
        "name": summary["name"],
        "engine": summary["engine"],
        "seeds": summary["seeds"],
        "folder": str(out),
        "report": str(out / "report.html"),
        "exit_code": exit_code,
    }


def _found(summary: Summary) -> dict[str, Any]:
    return {
        "answer": summary["answer"],
        "digest": summary["digest"],
        "digests": summary["digests"],
        "claims": [
            {"said": told.said, "verdict": told.verdict, **claim}
            for claim, told in zip(summary["claims"], claims.told_all(summary), strict=True)
        ],
        "fidelity": {label: entry["fidelity"] for label, entry in summary["policies"].items()},
        "absent": summary["absent"],
        "metrics": list(rows_of(summary)),
    }


def run_cases(summary: Summary) -> Iterator[CiCase]:
    """One a claim, one a run."""
    yield from _cases(summary, summary["name"])


def sweep_cases(grid: Grid) -> Iterator[CiCase]:
    for labels, summary in grid.summaries.items():
        at = ", ".join(
            f"{axis.name} {label}" for axis, label in zip(grid.axes, labels, strict=True)
        )
        yield from _cases(summary, f"{grid.name}: {at}")


def _cases(summary: Summary, suite: str) -> Iterator[CiCase]:
    for told in claims.told_all(summary):
        failed = "" if told.holds else f"{told.verdict}: {told.found}"
        yield CiCase(f"{suite}: claims", told.said, failed, f"{told.verdict}: {told.found}")
    for label, entry in summary["policies"].items():
        for seed, verdict in entry["fidelity"]["by_seed"].items():
            reasons = _reasons(entry["fidelity"], seed)
            said = f"{verdict}: {'; '.join(reasons)}" if reasons else verdict
            yield CiCase(
                f"{suite}: runs", f"{label}, seed {seed}", said if verdict == "broken" else "", said
            )


def _reasons(fidelity: Mapping[str, Any], seed: str) -> list[str]:
    own = f"seed {seed}: "
    return [one.removeprefix(own) for one in fidelity["reasons"] if one.startswith(own)]


def junit(name: str, cases: Iterable[CiCase]) -> str:
    """The cases as JUnit's XML, suite by suite."""
    suites: dict[str, list[CiCase]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    root = ElementTree.Element("testsuites", _counts(name, [c for s in suites.values() for c in s]))
    for suite, several in suites.items():
        parent = ElementTree.SubElement(root, "testsuite", _counts(suite, several))
        for case in several:
            about = {"classname": _clean(suite), "name": _clean(case.name), "time": "0"}
            element = ElementTree.SubElement(parent, "testcase", about)
            if case.failed:
                failed = _clean(case.failed)
                wrong = ElementTree.SubElement(element, case.kind, {"message": failed})
                wrong.text = failed
            elif case.said:
                ElementTree.SubElement(element, "system-out").text = _clean(case.said)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _counts(name: str, cases: list[CiCase]) -> dict[str, str]:
    wrong = {kind: sum(bool(c.failed) and c.kind == kind for c in cases) for kind in WRONG}
    return {
        "name": _clean(name),
        "tests": str(len(cases)),
        **{f"{kind}s": str(count) for kind, count in wrong.items()},
    }


def _clean(text: str) -> str:
    return UNPRINTABLE.sub("?", text)
