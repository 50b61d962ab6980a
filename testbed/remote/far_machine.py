"""Another machine: ships a checkout there, runs a command in it, brings the results home.

The line to a command that runs there is its standard input. When it ends, because the user pressed
Ctrl-C or the connection is lost, scripts/until-hangup.sh interrupts the command; that needs no
terminal.
"""

import io
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import paramiko
from invoke.exceptions import CommandTimedOut, ThreadException

from basics.errors import CannotRun, RunFailed
from testbed.remote import archive, ssh
from testbed.remote.checkout import FAR_END, Checkout

FOLDERS = "$HOME/.cache/giveway/on"
SHIPPED = ".shipped"  # written last: the folder is complete
ASK_LIMIT_S = 60
SETUP_LIMIT_S = 1800
INTERRUPTED = 130
BUSY = 75  # what flock ends with where it does not get the lock
LOCK = ("flock", "--no-fork", "--conflict-exit-code", str(BUSY))
LOST = (paramiko.SSHException, OSError, EOFError)


class Far:
    """A machine that is connected while this is entered; `say` gets lines for the user."""

    def __init__(self, host: str, say: Callable[[str], None]) -> None:
        self.host = host
        self._say = say

    def __enter__(self) -> Self:
        self._connection = ssh.connected(self.host)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ship(self, checkout: Checkout) -> str:
        """Bring the checkout there, unless it is there already; returns its folder."""
        place = f"{FOLDERS}/{checkout.digest}"
        if self.ask(f'test -e "{place}/{SHIPPED}"')[0] == 0:
            return place
        packed = checkout.packed()
        self._say(f"shipping {len(packed) / 1e6:.1f} MB to {self.host}")
        unpack = f'mkdir -p "{place}/runs" && cd "{place}" && tar -xzf - && touch {SHIPPED}'
        try:
            with self._connection.create_session() as channel:
                channel.settimeout(ssh.SILENCE_LIMIT_S)
                channel.set_combine_stderr(True)
                channel.exec_command(in_bash(unpack))
                archive.send(channel, io.BytesIO(packed), self._say)
                complaint = channel.makefile("rb").read().decode(errors="replace")
                code = channel.recv_exit_status()
        except LOST as why:
            raise CannotRun(f"{self.host}: shipping broke off: {why or 'no answer'}") from None
        if code:
            words = "; ".join(complaint.split("\n")).strip("; ") or "the connection was lost"
            raise CannotRun(f"{self.host}: the files were not unpacked there: {words}")
        return place

    def set_up(self, place: str, checkout: Checkout) -> None:
        """`make setup` there, in a .venv that checkouts with the same requirements share."""
        venv = f"../venv-{checkout.setup_digest}"
        lock = [*LOCK, "--wait", str(SETUP_LIMIT_S), f"{venv}.lock"]
        # A checkout is shipped at every change, and not every command simulates: a run compiles.
        lazy = ["env", "GIVEWAY_COMPILE=no", "make", "--no-print-directory", "setup"]
        make = shlex.join(["bash", FAR_END, *lock, *lazy])
        self._say(f"setting up on {self.host}")
        link = f"mkdir -p {venv} && ln -sfn {venv} .venv"
        code, _ = self._run(
            f'cd "{place}" && {link} && {make}', SETUP_LIMIT_S, out_stream=sys.stderr
        )
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise CannotRun(f"{self.host}: `make setup` failed there ({code}); see above")

    def run(self, place: str, argv: Sequence[str], *, root: bool, alone: bool) -> int:
        """Run a program in the folder, its output here as it comes; returns its exit code.

        `alone`: not beside another one, so that what is new in runs/ afterwards is its own.
        """
        sudo = ["sudo", "-n"] if root else []
        lock = [*LOCK, "--nonblock", ".lock"] if alone else []
        code, _ = self._run(
            f'cd "{place}" && {shlex.join([*sudo, "bash", FAR_END, *lock, *argv])}', None
        )
        if code == BUSY:
            raise CannotRun(f"{self.host}: another `giveway on` of this checkout is at work there")
        return code

    def mark(self, place: str) -> str:
        """A moment on that machine's clock, for `made_since`."""
        name = f".started-{secrets.token_hex(4)}"
        self.ask(f'touch "{place}/{name}"')
        return name

    def made_since(self, place: str, mark: str) -> list[str]:
        """The folders of runs/ that are new, or in which something is."""
        new = f"runs -mindepth 1 -newer {mark}"
        show = "-type d -printf '/%P/\\n' -o -printf '/%P\\n'"
        _, listed = self.ask(f'cd "{place}" && find {new} \\( {show} \\); rm -f {mark}')
        return sorted(set(re.findall(r"^/([^./\n][^/\n]*)/", listed, re.MULTILINE)))

    def fetch(self, place: str, names: Sequence[str], runs: Path) -> list[Path]:
        """Bring folders of the far runs/ into ours; returns where they are."""
        _, size = self.ask(f'cd "{place}/runs" && du -sck -- {shlex.join(names)} | tail -n 1')
        known = re.match(r"(\d+)\s", size)
        size = f" ({int(known[1]) / 1e3:.1f} MB)" if known else ""
        self._say(f"fetching {', '.join(names)}{size}")
        pack = shlex.join(["tar", "--hard-dereference", "-czf", "-", "--", *names])
        try:
            with self._connection.create_session() as channel:
                channel.settimeout(ssh.SILENCE_LIMIT_S)
                channel.exec_command(in_bash(f'cd "{place}/runs" && {pack}'))
                return archive.unpack(channel.makefile("rb"), names, runs, self._say)
        except (*LOST, archive.Damaged) as why:
            there = f"{place.replace('$HOME', '~')}/runs"
            raise RunFailed(
                f"{self.host}: results were not fetched ({why or 'no answer'}); "
                f"they are still in {there} there"
            ) from None

    def ask(self, script: str) -> tuple[int, str]:
        """Exit code and output of something short."""
        answer = self._run(script, ASK_LIMIT_S, hide=True)
        if answer[0] == INTERRUPTED:
            raise KeyboardInterrupt
        return answer

    def _run(self, script: str, limit_s: float | None, **options: Any) -> tuple[int, str]:
        line = self._connection._remote_runner()  # as Connection.run does; we need to keep it
        options = {"in_stream": False, "warn": True, "encoding": "utf-8", **options}
        try:
            result = line.run(in_bash(script), timeout=limit_s, **options)
        except CommandTimedOut:
            raise CannotRun(f"{self.host}: no end after {limit_s:g} s: {script}") from None
        except ThreadException:
            raise RunFailed(f"{self.host}: what it says cannot be written here") from None
        except LOST as why:
            raise CannotRun(f"{self.host}: the connection was lost: {why}") from None
        if line.interrupted:
            return INTERRUPTED, result.stdout
        if result.exited == -1:
            raise CannotRun(f"{self.host}: the connection was lost; the command is ended there")
        return result.exited, result.stdout


def in_bash(script: str) -> str:
    """For any login shell."""
    return f"bash -c {shlex.quote(script)}"
