"""The outermost frame: whatever happens, one line, an exit code, and where the details are."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conftest import REPOSITORY

TESTBED = [sys.executable, "-m", "testbed"]


def fails_with(what: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`giveway list`, in which something happens that nobody foresaw."""
    code = f"""
        import errno, sys
        from testbed.cli import catalogue, commands
        def show(console):
            {what}
        catalogue.show = show
        sys.argv = ["giveway", "list"]
        commands.main()
        """
    return subprocess.run(
        [sys.executable, "-c", dedent(code)], cwd=REPOSITORY, capture_output=True, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), **variables}, timeout=60, check=False,
    )  # fmt: skip


def test_what_nobody_foresaw_is_one_line_and_a_file(tmp_path: Path) -> None:
    done = fails_with('raise ZeroDivisionError("by zero\\n  and more")', tmp_path)
    assert done.returncode == 4
    said = re.fullmatch(
        r"giveway: unforeseen: ZeroDivisionError: by zero; details: (.*)\n", done.stderr
    )
    assert said is not None, done.stderr
    details = Path(said[1])
    assert details.parent == tmp_path
    assert "Traceback (most recent call last)" in details.read_text()
    assert "in show" in details.read_text()


def test_debug_shows_the_traceback_at_once(tmp_path: Path) -> None:
    done = fails_with("1 / 0", tmp_path, GIVEWAY_DEBUG="1")
    assert done.returncode == 4
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("giveway: unforeseen: ZeroDivisionError")


def test_without_a_place_for_the_details_debug_is_named() -> None:
    done = fails_with(
        "import tempfile; tempfile.tempdir = '/no/such/folder'; raise KeyError('x')", Path("/tmp")
    )
    assert done.returncode == 4
    assert done.stderr == (
        "giveway: unforeseen: KeyError: 'x'; details: the same again with GIVEWAY_DEBUG=1\n"
    )


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("raise OSError(errno.EMFILE, 'x')", 3, r"too many open files \(\d+ are allowed\): "),
        ("raise OSError(errno.ENOSPC, 'x', '/a/b')", 4, "the disk is full: cannot write /a/b;"),
        ("raise MemoryError", 4, "memory ran out"),
        ("raise OSError(errno.ENOMEM, 'x')", 4, "memory ran out"),
        ("raise KeyboardInterrupt", 130, ""),
        ("raise EOFError", 4, "unforeseen: EOFError"),
        ("raise BrokenPipeError(errno.EPIPE, 'x')", 4, "unforeseen: BrokenPipeError"),
    ],
)  # fmt: skip
def test_known_shortages_are_said(what: str, code: int, said: str, tmp_path: Path) -> None:
    done = fails_with(what, tmp_path)
    assert done.returncode == code
    assert re.search(said, done.stderr)
    assert done.stderr.count("\n") == (1 if said else 0)


def test_an_error_in_a_helper_process_is_one_line_with_its_traceback_in_the_file(
    small_experiment: Path, tmp_path: Path
) -> None:
    code = """
        import sys
        from testbed import engines
        engines.MODULES["fake"] = "tests.fake_engine"
        from testbed.cli.commands import main
        main()
        """
    arguments = ["run", small_experiment, "--engine", "fake", "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", dedent(code), *arguments], cwd=REPOSITORY, capture_output=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "GIVEWAY_FAKE_SLEEP_S": "soon"}, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "could not convert string to float: 'soon'" in done.stderr
    details = Path(done.stderr.rpartition("details: ")[2].strip()).read_text()
    assert "tests/fake_engine.py" in details


# Terminals that show ASCII alone


def test_ascii_keeps_signs_and_units(tmp_path: Path) -> None:
    said = "\\u221265\\xa0% 3\\xa0\\xb5s 1.5\\xa0\\xd7 9\\xa0ms\\xb2 \\u2013 \\u2026 \\u4e2d"
    show = f"console.print('{said}'); print('{said}', file=sys.stderr)"
    done = fails_with(show, tmp_path, PYTHONIOENCODING="ascii")
    assert done.stdout == "-65 % 3 us 1.5 x 9 ms2 - ... ?\n"
    assert done.stderr == done.stdout


# Interrupted before there is anything to interrupt


def test_ctrl_c_while_imports_run_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import time; print('importing', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [*TESTBED, "list"], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "giveway: interrupted\n")


# Standard output


def test_a_full_standard_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*TESTBED, "list"], cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr == (
        "giveway: standard output cannot be written to: No space left on device\n"
    )


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        done = subprocess.run(
            [*TESTBED, "list"], cwd=REPOSITORY, stdout=closed, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_descriptors_are_no_error(closed: str) -> None:
    line = f'"$@" {closed}'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *TESTBED, "list"], cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_terminal_without_our_letters_gets_others(small_experiment: Path, tmp_path: Path) -> None:
    run = ["run", small_experiment, "--engine", "fluid", "--out", tmp_path / "out"]
    run += ["--set", "training.0.check=false"]  # a simulation adds nothing up
    for arguments in (run, ["report", tmp_path / "out"], ["list"]):
        done = subprocess.run(
            [*TESTBED, *arguments], cwd=REPOSITORY, env={**os.environ, **ASCII},
            capture_output=True, timeout=200, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()


# Signals that somebody had ignored


def started(file: Path, out: Path, ignored: signal.Signals | None) -> subprocess.Popen[str]:
    """A run on the fake engine that takes seconds, with a signal ignored as nohup does."""
    code = """
        import sys
        from testbed import engines
        engines.MODULES["fake"] = "tests.fake_engine"
        from testbed.cli.commands import main
        main()
        """

    def prepare() -> None:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):  # nohup may be around us
            signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-c", dedent(code), "run", file, "--engine", "fake", "--out", out],
        cwd=REPOSITORY, env={**os.environ, "GIVEWAY_FAKE_SLEEP_S": "3"}, text=True,
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=prepare,
        start_new_session=True,
    )  # fmt: skip
    give_up_s = time.monotonic() + 60
    while not list(out.glob("*/*/logs/process")):
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_what_was_ignored_stays_ignored(
    number: signal.Signals, small_experiment: Path, tmp_path: Path
) -> None:
    with started(small_experiment, tmp_path / "out", ignored=number) as process:
        os.killpg(process.pid, number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_else_it_ends_the_run_though_all_of_its_group_get_it(
    number: signal.Signals, small_experiment: Path, tmp_path: Path
) -> None:
    with started(small_experiment, tmp_path / "out", ignored=None) as process:
        os.killpg(process.pid, number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "giveway: interrupted; everything is cleaned up\n"


def test_bars_are_still_drawn_on_a_terminal() -> None:
    near, far = pty.openpty()
    process = subprocess.Popen([*TESTBED, "list"], cwd=REPOSITORY, stdout=far)
    os.close(far)
    shown = b"".join(read_until_closed(near))  # while it runs: a terminal takes 4 kB unread
    os.close(near)
    assert process.wait(timeout=60) == 0
    assert b"\x1b[" in shown


def read_until_closed(near: int) -> Iterator[bytes]:
    """What is written to a terminal, until nobody has it open any more."""
    with contextlib.suppress(OSError):  # EIO: that is how the near end learns of it
        while piece := os.read(near, 1 << 16):
            yield piece
