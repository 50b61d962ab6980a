"""Every command and every YAML block of README, docs and labs works, and prints what is quoted."""

import importlib.util
import re
import shlex
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from testbed import engines
from testbed.cli.commands import app
from testbed.reproduce import entry
from testbed.spec import load, sweep_file
from tests.conftest import REPOSITORY, giveway
from tests.pages import (
    PAGES,
    VIRTUAL,
    Block,
    Command,
    as_quoted,
    checkout,
    commands,
    folder_of,
    played,
    yaml_blocks,
)

ALL = commands()
DOCS = REPOSITORY / "docs"


@dataclass(frozen=True)
class Elsewhere:
    """Commands that this file does not run, and why."""

    pattern: str
    reason: str
    simulated: bool = False  # the same in simulation is run instead


NOT_RUN = [
    Elsewhere(r"make \S+", "installs, builds or runs everything: CI itself is `make test-all`"),
    Elsewhere(r"(\.venv/bin/)?python -m .*", "takes minutes, or a test of its own holds its page"),
    Elsewhere(
        r"(\.venv/bin/python )?scripts/.*",
        "starts a service, installs, reads a sweep, or takes minutes",
    ),
    Elsewhere(r"sudo .*|vagrant up", "takes root and Docker, or a machine: tests/test_docker.py"),
    Elsewhere(r"giveway on .*", "takes a second machine: tests/test_remote.py plays one"),
    Elsewhere(r"giveway --(install|show)-completion", "about this shell: tests/test_cli.py"),
    Elsewhere(r"giveway build-kernel", "takes five minutes: CI does it by `make virtual`"),
    Elsewhere(r"giveway profile .*", "measures for minutes: tests/test_profiler.py"),
    Elsewhere(r".*(\b[A-Z]{3,}|…).*", "a form with words to replace"),
    Elsewhere(r"giveway (run|sweep|report|profile|agree|on)", "the name of a command"),
    Elsewhere(r"giveway sweep experiments/.*", "takes a minute of two cores and more"),
    Elsewhere(r"giveway run experiments/shared-rack\.yaml .*", "48 runs: takes minutes"),
    Elsewhere(r"giveway run experiments/transfer-and-flows\.yaml .*", "48 runs: takes minutes"),
    Elsewhere(r"giveway tune .*", "25 runs and more: tests/test_tune.py tunes a smaller file"),
    Elsewhere(r"giveway reproduce (?!thesis/(slack|figure-4\.7)$).*", "writes reproductions.md"),
    Elsewhere(r"giveway run .*(horovod|backends).*", "real stacks: tests/test_stacks.py"),
    Elsewhere(r"giveway run .*cluster-torch.*", "real stacks: tests/test_cluster_torch.py"),
    Elsewhere(
        r"giveway run .*by-kernel.*", "nine runs: tests/test_kernel_marks.py has a short one"
    ),
    Elsewhere(r"giveway run experiments/leaf-spine.yaml --engine virtual", "minutes", True),
    Elsewhere(r"giveway run experiments/rack-aggregation.yaml --engine virtual", "a minute", True),
    Elsewhere(r"giveway run experiments/thesis-cell.yaml --engine virtual .*", "minutes", True),
    Elsewhere(r"giveway run experiments/quickstart.yaml", "run above, on engines by name"),
]
SHELL = ". .venv/bin/activate"  # tests/test_setup.py
# What a fragment of a file stands in, where it says nothing itself.
AROUND = """
name: fragment
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 4 s
training:
  - {name: job, profile: resnet50-thesis, model: 1 MB, workers: [h1, h2], iteration: 200 ms}
policies: [fifo]
seeds: [0]
"""


def elsewhere(command: Command) -> Elsewhere | None:
    return next((one for one in NOT_RUN if re.fullmatch(one.pattern, command.text)), None)


def simulated(command: Command) -> Command:
    text = command.text.replace(VIRTUAL, "")
    return replace(command, text=f"{text} --engine fluid", quotes=[])


def to_run() -> dict[str, Command]:
    found = {}
    for command in ALL:
        told = elsewhere(command)
        if command.text != SHELL and (told is None or told.simulated):
            one = command if told is None else simulated(command)
            found.setdefault(" ".join(one.text.split()), one)
    return found


def marked(command: Command) -> Any:
    marks = [pytest.mark.virtual] if VIRTUAL in command.text else []
    return pytest.param(command, marks=marks, id=command.text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", [marked(one) for one in to_run().values()])
def test_a_command_works_and_prints_what_pages_quote(command: Command, place: Path) -> None:
    for other in command.before:
        if not (place / folder_of(other.text)).exists():
            assert played(other, place).returncode == 0
    done = played(command, place)
    assert done.returncode == 0, done.stdout + done.stderr
    for quote in command.quotes:
        assert quote.text == as_quoted(quote, done.stdout, place), quote.page


@pytest.mark.parametrize("command", ALL, ids=lambda one: f"{one.page}: {one.text}")
def test_what_a_command_names_is_there(command: Command) -> None:
    program, *words = shlex.split(command.text.replace("sudo -n", "sudo").removeprefix("sudo "))
    if program == "make":
        makefile = (REPOSITORY / "Makefile").read_text()
        assert all(re.search(f"^{target}:", makefile, re.M) for target in words)
    elif words[:1] == ["-m"]:
        assert importlib.util.find_spec(words[1]) is not None
    elif program.startswith("scripts/") or (words and words[0].startswith("scripts/")):
        assert (REPOSITORY / next(w for w in (program, *words) if "scripts/" in w)).exists()
    elif program.endswith("giveway") and words and words[0] != "…":
        name = next((word for word in words if not word.startswith("-")), None)
        known = {one.name or one.callback.__name__ for one in app.registered_commands}
        known |= {group.name for group in app.registered_groups}
        assert name is None or name in known
        if elsewhere(command):  # what is run is seen to work
            look_at(words[0], words[1:])


def look_at(name: str, words: list[str]) -> None:
    """The file or the entry that a command names, with its settings, as the door sees it."""
    settings = [after for before, after in pairwise(words) if before == "--set"]
    if name == "reproduce" and words and not words[0].startswith("-"):
        assert words[0] in entry.names()
    theirs = any("FILE" in setting for setting in settings)  # the reader's own
    if theirs or not words or not words[0].endswith(".yaml"):
        return
    path = REPOSITORY / words[0]
    loaded = sweep_file.load(path, settings).first if name == "sweep" else load(path, settings)
    if "fluid" in words:
        engines.get("fluid").demand(loaded)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", yaml_blocks(), ids=lambda one: str(one.page))
def test_a_yaml_block_runs_and_its_claims_hold(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "block.yaml"
    content = yaml.safe_load(block.text)
    whole = "name" in content
    file.write_text(block.text if whole else yaml.safe_dump(yaml.safe_load(AROUND) | content))
    if "hosts" in content:  # containers, which no simulation has: it has to load
        load(file)
        return
    verb = "sweep" if "sweep" in content else "run"
    out = tmp_path / "out"
    done = giveway(verb, file, "--engine", "fluid", "--out", out, wait=False, limit_s=500)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_every_cell_of_the_labs_map_has_an_interval(place: Path) -> None:
    [sweep] = [one for one in ALL if one.text.startswith("giveway sweep labs/boundary.yaml")]
    table = place / "runs" / "boundary-fluid" / "summary.parquet"
    if not table.exists():
        assert played(sweep, place).returncode == 0
    cells = pd.read_parquet(table)
    changes = cells[cells.metric.str.endswith(".iteration_mean") & (cells.policy != "fifo")]
    assert len(changes) == 9
    assert changes[["change_low", "change_high"]].notna().all(axis=None)


def test_nothing_is_listed_that_no_page_has() -> None:
    used = {elsewhere(command) for command in ALL}
    assert [one.pattern for one in NOT_RUN if one not in used] == []


def test_pages_quote_what_commands_print() -> None:
    quoted = [quote for command in ALL for quote in command.quotes]
    assert len({quote.page for quote in quoted}) >= 5
    assert sum(quote.whole for quote in quoted) >= 1


def test_the_page_of_stacks_has_the_readmes_numbers() -> None:
    [printed] = [quote for command in ALL for quote in command.quotes if quote.whole]
    rows = re.findall(r"^\| .* mean \|.*\| (.*) \|$", (DOCS / "stacks.md").read_text(), re.M)
    assert len(rows) == 4
    plain = " ".join(printed.text.split())  # a command's spaces do not break
    assert [row for row in rows if row not in plain] == []


def test_the_labs_rack_is_that_of_the_quickstart() -> None:
    rack = load(REPOSITORY / "labs" / "rack.yaml", ("topology.delay=about 10 us",))
    known = load(REPOSITORY / "experiments" / "quickstart.yaml")
    besides = {"name": "", "question": "", "claims": ()}
    assert rack.model_copy(update=besides) == known.model_copy(update=besides)


NAMED = re.compile(r"`((?:[a-z_]+/)+[\w.-]+\.(?:py|yaml|md|sh|csv|json|patch))`")
NEVER_THERE = {"docker/__init__.py"}  # ARCHITECTURE.md says why
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_points_to_is_there(page: Path) -> None:
    text = (REPOSITORY / page).read_text()
    made = {name for command in ALL for name in command.files}  # by the reader
    named = set(NAMED.findall(text)) - made - NEVER_THERE
    assert sorted(name for name in named if not there(name)) == []
    links = [REPOSITORY / page.parent / link for link in LINK.findall(text)]
    assert [str(path) for path in links if not path.exists()] == []


ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors_of(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    return {title.strip().replace(" ", "-") for title in kept}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_points_to_on_a_page_is_there(page: Path) -> None:
    links = ANCHOR.findall((REPOSITORY / page).read_text())
    places = [(REPOSITORY / page.parent / name if name else REPOSITORY / page) for name, _ in links]
    missing = [
        f"{name}#{anchor}"
        for (name, anchor), place in zip(links, places, strict=True)
        if anchor not in anchors_of(place)
    ]
    assert missing == []


def there(name: str) -> bool:
    """Whether a file is there, or inside the package that the page is speaking of."""
    inside = ("policies", "workloads", "testbed")
    return any((REPOSITORY / place / name).exists() for place in ("", *inside))
