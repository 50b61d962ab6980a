"""docs/experiment-file.md and the schema for editors are what the models of the file say."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from testbed.spec.yaml_file import read
from tests import experiment_page
from tests.conftest import REPOSITORY
from tests.settings_table import PARTED, RACK, ROWS, SERVERS, SWEEP

SHIPPED = sorted(
    [*(REPOSITORY / "experiments").glob("*.yaml"), *(REPOSITORY / "labs").glob("*.yaml")]
)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(experiment_page.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_page_and_schema_are_what_the_models_say() -> None:
    assert experiment_page.PAGE.read_text() == experiment_page.page()
    assert json.loads(experiment_page.SCHEMA.read_text()) == experiment_page.schema()


def test_every_key_has_what_it_may_be() -> None:
    every = {key: may_be for key, may_be, _ in experiment_page.keys(experiment_page.Experiment)}
    assert {*every, *experiment_page.OF_AXES} == {row.key for row in ROWS}
    assert [key for key, may_be in every.items() if not may_be] == []


def test_what_jobs_draw_is_said_as_files_say_it() -> None:
    every = {key: told for key, *told in experiment_page.keys(experiment_page.Experiment)}
    assert every["cluster.jobs.*.tasks"] == [
        "a whole number, 1 to 100000; or `… to …`, between which each job draws", "`1`",
    ]  # fmt: skip
    assert "…" not in every["training.*.compute"][0]
    assert not [key for key, (_, default) in every.items() if default.startswith("`(")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_file_that_ships_names_the_schema_and_fits_it(path: Path, schema: dict[str, Any]) -> None:
    first = path.read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == experiment_page.SCHEMA
    jsonschema.validate(read(path).data, schema)


@pytest.mark.parametrize(
    "text", [RACK, SERVERS, PARTED, SWEEP], ids=["rack", "ps", "parts", "sweep"]
)
def test_what_the_tests_run_fits_it(text: str, schema: dict[str, Any]) -> None:
    jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("duration:", "durration:"),
        ("kind: tor", "kind: ring"),
        ("hosts: 4", "hosts: 1"),
        ("rate: 200 Mbit/s", "rate: 200"),
        ("[strict-priority, fifo, prio]", "[strict-priority, fifi]"),
        ("profile: resnet50-thesis", "profile: resnet5"),
    ],
)
def test_an_editor_underlines_a_mistake(right: str, wrong: str, schema: dict[str, Any]) -> None:
    assert right in RACK
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(RACK.replace(right, wrong)), schema)
