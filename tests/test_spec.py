"""Experiment files: what loads, what is refused, and that a refusal is always one useful line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics import units
from basics.errors import BadInput
from testbed.spec import Experiment, load
from testbed.spec.yaml_nodes import composed

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
QUICKSTART = (EXPERIMENTS / "quickstart.yaml").read_text(encoding="utf-8")
SECOND = 1_000_000_000

Loader = Callable[..., Experiment]


@pytest.fixture
def from_text(tmp_path: Path) -> Loader:
    def load_text(text: str | bytes, *overrides: str) -> Experiment:
        path = tmp_path / "my.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load(path, overrides)

    return load_text


def refusal(loader: Loader, text: str | bytes, *overrides: str) -> str:
    with pytest.raises(BadInput) as caught:
        loader(text, *overrides)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert "my.yaml" in message
    assert caught.value.exit_code == 2
    return message


# ---- what loads ----------------------------------------------------------------------------


def test_quickstart_is_what_the_design_says() -> None:
    quickstart = load(EXPERIMENTS / "quickstart.yaml")
    assert quickstart.name == "quickstart"
    topology = quickstart.topology
    assert (topology.kind, topology.hosts, topology.rate_bps) == ("tor", 4, 10**9)
    assert (topology.delay.ns, topology.delay.strict, topology.queue_packets) == (
        10_000,
        False,
        1000,
    )
    assert (quickstart.duration_ns, quickstart.window_ns) == (4 * SECOND, (SECOND, 3 * SECOND))
    (job,) = quickstart.training
    assert (job.model_byte, job.fusion_byte, job.iteration_ns) == (10**7, 540_000, 480_000_000)
    assert (job.order, job.barrier, job.backend, job.check) == ("layer", False, "native", False)
    assert job.host_names == ("h1", "h2", "h3", "h4") == quickstart.host_names
    assert max(layer.bytes for layer in job.scaled_profile.layers) < job.fusion_byte
    (mix,) = quickstart.flows
    assert (mix.sizes, mix.scale, mix.arrivals_per_second) == ("web-search", 0.1, 46.0)
    assert (mix.small_max_byte, mix.large_min_byte) == (10_000, 1_000_000)
    assert [choice.label for choice in quickstart.policies] == ["fifo", "strict-priority"]
    assert quickstart.seeds == (0, 1, 2)
    assert (quickstart.tcp, quickstart.offload, quickstart.dilation) == ("cubic", "auto", "auto")


def test_rack_10g_is_the_quickstart_at_full_scale() -> None:
    rack = load(EXPERIMENTS / "rack-10g.yaml")
    assert (rack.topology.hosts, rack.topology.rate_bps) == (8, 10**10)
    (job,) = rack.training
    workers = len(job.host_names)
    sending_ns = job.model_byte * 2 * (workers - 1) * 8 * SECOND // (workers * 10**10)
    assert job.iteration_ns == 4 * sending_ns == 560_000_000
    assert job.fusion_byte > 5_333_328
    assert rack.flows[0].scale == 1


def test_an_experiment_cannot_be_changed() -> None:
    quickstart = load(EXPERIMENTS / "quickstart.yaml")
    with pytest.raises(ValueError, match="frozen"):
        quickstart.topology.hosts = 5


def test_a_job_takes_its_profiles_nominal_sizes(from_text: Loader) -> None:
    text = QUICKSTART.replace("model: 10 MB, ", "").replace(
        "iteration: 480 ms, fusion: 0.54 MB, ", ""
    )
    (job,) = from_text(text).training
    assert (job.model_byte, job.iteration_ns, job.fusion_byte) == (10**8, 280_000_000, 64 * 10**6)


@pytest.mark.parametrize(
    ("workers", "hosts"), [("all", 4), ("3", 3), ("[h4, h2]", ("h4", "h2")), ("[h1, h3, h2]", 0)]
)
def test_workers_by_number_or_name(from_text: Loader, workers: str, hosts: Any) -> None:
    (job,) = from_text(QUICKSTART, f"training.0.workers={workers}").training
    if isinstance(hosts, int) and hosts:
        assert job.host_names == tuple(f"h{n}" for n in range(1, hosts + 1))
    else:
        assert job.host_names == tuple(yaml.safe_load(workers))


def test_a_policy_can_be_labelled_and_its_bands_chosen(from_text: Loader) -> None:
    choice = "{policy: strict-priority, label: same, bands: {resnet50: high}}"
    experiment = from_text(QUICKSTART, f"policies.0={choice}", "claims=[]")
    same, other = experiment.policies[0], experiment.policies[1]
    assert (same.policy, same.label) == ("strict-priority", "same")
    assert experiment.bands(same) == {"resnet50": "high", "web-search": "high"}
    assert experiment.bands(other) == {"resnet50": "low", "web-search": "high"}


def test_overrides_reach_everything(from_text: Loader) -> None:
    experiment = from_text(
        QUICKSTART,
        "seeds=[7]",
        "training.0.check=true",
        "topology.rate=2 Gbit/s",
        "topology.delay=5 us",
        "policies.1=htb-priority",
        "claims=[]",
        "offload=off",
        "dilation=2.5",
        "tcp=reno",
    )
    assert experiment.seeds == (7,)
    assert experiment.training[0].check
    assert experiment.topology.rate_bps == 2 * 10**9
    assert experiment.topology.delay.strict
    assert experiment.policies[1].policy == "htb-priority"
    assert (experiment.offload, experiment.dilation, experiment.tcp) == (False, 2.5, "reno")


def test_an_override_changes_one_place_even_under_a_yaml_anchor(from_text: Loader) -> None:
    text = QUICKSTART.replace("flows:\n  - {", "flows:\n  - &web {").replace(
        "# Every policy", "  - {<<: *web, name: other}\n# Every policy"
    )
    experiment = from_text(text, "flows.0.scale=0.5")
    assert [mix.scale for mix in experiment.flows] == [0.5, 0.1]


def test_claims_are_parsed_to_a_bound_and_base_units(from_text: Loader) -> None:
    claims = [
        "{metric: flows.all.fct_p99, of: fifo, value: at most 500 ms}",
        "{metric: training.resnet50.slowdown, of: fifo, value: at least 1.25}",
        "{metric: training.resnet50.iteration_mean, of: strict-priority, against: fifo,"
        " change: at least +2.5 %}",
    ]
    parsed = from_text(QUICKSTART, f"claims=[{', '.join(claims)}]").claims
    assert [(c.kind, c.bound, c.value) for c in parsed] == [
        ("value", "at most", 500_000_000.0),
        ("value", "at least", 1.25),
        ("change", "at least", 0.025),
    ]


def test_the_plan_is_the_contract() -> None:
    links = [{"link": "h1->s1", "rate_bps": 10**9}]
    plan = load(EXPERIMENTS / "quickstart.yaml").plan("realtime", "giveway run x", links)
    assert json.loads(json.dumps(plan)) == plan
    assert plan["links"] == links
    assert plan["window_ns"] == [SECOND, 3 * SECOND]
    assert plan["policies"][0]["bands"] == ["all"]
    assert plan["mixes"] == [
        {"name": "web-search", "small_max_byte": 10_000, "large_min_byte": 1_000_000}
    ]
    (job,) = plan["jobs"]
    assert (job["workers"], job["hosts"]) == (4, ["h1", "h2", "h3", "h4"])
    assert (job["model_byte"], job["compute_ns"]) == (9_822_185, 480_391_706)
    assert plan["claims"] == [
        {
            "metric": "flows.small.fct_mean",
            "of": "strict-priority",
            "against": "fifo",
            "kind": "change",
            "bound": "at most",
            "value": -0.1,
            "text": "change: at most -10 %",
        }
    ]


# ---- what is refused -----------------------------------------------------------------------

LINK = "rate: 1 Gbit/s, delay: 1 us, queue: 100 packets"
LEAF_SPINE = (
    "{kind: leaf-spine, hosts: 4, leaves: %s, spines: 2, oversubscription: %s, " + LINK + "}"
)
FAT_TREE = "{kind: fat-tree, k: %s, " + LINK + "}"

REFUSED = [
    # (override, the key that must be named, what else must be said)
    ("topolgy=1", "topolgy", "did you mean topology"),
    ("topology.rat=1 Gbit/s", "topology.rat", "did you mean rate"),
    ("topology.rate_bps=1 Gbit/s", "topology.rate_bps", "unknown key"),
    ("training.0.ordr=layer", "training.0.ordr", "did you mean order"),
    ("duration=4", "duration", "found 4, which has no unit"),
    ("topology.rate=1", "topology.rate", "has no unit"),
    ("topology.rate=0 Gbit/s", "topology.rate", "above zero"),
    ("topology.rate=-1 Gbit/s", "topology.rate", "negative"),
    ("topology.rate=1000.1 Tbit/s", "topology.rate", "1000 Tbit/s are the most"),
    ("topology.rate=1 GB/s", "topology.rate", "Gbit/s"),
    ("topology.queue=0 packets", "topology.queue", "above zero"),
    ("topology.delay=roughly 10 us", "topology.delay", "10 us"),
    ("topology.kind=torus", "topology.kind", "did you mean tor"),
    ("topology.hosts=1", "topology.hosts", "2 to 8192"),
    ("topology.hosts=1000000000", "topology.hosts", "2 to 8192"),
    ("topology.hosts='4'", "topology.hosts", "whole number"),
    ("topology.hosts=true", "topology.hosts", "whole number"),
    ("topology=tor", "topology", "a topology is a mapping"),
    ("topology={kind: tor}", "topology.hosts", "missing"),
    ("topology.leaves=2", "topology.leaves", "unknown key"),
    ("topology.options={}", "topology.options", "unknown key"),
    ("topology.kind=leaf-spine", "topology.leaves", "missing, and so are spines; a topology"),
    (f"topology={{kind: leaf-spine, hosts: 4, leafs: 2, spines: 2, {LINK}}}",
     "topology.leafs", "did you mean leaves"),
    (f"topology={LEAF_SPINE % ('3', '2')}", "topology.hosts", "a multiple of leaves, 3"),
    (f"topology={LEAF_SPINE % ('0', '2')}", "topology.leaves", "a whole number, 1 to 256"),
    (f"topology={LEAF_SPINE % ('2', 'many')}", "topology.oversubscription", "a number, 1 to 100"),
    (f"topology={LEAF_SPINE % ('2', '0.5')}", "topology.oversubscription", "a number, 1 to 100"),
    (f"topology={LEAF_SPINE % ('2', '.nan')}", "topology.oversubscription", "a number, 1 to 100"),
    (f"topology={FAT_TREE % '5'}", "topology.k", "an even number, 2 to 32"),
    (f"topology={FAT_TREE % '34'}", "topology.k", "an even number, 2 to 32"),
    (f"topology={FAT_TREE % '2, hosts: 3'}", "topology.hosts", "room for 2"),
    ("training.0.workers=5", "training.0.workers", "only 4 hosts"),
    ("training.0.workers=1", "training.0.workers", "2 or more"),
    ("training.0.workers=-3", "training.0.workers", "2 or more"),
    ("training.0.workers=[h1, h9]", "training.0.workers", "unknown host"),
    ("training.0.workers=[h1, h1]", "training.0.workers", "twice"),
    ("training.0.workers=some", "training.0.workers", "all, a number"),
    ("training.0.profile=resnet50", "training.0.profile", "resnet50-cpu or resnet50-thesis"),
    ("training.0.profile=[]", "training.0.profile", "unknown profile"),
    ("training.0.model=0 MB", "training.0.model", "above zero"),
    ("training.0.backend=tensorflow", "training.0.backend", "known: native, torch, horovod"),
    ("training.0.barrier=1", "training.0.barrier", "true or false"),
    ("training.0.name=a/b", "training.0.name", "letters, digits"),
    ("training.0.name=web-search", "flows.0.name", "twice"),
    ("training=7", "training", "must be a list"),
    ("training=[7]", "training.0", "a training job is a mapping"),
    ("flows.0.sizes=web-serch", "flows.0.sizes", "did you mean web-search"),
    ("flows.0.arrivals=46 per second", "flows.0.arrivals", "46 per second per host"),
    ("flows.0.arrivals=46", "flows.0.arrivals", "has no unit"),
    ("flows.0.arrivals=0 per second per host", "flows.0.arrivals", "above zero"),
    ("flows.0.arrivals=1e30 per second per host", "flows.0.arrivals", "20000000 are the most"),
    ("flows.0.scale=0", "flows.0.scale", "a number from"),
    ("flows.0.scale=.nan", "flows.0.scale", "a number from"),
    ("flows.0.scale=.inf", "flows.0.scale", "a number from"),
    ("flows.0.schedule=x.csv", "flows.0.sizes", "either drawn or replayed"),
    ("flows.0={name: a}", "flows.0", "neither sizes nor schedule"),
    ("flows.0={name: a, sizes: web-search}", "flows.0.arrivals", "missing"),
    ("flows.0={name: a, schedule: none.csv}", "flows.0.schedule", "No such file"),
    ("flows.0={name: a, schedule: null}", "flows.0.schedule", "path of a CSV"),
    ("policies=[]", "policies", "at least one policy"),
    ("policies=", "policies", "at least one policy"),
    ("policies.0=fifa", "policies.0.policy", "did you mean fifo"),
    ("policies.0=[]", "policies.0", "mapping"),
    ("policies.0={label: x}", "policies.0.policy", "missing"),
    ("policies.0=strict-priority", "policies.1.label", "twice"),
    ("policies.0={policy: fifo, label: ../x}", "policies.0.label", "letters, digits"),
    ("policies.0={policy: fifo, label: plan.json}", "policies.0.label", "run folder"),
    ("policies.0={policy: fifo, bands: {resnet50: low}}", "policies.0.bands.resnet50", "all"),
    ("policies.0={policy: fifo, bands: {resnet: all}}", "policies.0.bands.resnet", "resnet50"),
    ("policies.0={policy: fifo, quantum: 3}", "policies.0.quantum", "unknown key"),
    ("policies.0={policy: fifo, options: {}}", "policies.0.options", "unknown key"),
    ("policies.0={policy: htb-priority, hihg: 0.4}", "policies.0.hihg", "did you mean high"),
    ("policies.0={policy: htb-priority, low: 0}", "policies.0.low", "a number, 0.001 to 1; 0.2"),
    ("policies.0={policy: htb-priority, low: 20 %}", "policies.0.low", "a number, 0.001 to 1"),
    ("policies.0={policy: htb-priority, low: 0.4}", "policies.0", "floors add up to 1.2 of the"),
    ("policies.0={policy: slack-aware, tolerance: -1}", "policies.0.tolerance", "0 to 1; 0.01"),
    ("policies.0={policy: tensorlights-rr, period: 5}", "policies.0.period", "has no unit"),
    ("seeds=[]", "seeds", "1 to 10000"),
    ("seeds=0", "seeds", "must be a list"),
    ("seeds=[1, 1]", "seeds", "twice"),
    ("seeds=[0, -1]", "seeds.1", "whole number"),
    ("seeds=[0, 1.5]", "seeds.1", "whole number"),
    (f"seeds={list(range(10_001))}", "seeds", "found 10001 seeds"),
    ("duration=2 s", "duration", "longer than warmup plus cooldown, 2 s"),
    ("duration=0 s", "duration", "above zero"),
    ("warmup=-1 s", "warmup", "negative"),
    ("name=a/b", "name", "letters, digits"),
    ("name=..", "name", "letters, digits"),
    ("name=12", "name", "letters, digits"),
    ("question=[]", "question", "text"),
    ("tcp=vegas", "tcp.control", "cubic, reno, bbr, dctcp"),
    ("offload=maybe", "offload", "on, off or auto"),
    ("dilation=0.5", "dilation", "auto or a number from 1"),
    ("dilation=.inf", "dilation", "auto or a number from 1"),
    ("claims.0.metric=flows.small.fct_men", "claims.0.metric", "flows.small.fct_mean"),
    ("claims.0.metric=training.vgg.slowdown", "claims.0.metric", "training.resnet50.slowdown"),
    ("claims.0.of=priority", "claims.0.of", "did you mean strict-priority"),
    ("claims.0.against=strict-priority", "claims.0.against", "the same as of"),
    ("claims.0.change=-10 %", "claims.0.change", "at most"),
    ("claims.0.change=at most -10", "claims.0.change", "has no unit"),
    ("claims.0.value=at most 1 s", "claims.0", "either change"),
    ("claims.0={metric: flows.all.fct_mean, of: fifo, value: at most 5}", "claims.0.value", "unit"),
    ("claims.0={metric: flows.all.unfinished, of: fifo, value: at most 5 s}",
     "claims.0.value", "plain"),
    ("claims.0={metric: flows.all.slowdown_p99, of: fifo, value: at most 5 s}",
     "claims.0.value", "plain"),
    ("claims.0={metric: links.utilisation_mean, of: fifo, value: at most 5 s}",
     "claims.0.value", "share"),
    ("claims.0={metric: jobs.jct_mean, of: fifo, value: at most 5 s}",
     "claims.0.metric", "not in this file"),
    ("claims.0={metric: flows.all.nonsense, of: fifo, value: at most a lot}",
     "claims.0.metric", "unknown"),
    ("claims.0={metric: links.high, of: fifo, value: at most 5 %}", "claims.0.metric", "unknown"),
    ("claims.0={metric: flows.all.fct_mean, of: fifo, change: at most 5 %}",
     "claims.0.against", "compare"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "key", "says"), REFUSED, ids=[row[0][:50] for row in REFUSED])
def test_bad_values_are_refused_by_key(
    from_text: Loader, override: str, key: str, says: str
) -> None:
    message = refusal(from_text, QUICKSTART, override)
    assert f": {key}: " in message
    assert "--set " in message or not override.startswith(key)
    assert says in message
    assert len(message) < 700


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("nonsense", "key=value"),
        ("=3", "key=value"),
        ("trainin.0.order=layer", "did you mean training"),
        ("training.1.order=layer", "indexes 0 to 0"),
        ("training.first.order=layer", "found 'first'"),
        ("name.first=x", "has no key 'first'"),
        ("seeds=[0", "--set seeds=[0"),
        ("name=a: b: c", "--set name"),
    ],
)
def test_bad_overrides_are_named(tmp_path: Path, override: str, says: str) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(QUICKSTART)
    with pytest.raises(BadInput) as caught:
        load(path, [override])
    assert f"--set {override}" in str(caught.value)
    assert says in str(caught.value)


def test_a_bad_value_from_the_command_line_says_so(from_text: Loader) -> None:
    said = refusal(from_text, QUICKSTART, "topology.rate=5")
    assert "my.yaml: --set topology.rate=5: topology.rate: found 5, which has no unit" in said
    assert "--set" not in refusal(from_text, QUICKSTART.replace("1 Gbit/s,", "1,"), "seeds=[1]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("- a\n- b\n", "found a list"),
        ("just words", "a mapping"),
        ("name: [\n", "my.yaml:2: not valid YAML: "),
        ("a: b\n\tc: d\n", "my.yaml:2: not valid YAML: "),
        ("a: 1\nb: 2\na: 3\n", "my.yaml:3: found the key 'a' twice"),
        ("t: {k: 1, k: 2}\n", "my.yaml:1: found the key 'k' twice"),
        ("t: {1: 1, true: 2}\n", "my.yaml:1: found the key True twice"),
        (b"name: \xff\xfe\n", "my.yaml:1: found bytes that are not UTF-8"),
        (QUICKSTART.encode("utf-16"), "my.yaml:1: found bytes that are not UTF-8"),
        ("name: a\nb: \x00\n", "my.yaml:2: not valid YAML: "),
        ('name: "\\ud800"\n', "my.yaml:1: not valid YAML: "),
        ("name: !!python/object:os.system x\n", "my.yaml:1: found 'x' with the tag"),
        ("name: !!int x\n", "my.yaml:1: found 'x' with the tag"),
        ("name: !!set {x}\n", "my.yaml:1: found the tag"),
        ("a:\n  - " + "[" * 5000, "my.yaml:2: found brackets or blocks nested too deeply"),
        ("x" * 1_000_001, "more than 1 MB"),
        ("a: 1\n---\nb: 1\n", "my.yaml:2: found a second document"),
        ("? [a, b]\n: 2", "my.yaml:1: found a list as a key"),
        ("name: &a [*a]\n", "my.yaml:1: found *a, but no complete &a"),
        ("{name: x, topology: &a {kind: *a}}", "my.yaml:1: found *a, but no complete &a"),
        ("x:\n  <<: 3\n", "my.yaml:2: found 3 beside <<; it merges mappings"),
    ],
)
def test_files_that_are_no_experiment(from_text: Loader, text: str | bytes, says: str) -> None:
    assert says in refusal(from_text, text)


@pytest.mark.parametrize("text", ["{}", "1: 2", "&a a: *a\n", "a: " + "9" * 5000, "~: x"])
def test_files_that_lack_everything(from_text: Loader, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_text(text)
    said = str(caught.value)
    assert "my.yaml:1: name: missing, and so are topology, duration, policies, seeds;" in said
    assert ("unknown key" in said) == (text != "{}")


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", "010"), ("1:30", "1:30"), ("1:30.5", "1:30.5"), ("2020-01-01", "2020-01-01"),
     ("1_000", 1000), ("0x10", 16), ("-.inf", float("-inf")), ("off", False), ("~", None),
     ("'1'", "1"), ("!!str 1", "1"), ("1" * 41, "1" * 41), ("=", "=")],
)  # fmt: skip
def test_what_a_plain_word_means(text: str, value: object) -> None:
    node = composed(f"a: {text}")
    assert node is not None
    assert node.data == {"a": value}


def test_merged_keys_yield_to_own_ones_and_to_earlier_ones() -> None:
    node = composed("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\n")
    assert node is not None
    assert node.data["c"] == {"x": 3, "y": 1, "z": 2}


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(BadInput, match="found a directory"):
        load(tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        load(tmp_path / ("x" * 300))


def test_a_yaml_bomb_does_not_go_off(from_text: Loader) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "more than 100000 keys and values" in refusal(from_text, "\n".join(lines) + "\n")


def test_a_replayed_mix_is_read_beside_the_file(from_text: Loader, tmp_path: Path) -> None:
    mix = "flows.0={name: mine, schedule: mine.csv, scale: 0.5}"
    (tmp_path / "mine.csv").write_text("start_ns,src,dst,size_byte\n0,h1,h2,100\n5,h2,h1,15\n")
    message = refusal(from_text, QUICKSTART, mix)
    assert "flows.0.schedule: " in message
    assert "row 3: size_byte: found 15" in message
    (tmp_path / "mine.csv").write_text("start_ns,src,dst,size_byte\n0,h1,h2,100\n")
    (loaded,) = from_text(QUICKSTART, mix).flows
    assert loaded.schedule == tmp_path / "mine.csv"
    assert (loaded.small_max_byte, loaded.large_min_byte) == (50_000, 5_000_000)


# ---- properties ----------------------------------------------------------------------------

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
TIMES = st.integers(1, 10**11).map(units.format_time)
SIZES = st.integers(1, 10**12).map(units.format_size)
RATES = st.floats(0.001, 100).map(lambda rate: f"{units.format_per_second(rate)} per host")


TOLD = st.fixed_dictionaries(
    {"policy": st.just("htb-priority")},
    optional={"high": st.floats(0.001, 0.5), "middle": st.floats(0.001, 0.3)},
) | st.fixed_dictionaries(
    {"policy": st.just("tensorlights-rr")},
    optional={"period": st.integers(1_000, 10**13).map(units.format_time)},
)
TOLD = st.lists(TOLD, max_size=2, unique_by=lambda choice: choice["policy"])


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    hosts = draw(st.integers(2, 64))
    host_names = [f"h{n}" for n in range(1, hosts + 1)]
    names = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    jobs, mixes = names[: len(names) // 2], names[len(names) // 2 :]
    workers = (
        st.just("all")
        | st.integers(2, hosts)
        | st.lists(st.sampled_from(host_names), min_size=2, unique=True)
    )
    kinds = [
        {"kind": "tor"},
        {"kind": "leaf-spine", "leaves": hosts, "spines": 3, "oversubscription": 1.5},
        {"kind": "fat-tree", "k": 8},
    ]
    warmup, cooldown, rest = (draw(st.integers(1, 10**10)) for _ in range(3))
    policy = {"policy": "strict-priority", "label": "other"}
    if draw(st.booleans()):
        policy["bands"] = {draw(st.sampled_from(names)): draw(st.sampled_from(["high", "low"]))}  # type: ignore[assignment]
    return {
        "name": draw(NAMES),
        "question": draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
        "topology": {
            **draw(st.sampled_from(kinds)),
            "hosts": hosts,
            "rate": units.format_rate(draw(st.integers(10, 10**12))),
            "delay": draw(st.sampled_from(["", "about "])) + draw(TIMES),
            "queue": units.format_packets(draw(st.integers(1, 10**6))),
        },
        "duration": units.format_time(warmup + cooldown + rest),
        "warmup": units.format_time(warmup),
        "cooldown": units.format_time(cooldown),
        "training": [
            {
                "name": name,
                "profile": draw(st.sampled_from(["resnet50-thesis", "thesis-figure-4.7"])),
                "workers": draw(workers),
                "order": draw(st.sampled_from(["fifo", "layer"])),
                "barrier": draw(st.booleans()),
                "check": draw(st.booleans()),
                **draw(st.fixed_dictionaries({}, optional={"model": SIZES, "iteration": TIMES})),
            }
            for name in jobs
        ],
        "flows": [
            {
                "name": name,
                "sizes": draw(st.sampled_from(["web-search", "data-mining"])),
                "scale": draw(st.floats(1e-6, 1000)),
                "arrivals": draw(RATES),
            }
            for name in mixes
        ],
        "policies": ["fifo", policy, *draw(TOLD)],
        "seeds": draw(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5, unique=True)),
        "claims": [
            {
                "metric": f"training.{jobs[0]}.iteration_p99",
                "of": "other",
                "against": "fifo",
                "change": f"at least {draw(st.decimals(-100, 900, places=2))} %",
            }
        ],
        "tcp": draw(st.sampled_from(["cubic", "reno", "bbr", "dctcp"])),
        "offload": draw(st.sampled_from([True, False, "auto"])),
        "dilation": draw(st.just("auto") | st.floats(1, 1e6)),
    }


SHARED_FOLDER = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(experiments())
@SHARED_FOLDER
def test_a_resolved_file_loads_back_to_the_same(from_text: Loader, data: dict[str, Any]) -> None:
    experiment = Experiment.model_validate(data)
    again = from_text(experiment.to_yaml())
    assert again == experiment
    assert again.to_yaml() == experiment.to_yaml()


def test_a_resolved_replay_loads_from_anywhere(from_text: Loader, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("start_ns,src,dst,size_byte\n0,h1,h2,100\n")
    experiment = from_text(QUICKSTART, "flows.0={name: mine, schedule: mine.csv}")
    elsewhere = tmp_path / "out" / "experiment.yaml"
    elsewhere.parent.mkdir()
    elsewhere.write_text(experiment.to_yaml())
    assert load(elsewhere) == experiment


def loads_or_is_refused_line_by_line(loader: Loader, text: str | bytes, *overrides: str) -> None:
    message = ""
    try:
        loader(text, *overrides)
    except BadInput as error:
        message = str(error)
    lines = message.split("\n")
    assert len(lines) <= 21
    assert all(line.isprintable() and len(line) < 2000 for line in lines)
    assert all("my.yaml" in line or line.startswith(("and ", "--set ")) for line in lines if line)


PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", "-", "&a ", "*a", "!!int ", "!!set ", "\t", "\n", "'", '"', "|",
     "<<: ", "null", "~", ".nan", "-1", "1e400", "0x", "1:2", "2020-13-99",
     "\x85", "\u2028", "\ufeff", "\\"]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = QUICKSTART.encode()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 30)))
        new = draw(st.binary(max_size=4) | (PIECES | st.text(max_size=5)).map(str.encode))
        raw = raw[:start] + new + raw[end:]
    return raw


@given(mutated())
@settings(SHARED_FOLDER, max_examples=200)
def test_a_damaged_file_loads_or_is_refused(from_text: Loader, raw: bytes) -> None:
    loads_or_is_refused_line_by_line(from_text, raw)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = st.sampled_from(
    ["name", "question", "topology", "topology.hosts", "topology.delay", "duration", "training",
     "training.0", "training.0.workers", "training.0.profile", "training.0.model", "flows",
     "flows.0", "flows.0.sizes", "flows.0.schedule", "flows.0.pairs", "policies", "policies.0",
     "seeds", "claims", "claims.0", "claims.0.metric", "claims.0.change", "tcp", "offload",
     "dilation", "warmup"]
)  # fmt: skip


@given(PATHS | st.text(max_size=12), JUNK)
@settings(SHARED_FOLDER, max_examples=200)
def test_any_value_anywhere_loads_or_is_refused(
    from_text: Loader, path: str, value: object
) -> None:
    loads_or_is_refused_line_by_line(from_text, QUICKSTART, f"{path}={json.dumps(value)}")
