"""The arrays that a simulation lives in: tables of plain columns, for compiled code to work on.

A connection is a flow of the schedule or a stream of a training job. Streams stand for the whole
run and come first, then a feeder for each of them (see core.split); flows take a free place when
they start and give it back when they end.
Times are nanoseconds and rates bytes per nanosecond, both as floats: a day fits without loss.

Each table is one structured array (`table.column[row]`): a handful of arguments for the compiled
functions instead of seventy, which is most of their compile time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

Table = Any  # a structured array; numpy's types know nothing of its columns
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# HANDSHAKE: its SYN is under way; ANSWER: the answer to that; LOST: it waits for a timer.
IDLE, HANDSHAKE, ANSWER, LOST, SLOW_START, AVOIDANCE, FINAL = range(7)
MESSAGES = 64  # of a stream that may be under way at once
# Fixed widths: another width would be another type, compiled once more.
HOPS = 6  # up to the core of a fat tree and down again
BANDS = 8
NEVER = np.inf
DEMOTIONS = 2  # of a flow, from band to band down to the last of three

FLOAT, INT = "f8", "i8"


class State(NamedTuple):
    c: Table  # connections
    w: Table  # links (wires)
    s: Table  # streams: what connections of training jobs do besides
    f: Table  # the schedule: flows as they come, sorted by start
    q: Table  # the next event of each connection, then of each stream: a heap
    p: "Steps"
    x: "Scratch"


class Steps(NamedTuple):
    """Lists of steps that ranks of training jobs play; step_tables.py makes them."""

    players: Table
    sends: Table
    receives: Table
    unlocks: Integers  # sends, receive by receive
    inbox: Integers  # streams into each player


class Scratch(NamedTuple):
    clock: Floats  # now
    counts: Integers  # see below
    floors: Floats  # share of a link that each level is sure of
    free: Integers  # places for flows
    dirty: Integers  # links to settle
    members: Integers  # connections being settled
    touched: Integers  # links being settled
    split: Integers  # streams that could send ahead of what their way lets through
    told: Integers  # streams whose owner has to hear something
    told_kind: Integers


# Places in Scratch.counts
N_HEAP, N_FREE, N_DIRTY, STAMP, NEXT_FLOW, N_TOLD, N_SPLIT, ISOLATES, HAS_FLOORS, SEED = range(10)
TIMERS = 10  # whether packets are lost as a rule, so that timers matter
WINDOW = 11  # what receivers have room for; 0: as they tune it
LAW = 12  # by which windows grow at first
RTO_MIN = 13  # the shortest timeout
OVERFLOWS = 14  # whether windows are so large that each queue is filled, and stays full for a while
ITERATES = 15  # whether a connection's weight follows from how far its iteration is (iterations.py)


def table(count: int, **columns: Any) -> Table:
    made = np.zeros(count, dtype=np.dtype([(name, *kind) for name, kind in columns.items()]))
    plain = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    # Without the compiler (NUMBA_DISABLE_JIT=1, for a debugger), columns are attributes this way.
    return made.view(np.recarray) if plain else made


def connections(count: int) -> Table:
    made = table(
        count,
        phase=[INT],
        left=[FLOAT],  # payload that has not left its bottleneck yet
        rate=[FLOAT],
        cap=[FLOAT],  # the rate that its window allows
        window=[FLOAT],
        threshold=[FLOAT],  # slow start ends here
        least_rtt=[FLOAT],
        round_end=[FLOAT],
        receive=[FLOAT],  # the window that its receiver gives
        tuned=[INT],  # whether that is the receiver's own tuning, not a fixed size
        law=[INT],  # by which its window grows (tcp.py)
        weight=[FLOAT],  # its share of what its level has at a full link
        lost_until=[FLOAT],  # one loss a round trip is all that TCP answers
        hears_at=[FLOAT],  # of a loss, where that takes its time (losses.py)
        hears_of=[FLOAT],  # the window that it then keeps; 0: it only looks again
        missing=[FLOAT],  # of its last bytes: lost, and nothing behind them will report it
        found_by=[INT],  # which timer finds that out (losses.py)
        at_once=[INT],  # whether all that is left was sent at one instant
        began=[FLOAT],  # when all that is left of it was let go
        burst=[FLOAT],  # how much that was
        closes=[INT],  # a packet of its own says that it was the last, sent with it
        quickest=[FLOAT],  # the shortest round trip that TCP has seen
        opens=[INT],  # whether it is a SYN that a timer will send again
        timeouts=[INT],  # in a row
        touched=[FLOAT],  # `left` is as of then
        hops=[INT],
        path=[INT, HOPS],  # link by link, to the receiver
        back=[INT, HOPS],  # and back, for the acknowledgements
        level=[INT, HOPS],  # at each link of the path: 0 is served first
        ack_level=[INT],  # of its acknowledgements; -1: as what it sends
        demotions=[INT],  # that it has behind it
        demoted_at=[FLOAT],  # with so much left it is demoted (a stream: weighs more); below 0: not
        band=[INT],  # in which counter its bytes are counted
        delay=[FLOAT],  # one way, with empty queues
        bottleneck=[INT],  # the hop where its packets wait, -1: nowhere
        wait=[FLOAT],  # how long others let it wait on its way, when it last looked
        wait_back=[FLOAT],  # and its acknowledgements
        busiest=[INT],  # the hop where others let it wait longest, -1: nowhere
        after=[INT, HOPS],  # neighbours in the list of connections at each link
        before=[INT, HOPS],
        flow=[INT],  # of the schedule; -1 for a stream
        ack=[FLOAT],  # bytes of acknowledgements for each byte
        queued=[FLOAT],  # bytes of the messages behind the one being sent
        partner=[INT],  # a stream's feeder, a feeder's stream; -1 for a flow
        who=[INT],  # a number of its own for the whole run, flows after streams
        draws=[INT],  # how often it has drawn
        split=[INT],  # its feeder sends ahead of it
        split_at=[FLOAT],  # since then
        member_of=[INT],  # stamp of the last time that it was settled
        new_rate=[FLOAT],
        frozen=[INT],
    )
    made["flow"] = made["partner"] = made["ack_level"] = made["demoted_at"] = -1
    made["hears_at"], made["weight"] = NEVER, 1.0
    return made


def links(capacity: Floats, limit: Floats) -> Table:
    made = table(
        len(capacity),
        capacity=[FLOAT],  # payload, after headers
        limit=[FLOAT],  # payload bytes that a queue holds
        load=[FLOAT],  # what connections send now
        acks=[FLOAT],  # what acknowledgements take of it
        first=[INT],  # of the list of connections
        standing=[INT],  # how many
        carried=[FLOAT, BANDS],  # payload so far
        is_dirty=[INT],
        touched_at=[INT],  # stamp
        inside=[INT],  # stamp: all connections of this link are being settled
        within=[INT],  # of those who stand here, how many are being settled
        change=[FLOAT],  # of their rates, about
        residue=[FLOAT],
        top=[INT],
        top_count=[INT],
        top_weight=[FLOAT],  # of all that are counted
        clear=[INT],
        quiet_at=[INT],  # stamp: nobody keeps anything waiting here since then (quiet.py)
        looked_at=[INT],  # stamp: what is waiting was looked at
        looked_ns=[FLOAT],  # then
        looked_level=[INT],  # the last level that anybody had there
        at_least=[FLOAT],  # what they keep waiting
    )
    made["capacity"], made["limit"], made["first"] = capacity, limit, -1
    made["quiet_at"] = made["looked_at"] = -1
    return made


def streams(count: int) -> Table:
    made = table(
        count,
        sizes=[FLOAT, MESSAGES],  # of messages not yet sent, a circle
        head=[INT],
        waiting=[INT],
        arrivals=[FLOAT, MESSAGES],  # when messages under way will be there, a circle
        arrival_head=[INT],
        arriving=[INT],
        busy_ns=[FLOAT],  # when it last sent something
        next=[INT],  # in its ring; -1: not in a ring
        steps=[INT],
        chunk=[FLOAT],
        handed=[INT],  # steps of this transfer given to TCP
        arrived=[INT],  # steps that the one before has delivered, ever
        earlier=[INT],  # of them, those of earlier transfers
        active=[INT],
        player=[INT],  # in whose list of steps its messages are; -1: in none
        inbox_first=[INT],  # that player's receives from this stream
        inbox_count=[INT],
        inbox_at=[INT],  # those that have arrived in this transfer
        ahead=[INT],  # messages that have arrived for later ones
        due=[INT],  # 1 + the send that is its next message; 0: none is to come
        so_far=[FLOAT],  # bytes of this iteration, those of the message being sent included
        whole=[FLOAT],  # bytes of the last whole iteration; 0: there was none
        pause=[FLOAT],  # that ended it, in ticks
    )
    made["next"] = made["player"] = -1
    return made


def schedule(count: int) -> Table:
    made = table(
        count,
        start=[FLOAT],
        bytes=[FLOAT],
        hops=[INT],
        path=[INT, HOPS],
        back=[INT, HOPS],
        level=[INT, HOPS],
        band=[INT],
        demoted_at=[FLOAT, DEMOTIONS],  # with so much left it goes on at the level beside
        demoted_to=[INT, DEMOTIONS],
        delay=[FLOAT],
        end=[FLOAT],  # filled in
        acked=[FLOAT],  # likewise
    )
    made["end"], made["acked"], made["demoted_at"] = NEVER, NEVER, -1
    return made


def queue(count: int) -> Table:
    made = table(count, time=[FLOAT], order=[INT], place=[INT])
    made["time"], made["place"] = NEVER, -1
    return made


def scratch(connections: int, links: int, streams: int, floors: Sequence[float]) -> Scratch:
    def integers(count: int) -> Integers:
        return np.zeros(count, dtype=np.int64)

    return Scratch(
        clock=np.zeros(1),
        counts=integers(16),
        floors=np.array(floors, dtype=float),
        free=integers(connections),
        dirty=integers(links),
        members=integers(connections),
        touched=integers(links),
        split=integers(streams),
        told=integers(4 * streams + 64),
        told_kind=integers(4 * streams + 64),
    )
