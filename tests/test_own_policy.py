"""Somebody's own policy: one file, and every engine takes it, or says in one line why not."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

import policies.link
from basics.errors import BadInput, CannotRun
from policies.link import Port, link_policies
from testbed.engine import Run, demand_features
from testbed.fluid import engine as fluid
from testbed.fluid.world import Records
from testbed.live import tc
from testbed.spec import Experiment, load
from tests.conftest import REPOSITORY
from tests.promises import urgent_share

# The file that CONTRIBUTING.md shows: two queues, of which the low one is sure of a share.
[OWN] = re.findall(
    "^```python\n(.*?)^```$", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.S | re.M
)
FILE = """
name: own
topology: {kind: tor, hosts: 3, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 500 ms
flows:
  - {name: urgent, schedule: urgent.csv}
  - {name: patient, schedule: patient.csv}
policies: [{policy: sure-of-some, bands: {urgent: high, patient: low}}]
seeds: [0]
"""
PORT = Port("h1-eth0", 10**9, 1000)
Add = Callable[[str], None]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """Puts a file where policies are looked for."""
    folder = tmp_path / "link"
    folder.mkdir()
    monkeypatch.setattr(policies.link, "__path__", [*policies.link.__path__, str(folder)])
    link_policies.cache_clear()
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def added(code: str) -> None:
        (folder / f"own_{abs(hash(code))}.py").write_text(code)

    yield added
    link_policies.cache_clear()


def experiment(folder: Path, *settings: str) -> Experiment:
    (folder / "own.yaml").write_text(FILE)
    for name, src in (("urgent", "h1"), ("patient", "h2")):
        rows = f"0,{src},h3,1000000000\n"
        (folder / f"{name}.csv").write_text("start_ns,src,dst,size_byte\n" + rows)
    return load(folder / "own.yaml", settings)


def patient_share(asked: Experiment) -> float:
    """Of the port that both fill, in the second half of the run."""
    fluid.demand(asked)
    records = Records()
    setting = fluid.settle(asked, print, "test00")
    run = Run(asked, asked.policies[0], 0, "test00")
    fluid.perform(run, setting, records, lambda time_ns: None)
    columns = ["time_ns", "link", "class", "bytes", "drops"]
    links = pd.DataFrame(records.tables["links"], columns=columns)
    late = links[(links.link == "s1->h3") & (links.time_ns >= 250_000_000)].groupby("class")
    sent = late["bytes"].max() - late["bytes"].min()
    return float(sent["low"] / sent.sum())


def test_one_file_is_a_policy_that_the_simulation_plays(add: Add, tmp_path: Path) -> None:
    add(OWN)
    assert patient_share(experiment(tmp_path)) == pytest.approx(0.4, abs=0.01)
    more = experiment(tmp_path, "policies.0.share=0.7")
    assert patient_share(more) == pytest.approx(0.7, abs=0.01)
    assert load_again(more, tmp_path) == more


def load_again(known: Experiment, folder: Path) -> Experiment:
    (folder / "again.yaml").write_text(known.to_yaml())
    return load(folder / "again.yaml")


def test_the_same_file_is_what_the_kernel_is_told(add: Add) -> None:
    add(OWN)
    policy = link_policies()["sure-of-some"].told({"share": 0.7})
    assert tc.commands(policy.discipline_at(PORT), PORT) == [
        "qdisc replace dev h1-eth0 root handle 1: htb default 11",
        *htb_class("1:", "1:1", 0, 1_000_000_000, 25_000),
        *htb_class("1:1", "1:10", 0, 8_000, 3_028),
        "qdisc replace dev h1-eth0 parent 1:10 handle 10: pfifo limit 1000",
        "filter replace dev h1-eth0 parent 1: protocol ip prio 10 "
        "u32 match ip tos 0x10 0xfc flowid 1:10",
        *htb_class("1:1", "1:11", 1, 700_000_000, 17_500),
        "qdisc replace dev h1-eth0 parent 1:11 handle 11: pfifo limit 1000",
        "filter replace dev h1-eth0 parent 1: protocol ip prio 11 "
        "u32 match ip tos 0x08 0xfc flowid 1:11",
    ]
    assert tc.needs(policy) == {"htb", "pfifo", "u32"}


def htb_class(parent: str, class_id: str, prio: int, rate: int, burst: int) -> list[str]:
    return [
        f"class replace dev h1-eth0 parent {parent} classid {class_id} htb prio {prio} "
        f"rate {rate}bit ceil 1000000000bit burst {burst}b cburst 25000b quantum 60000"
    ]


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (("rest=True", "rest=False"), "policies.0: sure-of-some: no class takes the rest"),
        (("level=1", "level=8"), "class low: level 8; there are 8, from 0 (at h1->s1)"),
        (("floor=share", "floor=1.5 + share"), "class low: a floor of 1.9"),
        (("level=0, ", "level=0, floor=0.9, "), "floors add up to 1.3 of the line"),
        (('"low", level', '"slow", level'), "policies.0.bands.patient: found 'low'"),
        (("rest=True", "rest=True, mark_ns=9"), "tcp: cubic does not heed"),
        (('flows="high"', 'flows="hihg"'), "flows are put into hihg; known: high, low"),
    ],
)
def test_a_mistake_in_it_is_one_line_before_anything_is_started(
    add: Add, tmp_path: Path, mistake: tuple[str, str], says: str
) -> None:
    assert mistake[0] in OWN
    add(OWN.replace(*mistake))
    with pytest.raises(BadInput) as caught:
        experiment(tmp_path)
    message = str(caught.value)
    assert says in message
    assert len(message.splitlines()) == 1


def test_an_unknown_option_is_refused_with_the_nearest(add: Add, tmp_path: Path) -> None:
    add(OWN)
    with pytest.raises(BadInput, match=r"policies.0.shares: unknown key; did you mean share\?"):
        experiment(tmp_path, "policies.0.shares=0.5")


FIRST_BYTES = OWN.replace(
    'bands=("high",)', 'bands=("high",), demotion=Demotion(100_000, "low")'
).replace("import Discipline", "import Demotion, Discipline")


def test_a_policy_that_demotes_is_played(add: Add, tmp_path: Path) -> None:
    add(FIRST_BYTES)
    asked = experiment(tmp_path)
    fluid.demand(asked)
    demand_features(asked, frozenset({"htb", "pfifo", "u32"}), frozenset({"cubic"}), "a kernel")
    assert patient_share(asked) > 0.9  # what was urgent has been demoted to it


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("level=1, floor=share", "level=0, weight=3"), "weights within a level"),
        (("level=1, floor=share", "level=0"), "bands that share a level"),
        (("level=1", "level=2"), "levels left out between them"),
        (("rest=True", "rest=True, queue_per_flow=True"), "a queue a flow in one"),
        (("rest=True", "rest=True, limit_packets=9"), "differ in length or marks"),
        (
            ("floor=share", "floor=share if port.servers else 0, servers=port.servers"),
            "floors beside classes for servers",
        ),
    ],
)
def test_what_is_not_simulated_is_refused_in_one_line(
    add: Add, tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    assert change[0] in OWN
    add(OWN.replace(*change))
    jobs = "[{name: ps, profile: resnet32-cpu, aggregation: parameter-server, workers: 2}]"
    asked = experiment(tmp_path, f"training={jobs}")
    with pytest.raises(CannotRun) as caught:
        fluid.demand(asked)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_policy_that_is_another_at_some_ports_is_not_simulated(add: Add, tmp_path: Path) -> None:
    add(OWN.replace("floor=share", "floor=share if port.rate_bps > 10**9 else 0.0"))
    racks = "{kind: leaf-spine, hosts: 4, leaves: 2, spines: 1, rate: 1 Gbit/s, delay: 10 us, queue: 9 packets}"  # noqa: E501
    asked = experiment(tmp_path, f"topology={racks}")
    with pytest.raises(CannotRun, match="other floors or queues at some ports than at others"):
        fluid.demand(asked)


WEIGHTED = '''
"""Three bytes of urgent traffic for each of the rest."""

from policies.link import Discipline, LinkPolicy, Port, ServiceClass


def discipline(port: Port) -> Discipline:
    urgent = ServiceClass("high", weight=3, bands=("high",))
    return Discipline((urgent, ServiceClass("low", bands=("low",), rest=True)))


POLICY = LinkPolicy("weighted", "Weighted", "three to one", "high", "low", discipline)
'''


@pytest.mark.root
def test_a_kernel_shares_a_level_by_weight(tmp_path: Path) -> None:
    """As somebody would: in a checkout of their own, from the command line."""
    shutil.copytree(REPOSITORY / "policies", tmp_path / "policies")
    (tmp_path / "policies" / "link" / "weighted.py").write_text(WEIGHTED)
    assert 0.72 <= urgent_share("realtime", "weighted", "switch", tmp_path, tmp_path) <= 0.78
