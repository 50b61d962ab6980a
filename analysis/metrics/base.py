"""What a metric is: one number of a report, and all that anybody needs to know to use it.

Nothing here may import pandas or matplotlib when it is loaded: the door knows every metric by its
name and unit, and the door also opens inside the virtual engine's guest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.metrics.statistic import Floats, Statistic
from analysis.metrics.unit import Unit

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["lower", "higher", "neither"]

# Size classes of flows; every flow is of one of SIZES.
SIZES, ALL = ("small", "medium", "large"), "all"
SIZE_CLASSES = (*SIZES, ALL)


@dataclass(frozen=True)
class Subject:
    """What is measured: the rows of a table in which all seeds of a policy are put together."""

    title: str
    rows: str  # what the table has, for those who compute from it
    group: str  # what its rows are headed with; {} is whose they are
    section: str  # of a policy's part of summary.json; the names of its metrics begin with it
    whose: str = ""  # what stands between the section and a metric's name, if there are several
    drawn: tuple[str, ...] = ()  # columns that tell one unit from another within a seed
    paired: bool = False  # whether the same units are there under every policy
    nameless: bool = False  # its one metric has no name besides whose it is: links.low
    claimed: bool = True  # whether claims may name it: the experiment file says whose there are

    def called(self, whose: str) -> str:
        """ "small flows"."""
        return self.group.format(whose)

    def places(self, entry: Mapping[str, Any]) -> list[str]:
        """Whose metrics a policy's part of summary.json has."""
        if not self.whose:
            return [""]
        return [] if self.nameless else list(entry.get(self.section, {}))

    def path(self, whose: str, name: str) -> str:
        return ".".join(part for part in (self.section, whose, name) if part)

    def split(self, path: str) -> tuple[str, str] | None:
        """(whose, the name of a metric), if the path can be one of this subject's."""
        if not path.startswith(f"{self.section}."):
            return None
        rest = path.removeprefix(f"{self.section}.")
        if self.nameless:
            return rest, ""
        whose, _, name = rest.rpartition(".")
        return (whose, name) if bool(whose) == bool(self.whose) else None


FLOWS = Subject(
    "Flows of a size class (CLASS): small, medium, large or all",
    "a row a flow of the window: seed, flow, mix, src, dst, size_byte, size_class, "
    "scheduled_ns, start_ns, end_ns, fct_ns (none: unfinished), "
    "fct_sender_ns (likewise, or not recorded), slowdown",
    "{} flows", "flows", "CLASS", ("flow",), paired=True,
)  # fmt: skip
MIXES = Subject(
    "A flow mix (MIX)",
    "a row a mix and seed: seed, mix, goodput_bps",
    "flows of {}", "mixes", "MIX", ("mix",), paired=True,
)  # fmt: skip
SHARING = Subject(
    "All flow mixes together, where there are several", MIXES.rows, "flow mixes", "sharing"
)
JOBS = Subject(
    "All jobs together, where some have parameter servers or end by themselves",
    "a row a job and seed: seed, job, jct_ns, wait_mean_ns, wait_variance_ms2, straggler_share, "
    "straggler_spread, barriers, status, made",
    "all jobs", "jobs", "", ("job",), paired=True,
)  # fmt: skip
HOSTS = Subject(
    "Hosts while such jobs run",
    "a row a host and seed: seed, host, and shares: computing, sent, received",
    "hosts", "jobs.hosts", "", ("host",), paired=True,
)  # fmt: skip
# The workers of one iteration wait for each other, so they are drawn together.
TRAINING = Subject(
    "A training job (JOB)",
    "a row a worker and iteration of the window: seed, job, worker, iteration, start_ns, end_ns, "
    "duration_ns, compute_ns, planned_ns (compute by the plan), wait_ns; with servers serial_ns, "
    "longest_ns (of compute, pushes and reads by the plan: one after another, and the longest)",
    "{}", "training", "JOB", ("job", "iteration"),
)  # fmt: skip
LINKS = Subject(
    "Links",
    "a row a direction of a link: link, tier, place (hosts, racks, core), utilisation, byte, drops",
    "links",
    "links",
)
TIERS = Subject(
    "Links between two kinds of node (TIER), like leaf->spine, where there are several",
    LINKS.rows, "links {}", "tiers", "TIER", claimed=False,
)  # fmt: skip
BANDS = Subject(
    "A queue class (BAND), like high, in the tables of sweeps",
    "a row a direction of a link: share",
    "{}", "links", "BAND", nameless=True, claimed=False,
)  # fmt: skip
CLUSTER = Subject(
    "The jobs of a cluster, where there is one",
    "a row a job and seed that came in the window: seed, job, completion_ns (none: unfinished), "
    "queueing_ns, met (1 or 0; none: no deadline), fairness, suspended_ns, iteration_ns and "
    "computing (of jobs that train), status; and, in every row, of the whole run: makespan_ns, "
    "gpu_use",
    "cluster", "cluster", "", ("job",), paired=True,
)  # fmt: skip
SUBJECTS = (FLOWS, MIXES, SHARING, JOBS, HOSTS, TRAINING, CLUSTER, LINKS, TIERS, BANDS)


@dataclass(frozen=True)
class Over:
    """A statistic of one number for each row. It is drawn again and again for its interval."""

    each: "str | Callable[[pd.DataFrame], Floats]"  # a column, or made from them; NaN is no number
    statistic: Statistic

    def numbers(self, table: "pd.DataFrame") -> Floats:
        found = table[self.each] if isinstance(self.each, str) else self.each(table)
        return np.asarray(found, dtype=float)

    def value(self, table: "pd.DataFrame") -> float:
        numbers = self.numbers(table)
        return self.statistic.of(numbers[~np.isnan(numbers)])


@dataclass(frozen=True)
class Whole:
    """Any other function of the table. It has no interval, and its change has none either."""

    value: "Callable[[pd.DataFrame], float]"


@dataclass(frozen=True)
class Bars:
    """The change against the first policy, in the panel of this title."""

    panel: str


@dataclass(frozen=True)
class Values:
    """The values under all policies with their intervals, in a panel of its own."""

    log: bool = False


@dataclass(frozen=True)
class Metric:
    name: str
    of: Subject
    unit: Unit
    better: Better
    title: str  # beside its subject: "mean FCT" of small flows
    meaning: str  # one line
    how: Over | Whole
    heading: str = ""  # where it stands for itself, if that is not its title
    headline: bool = False  # the one that sentences and tables of tenants are about
    row: bool = False  # of the comparison
    row_at: int = 0  # where among the rows of its subject; else the order of the files
    swept: bool = False  # has maps and lines on the page of a sweep
    plot: Bars | Values | None = None  # in the report

    def __post_init__(self) -> None:
        """Nothing that is declared may go unheard."""
        drawn = isinstance(self.how, Over)
        if drawn and not self.of.drawn:
            raise ValueError(f"{self.pattern}: Over needs rows that can be drawn; use Whole")
        if not drawn and (self.swept or isinstance(self.plot, Bars)):
            raise ValueError(f"{self.pattern}: a sweep and Bars show changes, which needs Over")
        if self.of.nameless and (self.name or self.row or self.plot):
            raise ValueError(f"{self.pattern}: has no name, no row and no plot")

    @property
    def key(self) -> str:
        """Its key in summary.json."""
        return f"{self.name}{self.unit.suffix}"

    @property
    def pattern(self) -> str:
        """Its name in claims, with capitals for what depends on the experiment."""
        return self.path(self.of.whose)

    @property
    def alone(self) -> str:
        text = self.heading or self.title
        return text[0].upper() + text[1:]

    def path(self, whose: str = "") -> str:
        """Its name in claims: flows.small.fct_mean."""
        return self.of.path(whose, self.name)
