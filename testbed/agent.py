"""The agent task: acts for a policy while a run goes on.

One process for the whole network. At each of the policy's turns it asks the policy, which is pure,
what every port should have been told last, and tells the kernel what is new, one `tc` batch a port.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import policies
from policies import LinkPolicy, Moment, Port, ServerPort
from testbed import processes
from workloads.board import Board
from workloads.control import Control
from workloads.loop import Clock, Loop
from workloads.task import heartbeat

Apply = Callable[[int, list[str]], None]


@dataclass(frozen=True)
class Settings:
    policy: str
    period_ns: int
    ports: list[tuple[int, str, dict[str, Any]]]  # pid of the host, its board, the port
    dilation: float
    duration_ns: int
    journal: str


@dataclass(frozen=True)
class Place:
    """A port that the policy acts at, and what the tasks of its host publish."""

    pid: int
    port: Port
    board: Board | None

    def remaining_byte(self) -> dict[str, int]:
        if self.board is None:
            return {}
        return {server.job: self.board[at] for at, server in enumerate(self.port.servers)}


def main(config: dict[str, Any], control: Control) -> None:
    settings = Settings(**config)
    places = [
        Place(pid, port_of(port), Board.open(Path(board)) if board else None)
        for pid, board, port in settings.ports
    ]
    control.say("ready")
    loop = Loop(Clock(control.hear()["epoch_ns"], settings.dilation))
    agent = Agent(policies.available()[settings.policy], settings.period_ns, places, tell_kernel)

    def turn() -> None:
        now_ns = loop.clock.now_ns()
        agent.act(now_ns)
        loop.at((now_ns // settings.period_ns + 1) * settings.period_ns, turn)

    heartbeat(loop, control)
    loop.at(settings.period_ns, turn)
    loop.at(settings.duration_ns, loop.stop)
    loop.run()
    control.say("done", changes=agent.changes)
    control.hear()


def port_of(plain: dict[str, Any]) -> Port:
    servers = tuple(ServerPort(**server) for server in plain["servers"])
    return Port(**{**plain, "servers": servers})


def tell_kernel(pid: int, commands: list[str]) -> None:
    processes.run(["tc", "-batch", "-"], stdin="\n".join(commands) + "\n", netns_pid=pid)


class Agent:
    """Remembers what each port was told, and tells it only what is new."""

    def __init__(
        self, policy: LinkPolicy, period_ns: int, places: Sequence[Place], apply: Apply
    ) -> None:
        assert policy.act is not None
        self._act = policy.act
        self._period_ns = period_ns
        self._places = places
        self._apply = apply
        self._told = [
            self._act(place.port, Moment(0, period_ns)) for place in places
        ]  # what `commands` has set up
        self.changes = 0

    def act(self, now_ns: int) -> None:
        for at, place in enumerate(self._places):
            moment = Moment(now_ns, self._period_ns, place.remaining_byte())
            wanted = self._act(place.port, moment)
            told = set(self._told[at])
            new = [command for command in wanted if command not in told]
            if new:
                self._apply(place.pid, new)
                self._told[at] = wanted
                self.changes += 1
