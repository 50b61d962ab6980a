"""A daemon's jobs whose ranks are processes of a real training stack, on one host.

The daemon asks for a process a rank, which the nursery forks; it calls at the daemon's door and is
told there what its job's master says. The words are those about native ranks, and so are the
answers. Knows no torch.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from basics.bands import tos_of
from workloads.checkpoints import Checkpoints
from workloads.connection import HEADER, Arrived, Connection
from workloads.control import Control
from workloads.doors import HELLO, Place
from workloads.jobports import PORTS_A_JOB
from workloads.loop import Loop
from workloads.sockets import TaskError, connect

STACK = 3  # what a connection is for: a rank's process calls the daemon of its own host
WORD, STATE = 0, 1  # what a message between those two is

Word = dict[str, Any]


@dataclass
class StackOnHost:
    """A job's processes on this host, on one placement."""

    number: int
    epoch: int
    name: str
    bands: list[str]
    ranks: list[int]  # that are here
    state: bytes  # of its training, where it rests; nothing: it begins
    lines: dict[int, Connection] = field(default_factory=dict)  # by rank
    standing: set[int] = field(default_factory=set)
    held: dict[int, int] = field(default_factory=dict)  # rank -> next iteration
    rested: dict[int, Word] = field(default_factory=dict)
    broken: bool = False
    band: dict[str, int] = field(default_factory=dict)  # another one than at its beginning

    def tell(self, do: str, **details: Any) -> None:
        for line in self.lines.values():
            if not line.closed:
                tell(line, do, **details)


def tell(line: Connection, do: str, **details: Any) -> None:
    content = json.dumps({"do": do, **details}).encode()
    line.send(WORD, len(content), memoryview(content))


class StackRanks:
    """`say` tells the master; `control` leads to who starts processes."""

    def __init__(
        self,
        at: tuple[str, str, int],
        loop: Loop,
        checkpoints: Checkpoints,
        control: Control,
        say: Callable[..., None],
    ) -> None:
        """`at`: the host, its address, and the port of its daemon."""
        self._host, self._address, self._port = at
        self._loop, self._checkpoints, self._control, self._say = loop, checkpoints, control, say
        self._jobs: dict[tuple[int, int], StackOnHost] = {}
        self.does: dict[str, Callable[[Word], None]] = {
            "begin": self._begin,
            "go": partial(self._pass_on, "go"),
            "hold": self._hold,
            "until": partial(self._pass_on, "until"),
            "band": self._band,
            "end": self._end,
            "abandon": self._abandon,
        }

    def __len__(self) -> int:
        return len(self._jobs)

    def concerned(self, message: Word) -> bool:
        """Whether a word of the master is about one of these jobs."""
        return message.get("stack") is not None or (
            (message.get("job"), message.get("epoch")) in self._jobs
        )

    # ---- what the master says

    def _begin(self, message: Word) -> None:
        plan, first = message["plan"], message["plan"]["first_iteration"]
        number, epoch, name = message["job"], message["epoch"], plan["name"]
        if first and number not in self._checkpoints.states:
            raise TaskError(f"{name}: its checkpoint is not at {self._host}")
        state = self._checkpoints.states[number] if first else b""
        self._jobs[number, epoch] = StackOnHost(
            number, epoch, name, plan["bands"], message["ranks"], state
        )
        for rank in message["ranks"]:
            placed = {
                "number": number,
                "epoch": epoch,
                "door": (self._address, self._port),
                "first": first,
                "first_transfer": plan["first_transfer"],
                "total": message["total"],
                "tos": tos_of(plan["band"]),
                "zero_ns": self._loop.clock.epoch_ns,
                "gives": rank == message["ranks"][0],  # all ranks have the same state
            }
            stack = {
                "job": name,
                "rank": rank,
                "addresses": message["addresses"],
                "priority": plan["bands"].index(plan["band"]),
                "layers": plan["layers"],
                "fusion_byte": plan["fusion_byte"],
                "rate_bps": plan["rate_bps"],
                "seed": plan["seed"],
                "port": message["stack"]["port"] + epoch % PORTS_A_JOB,  # the last may be in use
                "transfer": message["stack"]["transfer"],
                "check": False,
            }
            called = f"{name}-{epoch}-{rank}"
            config = {"placed": placed, "stack": stack}
            self._control.say("start", name=called, host=self._host, config=config)

    def _of(self, message: Word) -> StackOnHost:
        return self._jobs[message["job"], message["epoch"]]

    def _pass_on(self, do: str, message: Word) -> None:
        own = {key: message[key] for key in ("before", "next", "by_ns") if key in message}
        self._of(message).tell(do, **own)

    def _hold(self, message: Word) -> None:
        self._of(message).held.clear()
        self._pass_on("hold", message)

    def _band(self, message: Word) -> None:
        job, band = self._of(message), message["band"]
        job.band = {"tos": tos_of(band), "priority": job.bands.index(band)}
        job.tell("band", **job.band)

    def _end(self, message: Word) -> None:
        job = self._jobs.pop((message["job"], message["epoch"]))
        if message["keep"]:
            self._checkpoints.keep_state(job.number, job.state)
        job.tell("end")

    def _abandon(self, message: Word) -> None:
        """What they did here since they began has not happened."""
        self._checkpoints.give_up(message["job"])
        self._jobs.pop((message["job"], message["epoch"])).tell("leave")

    # ---- what its processes say

    def greeted(self, place: Place, sock: socket.socket) -> None:
        number, epoch, _, rank, _ = place
        job = self._jobs.get((number, epoch))
        if job is None:  # it has been abandoned meanwhile
            sock.close()
            return
        line = Connection(
            sock, self._loop, partial(self._hear, job, rank), lambda why: line.close()
        )
        job.lines[rank] = line
        line.send(STATE, len(job.state), memoryview(job.state))
        if job.band:
            tell(line, "band", **job.band)

    def _hear(self, job: StackOnHost, rank: int, arrived: Arrived) -> None:
        assert arrived.content is not None
        if arrived.tag == STATE:
            job.state = bytes(arrived.content)
            return
        word = json.loads(bytes(arrived.content))
        about = {"job": job.number, "epoch": job.epoch}
        if job.broken or (job.number, job.epoch) not in self._jobs:
            return
        if word["say"] == "standing":
            job.standing.add(rank)
            if len(job.standing) == len(job.ranks):
                self._say("standing", **about)
        elif word["say"] == "iterated":
            self._say("iterated", **about, iteration=word["iteration"], ns=word["ns"])
        elif word["say"] == "held":
            job.held[rank] = word["next"]
            if len(job.held) == len(job.ranks):
                self._say("held", **about, next=max(job.held.values()))
        elif word["say"] == "rested":
            job.rested[rank] = word
            if len(job.rested) == len(job.ranks):
                self._rested(job, about)
        elif word["say"] == "broken" and not job.rested:  # else others have ended it already
            job.broken = True
            self._say("broken", **about, why=f"{job.name}: {word['why']}")

    def _rested(self, job: StackOnHost, about: dict[str, int]) -> None:
        words = list(job.rested.values())
        if len({word["state"] for word in words}) > 1:
            raise TaskError(f"{job.name}: its workers on {self._host} have different states")
        transfers = max(word["transfers"] for word in words)
        made = {"before": words[0]["before"], "transfers": transfers}
        self._say("rested", **about, **made, state=words[0]["state"])


class DaemonLine:
    """A rank's end of the line to its daemon: blocking. Who says something holds a lock."""

    def __init__(self, door: tuple[str, int], tos: int, hello: Place) -> None:
        self._sock = connect(*door, tos)
        self._sock.settimeout(None)
        self._sock.sendall(HELLO.pack(*hello))

    def fileno(self) -> int:
        return self._sock.fileno()

    def say(self, what: str, **details: Any) -> None:
        self.send(WORD, json.dumps({"say": what, **details}).encode())

    def send(self, tag: int, content: bytes) -> None:
        self._sock.sendall(HEADER.pack(tag, True, len(content)) + content)

    def hear(self) -> bytes:
        """The content of the next message; EOFError if the daemon is gone."""
        _, _, byte = HEADER.unpack(self._exactly(HEADER.size))
        return self._exactly(byte)

    def _exactly(self, byte: int) -> bytes:
        found = bytearray()
        while len(found) < byte:
            try:
                piece = self._sock.recv(min(1 << 20, byte - len(found)))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)
