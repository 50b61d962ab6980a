"""Files below a megabyte that kept the loader busy for minutes, or ended in a traceback.

Each is made here. None may take longer than a person waits, and each is refused in one line.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from basics.errors import BadInput
from testbed.spec import load, sweep_file
from tests.conftest import REPOSITORY, giveway

EXPERIMENTS = REPOSITORY / "experiments"
QUICKSTART = (EXPERIMENTS / "quickstart.yaml").read_text()
LIMIT_S = 4.0  # of processor time; the slowest takes 1 s where this was written

JOBS = """
name: jobs
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: 1 us, queue: 100 packets}
duration: 4 s
policies: [fifo]
seeds: [0]
training:
"""
SERVERS = JOBS + "  - {name: a, profile: resnet50-thesis, aggregation: parameter-server, %s}\n"


def with_line(key: str, line: str) -> str:
    """The quickstart with another line for a key."""
    changed, count = re.subn(rf"^{key}: .*", lambda _: line, QUICKSTART, count=1, flags=re.M)
    assert count == 1
    return changed


def with_more(key: str, lines: str) -> str:
    """The quickstart with entries in front of a key's own."""
    assert f"{key}:\n" in QUICKSTART
    return QUICKSTART.replace(f"{key}:\n", f"{key}:\n{lines}", 1)


def keys(count: int) -> str:
    return ", ".join(f"k{n}: x" for n in range(count))


def bomb(first: str, fold: Callable[[str], str], layers: int) -> str:
    lines = [f"a{n}: &a{n} {fold(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, layers)]
    return "\n".join([f"a0: &a0 {first}", *lines])


CLAIM = "  - {metric: %s, of: strict-priority, against: fifo, change: at most -10 %%}\n"
JOB = "  - {name: j%d, profile: resnet50-thesis%s}\n"
MIX = "  - {name: m%d, sizes: web-search, arrivals: 1 per second per host}\n"
MANY_NODES = "found more than 100000 keys and values"
TOO_LONG = "characters; 10000 are most"
TOO_DEEP = "nested too deeply"

FILES: dict[str, tuple[str | bytes, str]] = {
    "a bomb of merge keys": (bomb("{x: 1}", lambda a: f"{{<<: [{a}]}}", 12), MANY_NODES),
    "a mapping merged often": (
        f"a: &a {{{keys(5000)}}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(20_000)),
        MANY_NODES,
    ),
    "many merged into one": (
        f"a: &a {{x: 1}}\nb: {{{keys(20_000)}, <<: [{'*a, ' * 8000}]}}\n", "b: unknown key"
    ),
    "a bomb of aliases": (bomb("[x, x, x]", lambda a: f"[{a}]", 30), MANY_NODES),
    "an alias that is repeated": (
        QUICKSTART.replace("training:\n", "training: &t\n") + f"x: [{'*t, ' * 240_000}]\n",
        MANY_NODES,
    ),
    "a number to the base 60": ("name: " + "1:" * 400_000 + "1\n", TOO_LONG),
    "seeds to the base 60": (with_line("seeds", f"seeds: [{'1:' * 4000}1]"), "whole number"),
    "a hexadecimal number": (with_line("duration", "duration: 0x" + "f" * 9000), "duration: found"),
    "servers by the million": (
        SERVERS % f"servers_on: [{', '.join(['h1 x999999'] * 20_000)}]",
        "found places for 19999980000 servers; 100000 are the most",
    ),
    "servers without end": (
        JOBS + "".join(
            f"  - {{name: j{n}, profile: resnet50-thesis, aggregation: parameter-server, "
            f"servers: {n + 1}}}\n" for n in range(6400)
        ),
        "servers of all jobs; 100000 are the most",
    ),
    "many keys": (QUICKSTART + "".join(f"key{n}: 1\n" for n in range(60_000)), MANY_NODES),
    "quite many keys": (QUICKSTART + "".join(f"key{n}: 1\n" for n in range(49_000)), "and 48980 m"),
    "many policies": (
        with_line("policies", f"policies: [{', '.join(f'fif{n}' for n in range(80_000))}]"),
        "found 80000 entries; 1000 are the most",
    ),
    "unknown policies": (
        with_line("policies", f"policies: [{', '.join(f'fif{n}' for n in range(1000))}]"),
        "and 980 more",
    ),
    "many claims": (with_more("claims", CLAIM % "flows.small.fct_mean" * 9000), "9001 entries"),
    "unknown metrics": (with_more("claims", CLAIM % "flows.small.fct_men" * 999), "and 979 more"),
    "many jobs": (with_more("training", "".join(JOB % (n, "") for n in range(16_000))), "16001 en"),
    "bad jobs": (
        with_more("training", "".join(JOB % (n, ", order: lyer") for n in range(6000))),
        "and 5980 more",
    ),
    "jobs of one name": (with_more("training", JOB % (1, "") * 6000), "and 5979 more"),
    "many mixes": (with_more("flows", "".join(MIX % n for n in range(12_000))), "12001 entries"),
    "many bands": (
        with_line("policies", f"policies: [{{policy: prio, bands: {{{keys(40_000)}}}}}]"),
        "and 39980 more",
    ),
    "many seeds": (with_line("seeds", f"seeds: [{'x, ' * 90_000}]"), "found 90000 seeds"),
    "many workers": (
        QUICKSTART.replace("workers: all", f"workers: [{'h1, h2, ' * 40_000}]"),
        "found a host twice",
    ),
    "deep brackets": ("a: " + "[" * 400_000, TOO_DEEP),
    "deep brackets that end": ("a: " + "[" * 90_000 + "]" * 90_000, TOO_DEEP),
    "deep braces": ("{a: " * 100_000, TOO_DEEP),
    "deep blocks": ("".join(" " * n + f"a{n}:\n" for n in range(1200)), TOO_DEEP),
    "dashes": ("- " * 400_000, TOO_DEEP),
    "question marks": ("? " * 400_000, TOO_DEEP),
    "a huge word": ("name: " + "x" * 900_000, TOO_LONG),
    "a huge key": ("x" * 900_000 + ": 1", TOO_LONG),
    "a huge text": ("name: |\n" + "  x\n" * 220_000, TOO_LONG),
    "escapes": ('name: "' + "\\n" * 400_000 + '"', TOO_LONG),
    "blanks in a time": (
        with_line("duration", "duration: '4 a" + " " * 9000 + "b'"), "beyond all measure"
    ),
    "a huge tag": ("!" * 900_000, "with the tag"),
    "anchors on keys": (
        "&a0 k0: 1\n" + "".join(f"&a{n} k{n}: *a{n - 1}\n" for n in range(1, 30_000)),
        "and 29982 more",
    ),
    "only comments": ("# x\n" * 240_000, "the file is empty"),
    "empty lists": (f"[{'[],' * 300_000}]", MANY_NODES),
    "NULs": (b"\0" * 900_000, "not valid YAML"),
    "a NUL at the end": (QUICKSTART.encode() + b"\0", "not valid YAML"),
    "UTF-16": (QUICKSTART.encode("utf-16"), "not UTF-8"),
    "UTF-32": (QUICKSTART.encode("utf-32"), "not"),
    "Latin-1": (QUICKSTART.replace("question: ", "question: é").encode("latin-1"), "not UTF-8"),
    "a megabyte": ("#" * 1_000_001, "found more than 1 MB"),
    "keys of all kinds": (QUICKSTART + "1: 2\n~: 3\n2.5: 4\n2020-01-01: 5\n", "nothing: unkn"),
    "a sweep of many points": (
        QUICKSTART + f"sweep: {{topology.hosts: {list(range(2, 30_000))}}}\n", "need --yes"
    ),
    "a sweep of bad values": (
        QUICKSTART + f"sweep: {{seeds.0: {list(range(-16_000, 0))}}}\n", "and at least 1 more"
    ),
}  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused_soon(tmp_path: Path, name: str) -> None:
    content, said = FILES[name]
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    begun_s = time.process_time()
    with pytest.raises(BadInput) as caught:
        (sweep_file.load if "sweep" in name else load)(path)
    took_s = time.process_time() - begun_s
    lines = str(caught.value).split("\n")
    assert said in str(caught.value)
    assert len(lines) == 1 or lines[-1].startswith("and ") or len(lines) <= 20
    assert all(line.isprintable() and len(line) < 1000 for line in lines)
    assert caught.value.exit_code == 2
    assert took_s < LIMIT_S


@pytest.mark.timeout(30)
@pytest.mark.parametrize("where", ["schedule", "experiment"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [("zero", "found a device"), ("pipe", "found a pipe"), ("folder", "found a directory"),
     ("missing", "o such file"), ("null", "found a device"), ("huge", "found more than")],
)  # fmt: skip
def test_only_files_are_read(tmp_path: Path, kind: str, said: str, where: str) -> None:
    target = {"zero": Path("/dev/zero"), "null": Path("/dev/null")}.get(kind, tmp_path / kind)
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "huge":
        with target.open("wb") as file:
            file.truncate(5 * 10**9)  # a hole, not five gigabytes of disk
    settings = [f"flows=[{{name: m, schedule: {target}}}]", "claims=[]"]
    with pytest.raises(BadInput) as caught:
        load(*(EXPERIMENTS / "quickstart.yaml", settings) if where == "schedule" else (target,))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0" * 10**8, "a line is longer than 1000 bytes"),
        (b"start_ns,src,dst,size_byte\n" + b"\0" * 10**8, "a line is longer than 1000 bytes"),
        (b'start_ns,src,dst,size_byte\n"' + b"0,h1,h2,100\n" * 10**6, "not a CSV file"),
        ("start_ns,src,dst,size_byte\n".encode("utf-16"), "not UTF-8"),
        (b"start_ns,src,dst,size_byte\n0,h1,h2,100\n5,h1,\xff,100\n", "not UTF-8"),
        (b"start_ns,src,dst,size_byte\n0,h1,h9,1\n0,h1,h2,100\nx,h1,h2,3\n" + b"0,h1\n" * 3,
         "row 2: dst: found 'h9'; hosts here are h1 to h4 (and 4 more such rows)"),
    ],
)  # fmt: skip
def test_a_bad_schedule_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "mine.csv").write_bytes(content)
    mix = f"flows=[{{name: m, schedule: {tmp_path / 'mine.csv'}}}]"
    with pytest.raises(BadInput) as caught:
        load(EXPERIMENTS / "quickstart.yaml", [mix, "claims=[]"])
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_every_mistake_is_a_line_of_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    wrong = QUICKSTART.replace("480 ms", "480").replace("[fifo,", "[fifa,")
    path.write_text(wrong)
    at = {word: wrong[: wrong.index(word)].count("\n") + 1 for word in ("iteration: 480,", "fifa")}
    done = giveway("run", path, "--engine", "fluid", "--out", tmp_path / "out")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    first, second = (f"giveway: {path}:{line}: " for line in at.values())
    assert lines[0].startswith(f"{first}training.0.iteration: found 480, which has no")
    assert lines[1].startswith(f"{second}policies.0.policy: found 'fifa'")
    assert len(lines) == 2
    assert not (tmp_path / "out").exists()
