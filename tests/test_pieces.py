"""What comes through a pipe or a socket comes in pieces, cut anywhere: no reader minds."""

import json
import os
import signal
import socket
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import RunFailed
from basics.lines import Lines
from testbed.live import nursery as far_end
from testbed.live.crew import Crew
from testbed.processes import Nursery
from tests import fake_kernel
from workloads.control import Control


@given(
    lines=st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b""))),
    begun=st.binary(max_size=4).map(lambda line: line.replace(b"\n", b"")),
    cuts=st.lists(st.integers(0, 100)),
)
def test_lines_are_whole_wherever_they_were_cut(
    lines: list[bytes], begun: bytes, cuts: list[int]
) -> None:
    stream = b"".join(line + b"\n" for line in lines) + begun
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    reader = Lines()
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


PIECES = ["12", "34\r", "\n", "\r\nboot: no number\r\n56", "78\r\n\xff\r\n", "90"]


def test_a_virtual_run_survives_progress_that_arrives_in_pieces(
    small_experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""\
        import json, os, time
        for piece in {PIECES!r}:
            os.write(0, piece.encode("latin-1"))
            time.sleep(0.3)
        result = {{"network": {{}}, "measured": {{}}, "simulated": True, "lost": []}}
        open("folder/performance.json", "w").write(json.dumps(result))
        open("folder/.guest-status", "w").write("0")
        """
    folder, heard = fake_kernel.play(script, small_experiment, tmp_path, monkeypatch)
    assert heard == [1234, 5678]
    assert json.loads((folder.path / "manifest.json").read_text())["status"] == "finished"


def talkative(config: dict[str, object], control: Control) -> None:
    """Says `ready` in two halves, then how far it is."""
    whole = json.dumps({"event": "ready", "long": "x" * 1000}).encode() + b"\n"
    line = socket.socket(fileno=control.fileno())
    for piece in (whole[:7], whole[7:]):
        line.sendall(piece)
        time.sleep(0.5)
    control.say("done")
    control.hear()


def test_a_task_that_says_half_a_message_is_still_heard(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        task = nursery.start("tests.test_pieces:talkative", {}, name="t", log=tmp_path / "log")
        crew = Crew(nursery, [task])
        crew.await_all("ready")
        crew.await_all("done")
        crew.dismiss()


def leaving_its_line_open(config: dict[str, object], control: Control) -> None:
    """Dies, and leaves a child that still holds its end of the line."""
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
    os._exit(3)


@pytest.mark.timeout(30)
def test_a_task_whose_line_outlives_it_is_not_waited_for(tmp_path: Path) -> None:
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        target = "tests.test_pieces:leaving_its_line_open"
        task = nursery.start(target, {}, name="t", log=tmp_path / "log")
        began_s = time.monotonic()
        with pytest.raises(RunFailed, match="t ended with code 3"):
            Crew(nursery, [task]).await_all("ready")
        assert time.monotonic() - began_s < 4


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_nursery_reads_a_request_however_it_is_cut(size: int) -> None:
    near, far = socket.socketpair()
    control, other = socket.socketpair()
    data = json.dumps({"name": "t"}).encode()
    stream = len(data).to_bytes(8, "big") + data

    def send() -> None:
        socket.send_fds(near, [stream[:size]], [other.fileno()])
        for at in range(size, len(stream), size):
            near.sendall(stream[at : at + size])
            time.sleep(0.01)

    sender = threading.Thread(target=send)
    sender.start()
    request, line = far_end.receive(far)
    sender.join(10)
    assert request == {"name": "t"}
    for end in (near, far, control, other, line):
        end.close()


def test_a_nursery_that_dies_with_a_request_unread_is_said_to_be_gone(tmp_path: Path) -> None:
    """Its end of the socket is then reset, not closed."""
    with Nursery("test00", tmp_path / "nursery.log") as nursery:
        nursery._process.send_signal(signal.SIGSTOP)
        nursery.start("tests.test_pieces:talkative", {}, name="t", log=tmp_path / "log")
        nursery._process.kill()
        nursery._process.wait()
        with pytest.raises(RunFailed, match="nursery died unexpectedly"):
            list(nursery.events(1))
