"""The sheet that a student hands in, and the lab that it answers; both are YAML files.

A student's numbers come from a seed of the student's own, made from the name. So sheets differ by
student, and whoever checks one can measure what it must say.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis import metrics
from analysis.metrics import Metric
from basics import units
from basics.errors import BadInput
from basics.files import open_regular
from basics.hints import nearest
from basics.home import HOME

CHECKS = HOME / "labs" / "checks"
RACK = HOME / "labs" / "rack.yaml"
SEEDS = 10**6
LARGEST_BYTE = 10**6
PREDICTED, MEASURED, DIGEST = "predicted", "measured", "digest"


@dataclass(frozen=True)
class LabStep:
    """Something to predict, then to run: a metric of a policy, or its change against another."""

    name: str
    asks: str
    settings: tuple[str, ...]
    metric: str
    of: str
    against: str | None = None

    @property
    def known_metric(self) -> Metric:
        return metrics.known(self.metric)

    @property
    def whose(self) -> str:
        found = metrics.named(self.metric)
        assert found is not None
        return found[1]

    @property
    def example(self) -> str:
        return self.known_metric.unit.example if self.against is None else "-25 %"

    def read(self, text: object) -> float:
        """A number that somebody wrote. Raises ValueError in words for who wrote it."""
        if self.against is not None:
            return units.change(text)
        if not isinstance(text, str):
            raise ValueError(f"found {units.shown(text)}; write it like {self.example}")
        return self.known_metric.unit.parse(text)


@dataclass(frozen=True)
class Lab:
    number: int
    title: str
    steps: tuple[LabStep, ...]
    questions: Mapping[str, str]  # for a person to read the answers to


@dataclass(frozen=True)
class AnswerSheet:
    student: str
    answers: Mapping[str, Any]


def numbers() -> list[int]:
    return sorted(int(path.stem) for path in CHECKS.glob("*.yaml"))


def lab(number: int) -> Lab:
    path = CHECKS / f"{number}.yaml"
    if not path.is_file():
        raise BadInput(f"lab {number}: unknown{nearest(number, numbers())}")
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = tuple(
        LabStep(
            step["name"], step["asks"], tuple(step["set"]), step["metric"], step["of"],
            step.get("against"),
        )
        for step in raw["steps"]
    )  # fmt: skip
    return Lab(number, raw["title"], steps, raw["questions"])


def seed_of(student: str) -> int:
    """However the name is typed: with capitals or without, with one blank or two."""
    plain = " ".join(unicodedata.normalize("NFKC", student).casefold().split())
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:8], "big") % SEEDS


def blank(asked: Lab, student: str) -> str:
    """A sheet to fill in, with the commands that belong to the student."""
    seed = seed_of(student)
    lines = [f"lab: {asked.number}", f"name: {yaml.safe_dump(student).splitlines()[0]}"]
    lines += [f"# Lab {asked.number}: {asked.title}. Your seed is {seed}. Predict before you run."]
    lines += ["answers:"]
    for step in asked.steps:
        given = " ".join(f'--set "{one}"' for one in (*step.settings, f"seeds=[{seed}]"))
        lines += [
            f"  # {step.asks}, like {step.example}",
            f"  # giveway run labs/rack.yaml --engine fluid {given}",
            f"  {step.name}: {{{PREDICTED}: , {MEASURED}: , {DIGEST}: }}",
        ]
    for name, question in asked.questions.items():
        lines += [f"  # {question}", f"  {name}: "]
    return "\n".join(lines) + "\n"


def read(path: Path, number: int) -> AnswerSheet:
    """A sheet, or one line that says what is wrong with it."""
    try:
        with open_regular(path) as file:
            # As text, all of it: a digest may look like a number.
            content = yaml.load(file.read(LARGEST_BYTE).decode("utf-8"), yaml.BaseLoader)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        first = " ".join(str(error).split())[:200]
        raise BadInput(f"{path}: not YAML: {first}") from None
    if not isinstance(content, dict) or content.keys() != {"lab", "name", "answers"}:
        raise BadInput(
            f"{path}: a sheet has lab, name and answers: `giveway lab sheet {number}` makes one"
        )
    if content["lab"] != str(number):
        raise BadInput(f"{path}: lab: found {units.shown(content['lab'])}, not {number}")
    student, answers = content["name"], content["answers"]
    if not isinstance(student, str) or not student.strip():
        raise BadInput(f"{path}: name: found {units.shown(student)}; it must be your name")
    if not isinstance(answers, dict):
        raise BadInput(f"{path}: answers: found {units.shown(answers)}; it must be a mapping")
    asked = lab(number)
    known = [*(step.name for step in asked.steps), *asked.questions]
    for name in answers:
        if name not in known:
            raise BadInput(f"{path}: answers.{name}: unknown{nearest(name, known)}")
    return AnswerSheet(student, answers)
