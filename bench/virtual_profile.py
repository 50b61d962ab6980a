"""Where the virtual engine's processor time goes, by group of functions. Not a benchmark.

First `perf record -F 997 -e cpu-clock -o FILE giveway run …`, then
`python -m bench.virtual_profile FILE`.
"""

import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from basics import command
from basics.errors import BadInput
from testbed.virtual.engine import BASE_MEMORY, kernel
from testbed.virtual.guest import FOLDER, Guest, boot

KERNEL, PROGRAMS = "linux", "uml-userspace"  # what a guest's two kinds of processes are called
BOOT_LIMIT_S = 60.0
START_SHARE = 0.4  # of the samples: booting, importing, forking
MACHINE = "the machine's own kernel: switches between the guest's processes, their signals"
TASKS = "the guest's programs (Python)"
# A function of the guest's kernel is in the first group whose words begin its name or are in it.
GROUPS = {
    "interrupts let in and kept out": r"^(um_[gs]et_|unblock_|block_)signals|deliver_time",
    "idle moments and interrupts": r"idle|^tick_|nohz|^irq_|do_IRQ|handle_irq|handle_percpu|softirq"
    r"|note_interrupt|timer_handler|timer_real|^um_timer|alarm",
    "timers and the clock": r"hrtimer|timerqueue|ktime|clockevents|timer_read|time_travel|^rb_"
    r"|itimer|timekeeping|watchdog|_timer",
    "queues: htb, netem, filters": r"htb|netem|qdisc|^sch_|fifo|u32|tcf|psched|netif_sched"
    r"|net_tx",
    "TCP": r"tcp|^inet|^sk_|bictcp|sock",
    "IP, bridge, veth": r"^_*ip_|ipv4|dst|fib|neigh|^eth_|^nf_|veth|^br_|fdb|dev_|netif|net_rx"
    r"|backlog|napi|xmit|arp",
    "packets' memory": r"skb|kmem|kfree|kmalloc|slab|refill|alloc|memset|memcpy|page|free|csum",
}
REST = "the rest of the guest's kernel"


@dataclass(frozen=True)
class TakenSample:
    process: str
    address: int
    place: str  # the file that the address is in


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        raise BadInput("give the file that `perf record` wrote, and nothing else")
    taken = list(samples(Path(sys.argv[1])))
    if not taken:
        raise BadInput(f"{sys.argv[1]}: no sample of a guest in it")
    counted = grouped(taken[int(len(taken) * START_SHARE) :], symbols())
    for group, count in counted.most_common():
        print(f"| {group} | {count / counted.total():.1%} |")
    return 0


def samples(recorded: Path) -> Iterator[TakenSample]:
    """Those of guests, in the order in which they were taken."""
    told = ["perf", "script", "-i", str(recorded), "-F", "comm,ip,sym,dso"]
    for line in subprocess.run(
        told, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        found = re.match(r"\s*(.+?)\s+([0-9a-f]+) .*\((.*)\)$", line)
        if found and found[1] in (KERNEL, PROGRAMS):
            yield TakenSample(found[1], int(found[2], 16), found[3])


def symbols() -> list[tuple[int, str]]:
    """The functions of the guest's kernel by address, which it knows itself: its file is bare."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        copy = ["sh", "-c", f"cat /proc/kallsyms > {FOLDER}/symbols"]
        guest = Guest(kernel().program, folder, copy, BASE_MEMORY, BOOT_LIMIT_S, "profile")
        boot(guest, folder / "console")
        lines = (folder / "symbols").read_text().splitlines()
    named = (line.split()[:3] for line in lines)
    return sorted((int(address, 16), function) for address, _, function in named)


def grouped(taken: Iterable[TakenSample], functions: list[tuple[int, str]]) -> Counter[str]:
    addresses = [address for address, _ in functions]
    counted: Counter[str] = Counter()
    for sample in taken:
        if "[kernel" in sample.place:
            counted[MACHINE] += 1
        elif sample.process == PROGRAMS:
            counted[TASKS] += 1
        else:
            counted[group_of(functions[bisect_right(addresses, sample.address) - 1][1])] += 1
    return counted


def group_of(function: str) -> str:
    return next((group for group, words in GROUPS.items() if re.search(words, function)), REST)


if __name__ == "__main__":
    command.run(main)
