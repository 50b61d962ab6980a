"""What a sheet is worth: every step is run again with the student's seed, and compared.

Nothing that is said tells the number: a measured one is right or it is not. How good a prediction
was is said only to those who have measured, and costs nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.claims import value_of
from testbed.labs.sheet import DIGEST, MEASURED, PREDICTED, AnswerSheet, Lab, LabStep, seed_of

NEAR = 0.02  # of a value, or two points of a change: what rounding to two digits may do
GOOD = 2.0  # a prediction within this factor is a good one
GOOD_POINTS = 0.15  # of a change
LEAST_DIGITS = 8
LEAST_WORDS = 8

Play = Callable[[LabStep, int], Path]  # (what to run, the seed): the folder of the run


@dataclass(frozen=True)
class GradedAnswer:
    name: str
    points: int
    most: int
    said: str


def graded(asked: Lab, sheet: AnswerSheet, play: Play) -> Iterator[GradedAnswer]:
    """Each step, then each question; a step that nobody has run is not run here either."""
    seed = seed_of(sheet.student)
    for step in asked.steps:
        given = sheet.answers.get(step.name)
        yield _step(step, given if isinstance(given, dict) else {}, seed, play)
    for name in asked.questions:
        yield _question(name, sheet.answers.get(name))


def _step(step: LabStep, given: Mapping[str, Any], seed: int, play: Play) -> GradedAnswer:
    """A prediction 1, the right number 2, the digest of the run that it is from 1."""
    said: list[str] = []
    predicted, measured = (_number(step, given, key, said) for key in (PREDICTED, MEASURED))
    points = int(predicted is not None)
    digest = str(given.get(DIGEST) or "")
    if measured is None and not digest:
        return GradedAnswer(step.name, points, 4, "; ".join(said))
    summary = json.loads((play(step, seed) / "summary.json").read_text(encoding="utf-8"))
    right = truth(step, summary)
    if measured is not None and near(step, measured, right):
        points += 2
        if predicted is not None:
            good = is_good(step, predicted, right)
            said.append("a good prediction" if good else "far from your prediction: say why")
    elif measured is not None:
        said.append(f"measured: not what seed {seed} gives: run it as your sheet says")
    if len(digest) >= LEAST_DIGITS and summary["digest"].startswith(digest):
        points += 1
    else:
        why = "not that of your run: the" if digest else "missing: the run's last line has it,"
        said.append(f"digest: {why} first {LEAST_DIGITS} digits will do")
    return GradedAnswer(step.name, points, 4, "; ".join(said))


def _number(step: LabStep, given: Mapping[str, Any], key: str, said: list[str]) -> float | None:
    if not given.get(key):
        said.append(f"{key}: missing")
        return None
    try:
        return step.read(given[key])
    except ValueError as error:
        said.append(f"{key}: {error}")
        return None


def _question(name: str, given: object) -> GradedAnswer:
    if isinstance(given, str) and len(given.split()) >= LEAST_WORDS:
        return GradedAnswer(name, 0, 0, "for your teacher to read")
    return GradedAnswer(name, 0, 0, f"missing, or shorter than {LEAST_WORDS} words")


def truth(step: LabStep, summary: Mapping[str, Any]) -> float:
    """What a run of the step has found."""
    entry = summary["policies"][step.of]
    if step.against is None:
        value, _ = value_of(entry, step.known_metric, step.whose)
        return float(value or 0.0)
    return float(entry["change"][step.metric]["change"])


def near(step: LabStep, found: float, right: float) -> bool:
    apart = abs(found - right)
    return apart <= NEAR if step.against is not None else apart <= NEAR * abs(right)


def is_good(step: LabStep, predicted: float, right: float) -> bool:
    if step.against is not None:
        return abs(predicted - right) <= GOOD_POINTS
    return right / GOOD <= predicted <= right * GOOD
