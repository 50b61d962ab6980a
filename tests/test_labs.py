"""`giveway lab`: seeds from names, sheets, and what they are worth; no answer is given away."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from basics.errors import BadInput
from testbed.labs import grading, sheet
from testbed.spec import load
from tests.conftest import REPOSITORY, giveway

ADA = "Ada Lovelace"
WORDS = "because a burst of training fills the queue that the flow has to go through"


def test_a_seed_belongs_to_a_name_however_it_is_typed() -> None:
    assert sheet.seed_of("Ada Lovelace") == sheet.seed_of(" ada  LOVELACE")
    names = [f"student {number}" for number in range(60)]
    assert len({sheet.seed_of(name) for name in names}) == 60


@pytest.mark.parametrize("number", sheet.numbers())
def test_every_step_can_be_run_and_has_what_it_asks_for(number: int) -> None:
    for step in sheet.lab(number).steps:
        experiment = load(sheet.RACK, [*step.settings, "seeds=[1]"])
        labels = [arm.label for arm in experiment.arms]
        assert step.of in labels
        assert step.against in (None, labels[0])
        assert step.known_metric
        assert step.read(step.example)


@pytest.mark.parametrize("number", sheet.numbers())
def test_the_questions_are_those_of_the_page(number: int) -> None:
    [page] = (REPOSITORY / "labs").glob(f"{number}-*.md")
    assert sheet.lab(number).title in page.read_text()
    key = (REPOSITORY / "labs" / "teachers" / "README.md").read_text()
    assert [name for name in sheet.lab(number).questions if f"`{name}`" not in key] == []


def test_a_blank_sheet_is_a_sheet(tmp_path: Path) -> None:
    path = tmp_path / "ada.yaml"
    path.write_text(sheet.blank(sheet.lab(1), ADA))
    read = sheet.read(path, 1)
    assert read.student == ADA
    assert f"seeds=[{sheet.seed_of(ADA)}]" in path.read_text()
    never = list(grading.graded(sheet.lab(1), read, never_played))
    assert sum(one.points for one in never) == 0


def never_played(step: sheet.LabStep, seed: int) -> Path:
    raise AssertionError("nothing was measured, so nothing is run")


class Found:
    """Runs that found a time of 640 us, or a change of −63 %."""

    digest = "0123456789abcdef" * 4

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seeds: list[int] = []

    def __call__(self, step: sheet.LabStep, seed: int) -> Path:
        self.seeds.append(seed)
        entry: dict[str, Any] = {"flows": {"small": {"fct_mean_ns": 640e3, "interval_95": {}}}}
        if step.against:
            entry["change"] = {step.metric: {"change": -0.63}}
        content = {"digest": self.digest, "policies": {step.of: entry}}
        (self.folder / "summary.json").write_text(json.dumps(content))
        return self.folder


def step_named(name: str, folder: Path, **answer: str) -> grading.GradedAnswer:
    given = sheet.AnswerSheet(ADA, {name: answer, "which-part": WORDS})
    found = grading.graded(sheet.lab(1), given, Found(folder))
    [one] = [one for one in found if one.name == name]
    return one


def test_what_is_right_is_worth_four_points(tmp_path: Path) -> None:
    digest = Found.digest[:8]
    full = step_named(
        "with-training", tmp_path, predicted="500 us", measured="641 us", digest=digest
    )
    assert (full.points, full.said) == (4, "a good prediction")
    far = step_named(
        "with-training", tmp_path, predicted="100 us", measured="0.64 ms", digest=digest
    )
    assert (far.points, far.said) == (4, "far from your prediction: say why")
    change = step_named(
        "priority-flows", tmp_path, predicted="-50 %", measured="-63 %", digest=digest
    )
    assert change.points == 4


@pytest.mark.parametrize(
    ("answer", "points"),
    [
        ({"predicted": "600 us"}, 1),
        ({"predicted": "600 us", "measured": "700 us"}, 1),
        ({"predicted": "600 us", "measured": "700 us", "digest": "01234567"}, 2),
        ({"measured": "640 us", "digest": "0123456"}, 2),
        ({"measured": "640", "digest": "01234567"}, 1),
        ({"predicted": "much", "measured": "640 us", "digest": "f" * 8}, 2),
    ],
)
def test_what_is_wrong_or_missing_is_worth_less_and_gives_nothing_away(
    answer: dict[str, str], points: int, tmp_path: Path
) -> None:
    one = step_named("with-training", tmp_path, **answer)
    assert one.points == points
    assert one.said
    theirs = " ".join(answer.values())
    assert "640" not in one.said or "640" in theirs
    assert "prediction" not in one.said  # whether it was good would say where the number is
    run_without_digest = "measured" in answer and "digest" not in answer
    assert ("digest: missing" in one.said) == run_without_digest


def test_a_steps_run_has_the_students_seed(tmp_path: Path) -> None:
    found = Found(tmp_path)
    given = sheet.AnswerSheet(ADA, {"alone": {"measured": "1 ms"}})
    list(grading.graded(sheet.lab(1), given, found))
    assert found.seeds == [sheet.seed_of(ADA)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lab: 2\nname: A\nanswers: {}\n", "not 1"),
        ("lab: 1\nname:\nanswers: {}\n", "your name"),
        ("lab: 1\nname: A\nanswers: {alnoe: {}}\n", "did you mean alone"),
        ("lab: 1\nname: A\nanswers: 3\n", "mapping"),
        ("a: [", "not YAML"),
        ("lab: 1\n", "giveway lab sheet 1"),
    ],
)
def test_a_sheet_that_is_none_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        sheet.read(path, 1)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sheet_from_the_commands_it_names_is_worth_all_points(tmp_path: Path) -> None:
    name = "rack-flows"
    asked = next(step for step in sheet.lab(3).steps if step.name == name)
    blank = giveway("lab", "sheet", "3", "--name", ADA)
    assert blank.returncode == 0, blank.stderr
    [line] = [one for one in blank.stdout.splitlines() if "giveway run" in one and "240" not in one]
    assert f"seeds=[{sheet.seed_of(ADA)}]" in line
    words = [
        word
        for one in (*asked.settings, f"seeds=[{sheet.seed_of(ADA)}]")
        for word in ("--set", one)
    ]
    out = tmp_path / "out"
    ran = giveway("run", "labs/rack.yaml", "--engine", "fluid", *words, "--out", out)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads((out / "summary.json").read_text())
    measured = f"{100 * grading.truth(asked, summary):.0f} %"
    answers = {name: {"predicted": "-40 %", "measured": measured, "digest": summary["digest"][:12]}}
    path = tmp_path / "ada.yaml"
    path.write_text(yaml.safe_dump({"lab": 3, "name": ADA, "answers": answers}))
    done = giveway("lab", "check", "3", path)
    assert done.returncode == 1, done.stderr  # the other step is missing
    assert "rack-flows" in done.stdout
    assert "4 of 8 points" in done.stdout
    assert giveway("lab", "check", "9", path).returncode == 2
