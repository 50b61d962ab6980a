"""Whose GPUs are whose, where a placement may pack: jobs of a pack compute on the same ones.

The first worker of each has one GPU (or what it asked for) together, the second another, and so on.
A host gives such GPUs once, however many jobs are on them, and has them back when the last of them
has left. All else that a job needs it holds for itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from basics.resources import GPU

if TYPE_CHECKING:
    from testbed.cluster.ledger import Ledger


class Shared(NamedTuple):
    """For so long a job was on the GPUs that another one held."""

    job: int
    beside: int
    start_ns: int
    end_ns: int


class Packs:
    def __init__(self, most: int) -> None:
        """`most`: jobs on the same GPUs; 1: none are shared."""
        self.most = most
        self.past: list[Shared] = []
        self._packs: dict[int, list[int]] = {}  # by job, those of two and more; who came first
        self._since_ns: dict[int, int] = {}  # of every job in one: unchanged from then on

    def mates(self, job: int) -> tuple[int, ...]:
        """The others on its GPUs."""
        return tuple(other for other in self._packs.get(job, ()) if other != job)

    def join(self, job: int, other: int, now_ns: int) -> None:
        pack = self._packs.setdefault(other, [other])
        self._close(pack, now_ns)
        pack.append(job)
        self._packs[job] = pack
        self._open(pack, now_ns)

    def leave(self, job: int, now_ns: int) -> bool:
        """Whether its GPUs stay with others."""
        pack = self._packs.pop(job, [])
        if not pack:
            return False
        self._close(pack, now_ns)
        pack.remove(job)
        self._open(pack, now_ns)
        if len(pack) == 1:
            del self._packs[pack[0]]
        return True

    def close(self, now_ns: int) -> None:
        """The run is over."""
        for pack in {id(pack): pack for pack in self._packs.values()}.values():
            self._close(pack, now_ns)

    def _open(self, pack: Sequence[int], now_ns: int) -> None:
        self._since_ns |= dict.fromkeys(pack, now_ns)

    def _close(self, pack: Sequence[int], now_ns: int) -> None:
        for job in pack[1:]:
            self.past.append(Shared(job, pack[0], self._since_ns[job], now_ns))

    def fault(
        self, ledger: "Ledger", job: int, hosts: Sequence[int], other: int, *, runs: bool
    ) -> str | None:
        """Why a job cannot join another one there; names are to be filled in."""
        if self.most == 1:
            return "puts {} beside {}, and what a host has is given once: it has no pack: 2"
        if not runs:
            return "puts {} beside {}, which does not run"
        own = ledger.task_host[ledger.tasks_of(other)].tolist()
        if job == other or list(hosts) != own:
            return "puts {} beside {}, which is not on those hosts"
        if ledger.demand[job][GPU] != ledger.demand[other][GPU]:
            return "puts {} beside {}, which needs another part of a GPU"
        if len(self._packs.get(other, [other])) >= self.most:
            return f"puts {{}} beside {{}}, whose GPUs {self.most} jobs have already"
        return None
