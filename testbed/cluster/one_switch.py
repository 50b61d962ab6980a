"""A live cluster's network as its master sees it: hosts at one switch, so there is one way."""

from collections.abc import Mapping, Sequence

from testbed.cluster.player import Surroundings
from workloads.busy_job import BusyJob


class OneSwitch:
    def __init__(self, jobs: Sequence[BusyJob], hosts: Sequence[str], switch: str) -> None:
        self._jobs, self._hosts, self._switch = jobs, hosts, switch

    def around(
        self, bands: Sequence[str], band: str, rate_bps: int, *, steered: bool
    ) -> Surroundings:
        links = [link for host in self._hosts for link in (self._up(host), self._down(host))]
        return Surroundings(
            tuple(bands),
            band,
            steered=steered,
            rack=(0,) * len(self._hosts),
            loads=self.loads,
            link_bps=dict.fromkeys(links, rate_bps),
        )

    def loads(self, job: int, hosts: tuple[int, ...]) -> Mapping[str, int]:
        """Bytes of an iteration on each link."""
        work, found = self._jobs[job].work, dict[str, int]()
        for source, target, byte in work.far(hosts) if work is not None else ():
            for link in (self._up(self._hosts[source]), self._down(self._hosts[target])):
                found[link] = found.get(link, 0) + byte
        return found

    def _up(self, host: str) -> str:
        return f"{host}->{self._switch}"

    def _down(self, host: str) -> str:
        return f"{self._switch}->{host}"
