"""The experiment file as one frozen object: validated once, and trusted everywhere after.

`load` is the way in, `Experiment` what comes out. Everything that can be known to be wrong before
anything is started is found here, and said in one line.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

import topologies
from testbed import units
from testbed.errors import BadInput
from testbed.records import SCHEMA_VERSION
from testbed.specfile import At, bad, complaint, nearest, read_mapping, with_overrides
from testbed.spechosts import DOCKER, NAMESPACES, ContainerSpec, HostKind
from testbed.specjobs import TrainingJob, placed
from testbed.specparts import (
    FlowMix,
    PolicyChoice,
    SafeName,
    SomeTime,
    Spec,
    Text,
    Time,
    integer,
    listed,
    number,
    one_of,
)
from testbed.spectopology import Delay, TopologySpec
from testbed.units import shown
from workloads import schedule

__all__ = [
    "Claim", "Delay", "Experiment", "FlowMix", "PolicyChoice", "TopologySpec", "TrainingJob", "load"
]  # fmt: skip

MOST_SEEDS = 10_000
MOST_FLOWS = 20_000_000  # of one mix and seed; more would not fit in memory
LARGEST_DILATION = 1e6

SIZE_CLASSES = ("small", "medium", "large", "all")
FLOW_METRICS = ("fct_mean", "fct_p50", "fct_p95", "fct_p99", "slowdown_mean", "unfinished")
JOB_METRICS = ("jct_mean", "barrier_wait_mean", "barrier_wait_variance", "straggler_share")
TRAINING_METRICS = ("iteration_mean", "iteration_p99", "slowdown")


def _bounded(text: object) -> tuple[str, str]:
    """ "at most -10 %" -> ("at most", "-10 %")."""
    match = re.fullmatch(r"\s*(at most|at least)\s+(\S.*)", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"found {shown(text)}; write it like at most -10 % or at least 500 ms")
    return match[1], match[2].strip()


TIMES = ("fct_", "iteration_", "jct_", "barrier_wait_mean")


def _measure(metric: str, text: str) -> float:
    """A value of this metric in its base unit: ns for times, else a plain number."""
    if metric.rpartition(".")[2].startswith(TIMES):
        return float(units.time_ns(text))
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text):
        raise ValueError(f"found {shown(text)}; {metric} is a plain number, like at most 1.5")
    return float(text)


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
        if (self.change_text is None) != (self.against is None):
            raise At(["against"], "a change needs the policy to compare with; a value has none")
        try:
            _ = self.value
        except ValueError as error:
            raise At([self.kind], str(error)) from None
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
        return units.change(text) if self.kind == "change" else _measure(self.metric, text)

    @property
    def text(self) -> str:
        return f"{self.kind}: {self._given}"

    @property
    def _given(self) -> str:
        return self.change_text or self.value_text or ""

    def plain(self) -> dict[str, Any]:
        against = {} if self.against is None else {"against": self.against}
        return {"metric": self.metric, "of": self.of, **against, self.kind: self._given}


def _seeds(value: object) -> list[int]:
    seeds = listed(value)
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise ValueError(f"found {len(seeds)} seeds; give 1 to {MOST_SEEDS}, like [0, 1, 2]")
    check = integer(0, units.LARGEST)
    for index, seed in enumerate(seeds):
        try:
            check(seed)
        except ValueError as error:
            raise At([index], str(error)) from None
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


class Experiment(Spec):
    what: ClassVar[str] = "an experiment"

    name: SafeName
    question: Text = ""
    topology: TopologySpec
    duration_ns: SomeTime = Field(alias="duration")
    warmup_ns: Time = Field(alias="warmup", default=0)
    cooldown_ns: Time = Field(alias="cooldown", default=0)
    training: Annotated[
        tuple[TrainingJob, ...], BeforeValidator(listed), AfterValidator(placed)
    ] = ()
    flows: Annotated[tuple[FlowMix, ...], BeforeValidator(listed)] = ()
    policies: Annotated[tuple[PolicyChoice, ...], BeforeValidator(_some)]
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)]
    claims: Annotated[tuple[Claim, ...], BeforeValidator(listed)] = ()
    tcp: Annotated[
        str, BeforeValidator(one_of("congestion control", "cubic", "reno", "bbr", "dctcp"))
    ] = "cubic"
    offload: Annotated[bool | Literal["auto"], BeforeValidator(_offload)] = "auto"
    dilation: Annotated[float | Literal["auto"], BeforeValidator(_dilation)] = "auto"
    on_failure: Annotated[str, BeforeValidator(one_of("choice", "end", "continue"))] = (
        "end"  # when a parameter server dies: the run ends, or only its job does
    )
    hosts: HostKind = NAMESPACES
    container: ContainerSpec | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        edges_ns = self.warmup_ns + self.cooldown_ns
        if self.duration_ns <= edges_ns:
            raise At(
                ["duration"],
                f"found {units.format_time(self.duration_ns)}; it must be longer than warmup plus "
                f"cooldown, {units.format_time(edges_ns)}",
            )
        if not self.training and not self.flows:
            raise ValueError("found neither training nor flows; give at least one of them")
        if self.container is not None and self.hosts != DOCKER:
            raise At(["container"], f"found limits, but hosts are {self.hosts}; add hosts: docker")
        self._check_names()
        for job in self.training:
            entry = job.entry
            try:
                job.settle(self.host_names, self.duration_ns)
            except At as error:
                raise At(["training", entry, *error.path], str(error)) from None
        for index, mix in enumerate(self.flows):
            count = schedule.expected_flows(mix, self.topology.hosts, self.duration_ns)
            if count > MOST_FLOWS:
                raise At(
                    ["flows", index, "arrivals"],
                    f"found about {count:.2g} flows in all; {MOST_FLOWS} are the most",
                )
        for index, claim in enumerate(self.claims):
            self._check_claim(index, claim)
        return self

    def _check_names(self) -> None:
        seen: set[str] = set()
        jobs = [("training", job.entry, job.name) for job in self.training]
        mixes = [("flows", index, mix.name) for index, mix in enumerate(self.flows)]
        for kind, index, name in jobs + mixes:
            if name in seen:
                raise At([kind, index, "name"], f"found {shown(name)} twice; names are unique")
            seen.add(name)
        labels: set[str] = set()
        for index, choice in enumerate(self.policies):
            if choice.label in labels:
                raise At(
                    ["policies", index, "label"],
                    f"found {shown(choice.label)} twice; give each its own label, "
                    "like {policy: fifo, label: fifo-2}",
                )
            labels.add(choice.label)
            for name in choice.bands:
                if name not in seen:
                    raise At(
                        ["policies", index, "bands", name],
                        f"found an unknown job or mix{nearest(name, sorted(seen))}",
                    )

    def _check_claim(self, index: int, claim: Claim) -> None:
        known = self.metrics
        if claim.metric not in known:
            raise At(
                ["claims", index, "metric"],
                f"found {shown(claim.metric)}, an unknown metric{nearest(claim.metric, known, 6)}",
            )
        labels = [choice.label for choice in self.policies]
        for key, label in (("of", claim.of), ("against", claim.against)):
            if label is not None and label not in labels:
                raise At(
                    ["claims", index, key],
                    f"found {shown(label)}, no policy of this file{nearest(label, labels)}",
                )
        if claim.of == claim.against:
            raise At(["claims", index, "against"], f"found {shown(claim.of)}, the same as of")

    @property
    def metrics(self) -> list[str]:
        """Every metric that a claim of this experiment may name."""
        flows = [f"flows.{size}.{m}" for size in SIZE_CLASSES for m in FLOW_METRICS if self.flows]
        jobs = [f"training.{j.name}.{m}" for j in self.training for m in TRAINING_METRICS]
        several = any(job.has_servers or job.steps for job in self.training)
        return flows + jobs + [f"jobs.{metric}" for metric in JOB_METRICS if several]

    @property
    def window_ns(self) -> tuple[int, int]:
        """The part of the run that counts."""
        return self.warmup_ns, self.duration_ns - self.cooldown_ns

    @property
    def host_names(self) -> tuple[str, ...]:
        return topologies.host_names(self.topology.hosts)

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
            "policies": [choice.plain() for choice in self.policies],
            "seeds": list(self.seeds),
            "claims": [claim.plain() for claim in self.claims],
            "tcp": self.tcp,
            "offload": self.offload,
            "dilation": self.dilation,
            "on_failure": self.on_failure,
            "hosts": self.hosts,
        }
        if self.container is not None:
            plain["container"] = self.container.plain()
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)

    def only(self, labels: Sequence[str] = (), seeds: Sequence[int] = ()) -> Self:
        """This experiment with some of its policies and other seeds; empty means as it is.

        A claim about a policy that is left out is left out too.
        """
        known = {choice.label: choice for choice in self.policies}
        for label in labels:
            if label not in known:
                raise bad(f"--policy {label}: not in this file; it has {', '.join(known)}")
        if any(seed < 0 for seed in seeds):
            raise bad(f"--seed {min(seeds)}: a seed is 0 or more")
        kept = [choice for choice in self.policies if not labels or choice.label in labels]
        present = {choice.label for choice in kept}
        claims = [
            claim
            for claim in self.claims
            if claim.of in present and (claim.against is None or claim.against in present)
        ]
        return self.model_copy(
            update={
                "policies": tuple(kept),
                "seeds": tuple(dict.fromkeys(seeds)) or self.seeds,
                "claims": tuple(claims),
            }
        )

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
            "policies": [_planned_policy(choice) for choice in self.policies],
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
            "jobs": [_planned_job(job) for job in self.training],
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


def _planned_policy(choice: PolicyChoice) -> dict[str, Any]:
    policy = choice.link_policy
    return {
        "label": choice.label,
        "policy": choice.policy,
        "title": policy.title,
        "description": policy.description,
        "bands": list(policy.bands),
    }


def _planned_job(job: TrainingJob) -> dict[str, Any]:
    profile = job.scaled_profile
    return {
        "name": job.name,
        "family": job.family or job.name,
        "workers": len(job.host_names),
        "hosts": list(job.host_names),
        "compute_ns": profile.compute_ns,  # what the layers add up to, not what was asked
        "model_byte": profile.total_byte,
        "aggregation": job.aggregation,
        # A real stack decides these itself.
        "order": job.order if job.backend == "native" else "fifo",
        "barrier": job.barrier if job.backend == "native" else True,
        "backend": job.backend,
        "servers": list(job.server_names),
        "start_ns": job.start_ns,
        "steps": job.steps,
        "staleness": job.staleness,
    }


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment in a file, with `key.path=value` overrides. Raises BadInput, in one line."""
    data = with_overrides(path, read_mapping(path), overrides)
    if "sweep" in data:
        raise bad(
            f"{path}: sweep: this file describes many experiments; use `giveway sweep {path}`"
        )
    return validated(path, data, overrides)


def validated(path: Path, data: dict[Any, Any], overrides: Sequence[str] = ()) -> Experiment:
    """The experiment that is written in `data`, which came from the file `path`."""
    try:
        experiment = Experiment.model_validate(data, context={"folder": path.parent})
    except ValidationError as error:
        raise complaint(path, error, overrides) from None
    for index, mix in enumerate(experiment.flows):
        if mix.schedule is not None:
            try:
                schedule.read_csv(mix.schedule, experiment.host_names, experiment.duration_ns)
            except BadInput as error:
                raise bad(f"{path}: flows.{index}.schedule: {error}") from None
    return experiment
