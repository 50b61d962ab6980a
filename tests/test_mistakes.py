"""Every mistake of a file at once, each with its line; and none that only follows from another."""

from pathlib import Path

import pytest

from basics.errors import BadInput
from testbed.reproduce import entry
from testbed.spec import load, sweep_file
from testbed.spec.mistakes import Refusal, one_line
from tests.conftest import REPOSITORY, giveway

MANY = """\
name: a/b
question: 3
topology: {kind: tor, hosts: 4, rate: 1 GB/s,
  delay: 10,
  queue: 5 packets}
duration: 4 s
warmup: 1
training:
  - name: one
    profile: resnet50-thesis
    iteration: 480
    ordr: layer
  - {name: two, profile: vgg16, workers: 9}
  - {name: one, profile: resnet50-thesis,
     aggregation: ring, servers: 3, stale: 1}
flows:
  - {name: web, sizes: web-serch, arrivals: 46}
policies: [fifo, {policy: prio, label: fifo}, fq-code]
seeds: [0, x, -1]
claims:
  - {metric: flows.all.fct_p99, of: fifo, value: at most 1}
tcp: vegas
container: {cpus: 0}
"""
FOUND = [
    ("1: name: ", "found 'a/b'"),
    ("2: question: ", "found 3"),
    ("3: topology.rate: ", "unknown unit 'GB/s'"),
    ("4: topology.delay: ", "no unit"),
    ("7: warmup: ", "found 1, which has no unit"),
    ("11: training.0.iteration: ", "found 480, which has no unit"),
    ("12: training.0.ordr: ", "did you mean order"),
    ("13: training.1.profile: ", "found 'vgg16'"),
    ("15: training.2.servers: ", "found beside aggregation: ring"),
    ("15: training.2.stale: ", "found beside aggregation: ring"),
    ("17: flows.0.sizes: ", "did you mean web-search"),
    ("17: flows.0.arrivals: ", "no unit"),
    ("18: policies.2.policy: ", "did you mean fq-codel"),
    ("19: seeds.1: ", "found 'x'"),
    ("19: seeds.2: ", "found -1"),
    ("21: claims.0.value: ", "no unit"),
    ("22: tcp.control: ", "found 'vegas'"),
    ("23: container.cpus: ", "found 0"),
]


def said_of(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        (sweep_file.load if "\nsweep:" in text else load)(path, overrides)
    return [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).split("\n")]


def test_all_mistakes_are_said_in_the_order_of_their_lines(tmp_path: Path) -> None:
    said = said_of(tmp_path, MANY)
    assert len(said) == len(FOUND), said
    for line, (place, words) in zip(said, FOUND, strict=True):
        assert line.startswith(f"my.yaml:{place}")
        assert words in line


GOOD = """\
name: good
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: 10 us, queue: 100 packets}
duration: 4 s
training:
  - &one {name: one, profile: resnet50-thesis, model: 10 MB}
  - {<<: *one, name: two}
flows:
  - {name: web, sizes: web-search, arrivals: 46 per second per host}
policies: [fifo, strict-priority]
seeds: [0]
claims:
  - {metric: flows.all.fct_mean, of: fifo, value: at most 1 s}
"""


def test_what_spans_keys_is_said_with_the_rest(tmp_path: Path) -> None:
    """Labels, names, hosts and metrics are looked at even where other keys are wrong."""
    text = (
        GOOD.replace("1 Gbit/s", "1 Gbit")
        .replace("flows.all.fct_mean", "training.three.iteration_mean")
        .replace("strict-priority]", "{policy: strict-priority, bands: {three: low}}]")
    )
    said = said_of(tmp_path, text)
    assert [line.partition(": found")[0] for line in said] == [
        "my.yaml:2: topology.rate",
        "my.yaml:9: policies.1.bands.three",
        "my.yaml:12: claims.0.metric",
    ]


def test_names_and_labels_are_looked_at_where_hosts_are_unknown(tmp_path: Path) -> None:
    text = GOOD.replace("1 Gbit/s", "1 Gbit").replace("name: web,", "name: two,")
    said = said_of(tmp_path, text.replace("of: fifo", "of: fifa"))
    assert [line.partition(": found")[0] for line in said] == [
        "my.yaml:2: topology.rate",
        "my.yaml:8: flows.0.name",
        "my.yaml:12: claims.0.of",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # an unknown profile: neither its sizes nor metrics of its job are missing
        ("profile: resnet50-thesis, model: 10 MB", "profile: vgg16",
         ["5: training.0.profile: found 'vgg16', an unknown profile; did you mean vgg16-cpu or "
          "vgg19-cpu?"]),
        ("kind: tor", "kind: torr", ["2: topology.kind: found 'torr'"]),
        ("kind: tor", "kind: leaf-spin, leaves: 2", ["2: topology.kind: found 'leaf-spin'"]),
        ("duration: 4 s", "duraton: 4 s", ["3: duraton: unknown key; did you mean duration"]),
        ("[fifo,", "[fifa,", ["9: policies.0.policy: found 'fifa'"]),
        ("duration: 4 s", "duration: 4", ["3: duration: found 4, which has no unit"]),
        ("hosts: 4", "hosts: 0", ["2: topology.hosts: found 0"]),
        ("sizes: web-search", "sizes: web", ["8: flows.0.sizes: found 'web'"]),
        ("name: two", "name: one", ["6: training.1.name: found 'one' twice"]),
        ("of: fifo, value: at most 1 s", "of: fifo, change: at most 1",
         ["12: claims.0.against: a change needs", "12: claims.0.change: found '1'"]),
    ],
)  # fmt: skip
def test_one_mistake_is_one_line(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    assert old in GOOD
    found = said_of(tmp_path, GOOD.replace(old, new, 1))
    # What an anchor holds is wrong wherever it is used; both places lead to the same line.
    found = list({line.replace("training.1.profile", "training.0.profile"): 0 for line in found})
    assert len(found) == len(said), found
    assert all(line.startswith(f"my.yaml:{words}") for line, words in zip(found, said, strict=True))


def test_an_unknown_profile_says_how_to_make_one(tmp_path: Path) -> None:
    text = GOOD.replace("profile: resnet50-thesis, model: 10 MB", "profile: vgg16")
    said = said_of(tmp_path, text.replace("  - {<<: *one, name: two}\n", ""))
    assert len(said) == 1
    assert said[0].endswith("`giveway profile` makes one")
    assert "model" not in said[0]


def test_twenty_are_shown_and_the_rest_are_counted(tmp_path: Path) -> None:
    said = said_of(tmp_path, GOOD + "".join(f"key{n}: 1\n" for n in range(27)))
    assert len(said) == 21
    assert said[19].startswith("my.yaml:32: key19: unknown key")
    assert said[20] == "and 7 more"
    assert len(said_of(tmp_path, GOOD + "".join(f"key{n}: 1\n" for n in range(20)))) == 20


def test_a_line_has_an_end_whatever_it_quotes() -> None:
    assert len(one_line("x" * 5000)) == 1001
    assert len(str(Refusal(["\n" + "é" * 5000, "fine"]))) == 1001 + len("\nfine")


def test_what_was_set_is_named_instead_of_a_line(tmp_path: Path) -> None:
    said = said_of(
        tmp_path, GOOD.replace("[0]", "[-1]"), "topology.rate=5", "training.1.model=x", "duration=9"
    )
    assert said[0].startswith("my.yaml:10: seeds.0: found -1")
    assert sorted(line.partition(": found")[0] for line in said[1:]) == [
        "my.yaml: --set duration=9: duration",
        "my.yaml: --set topology.rate=5: topology.rate",
        "my.yaml: --set training.1.model=x: training.1.model",
    ]


def test_what_was_set_inside_of_what_is_wrong_is_named_too(tmp_path: Path) -> None:
    said = said_of(tmp_path, GOOD, "claims.0.change=at most 5 %")
    assert said == [
        "my.yaml:12: with --set claims.0.change=at most 5 %: claims.0: a claim has either change "
        "(with against) or value; give one of them"
    ]


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    said = said_of(tmp_path, GOOD, "nonsense", "topolgy.rate=1 Gbit/s", "seeds=[0", "seeds=[1]")
    assert len(said) == 3
    assert said[0].startswith("--set nonsense: write it as key=value")
    assert "did you mean topology" in said[1]
    assert said[2].startswith("my.yaml: --set seeds=[0: not valid YAML")


# ---- sweeps ---------------------------------------------------------------------------------

SWEEP = (
    GOOD.replace("value: at most 1 s", "value: at most 9")
    + """\
sweep:
  topology.hosts:
    - 4
    - 1
    - 8
    - x
  speed:
    key: topology.rate
    values:
      slow: 1 Mbit/s
      fast: 100
  both:
    values:
      a: {training.0.iteration: 1 s, training.7.iteration: 1 s}
"""
)


def test_mistakes_of_a_sweep_have_lines_and_points(tmp_path: Path) -> None:
    text = SWEEP[: SWEEP.index("  both:")]
    said = said_of(tmp_path, text)
    assert [line.partition("found")[0] for line in said] == [
        "my.yaml:12: claims.0.value: ",
        "my.yaml:16: topology.hosts: ",
        "my.yaml:18: topology.hosts: ",
        "my.yaml:23: topology.rate: ",
    ]
    assert "point" not in said[0]  # it is wrong at every point
    assert said[1].endswith("(at the sweep's point topology.hosts: 1, speed: slow)")
    assert said[3].endswith("(at the sweep's point topology.hosts: 4, speed: fast)")


def test_a_path_that_a_sweep_cannot_set_is_named_by_its_value(tmp_path: Path) -> None:
    said = said_of(tmp_path, GOOD + SWEEP[SWEEP.index("sweep:\n") :].replace("- 1\n    - 8", "- 8"))
    assert said[0].startswith("my.yaml:25: sweep.both.values.a: training.7.iteration: unknown path")


def test_all_mistakes_of_the_block_itself(tmp_path: Path) -> None:
    block = """\
sweep:
  policy: [fifo]
  a: {vals: [1], titel: x}
  b: 3
  c: {key: seeds.0, values: [1, 1, [2]]}
"""
    said = said_of(tmp_path, GOOD + block)
    assert [line.split(": ")[:2] for line in said] == [
        ["my.yaml:14", "sweep.policy"],
        ["my.yaml:15", "sweep.a.vals"],
        ["my.yaml:15", "sweep.a.titel"],
        ["my.yaml:16", "sweep.b"],
        ["my.yaml:17", "sweep.c"],
        ["my.yaml:17", "sweep.c"],
    ]


# ---- reproductions --------------------------------------------------------------------------

ENTRY = """\
source: a paper
shows: something
takes: long
sweep: experiments/thesis-grid.yaml
compute: sluck
views:
  - {kind: mep, title: 3, points: 7}
published:
  - {what: x, metric: flows.small.fct_mean, of: fifo, value: 3, tolerance: 2 %, reason: because}
  - {what: x, metric: flows.small.fct_mean, of: fifo, over: a, labels: [b, c],
     values: [1 s, x], tolerance: much, reason: because, holds: false}
  - 3
"""


def test_all_mistakes_of_a_reproduction(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(ENTRY)
    with pytest.raises(BadInput) as caught:
        entry.read(path)
    said = [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).split("\n")]
    assert [line.partition(": found")[0].partition(": missing")[0] for line in said] == [
        "my.yaml:5: compute",
        "my.yaml:7: views.0.kind",
        "my.yaml:7: views.0.title",
        "my.yaml:7: views.0.points",
        "my.yaml:9: published.0.value",
        "my.yaml:10: published.1.why",
        "my.yaml:11: published.1.tolerance",
        "my.yaml:11: published.1.values.1",
        "my.yaml:12: published.2",
    ]


def test_every_entry_that_ships_still_loads() -> None:
    assert all(entry.load(name).source for name in entry.names())


# ---- the command line -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "9223372036854775808"], "--seed 9223372036854775808: found"),
        (["--seed", "9" * 400], "--seed an enormous number"),
        (["--seed", "0", "--seed", "-3"], "--seed -3: found -3"),
        (["--policy", "strict"], "did you mean strict-priority"),
        (["--expect", "abc"], "--expect 'abc': a digest is 64 digits"),
        (["--expect", "0123456"], "a digest is 64 digits"),
        (["--expect", "0" * 65], "a digest is 64 digits"),
        (["--expect", "0" * 64, "--engine", "realtime"], "never the same twice"),
        (["--out", "x" * 300], "the name is too long"),
        (["--out", "no/such/" + "x" * 300 + "/y"], "the name is too long"),
        (["--out", "/tmp/" + "x/" * 2100], "the name is too long"),
        (["--out", "/dev/null/x"], "Not a directory"),
        (["--out", "/dev/null"], "not a folder"),
        (["--out", "/proc/giveway"], "cannot write there"),
    ],
)
def test_options_are_looked_at_before_anything_runs(options: list[str], said: str) -> None:
    engine = [] if "realtime" in options else ["--engine", "fluid"]
    done = giveway("run", "experiments/quickstart.yaml", *engine, *options)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("giveway: --")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_folder_that_nobody_may_write_in_is_refused(tmp_path: Path) -> None:
    out = "/sys/giveway"  # read-only even for root
    for command in (
        ("run", "experiments/quickstart.yaml", "--engine", "fluid"),
        ("sweep", "experiments/thesis-grid.yaml", "--engine", "fluid"),
        ("reproduce", "thesis/figure-4.7"),
    ):
        done = giveway(*command, "--out", out, wait=False)
        assert done.returncode == 2, done.stderr
        assert f"--out {out}: cannot write there: " in done.stderr
        assert done.stderr.count("\n") == 1
    for command in (
        ("report", tmp_path, "--picture", "/sys/x.png"),
        ("report", tmp_path, "--picture", "x" * 300 + ".png"),
        ("profile", "--model", "vgg16", "--out", "/sys/x.csv"),
        ("profile", "--model", "vgg16", "--out", "x" * 300 + ".csv"),
    ):
        done = giveway(*command, wait=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("giveway: --")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("folder", ["x" * 300, "/dev/zero", "/dev/null/x", "no-such-folder"])
def test_what_cannot_be_a_folder_of_runs_is_refused(folder: str) -> None:
    for command in (("report", folder), ("agree", folder, folder)):
        done = giveway(*command)
        assert done.returncode == 2
        assert "not a folder; give the one that" in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_experiment_that_ships_has_no_mistake() -> None:
    for path in sorted((REPOSITORY / "experiments").glob("*.yaml")):
        text = path.read_text()
        found = sweep_file.load(path).first if "\nsweep:" in text else load(path)
        assert found.question, path.name  # `giveway list` and reports begin with it
