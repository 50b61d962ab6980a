"""A policy of an experiment file: which one, what it is told, and whether it fits every port."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from basics.hints import nearest
from basics.options import Options, told
from basics.units import shown
from policies.link import LinkPolicy, Port, ServerPort, Situation, link_policies
from policies.link.discipline import faults
from policies.link.policy import PERIOD
from policies.link.port import ServerMap, marking_ns
from testbed.spec.chosen import Chosen
from testbed.spec.jobs import TrainingJob
from testbed.spec.mistakes import At, collected
from testbed.spec.transfer import TransferChoice
from testbed.spec.values import known
from topologies import Topology
from workloads.jobports import job_port

# A policy's label names a folder beside these files of the run folder.
RESERVED_LABELS = frozenset({"experiment.yaml", "plan.json", "summary.json", "report.html"})

_known_policy = known("policy", lambda: list(link_policies()))


def _bands(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"found {shown(value)}; it must be like {{resnet50: low}}")
    collected(
        At([name], f"found {shown(band)}; it must be like resnet50: low")
        for name, band in value.items()
        if not isinstance(name, str) or not isinstance(band, str)
    )
    return value


class PolicyChoice(Chosen):
    """A policy to compare, and which band it gives to whom if not the policy's own choice."""

    policy: Annotated[str, BeforeValidator(_known_policy)]
    bands: Annotated[dict[str, str], BeforeValidator(_bands)] = Field(default_factory=dict)
    transfer: TransferChoice | None = None  # of every job, whatever the job says

    @classmethod
    def declared(cls, name: str) -> Options | None:
        found = link_policies().get(name)
        return None if found is None else found.options

    @field_validator("label")
    @classmethod
    def _not_a_file(cls, label: str) -> str:
        if label in RESERVED_LABELS:
            raise ValueError(f"found {shown(label)}, a file of the run folder; take another label")
        return label

    @model_validator(mode="after")
    def _bands_exist(self) -> Self:
        known = self.link_policy.bands
        collected(
            At(["bands", name], f"found {shown(band)}", partial(nearest, band, known))
            for name, band in self.bands.items()
            if band not in known
        )
        return self

    @property
    def link_policy(self) -> LinkPolicy:
        return link_policies()[self.policy].told(self.options)

    def beside(self, transfer: TransferChoice) -> Self:
        """This policy, with a transfer policy for all jobs."""
        label = f"{self.label}+{transfer.label}"
        return self.model_copy(update={"transfer": transfer, "label": label})

    @property
    def title(self) -> str:
        beside = f" + {self.transfer.title}" if self.transfer else ""
        return self.link_policy.title + beside

    @property
    def description(self) -> str:
        """What becomes of packets, with the file's options, and how jobs send if it says so."""
        policy = self.link_policy
        said = ", ".join(
            f"{key} {value}"
            for key, value in told(policy.options, self.options).items()
            if key != PERIOD  # which the policy says itself
        )
        found = policy.described + (f" ({said})" if said else "")
        return f"{found}; transfers: {self.transfer.description}" if self.transfer else found

    def plain(self) -> dict[str, Any]:
        plain = super().plain()
        if self.transfer is not None:
            plain["transfer"] = self.transfer.plain()
        return {**plain, "bands": dict(self.bands)} if self.bands else plain


def crossed(
    choices: Sequence[PolicyChoice], transfers: Sequence[TransferChoice]
) -> tuple[PolicyChoice, ...]:
    """Every policy with every transfer policy."""
    if not transfers:
        return tuple(choices)
    return tuple(choice.beside(transfer) for choice in choices for transfer in transfers)


# ---- every port -----------------------------------------------------------------------------


def server_map(training: Sequence[TrainingJob]) -> ServerMap:
    """Where parameter servers are, and who pushes to them, in the order of the jobs."""
    held: dict[str, list[ServerPort]] = {}
    pushed_to: dict[str, list[ServerPort]] = {}
    for at, job in enumerate(training):
        pushing = job.host_names + job.summing_names
        for found, hosts in ((held, job.server_names), (pushed_to, pushing)):
            for host in hosts if job.has_servers else ():
                found.setdefault(host, []).append(ServerPort(job.name, job_port(at)))
    jobs = (
        ServerPort(job.name, job_port(at), job.scaled_profile.total_byte)
        for at, job in enumerate(training)
        if job.backend == "native"
    )
    held_by, pushed_by = ({host: tuple(some[host]) for host in some} for some in (held, pushed_to))
    return ServerMap(held_by, pushed_by, tuple(jobs))


def kinds_of_ports(graph: Topology, servers: ServerMap, tcp: str) -> Iterator[Port]:
    """The ports of a topology, one of those that are alike."""
    seen = set()
    for link in graph.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            told = servers.at(near, far)
            marks = tcp == "dctcp" and near in graph.switches
            kind = link.cable, marks, *told.values()
            if kind in seen:
                continue
            seen.add(kind)
            rate_bps = link.cable.rate_bps
            yield Port(
                f"{near}->{far}",
                rate_bps,
                link.cable.queue_packets,
                link.cable.delay_ns,
                mark_ns=marking_ns(rate_bps) if marks else 0,
                **told,
            )


def fault_at_a_port(policy: LinkPolicy, ports: Sequence[Port], tcp: str) -> str | None:
    """The first thing that makes a policy unusable in an experiment with these ports."""
    for kind in ("flows", "training"):
        if policy.band_of(kind) not in policy.bands:
            return f"{kind} are put into {policy.band_of(kind)}{nearest('', policy.bands)}"
    for port in ports:
        discipline = policy.discipline_at(port)
        for fault in faults(discipline):
            return f"{fault} (at {port.device})"
        if tuple(one.name for one in discipline.band_classes) != policy.bands:
            return f"other bands at {port.device} than elsewhere; they are the same at every port"
        if any(
            discipline.demotions_from(band) != policy.demotions_from(band, scale=1)
            for band in policy.bands
        ):
            return f"other demotions at {port.device} than elsewhere; senders know of no ports"
        if policy.acts:
            later = Situation(3 * policy.period_ns)
            if not policy.discipline_at(port, later).same_queues(discipline):
                return f"other queues at {port.device} later; only where servers wait may change"
        marks = [one.name for one in discipline.classes if one.mark_ns]
        if marks and tcp != "dctcp":
            return f"class {marks[0]} marks packets, which tcp: {tcp} does not heed; take dctcp"
    return None
