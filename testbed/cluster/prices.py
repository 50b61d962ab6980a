"""What a suspension and a resumption cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """In time; a host is held meanwhile."""

    suspend_ns: int = 0
    resume_ns: int = 0


FREE = Prices()
