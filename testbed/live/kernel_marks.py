"""Flows of any program are demoted by the kernel of their host, which the program does not notice.

nftables counts what each connection has sent. Packets without a mark, or with that of flows, carry
the first mark until the count is past the threshold and the next one from then on. Packets with
another mark are left alone, and so are the connections of Giveway's own jobs and daemons, known by
their ports: who marks knows why.

What is counted are packets as IP hands them down, headers included: with offloads one of up to 64
kB. The packet that crosses the threshold still carries the old mark, so the first bytes are all
first. Acknowledgements without data are neither counted nor demoted.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from basics.bands import tos_of
from basics.errors import CannotRun, RunFailed
from basics.home import how
from policies.link import Demotion
from policies.link.discipline import NEVER_BYTE
from testbed import processes
from testbed.live.tc import NFT
from testbed.spec import Experiment, PolicyChoice
from workloads.cluster_daemon import DOOR_PORT, MASTER_PORT
from workloads.jobports import FIRST_JOB_PORT, FIRST_SOURCE_PORT

PACKAGE = "nftables"
MTU, HEADER_BYTE = 1500, 52  # of IP and TCP with timestamps
LARGEST_PACKET_BYTE = 1 << 16  # with offloads; a port's segments may allow less
FORGET_S = 60  # a connection that is silent for so long begins anew
MOST_CONNECTIONS = 1_000_000  # at once; one more would not be demoted
LARGEST_ACK_BYTE = 80  # without data, with all that TCP's options may take

TABLE = "ip giveway"
OWN_PORTS = f"{{ {MASTER_PORT}-{DOOR_PORT}, {FIRST_JOB_PORT}-{FIRST_SOURCE_PORT - 1} }}"
CONNECTION = "ip daddr . meta l4proto . th sport . th dport"


@dataclass(frozen=True)
class Marking:
    """What a host's kernel does to flows: the mark that they begin with, and when others follow."""

    first_tos: int
    later: tuple[tuple[int, int], ...]  # after so many bytes, this ToS
    forget_s: int = FORGET_S


def marking_of(
    experiment: Experiment, choice: PolicyChoice, dilation: float = 1.0
) -> Marking | None:
    """What kernels do under a policy; nothing, if senders mark."""
    policy = choice.link_policy
    if not policy.kernel_marks:
        return None
    bands = experiment.bands(choice)
    scales = {mix.scale for mix in experiment.flows if bands[mix.name] == policy.flows}
    scale = scales.pop() if scales else 1.0
    later = zip(*(policy.demotions_from(policy.flows, by) for by in (1.0, scale)), strict=True)
    return Marking(
        tos_of(policy.flows),
        tuple((scaled.after_byte, tos_of(scaled.to)) for one, scaled in later if is_ever(one)),
        round(FORGET_S * dilation),
    )


def is_ever(demotion: Demotion) -> bool:
    return demotion.after_byte < NEVER_BYTE


def demand(experiment: Experiment, features: frozenset[str], kernel: str) -> None:
    """Refuse what kernels cannot mark, before anything is started."""
    for at, choice in enumerate(experiment.policies):
        if choice.link_policy.kernel_marks:
            why_not = refusal(features, kernel) or next(faults(experiment, choice), None)
            if why_not is not None:
                raise CannotRun(f"policies.{at}.kernel: {why_not}")


def refusal(features: frozenset[str], kernel: str) -> str | None:
    """What is missing for it."""
    if program() is None:
        missing = f"the program nft (Debian package {PACKAGE}) is not installed"
        return f"{missing}: run `{how('make setup')}`, or let senders mark"
    if NFT not in features:
        return (
            f"{kernel} has no nftables with a quota for each connection (NF_TABLES, NFT_QUOTA): "
            "let senders mark"
        )
    return None


def work_here() -> bool:
    """Whether this machine's kernel and its nft take all that is used; as root."""
    nft = program()
    if nft is None:
        return False
    sample = Marking(tos_of("high"), ((1, tos_of("middle")), (2, tos_of("low"))))
    try:
        processes.run(["unshare", "-n", nft, "-f", "-"], stdin=rules(sample))
    except RunFailed:
        return False
    return True


def program() -> str | None:
    """nft, where an ordinary user's PATH does not lead: the guest of one has it all the same."""
    return shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")


def faults(experiment: Experiment, choice: PolicyChoice) -> Iterator[str]:
    """What a kernel cannot tell apart: it knows marks and ports, no mixes and no jobs."""
    policy, bands = choice.link_policy, experiment.bands(choice)
    begin = [mix for mix in experiment.flows if bands[mix.name] == policy.flows]
    scales = {mix.scale: mix.name for mix in begin}
    if len(scales) > 1:
        found = ", ".join(f"{name} has {scale:g}" for scale, name in scales.items())
        yield (
            f"a threshold is times a mix's scale, and a kernel knows no mixes: {found}; give them "
            "one scale, or let senders mark"
        )
    for mix in experiment.flows:
        band = bands[mix.name]
        if band != policy.flows and any(map(is_ever, policy.demotions_from(band, 1.0))):
            yield (
                f"{mix.name} begins in {band}, and the kernel demotes what begins in "
                f"{policy.flows}: leave its band out, or let senders mark"
            )
    for job in experiment.training:
        if job.backend != "native" and bands[job.name] == policy.flows:
            yield (
                f"{job.name} is put into {policy.flows}, where flows begin, and {job.backend}'s "
                "connections look like theirs: put it into another band"
            )
    if experiment.cluster is not None and experiment.cluster.sends_states:
        yield (
            f"schedulers may put jobs into {policy.flows}, where flows begin, and connections of a "
            "real stack look like theirs: let senders mark"
        )


# ---- what nft is told ---------------------------------------------------------------------


def rules(marking: Marking) -> str:
    """A table for a fresh network namespace."""
    first = dscp(marking.first_tos)
    reset = " ".join(
        f"delete @{name} {{ {CONNECTION} }}"
        for at in range(1, len(marking.later) + 1)
        for name in (f"counted_{at}", f"past_{at}")
    )
    lines = [
        *(line for at in range(1, len(marking.later) + 1) for line in _sets(marking, at)),
        *_chains_below(marking),
        "chain output {",
        "type filter hook output priority mangle; policy accept;",
        'oifname "lo" accept',
        "meta l4proto != { tcp, udp } accept",
        f"ip dscp != {{ 0, {first} }} accept",
        f"th sport {OWN_PORTS} accept",
        f"th dport {OWN_PORTS} accept",
        f"ip dscp 0 ip dscp set {first}",
        f"tcp flags & syn == syn {reset} accept",
        # The last packet of what was sent has PSH, an acknowledgement without data never.
        f"tcp flags & psh == 0 ip length <= {LARGEST_ACK_BYTE} accept",
        *(_counting(marking, 1) if marking.later else ()),
        "}",
    ]
    return "\n".join([f"table {TABLE} {{", *lines, "}", ""])


def dscp(tos: int) -> int:
    return tos >> 2


def quota_byte(marking: Marking, at: int) -> int:
    """What a connection sends, headers included, from one threshold to the next.

    In full packets without offloads; larger ones have fewer headers, so a little more goes first.
    """
    after = [0, *(after_byte for after_byte, _ in marking.later)]
    byte = after[at] - after[at - 1]
    return byte + HEADER_BYTE * -(-byte // (MTU - HEADER_BYTE))


def _sets(marking: Marking, at: int) -> Iterator[str]:
    for name in (f"counted_{at}", f"past_{at}"):
        yield (
            f"set {name} {{ typeof {CONNECTION}; size {MOST_CONNECTIONS}; flags dynamic,timeout; "
            f"timeout {marking.forget_s}s; }}"
        )


def _chains_below(marking: Marking) -> Iterator[str]:
    """One for each mark after the first."""
    for at, (_, tos) in enumerate(marking.later, 1):
        yield f"chain demoted_{at} {{"
        yield f"update @past_{at} {{ {CONNECTION} }} ip dscp set {dscp(tos)}"
        if at < len(marking.later):
            yield from _counting(marking, at + 1)
        yield "}"


def _counting(marking: Marking, at: int) -> Iterator[str]:
    """Who is past a threshold goes elsewhere; who crosses it will be, from the next packet on."""
    yield f"{CONNECTION} @past_{at} goto demoted_{at}"
    yield (
        f"update @counted_{at} {{ {CONNECTION} quota over {quota_byte(marking, at)} bytes }} "
        f"add @past_{at} {{ {CONNECTION} }}"
    )


# ---- on a host ----------------------------------------------------------------------------


def set_up(pid: int, host: str, marking: Marking) -> None:
    """Tell the kernel in a process's network namespace, and read it back."""
    nft = program() or "nft"
    processes.run([nft, "-f", "-"], stdin=rules(marking), netns_pid=pid)
    listing = processes.run([nft, "-n", "-j", "list", "table", *TABLE.split()], netns_pid=pid)
    asked, held = facts(marking), read(json.loads(listing))
    if held != asked:
        raise RunFailed(f"{host}: the marks {asked} were asked, the kernel holds {held}")


def facts(marking: Marking) -> dict[str, int]:
    """What decides, by where it stands: bytes of quotas, marks that are set."""
    later = enumerate(marking.later, 1)
    return {
        "hook output": 1,
        "output sets": dscp(marking.first_tos),
        **{f"demoted_{at} sets": dscp(tos) for at, (_, tos) in later},
        **{
            f"counted_{at} over": quota_byte(marking, at) for at in range(1, len(marking.later) + 1)
        },
    }


UNITS = {"bytes": 1, "kbytes": 1 << 10, "mbytes": 1 << 20}


def read(listing: dict[str, Any]) -> dict[str, int]:
    """The same, from what `nft -n -j list table` says."""
    found: dict[str, int] = {}
    for entry in listing["nftables"]:
        if "hook" in entry.get("chain", ()):
            found[f"hook {entry['chain']['hook']}"] = 1
        rule = entry.get("rule", {"expr": ()})
        for part in rule["expr"]:
            if "mangle" in part:
                found[f"{rule['chain']} sets"] = part["mangle"]["value"]
            for counter in part.get("set", {}).get("stmt", ()):
                quota = counter["quota"]
                name = part["set"]["set"].removeprefix("@")
                found[f"{name} over"] = quota["val"] * UNITS[quota["val_unit"]]
    return found
