"""Damaged files by the thousand: each is read or refused in words, soon, without a traceback.

    python -m tests.fuzz --count 6000          all kinds of files, from the first mutant on
    python -m tests.fuzz --only 1234           one of them, written out and with its traceback

A mutant is its number: the same number is the same file wherever the originals are the same.
tests/test_fuzz.py reads a few hundred of them.
"""

import argparse
import copy
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from basics.errors import BadInput
from testbed.reproduce import entry
from testbed.spec import load, sweep_file
from workloads import profiles, schedule, sizes

REPOSITORY = Path(__file__).parent.parent
LIMIT_S = 10.0  # of a busy machine; an idle one needs a tenth
HOSTS = ("h1", "h2", "h3", "h4")
FOUR_S = 4_000_000_000


class TooSlow(BaseException):
    """Not an Exception: what it interrupts must not take it for its own."""


@dataclass(frozen=True)
class Outcome:
    """What came of a mutant: "loaded", "refused", or what must not be."""

    number: int
    said: str
    wrong: str = ""
    took_s: float = 0.0


# ---- what can be damaged --------------------------------------------------------------------

REPLAYED = REPOSITORY / "experiments" / "replay.csv"
YAML = [
    *sorted((REPOSITORY / "experiments").glob("*.yaml")),
    *sorted((REPOSITORY / "experiments" / "reproduce").glob("*/*.yaml")),
]
CSV = [
    *sorted(sizes.FOLDER.glob("*.csv")),
    *sorted(profiles.FOLDER.glob("*.csv")),
    REPLAYED,
]
FILES = YAML + CSV

WORDS = [
    "", "~", "null", "true", "off", "0", "-1", "1", "010", "0x10", "1:30", "1e3", "1e400", ".nan",
    ".inf", "-.inf", "9" * 30, "9" * 5000, "1_0", "2020-13-99", "2020-01-01", "<<", "=", "[]", "{}",
    "[[]]", "[1, 1]", "{a: {b: {}}}", "*a", "&a x", "!!int x", "!!set {a}", "!!binary x", "!x y",
    "4 s", "0 s", "-4 s", "1e99 s", "4 parsecs", "1 Gbit/s", "0 Gbit/s", "1e30 Gbit/s", "10 MB",
    "0.1 B", "about 10 us", "about", "5 packets", "46 per second per host",
    "1e30 per second per host", "at most -10 %", "at least 1 s", "all", "h1", "h1 x999999",
    "[h1 x99, h2]", "[h1, h1]", "fifo",
    "[fifo, fifo]", "{policy: fifo, bands: {a: b}}", "tor", "fat-tree", "leaf-spine", "web-search",
    "resnet50-thesis", "vgg16", "parameter-server", "ring", "spread", "../../x", "/dev/zero",
    "x.csv", "x" * 200, "x" * 20_000, "' '", "'\\0'", '"\\0"', '"\\ud800"', "é", "\u2028",
    "\x85", "\ufeff",
]  # fmt: skip
PIECES = [
    "{", "}", "[", "]", ":", ": ", "- ", "? ", ",", "&a ", "*a", "!!int ", "\t", "\n", "\r", "\r\n",
    "'", '"', "|", ">", "#", "%", "@", "`", "<<: *a", "---\n", "...\n", "\\", "\0", "\x7f",
]  # fmt: skip
CELLS = [
    "",
    "x",
    "-1",
    "0",
    "1",
    "1.5",
    "nan",
    "inf",
    "1e999",
    "9" * 30,
    "9" * 5000,
    '"',
    " 1",
    "²",
]


def mutant(number: int, files: list[Path] | None = None) -> tuple[Path, bytes]:
    """The file that was damaged, and what has become of it."""
    chance = random.Random(number)
    path = chance.choice(files or FILES)
    raw = path.read_bytes()
    ways = [_bytes, _bytes, _lines] + ([_cell] * 3 if path in CSV else [_value] * 3 + [_tree])
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        raw = chance.choice(ways)(chance, raw)
    return path, raw


def _bytes(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw) + 1)
    end = min(len(raw), at + chance.choice([0, 0, 1, 3, 30, 300]))
    new = chance.choice(
        [b"", chance.randbytes(chance.randrange(1, 5)), raw[at:end] * 2]
        + [piece.encode() for piece in PIECES]
    )
    return raw[:at] + new + raw[end:]


def _lines(chance: random.Random, raw: bytes) -> bytes:
    lines = raw.split(b"\n")
    at = chance.randrange(len(lines))
    how = chance.randrange(5)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines[at:at] = [lines[at]] * chance.choice([1, 2, 2000])
    elif how == 2:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 3:
        lines[at] = b" " * chance.randrange(1, 9) + lines[at]
    else:
        lines[at] = lines[at].lstrip()
    return b"\n".join(lines)


def _value(chance: random.Random, raw: bytes) -> bytes:
    """Another word after some colon."""
    places = [at for at in range(len(raw)) if raw[at : at + 2] == b": "]
    if not places:
        return raw
    at = chance.choice(places) + 2
    ends = [end for stop in (b",", b"}", b"\n") if (end := raw.find(stop, at)) >= 0]
    return raw[:at] + chance.choice(WORDS).encode() + raw[min(ends, default=len(raw)) :]


def _cell(chance: random.Random, raw: bytes) -> bytes:
    cells = raw.split(b",")
    cells[chance.randrange(len(cells))] = chance.choice(CELLS).encode()
    return b",".join(cells)


def _tree(chance: random.Random, raw: bytes) -> bytes:
    """A value somewhere replaced by one from somewhere else, removed, or repeated."""
    try:
        data = yaml.safe_load(raw)
        nodes = list(_containers(data))
    except Exception:  # PyYAML trips over what is damaged already, in many ways
        return raw
    if not nodes:
        return raw
    node = chance.choice(nodes)
    key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    how = chance.randrange(4)
    if how == 0:
        del node[key]
    elif how == 1 and isinstance(node, list):
        node *= chance.choice([2, 50, 3000])
    elif how == 2:
        node[key] = copy.deepcopy(chance.choice(nodes))
    else:
        node[key] = chance.choice([None, True, -1, 2**70, 0.5, "", "x", [], {}, [[]], {"x": 1}])
    return yaml.safe_dump(data, sort_keys=False).encode()


def _containers(node: Any) -> Iterator[Any]:
    if isinstance(node, dict | list) and node:
        yield node
        for below in node.values() if isinstance(node, dict) else node:
            yield from _containers(below)


# ---- what is done with it -------------------------------------------------------------------


def outcome(number: int, folder: Path, files: list[Path] | None = None) -> Outcome:
    """Read one mutant as its kind of file is read, and see what is said."""
    original, raw = mutant(number, files)
    path = folder / f"mutant{original.suffix}"
    path.write_bytes(raw)
    if not (folder / REPLAYED.name).exists():  # replay.yaml looks for it beside itself
        shutil.copy(REPLAYED, folder)
    begun_s = time.monotonic()
    try:
        with limited():
            reader(original)(path)
    except BadInput as error:
        lines = str(error).split("\n")
        wrong = "".join(line for line in lines if not line.isprintable() or len(line) > 2000)
        wrong = wrong or ("too many lines" if len(lines) > 21 else "")
        return Outcome(number, "refused", wrong, time.monotonic() - begun_s)
    except TooSlow:
        return Outcome(number, "slow", f"more than {LIMIT_S:g} s", LIMIT_S)
    except Exception:
        return Outcome(number, "traceback", traceback.format_exc(), time.monotonic() - begun_s)
    return Outcome(number, "loaded", "", time.monotonic() - begun_s)


def reader(original: Path) -> Callable[[Path], object]:
    if original.suffix == ".csv":
        return {"sizes": sizes.read, "profiles": profiles.read}.get(
            original.parent.name, lambda path: schedule.read_csv(path, HOSTS, FOUR_S)
        )
    if "reproduce" in original.parts:
        return lambda path: entry.read(path).targets
    return _sweep if b"\nsweep:" in original.read_bytes() else _experiment


def _experiment(path: Path) -> None:
    loaded = load(path)
    json.dumps(loaded.plan("fluid", ""), allow_nan=False)
    path.write_text(loaded.to_yaml())
    assert load(path).to_yaml() == loaded.to_yaml()


def _sweep(path: Path) -> None:
    assert sweep_file.load(path).fingerprint()


@contextmanager
def limited() -> Iterator[None]:
    def ring(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    arguments = argparse.ArgumentParser(description="damaged files through the door")
    arguments.add_argument("--count", type=int, default=6000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--only", type=int, help="one mutant, shown")
    asked = arguments.parse_args()
    numbers = range(asked.first, asked.first + asked.count) if asked.only is None else [asked.only]
    counted: Counter[str] = Counter()
    wrong = 0
    slowest = Outcome(-1, "")
    with tempfile.TemporaryDirectory() as name:
        for number in numbers:
            found = outcome(number, Path(name))
            counted[found.said] += 1
            slowest = max(slowest, found, key=lambda one: one.took_s)
            if found.wrong:
                wrong += 1
                print(f"mutant {number} of {mutant(number)[0].name}: {found.said}: {found.wrong}")
    if asked.only is not None:
        sys.stdout.buffer.write(mutant(asked.only)[1])
    told = ", ".join(f"{count} {said}" for said, count in sorted(counted.items()))
    print(f"{told}; the slowest, {slowest.number}, took {slowest.took_s:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
