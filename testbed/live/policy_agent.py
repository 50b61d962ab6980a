"""The agent task: acts for a policy while a run goes on.

One process for the whole network. At each of the policy's turns it asks the policy, which is pure,
what every port should have been told last, and tells the kernel what is new, one `tc` batch a port.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from basics.errors import RunFailed
from policies.link import LinkPolicy, Port, ServerPort, Situation, rebuilt
from testbed import processes
from testbed.live import tc
from workloads.board import Board
from workloads.control import Control
from workloads.loop import Clock, Loop
from workloads.task import heartbeat

Apply = Callable[[int, list[str]], None]


@dataclass(frozen=True)
class AgentConfig:
    policy: dict[str, Any]  # name and options
    ports: list[tuple[int, str, dict[str, Any]]]  # pid of the host, its board, the port
    dilation: float
    duration_ns: int
    journal: str


@dataclass(frozen=True)
class ActingPort:
    """A port that the policy acts at, and what the tasks of its host publish."""

    pid: int
    port: Port
    board: Board | None

    def remaining_byte(self) -> dict[str, int]:
        if self.board is None:
            return {}
        return {server.job: self.board[at] for at, server in enumerate(self.port.servers)}


def main(config: dict[str, Any], control: Control) -> None:
    settings = AgentConfig(**config)
    places = [
        ActingPort(pid, port_of(port), Board.open(Path(board)) if board else None)
        for pid, board, port in settings.ports
    ]
    control.say("ready")
    loop = Loop(Clock(control.hear()["epoch_ns"], settings.dilation))
    policy = rebuilt(settings.policy)
    agent = PolicyAgent(policy, places, tell_kernel)

    def turn() -> None:
        now_ns = loop.clock.now_ns()
        agent.act(now_ns)
        loop.at((now_ns // policy.period_ns + 1) * policy.period_ns, turn)

    heartbeat(loop, control)
    loop.at(policy.period_ns, turn)
    loop.at(settings.duration_ns, loop.stop)
    loop.run()
    control.say("done", changes=agent.changes)
    control.hear()


def port_of(plain: dict[str, Any]) -> Port:
    told = {
        key: tuple(ServerPort(**server) for server in plain[key])
        for key in ("servers", "pushed_to", "jobs")
    }
    return Port(**(plain | told))


def tell_kernel(pid: int, commands: list[str]) -> None:
    processes.run(["tc", "-batch", "-"], stdin="\n".join(commands) + "\n", netns_pid=pid)


class PolicyAgent:
    """Remembers what each port was told, and tells it only what is new."""

    def __init__(self, policy: LinkPolicy, places: Sequence[ActingPort], apply: Apply) -> None:
        self._policy = policy
        self._places = places
        self._apply = apply
        self._first = [policy.discipline_at(place.port) for place in places]
        self._told = [
            tc.moves(first, place.port) for first, place in zip(self._first, places, strict=True)
        ]  # what the network was built with
        self.changes = 0

    def act(self, now_ns: int) -> None:
        remaining = [place.remaining_byte() for place in self._places]
        everywhere: Counter[str] = sum(map(Counter, remaining), Counter())
        for at, place in enumerate(self._places):
            situation = Situation(now_ns, remaining[at], everywhere)
            discipline = self._policy.discipline_at(place.port, situation)
            if not discipline.same_queues(self._first[at]):
                raise RunFailed(
                    f"the policy {self._policy.name} wants other queues at {place.port.device} "
                    "after a while; only which servers wait where may change"
                )
            wanted = tc.moves(discipline, place.port)
            told = set(self._told[at])
            new = [command for command in wanted if command not in told]
            if new:
                self._apply(place.pid, new)
                self._told[at] = wanted
                self.changes += 1
