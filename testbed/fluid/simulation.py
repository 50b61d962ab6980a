"""One run as a simulation: builds its arrays, lets time pass, keeps the timers of training.

Compiled code moves bytes (`core.advance`); what is decided at a moment, by a training worker or a
policy, is a callback here, in a heap of (time, counter, callback).
"""

import heapq
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from basics.errors import RunFailed
from policies.link import LinkPolicy
from testbed.fluid import core, state, steps, streams, tcp, timers
from testbed.fluid.disciplines import demote, port_of, queue_byte
from testbed.fluid.heap import schedule
from testbed.fluid.held import direct, hold
from testbed.fluid.step_tables import StepList, left_byte, step_tables
from testbed.fluid.transport import CUBIC, settle_transport
from testbed.fluid.ways import Way, Ways
from testbed.spec.transport import Transport
from topologies import Topology
from workloads.schedule import Schedule

FIRST_ROOM = 1024  # flows at once, before the arrays grow


class Simulation:
    def __init__(
        self,
        topology: Topology,
        policy: LinkPolicy,
        flows: Schedule,
        flow_levels: Sequence[int],
        ways: Sequence[Way],
        mark_ns: int = 0,
        step_lists: Sequence[StepList] = (),
        seed: int = 0,
        flow_demotions: Sequence[Sequence[tuple[int, int]]] = (),
        transport: Transport = CUBIC,
    ) -> None:
        """`flow_levels`: of each mix. `mark_ns`: ports mark what has waited longer; 0: never.

        `flow_demotions`: mix by mix, after how many bytes a flow goes on at which level.
        `seed` decides source ports, and so the ways where there are several, and who loses packets.
        """
        self.topology = topology
        self._bands = len(policy.bands)
        self.ways = Ways(topology, seed)
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._counter = itertools.count()
        self.on_ring_done: dict[int, Callable[[], None]] = {}
        self.on_arrival: dict[int, Callable[[], None]] = {}
        self.on_steps_done: dict[int, Callable[[], None]] = {}
        self._listeners = {
            steps.RING_DONE: self.on_ring_done,
            steps.ARRIVED: self.on_arrival,
            steps.STEPS_DONE: self.on_steps_done,
        }
        count = len(ways)
        schedule = self.ways.of_flows(flows, np.asarray(flow_levels, dtype=np.int64))
        for mix, demotions in enumerate(flow_demotions):
            demote(schedule, flows.mix == mix, demotions)
        room = 2 * count + min(len(flows), FIRST_ROOM)
        rate_bps = np.repeat([float(link.cable.rate_bps) for link in topology.links], 2)
        capacity = rate_bps / 8e9 * tcp.PAYLOAD / tcp.FRAME
        ports = [port_of(link.cable, mark_ns) for link in topology.links for _ in range(2)]
        limits = [
            queue_byte(policy, port, at) for port, at in zip(ports, capacity.tolist(), strict=True)
        ]
        bands = policy.discipline_at(ports[0]).band_classes
        floors = [one.floor for one in bands]
        lines = state.streams(count)
        # Rank by rank, who plays each list of steps
        made, self.players = step_tables(step_lists, lines)
        self._use(
            state.State(
                c=state.connections(room),
                w=state.links(capacity, np.array(limits)),
                s=lines,
                p=made,
                f=schedule,
                q=state.queue(room + count),
                x=state.scratch(room, len(capacity), count, floors),
            )
        )
        counts = self.state.x.counts
        settle_transport(counts, transport, limits, marks=mark_ns > 0)
        self.ways.lay_first(self.state, ways)
        counts[state.ISOLATES] = bands[0].queue_per_flow
        counts[state.HAS_FLOORS] = any(floors)
        counts[state.SEED] = seed
        self._free(2 * count, room)

    # Time

    @property
    def now_ns(self) -> int:
        return round(self._clock[0])

    def at(self, time_ns: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (time_ns, next(self._counter), callback))

    def run(self, until_ns: int) -> None:
        timers = self._timers
        while True:
            due_ns = min(timers[0][0], until_ns) if timers else until_ns
            outcome = self._advance(self._held, float(due_ns))
            if outcome == core.TOLD:
                self._pass_on()
            elif outcome == core.NO_ROOM:
                self.grow()
            elif outcome == core.STUCK:
                raise RunFailed(
                    f"the simulation does not get past {self.now_ns} ns: this is an error in "
                    "testbed/fluid; please report it with the experiment file"
                )
            else:
                if due_ns >= until_ns:
                    return
                while timers and timers[0][0] <= due_ns:
                    heapq.heappop(timers)[2]()

    def _pass_on(self) -> None:
        told, kinds, count = self._told, self._told_kind, self._counts[state.N_TOLD]
        self._counts[state.N_TOLD] = 0
        if count == 1:  # nearly always
            self._listeners[kinds[0]][told[0]]()
            return
        for whom, kind in [(told[at], kinds[at]) for at in range(count)]:
            self._listeners[kind][whom]()

    # What training uses

    def make_ring(self, ring: Sequence[int]) -> None:
        """These streams are a ring: each one's receiver sends on the next one."""
        s = self.state.s
        for at, stream in enumerate(ring):
            s["next"][stream] = ring[(at + 1) % len(ring)]
            s["steps"][stream] = 2 * (len(ring) - 1)

    def begin_ring(self, stream: int, chunk_byte: float) -> None:
        steps.begin_ring(self._held, stream, chunk_byte)

    def begin_steps(self, player: int, byte: float) -> None:
        steps.begin_steps(self._held, player, float(byte))

    def steps_left_byte(self, player: int) -> int:
        """Of a transfer under way: what has not arrived here yet, as bytes of its vector."""
        return left_byte(self.state.p, self.state.s, player)

    def post(self, stream: int, size_byte: float) -> None:
        if not self._hand_in(self._held, stream, float(size_byte)):
            raise OverflowError(f"more than {state.MESSAGES} messages wait on one connection")

    def window_byte(self, stream: int) -> float:
        """What TCP would have on its way now."""
        return self._window[stream]

    def change_level(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level, what it has waiting included."""
        streams.change_level(self._held, stream, level)

    def ring_left_byte(self, stream: int) -> int:
        """Of a ring's transfer under way: what has not arrived here yet, as bytes of gradient."""
        s = self.state.s
        if not s["active"][stream]:
            return 0
        steps = int(s["steps"][stream])
        before = int(s["arrived"][stream] - s["earlier"][stream])
        return round(s["chunk"][stream] * (steps - before) * (steps / 2 + 1) / steps)

    def change_first_level(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level at its first link."""
        streams.change_first_level(self._held, stream, level)

    def change_last_level(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level at its last link."""
        streams.change_last_level(self._held, stream, level)

    def change_levels(self, stream: int, level: int) -> None:
        """From now on this stream is served at another level at all its links, counted as ever."""
        streams.change_levels(self._held, stream, level)

    def unsent_byte(self, streams: Sequence[int]) -> float:
        """What has not left its bottleneck yet of the messages handed to these streams."""
        some = self.state.c[list(streams)]
        sent = some["rate"] * (self.state.x.clock[0] - some["touched"])
        return float((some["left"] - sent + some["missing"] + some["queued"]).sum())

    def message_delay_ns(self, stream: int) -> float:
        """How long a small message takes on this stream's way now."""
        return float(timers.small_delay(self._held, stream))

    # What records need

    def flow_ends_ns(self) -> npt.NDArray[np.float64]:
        """When the last byte of each flow was there; infinite if it was not."""
        return self.state.f["end"]

    def flow_acks_ns(self) -> npt.NDArray[np.float64]:
        """When its sender heard of that; infinite if it did not."""
        return self.state.f["acked"]

    def carried_byte(self) -> npt.NDArray[np.float64]:
        """Bytes on the wire so far, headers included, by link and band."""
        return core.carried_now(self._held)[:, : self._bands] * (tcp.FRAME / tcp.PAYLOAD)

    # Building

    def _use(self, made: state.State) -> None:
        """This is the state from now on."""
        self.state = made
        self._held = hold(made)
        self._advance = direct(core.advance, self._held, 0.0)
        self._hand_in = direct(streams.hand_in, self._held, 0, 0.0)
        # Read often: plain numbers come out of these
        self._clock, self._window = made.x.clock.data, made.c["window"].data
        self._counts, self._told = made.x.counts.data, made.x.told.data
        self._told_kind = made.x.told_kind.data

    def lay(self, first: int, ways: Sequence[Way]) -> None:
        """The streams from this one on, which are idle, go other ways: as new connections."""
        self.ways.lay_again(self.state, first, ways)

    def silence(self, first: int, count: int) -> None:
        """Nothing is sent on these streams any more, nothing arrives, and nobody hears of it."""
        for stream in range(first, first + count):
            streams.silence(self._held, stream)
            self.on_ring_done.pop(stream, None)
            self.on_arrival.pop(stream, None)

    def _free(self, low: int, high: int) -> None:
        x = self.state.x
        count = int(x.counts[state.N_FREE])
        places = np.arange(high - 1, low - 1, -1)  # the lowest is taken first
        x.free[count : count + len(places)] = places
        x.counts[state.N_FREE] += len(places)

    def grow(self) -> None:
        """Room for twice as many flows; numbers of the streams' events move up with it."""
        old = self.state
        room, count = len(old.c), len(old.s)
        larger = 2 * room
        c = state.connections(larger)
        c[:room] = old.c
        x = state.scratch(larger, len(old.w), count, old.x.floors.tolist())
        for new_column, column in zip(x, old.x, strict=True):
            new_column[: len(column)] = column
        q = state.queue(larger + count)
        x.counts[state.N_HEAP] = 0
        self._use(old._replace(c=c, x=x, q=q))
        for one in range(room + count):
            if old.q["place"][one] >= 0:
                place = one if one < room else one - room + larger
                schedule(q, x, place, float(old.q["time"][one]))
        self._free(room, larger)
