"""What is known of one training job of a cluster."""

from collections import deque
from dataclasses import dataclass, field

from testbed.cluster.ledger import TaskStretch
from workloads.training_work import TrainingWork

RECENT = 5  # iterations whose mean schedulers are shown


@dataclass
class InTraining:
    work: TrainingWork
    band: str
    stretch: TaskStretch | None = None  # where its tasks are
    aim: TaskStretch | None = None  # where it moves to
    saved: int = 0  # the iteration that its last checkpoint goes on with; 0: there is none
    holders: frozenset[int] = frozenset()  # hosts that have its checkpoint
    sources: frozenset[int] = frozenset()  # of these, those that are sending it now
    turn: int = 0  # what was planned for it in an earlier one is not done
    made: int = 0  # iterations on this placement
    mixed: bool = False  # the iteration under way had the GPUs in two ways
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def has_checkpoint(self) -> bool:
        """One that takes no bytes is nowhere, and is not lost."""
        return self.saved > 0 and bool(self.holders or not self.work.checkpoint_byte)

    def needs(self, host: int) -> bool:
        """Whether it cannot go on as it is without this host."""
        held = [one.hosts for one in (self.stretch, self.aim) if one is not None]
        return any(host in hosts for hosts in held) or host in self.sources
