"""No setting is silently ignored: every key of an experiment file works, or is refused in a line.

The table is `tests/settings_table.py`. Here its list of keys is held to the models of the file, and
each of its cells to what the engines do: "changes" compares what an engine makes of two files that
differ in one key, "refused" reads the line, "analysis" sees that the key is written down for those
who read results, and that no engine did anything else because of it.
"""

import ast
import json
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import topologies
from basics.errors import BadInput, CannotRun
from policies.cluster import schedulers
from policies.link import link_policies
from policies.transfer import transfer_policies
from testbed import sweep_folder
from testbed.engines import MODULES
from testbed.spec import Experiment, PolicyChoice, TopologySpec, axes, load, sweep_file
from testbed.spec.placements import PlacementChoice
from testbed.spec.transfer import TransferChoice
from testbed.spec.values import Spec
from tests import engines_page
from tests.conftest import REPOSITORY, giveway
from tests.settings_table import (
    JOB_ROWS,
    KINDS,
    PODS,
    RACK,
    RACKS,
    ROWS,
    SCHEDULES,
    SERVERS,
    SWEEP,
    Analysis,
    Changes,
    Effect,
    JobRow,
    Refused,
    Row,
)
from tests.told import ENGINES, Parts, a_machine, parts


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all files: where a run writes is part of what its tasks are told."""
    made_here = tmp_path_factory.mktemp("settings")
    for name, content in SCHEDULES.items():
        (made_here / name).write_text(content)
    return made_here


def loaded(place: Path, base: str, settings: tuple[str, ...] = ()) -> Experiment:
    path = place / "experiment.yaml"
    path.write_text(base)
    return load(path, settings)


@cache
def made(engine: str, place: Path, base: str, settings: tuple[str, ...] = ()) -> Parts:
    """What an engine makes of a file: every part of it that can be compared."""
    if base == SWEEP:
        path = place / "sweep.yaml"
        path.write_text(base)
        grid = sweep_file.load(path, settings)
        points = [point.experiment.to_yaml() for point in grid.points]
        axes = sweep_folder.plan(grid, engine, "test")["axes"]
        return {"sweep": [axis["title"] for axis in axes], "points": points}
    return parts(engine, loaded(place, base, settings), place / "run")


# The list of keys


def keys_of(model: type[Spec], prefix: str = "") -> Iterator[str]:
    """Every key that a file may have, entries of lists as `*`."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = [kind for kind in kinds_in(field.annotation) if issubclass(kind, Spec)]
        if name == "options":
            yield from dict.fromkeys(f"{prefix}{option}" for option in options_of(model))
        elif inner:
            many = typing.get_origin(field.annotation) is tuple
            yield from keys_of(inner[0], f"{key}.*." if many else f"{key}.")
        else:
            yield key


def options_of(model: type[Spec]) -> Iterator[str]:
    """What a topology or a policy of some kind may be told besides."""
    assert issubclass(model, TopologySpec | PolicyChoice | TransferChoice | PlacementChoice)
    if issubclass(model, PlacementChoice):
        yield from (option for one in schedulers().values() for option in one.options)
    elif issubclass(model, TopologySpec):
        yield from (option for kind in topologies.available().values() for option in kind.options)
    elif issubclass(model, TransferChoice):
        every = transfer_policies().values()
        yield from (option for policy in every for option in policy.options)
    else:
        yield from (option for policy in link_policies().values() for option in policy.options)


def kinds_in(annotation: object) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from kinds_in(inner)


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    known = {*keys_of(Experiment), *(f"sweep.*.{key}" for key in axes.AXIS_KEYS)}
    assert len(known) > 50
    assert {row.key for row in ROWS} == known
    assert len(ROWS) == len(known)


def test_every_key_of_a_job_has_a_row_for_every_kind_of_job() -> None:
    known = {row.key for row in ROWS if row.key.startswith("training.")}
    assert {row.key for row in JOB_ROWS} == known
    assert len(JOB_ROWS) == len(known)


def test_a_new_key_would_be_missed() -> None:
    class Wider(PolicyChoice):
        colour: str = "red"

    assert set(keys_of(Wider)) - set(keys_of(PolicyChoice)) == {"colour"}


# The cells


CELLS = [
    pytest.param(engine, row, effect, id=f"{row.key}-{engine}-{number}")
    for row in ROWS
    for engine, cell in row.cells.items()
    for number, effect in enumerate(cell)
]


@pytest.mark.parametrize("base", [RACK, RACKS, PODS, SERVERS], ids=["rack", "racks", "pods", "ps"])
def test_there_is_something_for_keys_to_change(base: str, place: Path) -> None:
    records = made("fluid", place, base)["records"]
    assert len(records["iterations"]) >= 8
    assert len(records["end"]) >= 40


def test_every_row_says_something_of_every_engine() -> None:
    for row in ROWS:
        assert row.cells.keys() == ENGINES.keys() == MODULES.keys()
        assert all(row.cells.values())


@pytest.mark.parametrize(("engine", "row", "effect"), CELLS)
def test_what_the_table_says_of_a_key_and_an_engine(
    engine: str, row: Row, effect: Effect, place: Path
) -> None:
    check(engine, effect, row.base, row.to, place)


VALUES = {row.key: row.to for row in ROWS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", JOB_ROWS, ids=lambda row: row.key)
def test_what_the_table_says_of_a_key_and_a_kind_of_job(
    kind: str, row: JobRow, place: Path
) -> None:
    check("virtual", row.cells[kind], KINDS[kind], VALUES[row.key], place)


def check(engine: str, effect: Effect, base: str, to: tuple[str, ...], place: Path) -> None:
    if isinstance(effect, Refused):
        refused(engine, effect, effect.base or base, place)
        return
    base = effect.base or base
    if isinstance(effect, Changes):
        to = effect.to or to
    changed = differing(made(engine, place, base), made(engine, place, base, to))
    assert effect.part in changed, f"{to} makes no difference"
    if isinstance(effect, Analysis):
        assert changed <= {"plan", "runs", "sweep"}


def differing(before: Parts, after: Parts) -> set[str]:
    assert before.keys() == after.keys()
    return {part for part in before if before[part] != after[part]}


def refused(engine: str, effect: Refused, base: str, place: Path) -> None:
    with pytest.raises((BadInput, CannotRun)) as caught, a_machine(effect.lacking):
        ENGINES[engine].demand(loaded(place, base, effect.to))
    said = str(caught.value)
    assert effect.says in said
    assert len(said.splitlines()) == 1
    assert caught.value.exit_code == effect.code


def test_containers_are_told_what_namespaces_are(place: Path) -> None:
    docker = made("realtime", place, RACK, ("hosts=docker",))
    assert differing(made("realtime", place, RACK), docker) == {"containers"}


@pytest.mark.parametrize("row", [row for row in ROWS if row.base != SWEEP], ids=lambda row: row.key)
def test_a_key_gets_into_the_guest_with_the_resolved_file(row: Row, place: Path) -> None:
    """The virtual engine's guest reads the file that `to_yaml` wrote."""
    if any(isinstance(effect, Refused) and effect.to == row.to for effect in row.virtual):
        pytest.skip("it does not get as far as the guest")
    experiment = loaded(place, row.base, row.to)
    path = place / "resolved.yaml"
    path.write_text(experiment.to_yaml())
    assert load(path) == experiment
    assert experiment.to_yaml() != loaded(place, row.base).to_yaml()


@pytest.mark.parametrize("base", [RACK, SERVERS], ids=["rings", "servers"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_resolved_file_is_refused_by_no_engine(engine: str, base: str, place: Path) -> None:
    """Defaults that are written out ask for nothing."""
    path = place / "resolved.yaml"
    path.write_text(loaded(place, base).to_yaml())
    with a_machine():
        ENGINES[engine].demand(load(path))


def settings_of_tasks() -> Iterator[tuple[str, set[str], set[str]]]:
    """Of each module whose task has a configuration: its name, the fields, what is read of them.

    Modules that take the class from there may read it too.
    """
    sources = {
        f"{path.parent.relative_to(REPOSITORY)}/{path.stem}".replace("/", "."): path.read_text()
        for folder in ("workloads", "testbed/live")
        for path in (REPOSITORY / folder).glob("*.py")
    }
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
                fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
                names = {line.target.id for line in fields if isinstance(line.target, ast.Name)}
                readers = [text for text in sources.values() if f"from {module} import" in text]
                yield module, names, set().union(*map(attributes, (source, *readers)))


def attributes(source: str) -> set[str]:
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Load)}


def test_no_task_is_told_what_it_never_reads() -> None:
    found = list(settings_of_tasks())
    assert found
    for module, fields, read in found:
        fields -= {"journal"}  # where to write, for those that do
        assert fields <= read, f"{module} never reads {fields - read}"


def test_the_page_is_what_the_table_says() -> None:
    written = engines_page.PAGE.read_text()
    assert written == engines_page.page(), "run `.venv/bin/python -m tests.engines_page`"


@pytest.mark.virtual
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("setting", "seen"),
    [("offload=on", ("offload", True)), ("topology.delay=1 ms", ("idle_rtt_ns", 4_000_000))],
)
def test_the_guests_kernel_does_what_it_was_told(
    setting: str, seen: tuple[str, object], tmp_path: Path
) -> None:
    """What is told is one thing; for two keys, a whole run shows that it is also done."""
    file = tmp_path / "rack.yaml"
    file.write_text(RACK)
    out = tmp_path / "out"
    short = ("--set", "policies=[fifo]", "--set", "claims=[]", "--set", "duration=200 ms")
    done = giveway(
        "run", file, "--engine", "virtual", "--out", out, *short, "--set", setting, limit_s=280
    )
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "fifo" / "seed-0" / "manifest.json").read_text())
    assert manifest["network"][seen[0]] == seen[1]
