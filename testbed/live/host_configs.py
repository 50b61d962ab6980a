"""Which ranks each host's process plays, and who connects to whom when. Pure.

From a run to the configuration of one process a host (workloads/host_process.py).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from basics.bands import tos_of
from testbed.engine import Run
from testbed.job_plans import job_plan, native_jobs, plan_as_plain, rank_hosts
from workloads.host_process import Dial
from workloads.jobports import job_port
from workloads.ports import worker_source

MODULE = "workloads.host_process"
TARGET = f"{MODULE}:main"


class HostConfigs:
    def __init__(self, run: Run, address: Callable[[str], str], *, routed: bool = False) -> None:
        """`routed`: there are several ways, so who connects from which port is not left to luck."""
        self._run = run
        self._address = address
        self._routed = routed
        self._hosts: dict[str, dict[str, Any]] = {}
        self._turn = 0

    def made(self) -> dict[str, dict[str, Any]]:
        """What the process of each host with ranks is told, host by host."""
        for at, job in native_jobs(self._run.experiment):
            self._add(at, rank_hosts(job))
        experiment = self._run.experiment
        told = {"go_on": experiment.on_failure == "continue", "cores": experiment.topology.cores}
        told["sample_ns"] = experiment.sample_ns
        for config in self._hosts.values():
            # Servers first: what they publish is counted from the first of them on.
            config["ranks"].sort(key=partial(_serves_not, config["jobs"]))
            config |= {"turns": self._turn, "board": None, "publish_ns": 0, **told}
            config["awaited"] = [(*door, count) for door, count in config["awaited"].items()]
        order = experiment.host_names.index
        return dict(sorted(self._hosts.items(), key=lambda pair: order(pair[0])))

    def _add(self, at: int, hosts: tuple[str, ...]) -> None:
        plan = job_plan(self._run, self._run.experiment.training[at])
        ranks = range(plan.ranks)
        seed = self._run.seed
        described = {
            "plan": plan_as_plain(plan),
            "port": job_port(at),
            "tos": tos_of(plan.band),
            "addresses": [self._address(host) for host in hosts],
            "sources": [worker_source(seed, plan.name, rank) for rank in ranks]
            if self._routed
            else [],
        }
        for rank, host in enumerate(hosts):
            config = self._config(host)
            if described not in config["jobs"][-1:]:
                config["jobs"].append(described)
            config["ranks"].append((len(config["jobs"]) - 1, rank))
        for words, pairs in ((False, plan.data_pairs), (True, plan.control_pairs)):
            for rank, to in pairs:
                caller, called = self._config(hosts[rank]), self._config(hosts[to])
                dial = Dial(self._turn, len(caller["jobs"]) - 1, words, rank, to)
                caller["dials"].append(list(vars(dial).values()))
                door = len(called["jobs"]) - 1, words
                called["awaited"][door] = called["awaited"].get(door, 0) + 1
                self._turn += 1

    def _config(self, host: str) -> dict[str, Any]:
        empty = {
            "address": self._address(host),
            "jobs": [],
            "ranks": [],
            "dials": [],
            "awaited": {},
        }
        return self._hosts.setdefault(host, empty)


def _serves_not(jobs: list[dict[str, Any]], one: tuple[int, int]) -> bool:
    """Of a job and a rank there: whether that is no server."""
    plan = jobs[one[0]]["plan"]
    return not plan["workers"] <= one[1] < plan["workers"] + plan["servers"]
