"""Every shipped smoke experiment runs as it is: four hosts, both policies, sums checked.

Those of torch and Horovod without Docker are run by test_stacks.py, which looks at their records.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from testbed import stacks
from testbed.containers import docker_engine, image
from testbed.spec import load
from tests.conftest import REPOSITORY, giveway

EXPERIMENTS = REPOSITORY / "experiments"
ELSEWHERE = {"smoke-torch.yaml", "smoke-horovod.yaml"}
DOCKER = (pytest.mark.root, pytest.mark.docker)
HERE = [
    pytest.param("smoke-native.yaml", "virtual", marks=pytest.mark.virtual),
    pytest.param("smoke-docker.yaml", "realtime", marks=DOCKER),
    pytest.param(
        "smoke-horovod-docker.yaml", "realtime", marks=(*DOCKER, pytest.mark.docker_horovod)
    ),
]


def test_no_smoke_experiment_is_forgotten() -> None:
    tested = ELSEWHERE | {str(param.values[0]) for param in HERE}
    assert tested == {path.name for path in EXPERIMENTS.glob("smoke-*.yaml")}
    for name in tested:
        experiment = load(EXPERIMENTS / name)
        assert experiment.topology.hosts == 4
        assert [choice.label for choice in experiment.policies] == ["fifo", "strict-priority"]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(("name", "engine"), HERE)
def test_a_smoke_experiment_runs_as_it_ships(name: str, engine: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = giveway("run", EXPERIMENTS / name, "--engine", engine, "--out", out, limit_s=280)
    assert done.returncode == 0, done.stdout + done.stderr
    [job] = load(EXPERIMENTS / name).training
    for policy in ("fifo", "strict-priority"):
        folder = out / policy / "seed-0"
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["backends"] == {job.name: job.backend}
        assert len(pd.read_parquet(folder / "iterations.parquet")) >= 4 * 5
        assert pd.read_parquet(folder / "flows.parquet").end_ns.notna().mean() > 0.9
        if manifest.get("hosts") == "docker":
            check_container(manifest, job.backend)


def check_container(manifest: dict[str, Any], backend: str) -> None:
    """The manifest names what was in the image, not what this machine has."""
    wanted = image.HOROVOD if stacks.STACKS[backend].packages else image.NATIVE
    container = manifest["container"]
    assert container["image"] == wanted.name
    assert container["image_id"] == docker_engine.demand_image(wanted)
    inside = docker_engine.versions_inside(container["image_id"])
    for package in stacks.STACKS[backend].packages:
        assert manifest["versions"][package] == inside[package]
    assert ("torch" in inside) == (wanted is image.HOROVOD)
