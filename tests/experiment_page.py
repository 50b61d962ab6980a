"""Writes docs/experiment-file.md and its JSON Schema from the models of the file.

.venv/bin/python -m tests.experiment_page

What a value may be is asked of the model itself: it is given nonsense, and its complaint says what
it wants. What a key does, and on which engines, is in tests/settings_table.py, which tests hold.
"""

import json
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

import topologies
from basics import units
from basics.options import Choice, Option
from policies.cluster import schedulers
from policies.link import link_policies
from policies.transfer import transfer_policies
from testbed.spec import Experiment, PolicyChoice, TopologySpec
from testbed.spec.placements import PlacementChoice
from testbed.spec.spans import span, written
from testbed.spec.transfer import TransferChoice
from testbed.spec.values import Spec
from tests.conftest import REPOSITORY
from tests.engines_page import table
from tests.settings_table import ROWS, Analysis, Changes, Row

PAGE = REPOSITORY / "docs" / "experiment-file.md"
SCHEMA = REPOSITORY / "experiments" / "experiment.schema.json"
ENGINES = ("realtime", "virtual", "fluid")
WRITTEN = {"_ns": units.format_time, "_byte": units.format_size, "_bps": units.format_rate}
HEAD = """\
# Every key of an experiment file
Written by `.venv/bin/python -m tests.experiment_page` from the models of the file; a test holds it.
Do not edit.

A value with a unit is text: `10 ms`, `0.54 MB`, `1 Gbit/s`. *Default* is what a key is when it is
left out; *needed* means that it cannot be. *Engines* are those that heed the key or leave it to the
analysis; the others refuse it in one line, and [engines.md](engines.md) has what each does with it.
A `*` stands for every entry of a list or every name of a mapping.

`experiments/experiment.schema.json` says the same to editors. Those that understand the first line
of the files that ship, `# yaml-language-server: $schema=experiment.schema.json`, complete keys and
underline what cannot be; a file of yours elsewhere names the schema's full path there. It knows
less than Giveway, which also checks how the keys fit together.
"""
# Where the default is what another key says.
FILLED = {
    "training.*.model": "the profile's",
    "training.*.iteration": "the profile's",
    "topology.hosts": "needed, but by a `fat-tree`: all it has room for",
}
TITLES = {
    "": "The experiment", "topology": "topology", "tcp": "tcp", "sample": "sample",
    "container": "container",
    "training": "training: a list of jobs", "flows": "flows: a list of flow mixes",
    "policies": "policies: a list", "transfers": "transfers: a list", "claims": "claims: a list",
    "cluster": "cluster", "placements": "placements: a list",
    "sweep": "sweep: a mapping, a name for each axis",
}  # fmt: skip
OF_AXES = {
    "sweep.*.title": "text",
    "sweep.*.key": "a key of the file, like topology.hosts",
    "sweep.*.values": "a list of values, or a mapping of labels to values",
}
DRAWN = "; or `… to …`, between which each job draws"
Declared = Mapping[str, Mapping[str, Option | Choice]]  # by policy or kind, by option


class Nonsense:
    def __repr__(self) -> str:
        return "nonsense"


def declared(model: type[Spec]) -> Declared:
    """The options of every kind that such an entry may choose."""
    shelves: dict[type[Spec], Mapping[str, Any]] = {
        PlacementChoice: schedulers(), TopologySpec: topologies.available(),
        TransferChoice: transfer_policies(), PolicyChoice: link_policies(),
    }  # fmt: skip
    return {name: one.options for name, one in shelves[model].items()}


def inner(field: FieldInfo) -> type[Spec] | None:
    """The model of the mappings that a key holds, if it holds such."""

    def kinds(annotation: object) -> Iterator[type]:
        if isinstance(annotation, type):
            yield annotation
        for one in typing.get_args(annotation):
            yield from kinds(one)

    return next((kind for kind in kinds(field.annotation) if issubclass(kind, Spec)), None)


def checks(field: FieldInfo) -> list[Any]:
    """What looks at a value first, wherever in its annotation it stands."""
    found = [one.func for one in field.metadata if isinstance(one, BeforeValidator)]

    def within(annotation: object) -> Iterator[Any]:
        for one in getattr(annotation, "__metadata__", ()):
            if isinstance(one, BeforeValidator):
                yield one.func
        for one in typing.get_args(annotation):
            yield from within(one)

    return [*found, *within(field.annotation)]


def names_of(field: FieldInfo) -> list[str]:
    return next((list(check.names()) for check in checks(field) if hasattr(check, "names")), [])


def allowed(field: FieldInfo) -> str:
    """What a value must be, in the model's own words."""
    if names_of(field):
        return ", ".join(f"`{name}`" for name in names_of(field))
    for check in checks(field):
        try:
            try:
                check(Nonsense())
            except TypeError:
                check(Nonsense(), None)
        except ValueError as complaint:
            said = str(complaint).partition("; ")[2] or str(complaint)
            said = re.sub(r"^it must be |^write it ", "", said)
            said = re.sub(r"^write (an? [a-z ]+?) like ", r"\1, like ", said)
            return said.replace("it names a folder: use ", "a name: ")
    return ""


def drawn_of(field: FieldInfo) -> bool:
    """Whether each job draws its own value: `2 to 4`."""
    return any(check.__qualname__.startswith(span.__qualname__) for check in checks(field))


def default(name: str, field: FieldInfo, *, needed: bool) -> str:
    if needed:
        return "needed"
    value = field.get_default(call_default_factory=True) if not field.is_required() else None
    for ending, in_words in WRITTEN.items():
        if name.endswith(ending) and isinstance(value, int):
            return f"`{in_words(value)}`"
    if value in (None, (), {}, "") or isinstance(value, Spec) or name == "policies":
        return ""
    if drawn_of(field):
        value = written(value, int)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def needed(model: type[Spec], name: str, field: FieldInfo) -> bool:
    key = field.alias or name
    return field.is_required() and model.keys({}).get(key, False) and key != "label"


def keys(model: type[Spec], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, what it may be, its default)."""
    for name, field in model.model_fields.items():
        key, within = f"{prefix}{field.alias or name}", inner(field)
        if name == "options":
            found: dict[str, tuple[str, str, str]] = {}
            for kind, options in declared(model).items():
                for option, one in options.items():
                    said = f"{one.allowed} (of `{kind}`"
                    at = f"{prefix}{option}"
                    before = found.get(at)
                    same = before is not None and before[1].startswith(f"{one.allowed} (of ")
                    if before is None:
                        found[at] = (at, said, "")
                    elif same:
                        found[at] = (at, f"{before[1]}, `{kind}`", "")
                    else:
                        found[at] = (at, f"{before[1]}); {said}", "")
            yield from ((at, f"{said})", rest) for at, said, rest in found.values())
        elif within is not None:
            many = typing.get_origin(field.annotation) is tuple
            yield from keys(within, f"{key}.*." if many else f"{key}.")
        else:
            may_be = allowed(field) + (DRAWN if drawn_of(field) else "")
            yield key, may_be, default(name, field, needed=needed(model, name, field))


def page() -> str:
    rows = {row.key: row for row in ROWS}
    every = [*keys(Experiment), *((key, said, "") for key, said in OF_AXES.items())]
    sections: dict[str, list[list[str]]] = {}
    for key, may_be, left_out in every:
        first, dot, _ = key.partition(".")
        section = first if dot else ""
        row = rows[key]
        cells = [f"`{key}`", may_be, FILLED.get(key, left_out), engines(row), does(row)]
        sections.setdefault(section, []).append([cell.replace("|", "\\|") for cell in cells])
    head = ("key", "what it may be", "default", "engines", "what it does")
    return HEAD + "".join(
        f"\n## {TITLES.get(section, section)}\n{table(head, lines)}"
        for section, lines in sections.items()
    )


def engines(row: Row) -> str:
    heeding = [
        name
        for name in ENGINES
        if any(isinstance(one, Changes | Analysis) for one in row.cells[name])
    ]
    return "all" if len(heeding) == len(ENGINES) else ", ".join(heeding)


def does(row: Row) -> str:
    for cell in row.cells.values():
        for effect in cell:
            if isinstance(effect, Changes | Analysis):
                return effect.shows
    return ""


def schema() -> dict[str, Any]:
    rows = {row.key: does(row) for row in ROWS}
    whole = of_model(Experiment, "", rows)
    whole["properties"]["sweep"] = {"type": "object", "description": "a grid: docs/sweeps.md"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment file of Giveway",
        **whole,
    }


def of_model(model: type[Spec], prefix: str, rows: Mapping[str, str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key, within = field.alias or name, inner(field)
        if name == "options":
            for options in declared(model).values():
                for option, one in options.items():
                    properties.setdefault(option, of_option(one))
        elif within is not None:
            many = typing.get_origin(field.annotation) is tuple
            entry = of_model(within, f"{prefix}{key}.*." if many else f"{prefix}{key}.", rows)
            short = shorthand(within)
            if short is not None:
                entry = {"anyOf": [short, entry]}
            properties[key] = {"type": ["array", "null"], "items": entry} if many else entry
        else:
            said = rows.get(f"{prefix}{key}", "")
            properties[key] = of_value(name, field) | ({"description": said} if said else {})
    wanted = [
        field.alias or name
        for name, field in model.model_fields.items()
        if name != "options" and needed(model, name, field)
    ]
    return {
        "type": "object",
        "properties": properties,
        "required": wanted,
        "additionalProperties": False,
    }


def shorthand(model: type[Spec]) -> dict[str, Any] | None:
    """`tcp: reno`: what a mere word stands for."""
    try:
        made = model.normal("nonsense")
    except ValueError:  # it has words of its own
        return {"type": "string"}
    if not isinstance(made, dict):
        return None
    if "nonsense" in made:  # `sample: tcp`: a key, with its usual value
        return {"enum": [field.alias for field in model.model_fields.values()]}
    key = next(key for key, value in made.items() if value == "nonsense" and key != "label")
    names = names_of(model.model_fields[key])
    return {"enum": names} if names else {"type": "string"}


def of_option(one: Option | Choice) -> dict[str, Any]:
    if isinstance(one, Choice):
        return {"enum": list(one.values), "description": one.meaning}
    if one.unit:
        return {"type": "string", "description": one.meaning}
    return {"type": "number", "description": one.meaning}


def of_value(name: str, field: FieldInfo) -> dict[str, Any]:
    if names_of(field):
        return {"enum": names_of(field)}
    said = allowed(field)
    bounds = re.fullmatch(r"a whole number, (-?\d+) to (-?\d+)", said)
    if bounds:
        whole = {"type": "integer", "minimum": int(bounds[1]), "maximum": int(bounds[2])}
        return {"anyOf": [whole, {"type": "string"}]} if drawn_of(field) else whole
    if said == "true or false":
        return {"type": "boolean"}
    return {"type": "string"} if name.endswith(tuple(WRITTEN)) else {}


def main() -> None:
    PAGE.write_text(page())
    SCHEMA.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
