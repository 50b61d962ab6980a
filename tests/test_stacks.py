"""PyTorch and Horovod as training stacks: real numbers, the same records, in any band."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from basics.bands import BAND_TOS
from basics.errors import BadInput, CannotRun, RunFailed
from testbed import stacks
from testbed.containers.image import HOROVOD, Image
from testbed.spec import load
from tests.conftest import REPOSITORY, giveway
from workloads import marking

QUICKSTART = REPOSITORY / "experiments" / "quickstart.yaml"


def shipped(backend: str) -> Path:
    return REPOSITORY / "experiments" / f"smoke-{backend}.yaml"


def test_a_native_run_preloads_nothing_and_a_stack_its_worker() -> None:
    assert stacks.preload(load(QUICKSTART)) == []
    assert stacks.preload(load(shipped("torch"))) == ["workloads.torch_worker"]


@pytest.mark.parametrize(
    ("missing", "backend", "target"),
    [
        ("torch", "torch", "make torch"),
        ("torch", "horovod", "make horovod"),
        ("horovod", "horovod", "make horovod"),
    ],
)
def test_a_missing_stack_is_named_with_what_to_do(
    missing: str, backend: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "version", lambda name: None if name == missing else "2.13.0")
    with pytest.raises(CannotRun, match=target):
        stacks.demand_stacks(load(shipped(backend)))


def test_a_wheel_for_another_torch_is_refused() -> None:
    def holding(horovod: str, image: Image | None) -> stacks.Place:
        return stacks.Place({"horovod": horovod, "torch": "2.13.0+cpu"}.get, image)

    for image, target in ((None, "make horovod"), (HOROVOD, "make image-horovod")):
        stacks.demand_stack("horovod", holding("0.28.1+torch2.13.0", image))
        with pytest.raises(CannotRun, match=rf"built for torch 2\.12\.0.*{target}"):
            stacks.demand_stack("horovod", holding("0.28.1+torch2.12.0", image))
        with pytest.raises(CannotRun, match=rf"not built by Giveway.*{target}"):
            stacks.demand_stack("horovod", holding("0.28.1", image))


@pytest.mark.parametrize("setting", ["order=layer", "barrier=false"])
def test_what_a_stack_decides_itself_is_not_taken_from_the_file(setting: str) -> None:
    key, _, found = setting.partition("=")
    said = rf"training\.0\.{key}: found {found} beside backend: torch.*leave it out"
    with pytest.raises(BadInput, match=said):
        load(shipped("torch"), [f"training.0.{setting}"])


def test_every_patch_says_why() -> None:
    patches = sorted((REPOSITORY / "workloads" / "horovod-patches").glob("*.patch"))
    assert len(patches) == 3
    for patch in patches:
        assert len(patch.read_text().partition("--- a/")[0]) > 80, patch


@pytest.mark.root
def test_sockets_of_a_running_process_are_marked_and_marked_again() -> None:
    code = (
        "import socket, sys; a = socket.create_server(('127.0.0.1', 0)); "
        "b = socket.create_connection(a.getsockname()); c, _ = a.accept(); "
        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print('up', flush=True); "
        "sys.stdin.readline(); d = socket.create_connection(a.getsockname()); e, _ = a.accept(); "
        "print(e.getsockopt(0, 1), u.getsockopt(0, 1), flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for tos in BAND_TOS.values():
            assert marking.mark(process.pid, tos) == 3
            assert marking.marks(process.pid) == [tos] * 3
        process.stdin.write("\n")
        process.stdin.flush()
        # What is accepted later inherits the mark; datagrams are left alone.
        assert process.stdout.readline().split() == [str(BAND_TOS["low"]), "0"]
        process.stdin.close()


@pytest.mark.root
def test_marking_a_process_that_is_gone_says_so() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(RunFailed, match=f"process {gone.pid}"):
        marking.mark(gone.pid, 0)


def test_marks_show_no_congestion_bits() -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x08)
        assert marking.tos_of(sock) == 0x08


def smoke(backend: str, out: Path, engine: str, *more: str) -> Path:
    """The shipped smoke experiment; its numbers are checked against one process as it runs."""
    done = giveway("run", shipped(backend), "--engine", engine, "--out", out, *more, limit_s=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def table(out: Path, policy: str, name: str) -> pd.DataFrame:
    return pd.read_parquet(out / policy / "seed-0" / f"{name}.parquet")


@pytest.fixture(scope="module", params=["torch", "horovod"])
def smoked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smoke(request.param, tmp_path_factory.mktemp("smoke") / request.param, "virtual")


@pytest.mark.virtual
@pytest.mark.horovod
@pytest.mark.timeout(300)
def test_a_stack_gives_the_native_workers_records(smoked: Path) -> None:
    for policy in ("fifo", "strict-priority"):
        iterations = table(smoked, policy, "iterations")
        assert set(iterations.worker) == {0, 1, 2, 3}
        assert len(iterations) >= 4 * 6
        assert (
            iterations.wait_ns == iterations.end_ns - iterations.start_ns - iterations.compute_ns
        ).all()
        assert (iterations.wait_ns >= 0).all()
        computes = table(smoked, policy, "computes")
        whole = computes[computes.iteration == 2]
        assert len(whole) == 4 * 50 * 2
        transfers = table(smoked, policy, "transfers")
        settled = transfers[transfers.iteration == 3]
        sent = settled.groupby("worker").agg({"bytes": "sum", "layers": "sum"})
        assert set(sent.layers) == {50}
        assert (sent.bytes >= 1_964_000).all()
        assert (settled.end_ns > settled.start_ns).all()
        assert (settled.start_ns >= settled.ready_ns).all()
        assert settled.groupby("worker").size().min() >= 4, "several fused transfers"
    manifest = json.loads((smoked / "fifo" / "seed-0" / "manifest.json").read_text())
    assert manifest["versions"]["torch"].startswith("2.")


@pytest.mark.virtual
@pytest.mark.horovod
@pytest.mark.timeout(300)
def test_the_policys_band_carries_the_stacks_traffic(smoked: Path) -> None:
    """By the counters of the queues: gradients in the low band, flows in the high one."""
    links = table(smoked, "strict-priority", "links")
    at_hosts = links[links.link.str.startswith("h")]
    carried = at_hosts.groupby(["link", "class"]).bytes.max().unstack()
    iterations = table(smoked, "strict-priority", "iterations").iteration.max() + 1
    # A ring of four sends 2 x 3/4 of the model.
    assert (carried["low"] > 0.9 * iterations * 1.5 * 1_964_000).all()
    flows = table(smoked, "strict-priority", "flows")
    assert (carried["high"] < 1.5 * flows.groupby("src").size_byte.sum().max() + 2_000_000).all()
