"""The experiment file as one frozen object: validated once, and trusted everywhere after.

`load` is the way in, `Experiment` what comes out. Everything that can be known to be wrong before
anything is started is found here, and said in one line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

import topologies
from analysis import metrics
from basics import resources, units
from basics.hints import nearest
from basics.record_version import SCHEMA_VERSION
from basics.units import shown
from policies.link import Port
from testbed.spec.across import (
    can_be_played,
    can_be_sent,
    long_enough,
    only_docker,
    told_apart,
)
from testbed.spec.cluster import Cluster, ClusterSpec
from testbed.spec.cluster_training import TRAINING
from testbed.spec.hosts import NAMESPACES, ContainerSpec, HostKind
from testbed.spec.job_misfits import BOTH
from testbed.spec.jobs import TrainingJob
from testbed.spec.mistakes import At, Mistakes, bad, collected, refusal
from testbed.spec.parts import FlowMix
from testbed.spec.placements import Arm, PlacementChoice, arms, schedulable
from testbed.spec.placing import placed
from testbed.spec.policy import PolicyChoice, crossed, kinds_of_ports, server_map
from testbed.spec.sampling import Sampling
from testbed.spec.topology import Delay, TopologySpec
from testbed.spec.transfer import TransferChoice
from testbed.spec.transport import Transport
from testbed.spec.values import (
    SafeName,
    SomeTime,
    Spec,
    Text,
    Time,
    integer,
    listed,
    number,
    one_of,
    up_to,
)
from testbed.spec.yaml_file import Document, read, with_overrides
from workloads.jobports import MOST_JOBS

__all__ = [
    "Claim", "Delay", "Experiment", "FlowMix", "PolicyChoice", "TopologySpec", "TrainingJob", "load"
]  # fmt: skip

MOST_SEEDS = 10_000
LARGEST_DILATION = 1e6


def _bounded(text: object) -> tuple[str, str]:
    """ "at most -10 %" -> ("at most", "-10 %")."""
    match = re.fullmatch(r"\s*(at most|at least)\s+(\S.*)", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"found {shown(text)}; write it like at most -10 % or at least 500 ms")
    return match[1], match[2].strip()


class Claim(Spec):
    """What the experiment is expected to show; checked after the runs.

    `change` is the relative change of `of` against `against`, `value` the metric of `of` itself.
    """

    what: ClassVar[str] = "a claim"

    metric: Text
    of: Text
    against: Text | None = None
    change_text: Text | None = Field(alias="change", default=None)
    value_text: Text | None = Field(alias="value", default=None)

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.change_text is None) == (self.value_text is None):
            raise ValueError("a claim has either change (with against) or value; give one of them")
        mistakes = Mistakes()
        if (self.change_text is None) != (self.against is None):
            mistakes.add(["against"], "a change needs the policy to compare with; a value has none")
        try:
            _, text = _bounded(self._given)
            found = metrics.named(self.metric)
            if self.kind == "change":
                units.change(text)
            elif found is not None:  # else the experiment says that there is no such metric
                found[0].unit.parse(text)
        except ValueError as error:
            mistakes.take(error, self.kind)
        mistakes.refuse()
        return self

    @property
    def kind(self) -> Literal["change", "value"]:
        return "value" if self.change_text is None else "change"

    @property
    def bound(self) -> str:
        """ "at most" or "at least"."""
        return _bounded(self._given)[0]

    @property
    def value(self) -> float:
        """A share for a change (-0.1), base units for a value."""
        text = _bounded(self._given)[1]
        if self.kind == "change":
            return units.change(text)
        return metrics.known(self.metric).unit.parse(text)

    @property
    def text(self) -> str:
        return f"{self.kind}: {self._given}"

    @property
    def _given(self) -> str:
        return self.change_text or self.value_text or ""

    def plain(self) -> dict[str, Any]:
        against = {} if self.against is None else {"against": self.against}
        return {"metric": self.metric, "of": self.of, **against, self.kind: self._given}


a_seed = integer(0, units.LARGEST)


def _seeds(value: object) -> list[int]:
    seeds = value if isinstance(value, list) else listed(value)
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise ValueError(f"found {len(seeds)} seeds; give 1 to {MOST_SEEDS}, like [0, 1, 2]")
    mistakes = Mistakes()
    for index, seed in enumerate(seeds):
        try:
            a_seed(seed)
        except ValueError as error:
            mistakes.take(error, index)
    mistakes.refuse()
    if len(set(seeds)) < len(seeds):
        raise ValueError("found a seed twice; every seed may be there once")
    return seeds


def _some(value: object) -> list[Any]:
    entries = listed(value)
    if not entries:
        raise ValueError("found none; give at least one policy, like [fifo, strict-priority]")
    return entries


def _offload(value: object) -> bool | str:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError(f"found {shown(value)}; it must be on, off or auto")


def _dilation(value: object) -> float | str:
    check = number(1, LARGEST_DILATION, f"auto or a number from 1 to {LARGEST_DILATION:g}")
    return "auto" if value == "auto" else check(value)


def _about_what_is_there(claims: tuple[Claim, ...], info: ValidationInfo) -> tuple[Claim, ...]:
    collected(_claim_mistakes(claims, info.data))
    return claims


def _claim_mistakes(claims: Sequence[Claim], above: Mapping[str, Any]) -> Iterator[At]:
    if {"training", "flows", "cluster"} <= above.keys():
        there = above["cluster"] is not None
        known = dict.fromkeys(_metrics(above["training"], above["flows"], cluster=there))
        for index, claim in enumerate(claims):
            if claim.metric not in known:
                yield _unknown(index, claim.metric, known)
    labels = {arm.label: 0 for arm in _arms(above)}
    for index, claim in enumerate(claims):
        for key, label in (("of", claim.of), ("against", claim.against)):
            if label is not None and label not in labels and labels:
                why = f"found {shown(label)}, no policy of this file"
                yield At([index, key], why, partial(nearest, label, labels))
        if claim.of == claim.against:
            yield At([index, "against"], f"found {shown(claim.of)}, the same as of")


def _unknown(index: int, metric: str, known: Mapping[str, object]) -> At:
    """A claim about nothing: about what other files have, or about what nobody has."""
    found = metrics.named(metric)
    if found is not None and found[0].of.claimed and not found[1]:
        title = found[0].of.title
        what = title[0].lower() + title[1:]
        return At([index, "metric"], f"found {shown(metric)}, which is not in this file: of {what}")
    hint = partial(nearest, metric, known, 6)
    return At([index, "metric"], f"found {shown(metric)}, an unknown metric", hint)


def _arms(known: Mapping[str, Any]) -> list[Arm]:
    """What is compared, as far as all that its labels are made of is right."""
    if not {"policies", "transfers", "placements"} <= known.keys():
        return []
    if known["placements"] and not {"training", "flows"} <= known.keys():
        return []
    choices = crossed(known["policies"], known["transfers"])
    return arms(choices, known["placements"], alone=not _sends(known))


def _metrics(
    training: Sequence[TrainingJob], mixes: Sequence[FlowMix], *, cluster: bool
) -> list[str]:
    """Every metric that a claim may name."""
    waiting = [""] if any(job.has_servers or job.steps for job in training) else []
    return metrics.paths(
        {
            metrics.FLOWS: metrics.SIZE_CLASSES if mixes else [],
            metrics.MIXES: [mix.name for mix in mixes],
            metrics.SHARING: [""] if len(mixes) > 1 else [],
            metrics.TRAINING: [job.name for job in training],
            metrics.JOBS: waiting,
            metrics.HOSTS: waiting,
            metrics.LINKS: [""],
            metrics.CLUSTER: [""] if cluster else [],
        }
    )


class Experiment(Spec):
    what: ClassVar[str] = "an experiment"

    name: SafeName
    question: Text = ""
    # A key's own check sees the keys above it, as far as those are right.
    topology: TopologySpec
    warmup_ns: Time = Field(alias="warmup", default=0)
    cooldown_ns: Time = Field(alias="cooldown", default=0)
    duration_ns: Annotated[SomeTime, AfterValidator(long_enough)] = Field(alias="duration")
    training: Annotated[
        tuple[TrainingJob, ...], BeforeValidator(up_to(MOST_JOBS)), AfterValidator(placed)
    ] = ()
    flows: Annotated[
        tuple[FlowMix, ...], BeforeValidator(listed), AfterValidator(can_be_played)
    ] = ()
    transport: Transport = Field(alias="tcp", default=Transport())
    policies: Annotated[
        tuple[PolicyChoice, ...], BeforeValidator(_some), AfterValidator(told_apart)
    ] = (PolicyChoice.named("fifo"),)
    transfers: Annotated[
        tuple[TransferChoice, ...], BeforeValidator(listed), AfterValidator(can_be_sent)
    ] = ()
    cluster: Cluster | None = None
    placements: Annotated[
        tuple[PlacementChoice, ...], BeforeValidator(listed), AfterValidator(schedulable)
    ] = ()
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)]
    claims: Annotated[
        tuple[Claim, ...], BeforeValidator(listed), AfterValidator(_about_what_is_there)
    ] = ()
    sample: Sampling | None = None
    offload: Annotated[bool | Literal["auto"], BeforeValidator(_offload)] = "auto"
    dilation: Annotated[float | Literal["auto"], BeforeValidator(_dilation)] = "auto"
    on_failure: Annotated[str, BeforeValidator(one_of("choice", "end", "continue"))] = (
        "end"  # when a parameter server dies: the run ends, or only its job does
    )
    hosts: HostKind = NAMESPACES
    container: Annotated[ContainerSpec | None, AfterValidator(only_docker)] = None

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        cluster = bool(data.get("cluster"))
        return super().keys(data) | {"policies": not cluster or _sends(data), "placements": cluster}

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        if _sends(data):
            return
        if not data.get("cluster"):
            yield At([], "found neither training nor flows nor cluster; give at least one of them")
            return
        for key in ("policies", "tcp", "sample"):
            if key in data:
                yield At(
                    [key],
                    "found without training and flows: nothing is sent, busy jobs send nothing; "
                    "leave it out",
                )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        collected(self._misfits_of_the_whole())
        return self

    def _misfits_of_the_whole(self) -> Iterator[At]:
        stacks = sorted(self.backends - {"native"})
        if self.topology.cores is not None and stacks:
            yield At(
                ["topology", "cores"],
                f"found {self.topology.cores} beside backend: {stacks[0]}, which computes on the "
                "machine's own; it is for native jobs: leave it out",
            )
        native = any(job.backend == "native" for job in self.training)
        if self.sample is not None and not native and not self.flows:
            yield At(
                ["sample"],
                "found tcp, but there are no flows and no native job here, and other stacks keep "
                "their connections to themselves; leave it out",
            )
        if self.sample is not None and self.sample.tcp_ns >= self.duration_ns:
            yield At(
                ["sample", "tcp"],
                f"found {units.format_time(self.sample.tcp_ns)}, and the run is over before that",
            )
        yield from self._misfits_of_its_cluster()
        if self.on_failure != "end" and not native:
            yield At(
                ["on_failure"],
                f"found {self.on_failure}, but no job here is native, and a real stack ends with "
                "its first worker; leave it out",
            )

    def _misfits_of_its_cluster(self) -> Iterator[At]:
        entries = self.cluster.jobs if self.cluster else ()
        count = sum(entry.count or 0 for entry in entries if entry.trains)
        if len(self.training) + count > MOST_JOBS:
            why = f"found {count} jobs that train; TCP ports last for {MOST_JOBS} jobs in all"
            yield At(["cluster", "jobs"], why)
        real = next((entry.name for entry in entries if entry.is_real), None)
        yield from () if real is None else self._misfits_beside_real_jobs(real)
        for index, entry in enumerate(entries):
            if not entry.trains:
                continue
            for at, transfer in enumerate(self.transfers):
                fault = entry.job.fault_of(transfer)
                if fault is not None:
                    yield At(["transfers", at], f"{fault} (jobs {entry.name} of the cluster)")
            like = re.compile(rf"{re.escape(entry.name)}-[0-9]+")
            for job in (job.name for job in self.training if like.fullmatch(job.name)):
                yield At(
                    ["cluster", "jobs", index, "name"],
                    f"found {shown(entry.name)}, whose jobs are called like {job}, a job under "
                    "training; take another name",
                )

    def _misfits_beside_real_jobs(self, name: str) -> Iterator[At]:
        """What a cluster's jobs cannot do whose ranks are a real stack's."""
        whose = f"jobs {name} of the cluster are torch's"
        for index, placement in enumerate(self.placements):
            if placement.scheduler.pack > 1:
                why = f"found {placement.scheduler.pack}, and {whose}, which share no GPUs"
                yield At(["placements", index, "pack"], f"{why}; leave it out")
        for index, choice in enumerate(self.policies):
            if choice.link_policy.steering is not None:
                why = f"found {choice.policy}, which moves workers between bands by itself"
                yield At(["policies", index], f"{why}, and {whose}, where nobody does that")

    @property
    def metrics(self) -> list[str]:
        """Every metric that a claim of this experiment may name."""
        return _metrics(self.training, self.flows, cluster=self.cluster is not None)

    @property
    def sends(self) -> bool:
        """Whether anything goes over the network; a cluster's busy jobs send nothing."""
        trains = self.cluster is not None and self.cluster.trains
        return bool(self.training or self.flows or trains)

    @property
    def backends(self) -> frozenset[str]:
        """What jobs are trained by, those of a cluster too."""
        entries = () if self.cluster is None else self.cluster.jobs
        own = {entry.job.backend for entry in entries if entry.trains}
        return frozenset(own | {job.backend for job in self.training})

    @property
    def choices(self) -> tuple[PolicyChoice, ...]:
        """Every policy with every transfer policy."""
        return crossed(self.policies, self.transfers)

    @property
    def arms(self) -> list[Arm]:
        """What is compared: every choice, with every placement if there is a cluster."""
        return arms(self.choices, self.placements, alone=not self.sends)

    @property
    def notes(self) -> list[str]:
        """What is allowed, and worth a word before it is run."""
        found: dict[str, None] = {}
        for choice in self.choices:
            for job in self.training:
                sizes = [layer.bytes for layer in job.scaled_profile.layers]
                bucket_byte = job.fusion_byte if job.backend == "torch" else None
                said = (choice.transfer or job.sending).one_at_a_time(sizes, bucket_byte)
                if said is not None:
                    found[said] = None
        for job in self.training:
            if job.reduce is not None and len(set(job.racks)) == 1:
                found[
                    f"job {job.name}: all workers are in one rack: "
                    f"{(*job.summing_names, job.host_names[0])[0]} sums for "
                    "all of them"
                ] = None
        return list(found)

    @property
    def window_ns(self) -> tuple[int, int]:
        """The part of the run that counts."""
        return self.warmup_ns, self.duration_ns - self.cooldown_ns

    @property
    def host_names(self) -> tuple[str, ...]:
        return topologies.host_names(self.topology.hosts)

    @property
    def tcp(self) -> str:
        """The congestion control of every sender."""
        return self.transport.control

    @property
    def sample_ns(self) -> int:
        """How often connections are sampled; 0: never."""
        return 0 if self.sample is None else self.sample.tcp_ns

    @property
    def kinds_of_ports(self) -> list[Port]:
        """The ports of the network, one of those that are alike."""
        servers = server_map(self.training)
        return list(kinds_of_ports(self.topology.graph, servers, self.tcp))

    def bands(self, choice: PolicyChoice) -> dict[str, str]:
        """The band of every job and mix under a policy: the file's choice, else the policy's."""
        own = choice.link_policy.band_of
        default = {job.name: own("training") for job in self.training}
        default |= {mix.name: own("flows") for mix in self.flows}
        return {name: choice.bands.get(name, band) for name, band in default.items()}

    def to_yaml(self) -> str:
        """The file with every default written out; it loads back to an equal experiment."""
        plain = {
            "name": self.name,
            "question": self.question,
            "topology": self.topology.plain(),
            "duration": units.format_time(self.duration_ns),
            "warmup": units.format_time(self.warmup_ns),
            "cooldown": units.format_time(self.cooldown_ns),
            "training": [job.plain() for job in self.training],
            "flows": [mix.plain() for mix in self.flows],
            **({"policies": [choice.plain() for choice in self.policies]} if self.sends else {}),
            "transfers": [transfer.plain() for transfer in self.transfers],
            "seeds": list(self.seeds),
            "claims": [claim.plain() for claim in self.claims],
            **({"tcp": self.transport.plain()} if self.sends else {}),
            "offload": self.offload,
            "dilation": self.dilation,
            "on_failure": self.on_failure,
            "hosts": self.hosts,
        }
        if self.sample is not None:
            plain["sample"] = self.sample.plain()
        if self.container is not None:
            plain["container"] = self.container.plain()
        if self.cluster is not None:
            plain["cluster"] = self.cluster.plain()
            plain["placements"] = [choice.plain() for choice in self.placements]
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)

    def only(self, labels: Sequence[str] = (), seeds: Sequence[int] = ()) -> Self:
        """This experiment with some policies and placements and other seeds; empty means as it is.

        A claim about a policy that is left out is left out too.
        """
        links = {choice.label: choice for choice in self.choices if self.sends}
        places = {choice.label: choice for choice in self.placements}
        known = dict.fromkeys((*links, *places))
        for label in labels:
            if label not in known:
                raise bad(f"--policy {label}: not in this file{nearest(label, known)}")
        for seed in seeds:
            try:
                a_seed(seed)
            except ValueError as error:
                raise bad(f"--seed {shown(seed)}: {error}") from None
        update: dict[str, Any] = {"seeds": tuple(dict.fromkeys(seeds)) or self.seeds}
        if not links.keys().isdisjoint(labels):
            update["policies"] = tuple(links[label] for label in links if label in labels)
            update["transfers"] = ()  # each has its own already
        if not places.keys().isdisjoint(labels):
            update["placements"] = tuple(places[label] for label in places if label in labels)
        kept = self.model_copy(update=update)
        present = {arm.label for arm in kept.arms}
        claims = tuple(
            claim
            for claim in self.claims
            if claim.of in present and (claim.against is None or claim.against in present)
        )
        return kept.model_copy(update={"claims": claims})

    def plan(
        self, engine: str, command: str, links: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The experiment for machines (plan.json): all that analysis needs to know."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "question": self.question,
            "engine": engine,
            "command": command,
            "policies": [arm.planned(alone=not self.sends) for arm in self.arms],
            "seeds": list(self.seeds),
            "duration_ns": self.duration_ns,
            "warmup_ns": self.warmup_ns,
            "cooldown_ns": self.cooldown_ns,
            "window_ns": list(self.window_ns),
            "links": [dict(link) for link in links],
            "mixes": [
                {
                    "name": mix.name,
                    "small_max_byte": mix.small_max_byte,
                    "large_min_byte": mix.large_min_byte,
                }
                for mix in self.flows
            ],
            "jobs": [_planned_job(job, self.topology.rate_bps) for job in self.training],
            "cluster": _planned_cluster(self),
            "claims": [
                {
                    "metric": claim.metric,
                    "of": claim.of,
                    "against": claim.against,
                    "kind": claim.kind,
                    "bound": claim.bound,
                    "value": claim.value,
                    "text": claim.text,
                }
                for claim in self.claims
            ],
        }


def _sends(data: Mapping[Any, Any]) -> bool:
    """Whether a file, or what is known of it so far, has something that sends."""
    cluster = data.get("cluster")
    if isinstance(cluster, ClusterSpec):
        trains = cluster.trains
    else:
        jobs = cluster.get("jobs") if isinstance(cluster, dict) else None
        own = [one for one in jobs if isinstance(one, dict)] if isinstance(jobs, list) else []
        trains = any(one.get("kind") == TRAINING for one in own)
    return bool(data.get("training") or data.get("flows") or trains)


def _planned_cluster(experiment: Experiment) -> dict[str, Any] | None:
    if experiment.cluster is None:
        return None
    capacity = experiment.cluster.capacity(experiment.topology.rate_bps)
    return {
        "hosts": experiment.topology.hosts,
        "capacity": dict(zip(resources.NAMES, capacity, strict=True)),
    }


def _planned_job(job: TrainingJob, rate_bps: int) -> dict[str, Any]:
    profile = job.scaled_profile
    read_byte = [profile.total_byte] if job.has_servers else []
    pushed_byte = [job.gradient_byte or byte for byte in read_byte if job.passes == BOTH]
    return {
        "name": job.name,
        "family": job.family or job.name,
        "workers": len(job.host_names),
        "hosts": list(job.host_names),
        "compute_ns": profile.compute_ns,  # what the layers add up to, not what was asked
        "moves_ns": [byte * 8e9 / rate_bps for byte in (*pushed_byte, *read_byte)],
        "model_byte": profile.total_byte,
        "aggregation": job.aggregation,
        "order": job.order,
        "transfer": job.sending.label,
        "barrier": job.barrier,
        "backend": job.backend,
        "servers": list(job.server_names),
        **({"aggregators": list(job.summing_names)} if job.summing_names else {}),
        "start_ns": job.start_ns,
        "steps": job.steps,
        "staleness": job.staleness,
    }


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment in a file, with `key.path=value` overrides. Raises BadInput: all mistakes."""
    document = with_overrides(read(path), overrides)
    if "sweep" in document.data:
        raise bad(
            f"{path}: sweep: this file describes many experiments; use `giveway sweep {path}`"
        )
    return validated(document)


def validated(document: Document) -> Experiment:
    """The experiment that a document describes."""
    try:
        return Experiment.model_validate(document.data, context={"folder": document.path.parent})
    except ValidationError as error:
        raise refusal(document, error) from None
