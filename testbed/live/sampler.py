"""The sampler task: reads queue counters and processor time while a run goes on.

One process for the whole network: it holds a netlink socket in every namespace, so that a sample
costs a few system calls and disturbs little of what it measures.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.live import capture
from testbed.live.rtnetlink import Namespace
from workloads.control import Control
from workloads.journal import Journal
from workloads.loop import Clock, Loop
from workloads.task import BEAT_REAL_NS, heartbeat

TICKS_PER_S = 100  # /proc counts in these


@dataclass(frozen=True)
class SamplerConfig:
    nodes: list[tuple[int, list[tuple[str, int, list[tuple[str, str]]]]]]
    # pid of the node, then its ports: (link, interface index, [(band, class id)])
    period_ns: int
    dilation: float
    duration_ns: int
    journal: str
    captures: list[dict[str, Any]] = field(default_factory=list)  # of CaptureConfig
    beat_ns: int = BEAT_REAL_NS


def main(config: dict[str, Any], control: Control) -> None:
    settings = SamplerConfig(**config)
    namespaces = [(Namespace(pid), ports) for pid, ports in settings.nodes]
    with ExitStack() as until_end:
        period_s = settings.period_ns * settings.dilation / 1e9
        captures = capture.opened(settings.captures, period_s, settings.dilation)
        for one in captures:
            until_end.enter_context(one)
        control.say("ready")
        go = control.hear()
        clock = Clock(go["epoch_ns"], settings.dilation)
        for one in captures:
            one.begin(go["epoch_ns"])
        with Journal(Path(settings.journal)) as journal:
            sampler = Sampler(settings, namespaces, go["pids"], Loop(clock), journal, captures)
            sampler.run(control)
        lost = {"capture_lost": sum(one.lost() for one in captures)} if captures else {}
    control.say("done", **sampler.machine(), drops=sampler.drops(), **lost)
    control.hear()


class Sampler:
    def __init__(
        self,
        settings: SamplerConfig,
        namespaces: list[tuple[Namespace, list[Any]]],
        pids: dict[str, list[int]],
        loop: Loop,
        journal: Journal,
        captures: Sequence[capture.Capture] = (),
    ) -> None:
        self._settings = settings
        self._namespaces = namespaces
        self._pids = pids
        self._loop = loop
        self._journal = journal
        self._captures = captures
        self._base: dict[tuple[str, str], tuple[int, int]] = {}
        self._latest: dict[tuple[str, str], tuple[int, int]] = {}
        self._busy = dict.fromkeys(pids, 0)
        self._sampled_ns = 0
        self._before: tuple[list[int], int] = ([], 0)  # machine's ticks, the run's own
        self._after: tuple[list[int], int] = ([], 0)

    def run(self, control: Control) -> None:
        heartbeat(self._loop, control, self._settings.beat_ns)
        for time_ns in range(0, self._settings.duration_ns + 1, self._settings.period_ns):
            self._loop.at(time_ns, self._sample)
        self._loop.at(0, self._machine_starts)
        self._loop.at(self._settings.duration_ns, self._loop.stop)
        self._loop.run()
        self._after = self._ticks()

    def _machine_starts(self) -> None:
        self._before = self._ticks()

    def _sample(self) -> None:
        for namespace, ports in self._namespaces:
            for link, index, queues in ports:
                time_ns = self._loop.clock.now_ns()
                classes = namespace.classes(index)
                for band, class_id in queues:
                    found = classes[class_id]
                    counted = (found.sent_byte, found.drops)
                    base = self._base.setdefault((link, band), counted)
                    self._latest[link, band] = counted
                    self._journal.write(
                        "links", time_ns, link, band, counted[0] - base[0], counted[1] - base[1]
                    )
        self._sample_hosts()
        for one in self._captures:
            one.drain()

    def _sample_hosts(self) -> None:
        time_ns = self._loop.clock.now_ns()
        passed_s = (time_ns - self._sampled_ns) * self._loop.clock.dilation / 1e9
        for host, pids in self._pids.items():
            busy = sum(map(process_ticks, pids))
            if passed_s > 0 and self._sampled_ns:
                # A process that dies takes its ticks with it.
                share = max(0, busy - self._busy[host]) / TICKS_PER_S / passed_s
                self._journal.write("hosts", time_ns, host, round(share, 4))
            self._busy[host] = busy
        self._sampled_ns = time_ns

    def _ticks(self) -> tuple[list[int], int]:
        own = sum(process_ticks(pid) for pids in self._pids.values() for pid in pids)
        return machine_ticks(), own

    def machine(self) -> dict[str, float]:
        """How the machine's processors spent the run.

        Headroom is what the run did not use itself, in its tasks or in the kernel's packet work:
        tasks outrank everything else, so other processes may fill it.
        """
        spent = [
            after - before for before, after in zip(self._before[0], self._after[0], strict=True)
        ]
        total = max(1, sum(spent))
        idle, waiting, interrupts, soft_interrupts, steal = spent[3:]
        own = self._after[1] - self._before[1] + interrupts + soft_interrupts
        return {
            "cpu_idle_share": (idle + waiting) / total,
            "cpu_headroom_share": max(0.0, 1 - (own + steal) / total),
            "cpu_steal_share": steal / total,
        }

    def drops(self) -> int:
        return sum(self._latest[key][1] - self._base[key][1] for key in self._latest)


def machine_ticks() -> list[int]:
    """user nice system idle iowait irq softirq steal, over all processors."""
    with open("/proc/stat") as stat:
        return [int(word) for word in stat.readline().split()[1:9]]


def process_ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            words = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])
