"""What is wrong with a decision, with the job's name to be filled in; None: nothing."""

from policies.cluster.scheduler import Prioritise, Shift
from testbed.cluster.ledger import Ledger


def of_entry(ledger: Ledger, job: int, hosts: int, there: int, verb: str) -> str | None:
    """A job is put on so many hosts, and so many of its tasks could be."""
    if not 0 < hosts <= there:
        return f"{verb}s {hosts} tasks of {{}}, which has {there} to {verb}"
    if ledger.gang[job] and hosts != ledger.tasks[job]:
        return (
            f"{verb}s {hosts} of the {ledger.tasks[job]} tasks of {{}}, which run together or not "
            "at all"
        )
    return None


def of_busy(action: Shift | Prioritise) -> str:
    if isinstance(action, Shift):
        return "shifts {}, a busy job, which has no iterations"
    return "prioritises {}, a busy job, which sends nothing"
