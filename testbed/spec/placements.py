"""A scheduler of an experiment file: which one, what it is told; and choices times schedulers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ValidationInfo

from basics import options
from basics.options import Options
from basics.units import shown
from policies.cluster import Scheduler, schedulers
from testbed.spec.chosen import Chosen
from testbed.spec.cluster import ClusterSpec
from testbed.spec.mistakes import At, collected
from testbed.spec.policy import RESERVED_LABELS, PolicyChoice
from testbed.spec.values import SafeName, known

_known_scheduler = known("placement", lambda: list(schedulers()))


class PlacementChoice(Chosen):
    """A scheduler to compare. Its label tells what it was told, if the file gives it none."""

    what: ClassVar[str] = "a placement"
    named_by: ClassVar[str] = "placement"

    placement: Annotated[str, BeforeValidator(_known_scheduler)]
    label: SafeName

    @classmethod
    def declared(cls, name: str) -> Options | None:
        found = schedulers().get(name)
        return None if found is None else found.options

    @classmethod
    def label_of(cls, data: dict[Any, Any]) -> Any:
        """fifo, and fifo-blocking-false if that is what the file says."""
        name = super().label_of(data)
        if not isinstance(name, str):
            return name
        told = [f"{key}-{_said(value)}" for key, value in data.items() if key != cls.named_by]
        return "-".join([name, *told]).replace(" ", "")[:64]

    @property
    def scheduler(self) -> Scheduler:
        return schedulers()[self.placement].told(self.options)

    @property
    def title(self) -> str:
        """With what it was told that is not so by default."""
        said = [f"{key} {value}" for key, value in self._told.items()]
        return ", ".join([self.scheduler.title, *said])

    @property
    def description(self) -> str:
        """With what it was told, and what that is about."""
        scheduler = self.scheduler
        said = [f"{key} {it}: {scheduler.options[key].meaning}" for key, it in self._told.items()]
        return scheduler.description + (f" ({'; '.join(said)})" if said else "")

    @property
    def _told(self) -> dict[str, str]:
        return options.told(self.scheduler.options, self.options)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Arm:
    """What is compared: a link policy with its transfer policy, and a scheduler if any."""

    choice: PolicyChoice  # under the arm's label
    placement: PlacementChoice | None = None

    @property
    def label(self) -> str:
        return self.choice.label

    def planned(self, *, alone: bool) -> dict[str, Any]:
        """For analysis; alone: nothing is sent, so that the link policy is not worth a word."""
        placement = self.placement
        title, description = self.choice.title, self.choice.description
        if placement is not None:
            title = placement.title if alone else f"{title} + {placement.title}"
            own = placement.description
            description = own if alone else f"{description}; {own}"
        return {
            "label": self.label,
            "policy": self.choice.policy,
            "title": title,
            "description": description,
            "bands": list(self.choice.link_policy.bands),
        }


def arms(
    choices: Sequence[PolicyChoice], placements: Sequence[PlacementChoice], *, alone: bool
) -> list[Arm]:
    """Every choice with every scheduler; labelled by the scheduler where nothing is sent."""
    if not placements:
        return [Arm(choice) for choice in choices]
    return [
        Arm(
            choice.model_copy(update={"label": p.label if alone else f"{choice.label}+{p.label}"}),
            p,
        )
        for choice in choices
        for p in placements
    ]


def schedulable(
    choices: tuple[PlacementChoice, ...], info: ValidationInfo
) -> tuple[PlacementChoice, ...]:
    if "cluster" in info.data:
        collected(_mistakes(choices, info.data["cluster"], info.data))
    return choices


def _mistakes(
    choices: Sequence[PlacementChoice], cluster: ClusterSpec | None, above: Mapping[str, Any]
) -> Iterator[At]:
    if cluster is None:
        if choices:
            yield At([], "found placements, but no cluster; add cluster: with hosts and jobs")
        return
    if not choices:
        yield At([], "missing; a cluster needs at least one placement, like [fifo, tetris]")
    labels: set[str] = set()
    for index, choice in enumerate(choices):
        if choice.label in labels or choice.label in RESERVED_LABELS:
            what = "twice" if choice.label in labels else "as a label, a file of the run folder"
            yield At(
                [index, "label"],
                f"found {shown(choice.label)} {what}; give each its own label, "
                "like {placement: fifo, label: fifo-2}",
            )
        labels.add(choice.label)
    if "topology" not in above:
        return
    endless = _endless(cluster, above["topology"])
    for index, choice in enumerate(choices):
        if endless and choice.scheduler.needs_durations:
            yield At(
                [index],
                f"found {choice.placement}, which needs durations, and {endless} has none; take "
                "another placement, or a trace with durations",
            )


def _endless(cluster: ClusterSpec, topology: Any) -> str | None:
    """A job without a duration, if there is one; only traces have some."""
    if all(entry.trace is None for entry in cluster.jobs):
        return None
    jobs = cluster.drawn(topology.rate_bps, topology.hosts, 0)
    return next((job.name for job in jobs if job.duration_ns is None), None)
