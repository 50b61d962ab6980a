"""What has to fit together in an experiment file: the check of a key that sees the keys above it.

Each gets what is right above its own key in `Experiment`, and looks at nothing else: no complaint
follows from another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from pydantic import ValidationInfo

import topologies
from basics import units
from basics.errors import BadInput
from basics.hints import nearest
from basics.units import shown
from testbed.spec.hosts import DOCKER, ContainerSpec
from testbed.spec.mistakes import At, collected
from testbed.spec.parts import FlowMix
from testbed.spec.policy import (
    PolicyChoice,
    fault_at_a_port,
    kinds_of_ports,
    server_map,
)
from testbed.spec.transfer import TransferChoice
from workloads import schedule


def long_enough(duration_ns: int, info: ValidationInfo) -> int:
    edges_ns = info.data.get("warmup_ns", 0) + info.data.get("cooldown_ns", 0)
    if duration_ns <= edges_ns:
        raise ValueError(
            f"found {units.format_time(duration_ns)}; it must be longer than warmup plus "
            f"cooldown, {units.format_time(edges_ns)}"
        )
    return duration_ns


def can_be_played(mixes: tuple[FlowMix, ...], info: ValidationInfo) -> tuple[FlowMix, ...]:
    collected(_flow_mistakes(mixes, info.data))
    return mixes


def _flow_mistakes(mixes: Sequence[FlowMix], above: Mapping[str, Any]) -> Iterator[At]:
    seen = {job.name for job in above.get("training", ())}
    for index, mix in enumerate(mixes):
        if mix.name in seen:
            yield At([index, "name"], f"found {shown(mix.name)} twice; names are unique")
        seen.add(mix.name)
    if "topology" not in above or "duration_ns" not in above:
        return
    hosts, duration_ns = above["topology"].hosts, above["duration_ns"]
    total = 0.0
    for index, mix in enumerate(mixes):
        if mix.senders is not None and mix.senders >= hosts:
            most = f"{hosts} hosts leave {hosts - 1} that can send to one"
            yield At([index, "pairs"], f"found {mix.pairs}; {most}")
        if mix.schedule is not None:
            try:
                schedule.read_csv(mix.schedule, topologies.host_names(hosts), duration_ns)
            except BadInput as error:
                yield At([index, "schedule"], str(error))
        total += schedule.expected_flows(mix, hosts, duration_ns)
        if total > schedule.MOST_FLOWS:
            most = f"found about {total:.2g} flows in all; {schedule.MOST_FLOWS} are the most"
            yield At([index, "arrivals"], most)
            return


def told_apart(choices: tuple[PolicyChoice, ...], info: ValidationInfo) -> tuple[PolicyChoice, ...]:
    collected(chain(_policy_mistakes(choices, info.data), _faults(choices, info.data)))
    return choices


def _policy_mistakes(choices: Sequence[PolicyChoice], above: Mapping[str, Any]) -> Iterator[At]:
    labels: set[str] = set()
    for index, choice in enumerate(choices):
        if choice.label in labels:
            yield At(
                [index, "label"],
                f"found {shown(choice.label)} twice; give each its own label, "
                "like {policy: fifo, label: fifo-2}",
            )
        labels.add(choice.label)
    if "training" in above and "flows" in above:
        names = {part.name for part in (*above["training"], *above["flows"])}
        for index, choice in enumerate(choices):
            for name in choice.bands.keys() - names:
                hint = partial(nearest, name, sorted(names))
                yield At([index, "bands", name], "found an unknown job or mix", hint)


def can_be_sent(
    transfers: tuple[TransferChoice, ...], info: ValidationInfo
) -> tuple[TransferChoice, ...]:
    collected(_transfer_mistakes(transfers, info.data))
    return transfers


def _transfer_mistakes(
    transfers: Sequence[TransferChoice], above: Mapping[str, Any]
) -> Iterator[At]:
    for index, one in enumerate(transfers):
        if one.label in {before.label for before in transfers[:index]}:
            yield At([index, "label"], f"found {shown(one.label)} twice; give each its own label")
    told = [choice for choice in above.get("policies", ()) if choice.transfer is not None]
    if transfers and told:
        why = f"found beside a transfer of the policy {told[0].label}; it is for all policies"
        yield At([], why)
    wanted = [*enumerate(transfers), *((None, choice.transfer) for choice in told)]
    if not wanted or "training" not in above:
        return
    jobs = above["training"]
    if not jobs:
        yield At([], "found, but no job trains here: leave it out")
    for at, one in wanted:
        for fault in (fault for job in jobs if (fault := job.fault_of(one)) is not None):
            yield At([] if at is None else [at], fault)
            break


def _faults(choices: Sequence[PolicyChoice], above: Mapping[str, Any]) -> Iterator[At]:
    """Of policies at the ports that this experiment has."""
    if not {"topology", "training"} <= above.keys():
        return
    tcp = above["transport"].control if "transport" in above else "cubic"
    servers = server_map(above["training"])
    ports = list(kinds_of_ports(above["topology"].graph, servers, tcp))
    for index, choice in enumerate(choices):
        fault = fault_at_a_port(choice.link_policy, ports, tcp)
        if fault is not None:
            yield At([index], f"{choice.policy}: {fault}")


def only_docker(container: ContainerSpec | None, info: ValidationInfo) -> ContainerSpec | None:
    hosts = info.data.get("hosts", DOCKER)
    if container is not None and hosts != DOCKER:
        raise ValueError(f"found limits, but hosts are {hosts}; add hosts: docker")
    return container
