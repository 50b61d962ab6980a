"""The virtual engine: exact, the same every time, and never a hang."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psutil
import pytest

from basics.errors import CannotRun, RunFailed
from policies.link import link_policies
from testbed.live import tc
from testbed.spec import load
from testbed.virtual import engine
from testbed.virtual.build import find
from testbed.virtual.check import check
from testbed.virtual.features import features, tcp_names
from testbed.virtual.guest import Guest, boot
from tests.conftest import REPOSITORY, giveway, ours
from tests.promises import MEASURED, PLACES, PROMISES, urgent_share

pytestmark = pytest.mark.virtual

RUN = ("--engine", "virtual", "--set", "dilation=auto")


@pytest.fixture(scope="module")
def twice(small_experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same experiment run alone, and beside processes that burn every core."""
    folder = tmp_path_factory.mktemp("twice")
    quiet = giveway("run", small_experiment, "--out", folder / "quiet", *RUN)
    assert quiet.returncode == 0, quiet.stderr
    other = folder / "loaded, with a longer name"
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        loaded = giveway(
            "run", small_experiment, "--out", folder / "loaded, with a longer name", *RUN
        )
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert loaded.returncode == 0, loaded.stderr
    return folder / "quiet", other


def test_records_are_identical_to_the_byte_however_busy_the_machine(
    twice: tuple[Path, Path],
) -> None:
    for policy in ("fifo", "strict-priority"):
        for table in ("flows.parquet", "iterations.parquet", "transfers.parquet"):
            one, two = (out / policy / "seed-0" / table for out in twice)
            assert one.read_bytes() == two.read_bytes(), f"{policy}/{table}"
    digests = [json.loads((out / "summary.json").read_text())["digest"] for out in twice]
    assert digests[0] == digests[1]


def test_a_run_alone_has_the_records_of_a_run_beside_others(
    twice: tuple[Path, Path], small_experiment: Path, tmp_path: Path
) -> None:
    alone = giveway("run", small_experiment, "--out", tmp_path / "out", *RUN, "--policy", "fifo")
    assert alone.returncode == 0, alone.stderr
    digests = [
        json.loads((out / "fifo" / "seed-0" / "manifest.json").read_text())["digest"]
        for out in (tmp_path / "out", twice[0])
    ]
    assert digests[0] == digests[1]


def test_expect_tells_whether_the_records_are_those_of_before(
    twice: tuple[Path, Path], small_experiment: Path, tmp_path: Path
) -> None:
    digest = json.loads((twice[0] / "summary.json").read_text())["digest"]
    same = giveway("run", small_experiment, "--out", tmp_path / "same", *RUN, "--expect", digest)
    assert same.returncode == 0, same.stderr
    other = giveway(
        "run", small_experiment, "--out", tmp_path / "other", *RUN, "--expect", digest,
        "--seed", "1",
    )  # fmt: skip
    assert other.returncode == 1
    assert "digest" in other.stderr


def test_nothing_is_late_on_an_exact_clock(twice: tuple[Path, Path]) -> None:
    manifest = json.loads((twice[0] / "fifo" / "seed-0" / "manifest.json").read_text())
    measured = manifest["fidelity"]["measured"]
    assert manifest["fidelity"]["verdict"] == "faithful"
    assert measured["sleep_late_p99_ns"] < 1000
    assert measured["flow_late_p99_ns"] < 1000
    assert manifest["network"]["idle_rtt_ns"] == 4 * 10_000  # two links there, two back
    assert not manifest["network"]["offload"]


def test_iterations_take_their_compute_to_the_nanosecond(twice: tuple[Path, Path]) -> None:
    plan = json.loads((twice[0] / "plan.json").read_text())
    iterations = pd.read_parquet(twice[0] / "fifo" / "seed-0" / "iterations.parquet")
    assert (iterations.compute_ns == plan["jobs"][0]["compute_ns"]).all()
    assert (iterations.wait_ns >= 0).all()


def test_the_kernel_checks_itself() -> None:
    kernel = find()
    assert kernel is not None
    assert len(check(kernel)) == 4


def test_a_bulk_flow_reaches_what_headers_leave(tmp_path: Path) -> None:
    size_byte, rate_bps = 50_000_000, 1_000_000_000
    (tmp_path / "bulk.csv").write_text(f"start_ns,src,dst,size_byte\n0,h1,h2,{size_byte}\n")
    (tmp_path / "bulk.yaml").write_text(
        f"""
name: bulk
topology: {{kind: tor, hosts: 2, rate: {rate_bps} bit/s, delay: 10 us, queue: 1000 packets}}
duration: 1 s
flows: [{{name: bulk, schedule: bulk.csv}}]
policies: [fifo]
seeds: [0]
"""
    )
    done = giveway("run", tmp_path / "bulk.yaml", "--engine", "virtual", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [flow] = pd.read_parquet(tmp_path / "out" / "fifo" / "seed-0" / "flows.parquet").itertuples()
    ideal_ns = size_byte / 1448 * 1514 * 8 / rate_bps * 1e9
    assert (flow.end_ns - flow.start_ns) == pytest.approx(ideal_ns, rel=0.005)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("policy", MEASURED)
def test_every_policy_keeps_its_promise_here_too(policy: str, place: str, tmp_path: Path) -> None:
    least, most = PROMISES[policy].urgent
    assert least <= urgent_share("virtual", policy, place, tmp_path) <= most


def test_priority_queues_with_everything_in_one_band_are_a_fifo(
    small_experiment: Path, tmp_path: Path
) -> None:
    """Three queueing disciplines, the same packets, the same nanoseconds."""
    one_band = ["fifo"] + [
        f"{{policy: {name}, label: {name}, bands: {{job: high}}}}"
        for name in ("strict-priority", "prio")
    ]
    done = giveway(
        "run", small_experiment, "--out", tmp_path / "out", *RUN,
        "--set", f"policies=[{', '.join(one_band)}]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifests = (tmp_path / "out").glob("*/seed-0/manifest.json")
    digests = {
        path.parent.parent.name: json.loads(path.read_text())["digest"] for path in manifests
    }
    assert len(digests) == 3
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("tcp", ["reno", "bbr", "dctcp", "mltcp"])
def test_every_congestion_control_runs(tcp: str, small_experiment: Path, tmp_path: Path) -> None:
    done = giveway(
        "run", small_experiment, "--out", tmp_path / "out", *RUN, "--set", f"tcp={tcp}",
        "--policy", "fifo", "--set", "duration=400 ms",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_dctcp_keeps_the_queue_short(tmp_path: Path) -> None:
    """A short flow to a full port waits for 20 packets under DCTCP, for 1,000 under CUBIC."""
    rows = "0,h1,h2,100000000\n0,h3,h2,100000000\n500000000,h4,h2,2000\n"
    (tmp_path / "two.csv").write_text("start_ns,src,dst,size_byte\n" + rows)
    (tmp_path / "two.yaml").write_text(
        """
name: two
topology: {kind: tor, hosts: 4, rate: 1 Gbit/s, delay: 10 us, queue: 1000 packets}
duration: 600 ms
flows: [{name: two, schedule: two.csv}]
policies: [fifo]
seeds: [0]
"""
    )
    took_ns = {}
    for tcp in ("cubic", "dctcp"):
        out = tmp_path / tcp
        done = giveway(
            "run", tmp_path / "two.yaml", "--engine", "virtual", "--out", out, "--set", f"tcp={tcp}"
        )
        assert done.returncode == 0, done.stderr
        flows = pd.read_parquet(out / "fifo" / "seed-0" / "flows.parquet")
        took_ns[tcp] = int(flows.end_ns[2] - flows.start_ns[2])
    assert took_ns["dctcp"] < took_ns["cubic"] / 3


def test_features_are_those_of_the_configuration() -> None:
    assert {"htb", "prio", "netem", "fq", "fq_codel", "red", "ets", "u32", "pfifo"} <= features()
    assert {"cubic", "reno", "dctcp", "bbr", "mltcp"} <= tcp_names()
    assert all(tc.needs(policy) <= features() for policy in link_policies().values())


def test_works_for_a_user_without_root(
    twice: tuple[Path, Path], small_experiment: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if os.geteuid() != 0:
        pytest.skip("is such a user already")
    home = Path("/tmp") / f"giveway-nobody-{os.getpid()}"
    kernel = find()
    assert kernel is not None
    shutil.copytree(kernel.program.parent, home / kernel.program.parent.name)
    shutil.copy(small_experiment, home / "small.yaml")
    subprocess.run(["chown", "-R", "65534:65534", home], check=True)
    try:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-m",
             "testbed", "run", home / "small.yaml", "--out", home / "out", *RUN],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "GIVEWAY_CACHE": str(home)},
            cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        summary = json.loads((home / "out" / "summary.json").read_text())
        assert summary["digest"] == json.loads((twice[0] / "summary.json").read_text())["digest"]
    finally:
        shutil.rmtree(home)


# Trouble


def guest(folder: Path, *command: str, silence_s: float = 30, memory_mib: int = 256) -> Guest:
    kernel = find()
    assert kernel is not None
    return Guest(kernel.program, folder, command, memory_mib * 2**20, silence_s, "test00")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Path]:
    before = ours()
    yield tmp_path / "console.log"
    assert ours() - before == set()


def test_a_spinning_process_is_named_not_waited_for(tmp_path: Path, console: Path) -> None:
    spin = "import ctypes; ctypes.CDLL(None).prctl(15, b'spinner')\nwhile True: pass"
    with pytest.raises(RunFailed, match=r"clock stood still .* \(spinner\) was running"):
        boot(guest(tmp_path, sys.executable, "-c", spin, silence_s=4), console)


def test_progress_keeps_a_guest_alive_longer_than_its_silence(
    tmp_path: Path, console: Path
) -> None:
    talk = (
        "import time\n"
        "def burn():\n"
        "    for _ in range(400000): pass\n"
        "for n in range(8):\n"
        "    open('/dev/tty1', 'w').write(f'{n}\\n'); burn()\n"
    )
    heard: list[str] = []
    boot(guest(tmp_path, sys.executable, "-c", talk, silence_s=20), console, heard.append)
    assert [line.strip() for line in heard] == [str(n) for n in range(8)]


def test_a_guest_out_of_memory_says_so(tmp_path: Path, console: Path) -> None:
    hog = "x = []\nwhile True: x.append(bytearray(2**20))"
    with pytest.raises(RunFailed, match=r"(?s)exit code (137|1)|Out of memory"):
        boot(guest(tmp_path, sys.executable, "-c", hog, memory_mib=128), console)


def test_a_kernel_panic_says_so(tmp_path: Path, console: Path) -> None:
    panic = "echo c > /proc/sysrq-trigger || kill -SEGV 1; exit 9"
    with pytest.raises(RunFailed, match="console"):
        boot(guest(tmp_path, "sh", "-c", panic), console)


def test_the_guest_may_write_in_its_folder_and_nowhere_else(tmp_path: Path, console: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    script = f"echo yes > file; echo no > {outside}/file; echo no > /etc/giveway; true"
    boot(guest(inside, "sh", "-c", script), console)
    assert (inside / "file").read_text() == "yes\n"
    assert not (outside / "file").exists()
    assert not Path("/etc/giveway").exists()


def test_a_run_that_fails_in_the_guest_is_exit_code_4(
    small_experiment: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:
        done = giveway("run", small_experiment, "--out", disk / "out", *RUN)
        assert done.returncode == 4
        assert done.stderr.count("\n") == 1, done.stderr
        assert "No space left" in done.stderr or "disk is full" in done.stderr
        for manifest in disk.rglob("manifest.json"):
            assert json.loads(manifest.read_text() or "{}").get("status") != "finished"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_ctrl_c_ends_the_guests(small_experiment: Path, tmp_path: Path) -> None:
    before = ours()
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "run", str(small_experiment), "--out",
         str(tmp_path / "out"), *RUN, "--set", "duration=60 s"],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    give_up_s = time.monotonic() + 30
    while not (tmp_path / "out" / "fifo" / "seed-0" / "logs" / "console.log").exists():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=4)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert ours() - before == set()


def test_what_a_killed_run_leaves_is_gone_with_the_next_cleaning(
    small_experiment: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "run", str(small_experiment), "--out",
         str(tmp_path / "out"), *RUN, "--policy", "fifo", "--set", "duration=60 s"],
        cwd=REPOSITORY, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    give_up_s = time.monotonic() + 60
    while not (left := lodgings_of(process.pid)):
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
    time.sleep(1)
    process.kill()
    process.wait()
    assert lodgings_of(process.pid)
    done = giveway("clean")
    assert all(f"removed folder {folder} (run " in done.stdout for folder in left)
    assert lodgings_of(process.pid) == []


def lodgings_of(pid: int) -> list[Path]:
    places = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    return [found for place in places for found in place.glob(f"giveway-boot-*.{pid}.*")]


def test_too_little_memory_is_said_before_anything_starts(
    small_experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load(small_experiment, ["dilation=auto"])
    free = psutil.virtual_memory()._replace(available=100 * 2**20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(CannotRun, match="GiB of memory"):
        engine.demand(experiment)


def test_dilation_is_refused_where_time_is_exact(small_experiment: Path) -> None:
    with pytest.raises(CannotRun, match="dilation"):
        engine.demand(load(small_experiment, ["dilation=3"]))


def test_more_work_may_stay_silent_longer(small_experiment: Path) -> None:
    small = load(small_experiment, ["dilation=auto"])
    large = load(REPOSITORY / "experiments" / "rack-10g.yaml")
    setting = engine.settle(small, print, "test00")
    assert engine.silence_s(large, setting) > engine.silence_s(small, setting) >= engine.SILENCE_S


def test_a_cancelled_boot_ends_at_once(tmp_path: Path, console: Path) -> None:
    cancelled = threading.Event()
    threading.Timer(1, cancelled.set).start()
    spin = "while True: pass"
    with pytest.raises(KeyboardInterrupt):
        boot(guest(tmp_path, sys.executable, "-c", spin, silence_s=60), console, print, cancelled)


def test_doctor_knows_the_engine() -> None:
    done = giveway("doctor")
    assert re.search(r"virtual +yes +Linux \d", done.stdout)
