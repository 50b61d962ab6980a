"""A sweep in parts: every point in one of them, joined once each, whatever is wanting named."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from basics.errors import BadInput, RunFailed
from testbed import engines, identity, shards
from testbed.cli import commands
from testbed.progress import OneBar
from testbed.shards import Shard
from testbed.spec import sweep_file
from testbed.sweep import run_sweep
from tests import fake_engine
from tests.test_sweep import SWEEP, flip

THIRDS = 3


@pytest.fixture(scope="module", autouse=True)
def fake() -> Iterator[None]:
    """The engine that plays nothing, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.MODULES, "fake", "tests.fake_engine")
        patch.setattr(fake_engine, "parallel", lambda experiment: 1)
        yield


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sweep's file, three shards of it and the whole; tests take copies."""
    place = tmp_path_factory.mktemp("shards")
    (place / "small.yaml").write_text(SWEEP)
    for number in range(1, THIRDS + 1):
        run(place, place / str(number), Shard(number, THIRDS))
    run(place, place / "whole")
    return place


@pytest.fixture
def mine(parts: Path, tmp_path: Path) -> Path:
    shutil.copytree(parts, tmp_path / "mine")
    return tmp_path / "mine"


def run(place: Path, out: Path, shard: Shard | None = None) -> None:
    console = Console(quiet=True)
    sweep = sweep_file.load(place / "small.yaml")
    run_sweep(sweep, out, "fake", "test", lambda n: OneBar(console, n), shard=shard)


def joined(place: Path, *names: str, out: str = "out") -> list[str]:
    """Join some folders; what was said."""
    folders = [place / name for name in names]
    said: list[str] = []
    shards.join(*shards.common(folders), folders, place / out, "test", said.append)
    return said


def manifests(out: Path) -> dict[str, str]:
    return {
        str(path.relative_to(out)): json.loads(path.read_text())["digest"]
        for path in out.glob("points/*/*/seed-*/manifest.json")
    }


def test_shards_have_every_point_once(parts: Path) -> None:
    each = [manifests(parts / str(number)) for number in range(1, THIRDS + 1)]
    assert [len(one) for one in each] == [8, 4, 4]
    assert sum(map(len, each)) == len(each[0] | each[1] | each[2]) == 16
    assert not (parts / "1" / "report.html").exists()


def test_joined_shards_are_the_sweep(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(mine / name) for name in "123"]
    with pytest.raises(SystemExit) as ended:
        commands.app(["sweep", "--join", *folders, "--out", str(mine / "out")])
    assert ended.value.code == 0
    assert manifests(mine / "out") == manifests(mine / "whole")
    tables = [pd.read_parquet(mine / name / "summary.parquet") for name in ("out", "whole")]
    assert tables[0].equals(tables[1])
    assert "report: " in capsys.readouterr().out
    assert not list((mine / "out").rglob("*.joining"))
    run(mine, mine / "out")  # it is a sweep's folder like any other: nothing is left to do


def test_missing_points_are_named_and_can_be_run(mine: Path) -> None:
    with pytest.raises(RunFailed, match="missing at 1 of 4 points: topology") as why:
        joined(mine, "1", "3")
    assert "\n" not in str(why.value)
    assert len(manifests(mine / "out")) == 12
    assert joined(mine, "2") == []
    assert manifests(mine / "out") == manifests(mine / "whole")


def test_a_run_in_two_folders_is_counted_once(mine: Path) -> None:
    shutil.copytree(mine / "1", mine / "again")
    said = joined(mine, "1", "again", "2", "3")
    assert said == ["8 runs are in more than one folder, with the same records: counted once"]
    assert manifests(mine / "out") == manifests(mine / "whole")


def test_two_runs_of_one_kind_with_other_records_are_refused(mine: Path) -> None:
    shutil.copytree(mine / "1", mine / "again")
    path = next((mine / "again").glob("points/*/fifo/seed-1/manifest.json"))
    path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))
    with pytest.raises(BadInput, match="other records of the same run"):
        joined(mine, "1", "again", "2", "3")
    assert not (mine / "out").exists()


def test_a_damaged_run_is_not_taken_but_its_twin_is(mine: Path) -> None:
    shutil.copytree(mine / "1", mine / "again")
    flip(next((mine / "1").glob("points/*/fifo/seed-1/links.parquet")))
    with pytest.raises(RunFailed, match="missing at 1 of 4 points"):
        joined(mine, "1", "2", "3")
    said = joined(mine, "1", "again", "2", "3", out="other")
    assert "links.parquet is not what was sealed" in said[0]
    assert manifests(mine / "other") == manifests(mine / "whole")


def rewritten(folder: Path, **changes: object) -> None:
    path = folder / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fingerprint": "0"}, "another experiment"),
        ({"engine": "virtual"}, "on the engine virtual"),
        ({"made_by": {**identity.here(), "code": "0"}}, "another Giveway than .*: it has code 0"),
        ({"made_by": {**identity.here(), "numpy": "1.0"}}, "it has numpy 1.0"),
    ],
)
def test_what_is_not_of_one_sweep_is_refused(
    mine: Path, changes: dict[str, object], words: str
) -> None:
    rewritten(mine / "2", **changes)
    with pytest.raises(BadInput, match=words):
        joined(mine, "1", "2", "3")


def test_a_folder_of_a_shard_is_no_other_ones(mine: Path) -> None:
    with pytest.raises(BadInput, match="holds shard 1/3 of a sweep"):
        run(mine, mine / "1", Shard(2, THIRDS))
    with pytest.raises(BadInput, match="holds a whole sweep"):
        run(mine, mine / "whole", Shard(2, THIRDS))
    with pytest.raises(BadInput, match="one of the folders to join"):
        joined(mine, "1", "2", out="2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--join", "DIR", "--engine", "fluid"), "--engine: says what to run"),
        (("--join", "DIR"), "not the folder of a sweep"),
        (("FILE", "--shard", "5/5"), "the sweep has 4 points, and a point is not divided"),
        (("FILE", "--shard", "1/4", "--json"), "are of the whole sweep: give them to --join"),
        (("FILE", "--shard", "0/4"), "--shard 0/4: write which of how many, like 3/16"),
        (("FILE", "DIR"), "folders are given with --join"),
    ],
)
def test_mistakes_are_one_line(parts: Path, words: tuple[str, ...], said: str) -> None:
    names = {"DIR": str(parts), "FILE": str(parts / "small.yaml")}
    given = [names.get(word, word) for word in words]
    engine = [] if "--join" in given else ["--engine", "fluid"]
    with pytest.raises(BadInput) as why:
        commands.app(["sweep", *given, *engine])
    assert said in str(why.value)
    assert "\n" not in str(why.value)


def test_the_report_of_a_shard_is_the_whole_ones(parts: Path) -> None:
    with pytest.raises(BadInput, match="is shard 1/3 of a sweep"):
        commands.app(["report", str(parts / "1")])
