"""The pages for people as the tests see them: their commands, their YAML, and what they quote.

`python -m tests.pages` runs every command whose output a page quotes and writes the quotations
again, as the code gives them; `python -m tests.pages fluid` only those in simulation.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = sorted(
    path.relative_to(REPOSITORY)
    for pattern in ("*.md", "docs/*.md", "labs/*.md", "labs/*/*.md", "bench/README.md")
    for path in REPOSITORY.glob(pattern)
    if path.name != "CHANGELOG.md"
)
PART = re.compile(
    r"<!-- printed -->\n```\n(?P<printed>.*?)^```$"
    r"|^```(?P<language>\w*)\n(?P<code>.*?)^```$"
    r"|^> (?P<answer>[^\n]*)$"
    r"|(?<!`)`(?P<inline>[^`]+)`(?!`)",
    re.DOTALL | re.MULTILINE,
)
PROGRAM = re.compile(
    r"(giveway|make|sudo|vagrant|python|\.venv/bin/\w+) |scripts/\S|\. \.venv/bin/activate"
)
POLICY_FILE = re.compile(r"`(policies/link/\w+\.py)`|<code>(policies/link/\w+\.py)</code>")
VIRTUAL = "--engine virtual"


@dataclass(frozen=True)
class Quote:
    """What a page says that a command prints: one line of it, or all that follows its runs."""

    page: Path
    start: int
    text: str
    whole: bool


@dataclass
class Command:
    """A command, the pages that give it, and what is there when they do."""

    text: str
    page: Path
    files: dict[str, str] = field(default_factory=dict)
    before: list["Command"] = field(default_factory=list)  # those whose folders it names
    quotes: list[Quote] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    page: Path
    text: str


def commands(pages: list[Path] = PAGES) -> list[Command]:
    """Every command, once, however many pages give it."""
    found: dict[str, Command] = {}
    for page in pages:
        files: dict[str, str] = {}
        ran: list[Command] = []
        text = (REPOSITORY / page).read_text()
        for part in PART.finditer(text):
            quoted = part["answer"] or part["printed"]
            if quoted is not None and ran:
                whole = part["printed"] is not None
                at = part.start("printed" if whole else "answer")
                ran[-1].quotes.append(Quote(page, at, quoted, whole))
            elif part["language"] == "python" and POLICY_FILE.search(text[: part.start()]):
                *_, last = POLICY_FILE.finditer(text[: part.start()])
                files[last[1] or last[2]] = part["code"]
            for line in lines_of(part):
                one = found.setdefault(line, Command(line, page, dict(files)))
                one.before += [
                    other for other in ran if other is not one and folder_of(other.text) in line
                ]
                if line.startswith("giveway run "):
                    ran.append(one)
    return list(found.values())


def lines_of(part: re.Match[str]) -> Iterator[str]:
    """The commands in a block without a language, or between backticks."""
    if part["inline"]:
        lines = [" ".join(part["inline"].split())]
    elif part["code"] and not part["language"]:
        lines = part["code"].replace("\\\n", " ").splitlines()
    else:
        return
    for line in lines:
        if PROGRAM.match(line):
            yield " ".join(re.split(r" +# ", line)[0].split())


def folder_of(command: str) -> str:
    """Where its results go, if it says so; else something that no command names."""
    words = shlex.split(command)
    return words[words.index("--out") + 1] if "--out" in words else "\0"


def yaml_blocks() -> list[Block]:
    return [
        Block(page, part["code"])
        for page in PAGES
        for part in PART.finditer((REPOSITORY / page).read_text())
        if part["language"] == "yaml"
    ]


def checkout(folder: Path) -> Path:
    """A reader's own, in which policies can be added and runs are left; all else is ours."""
    shutil.copytree(REPOSITORY / "policies", folder / "policies")
    for name in ("labs", "experiments"):
        (folder / name).symlink_to(REPOSITORY / name)
    return folder


def played(command: Command, place: Path) -> subprocess.CompletedProcess[str]:
    """Run `giveway …` as a reader would, with the files of the page in place."""
    for name, code in command.files.items():
        (place / name).write_text(code)
    program, *arguments = shlex.split(command.text)
    assert program == "giveway", command
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments],
        cwd=place, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def as_quoted(quote: Quote, output: str, place: Path) -> str:
    """What the quotation should be, by what the command printed."""
    lines = [line.rstrip() for line in output.splitlines()]
    [report] = [line for line in lines if line.startswith("report: ")]
    if not quote.whole:
        summary = (place / report.removeprefix("report: ")).with_name("summary.json")
        answer = str(json.loads(summary.read_text())["answer"])
        assert answer in lines
        return answer
    shown = lines[lines.index("analysing …") + 1 :] if "analysing …" in lines else lines
    return "".join(f"{line}\n" for line in shown if line != report)


def main(only: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = checkout(Path(folder))
        wanted: list[tuple[Quote, str]] = []
        for command in commands():
            if command.quotes and only in command.text:
                print(command.text, flush=True)
                done = played(command, place)
                if done.returncode:
                    sys.exit(done.stderr)
                wanted += [
                    (quote, as_quoted(quote, done.stdout, place)) for quote in command.quotes
                ]
    for quote, text in sorted(wanted, key=lambda one: -one[0].start):  # the last of a page first
        path = REPOSITORY / quote.page
        old = path.read_text()
        path.write_text(old[: quote.start] + text + old[quote.start + len(quote.text) :])


if __name__ == "__main__":
    main(*(f"--engine {engine}" for engine in sys.argv[1:]))
