"""Who sends how fast: strict priority between levels, max-min fair within one (compiled).

No connection is faster than its window allows in a round trip, and a round trip includes what
waits in the queues on the way. After an event only the connections that it can concern are
looked at: those that share a link with the change, and from there on through full links.
"""

import numpy as np

from testbed.fluid.filling import fill
from testbed.fluid.heap import schedule
from testbed.fluid.inner import inlined, inner
from testbed.fluid.losses import answer_losses
from testbed.fluid.queues import (
    ahead_of,
    hop_of,
    left_now,
    window_now,
)
from testbed.fluid.quiet import disturb, joined, left
from testbed.fluid.state import (
    FINAL,
    HAS_FLOORS,
    IDLE,
    N_DIRTY,
    N_SPLIT,
    SLOW_START,
    STAMP,
    TIMERS,
    Scratch,
    Table,
)
from testbed.fluid.waits import limit_by_windows

FULL = 0.999  # of a link's capacity
CLOSE = 1e-6  # of a link's capacity: more than the order of a sum can change
LEAST_SPLIT_NS = 1_000.0  # a stream does not change its mind more often


@inlined
def touch(w: Table, x: Scratch, link: int) -> None:
    """Something has changed at this link: settle it before time goes on."""
    disturb(w, link)
    to_settle(w, x, link)


@inlined
def to_settle(w: Table, x: Scratch, link: int) -> None:
    if not w.is_dirty[link]:
        w.is_dirty[link] = 1
        x.dirty[x.counts[N_DIRTY]] = link
        x.counts[N_DIRTY] += 1


@inner
def join(c: Table, w: Table, x: Scratch, one: int) -> None:
    """A connection begins to send: it stands at every link of its path."""
    for hop in range(c.hops[one]):
        link = c.path[one, hop]
        head = w.first[link]
        c.before[one, hop] = -1
        c.after[one, hop] = head
        if head >= 0:
            c.before[head, hop_of(c, head, link)] = one
        w.first[link] = one
        w.standing[link] += 1
        joined(c, w, one, link)
        to_settle(w, x, link)


@inner
def leave(c: Table, w: Table, x: Scratch, one: int) -> None:
    """A connection has nothing to send: it is gone from its links, and its rate with it."""
    change_rate(c, w, one, 0.0)
    for hop in range(c.hops[one]):
        link = c.path[one, hop]
        before, after = c.before[one, hop], c.after[one, hop]
        if before >= 0:
            c.after[before, hop_of(c, before, link)] = after
        else:
            w.first[link] = after
        if after >= 0:
            c.before[after, hop_of(c, after, link)] = before
        w.standing[link] -= 1
        left(c, w, one, link)
        to_settle(w, x, link)


@inlined
def change_rate(c: Table, w: Table, one: int, rate: float) -> None:
    more = rate - c.rate[one]
    c.rate[one] = rate
    for hop in range(c.hops[one]):
        w.load[c.path[one, hop]] += more
        w.acks[c.back[one, hop]] += more * c.ack[one]


@inlined
def progress(c: Table, w: Table, one: int, now: float) -> None:
    """Bring a connection up to now: what it has sent, and what that did to its window."""
    sent = min(c.left[one], c.rate[one] * (now - c.touched[one]))
    c.window[one] = window_now(c, one, now)
    c.touched[one] = now
    if sent <= 0.0:
        return
    c.left[one] -= sent
    for hop in range(c.hops[one]):
        w.carried[c.path[one, hop], c.band[one]] += sent


@inner
def settle(c: Table, w: Table, q: Table, x: Scratch) -> None:
    """New rates for all that the last events concern."""
    x.counts[STAMP] += 1
    stamp = x.counts[STAMP]
    now = x.clock[0]
    members = touched = 0
    for at in range(x.counts[N_DIRTY]):
        link = x.dirty[at]
        w.is_dirty[link] = 0
        x.touched[touched] = link
        w.touched_at[link] = stamp
        w.inside[link] = stamp
        touched += 1
    x.counts[N_DIRTY] = 0
    grew_from = 0
    while True:
        # Every connection at a link inside is a member; its other links are touched.
        for at in range(grew_from, touched):
            link = x.touched[at]
            if w.inside[link] != stamp:
                continue
            one = w.first[link]
            while one >= 0:
                if c.member_of[one] != stamp:
                    c.member_of[one] = stamp
                    x.members[members] = one
                    members += 1
                    progress(c, w, one, now)
                    for hop in range(c.hops[one]):
                        other = c.path[one, hop]
                        if w.touched_at[other] != stamp:
                            w.touched_at[other] = stamp
                            x.touched[touched] = other
                            touched += 1
                one = c.after[one, hop_of(c, one, link)]
        limit_by_windows(c, w, x, members)
        share_out(c, w, x, members, touched)
        # A link outside matters if it is, or was, full: then its other connections change too.
        grew = False
        count_inside(c, w, x, members, touched)
        for at in range(touched):
            link = x.touched[at]
            if w.inside[link] == stamp or w.within[link] == w.standing[link]:
                continue
            if is_full(w, link) or becomes_full(c, w, x, link):
                w.inside[link] = stamp
                grew = True
        if not grew:
            break
        grew_from = 0
    for at in range(members):
        one = x.members[at]
        if c.new_rate[one] != c.rate[one]:
            change_rate(c, w, one, c.new_rate[one])
        reschedule(c, q, x, one)
    for at in range(members):
        one = x.members[at]
        find_queue(c, w, one)
        if could_send_ahead(c, w, one):
            x.split[x.counts[N_SPLIT]] = one
            x.counts[N_SPLIT] += 1
    for at in range(touched):
        if w.inside[x.touched[at]] == stamp:
            answer_losses(c, w, x, x.touched[at])
    if x.counts[TIMERS]:  # of what is left some may be missing now
        for at in range(members):
            reschedule(c, q, x, x.members[at])


@inlined
def count_inside(c: Table, w: Table, x: Scratch, members: int, touched: int) -> None:
    """How many of those who are settled stand at each link, and about what that changes there."""
    for at in range(touched):
        w.within[x.touched[at]] = 0
        w.change[x.touched[at]] = 0.0
    for at in range(members):
        one = x.members[at]
        for hop in range(c.hops[one]):
            w.within[c.path[one, hop]] += 1
            w.change[c.path[one, hop]] += c.new_rate[one] - c.rate[one]


@inlined
def is_full(w: Table, link: int) -> bool:
    return w.load[link] >= FULL * (w.capacity[link] - w.acks[link])


@inner
def becomes_full(c: Table, w: Table, x: Scratch, link: int) -> bool:
    """Whether new rates fill a link. What is close is added up in the order of its list."""
    full = FULL * (w.capacity[link] - w.acks[link])
    about = w.load[link] + w.change[link]
    if abs(about - full) > CLOSE * w.capacity[link]:
        return about >= full
    change = 0.0
    one = w.first[link]
    while one >= 0:
        if c.member_of[one] == x.counts[STAMP]:
            change += c.new_rate[one] - c.rate[one]
        one = c.after[one, hop_of(c, one, link)]
    return w.load[link] + change >= full


@inlined
def find_queue(c: Table, w: Table, one: int) -> None:
    """Packets wait at the first full link, or where others let them wait."""
    if c.rate[one] >= c.cap[one]:
        c.bottleneck[one] = c.busiest[one]
        return
    for hop in range(c.hops[one]):
        link = c.path[one, hop]
        if w.load[link] >= FULL * (w.capacity[link] - w.acks[link]):
            c.bottleneck[one] = hop
            return


@inlined
def could_send_ahead(c: Table, w: Table, one: int) -> bool:
    """Its first link would take more of a stream than the links behind let through."""
    if c.partner[one] < one or c.split[one] or c.phase[one] != FINAL or c.bottleneck[one] < 1:
        return False
    first = c.path[one, 0]
    return w.capacity[first] - w.acks[first] - w.load[first] > 0.05 * w.capacity[first]


@inner
def share_out(c: Table, w: Table, x: Scratch, members: int, touched: int) -> None:
    """Fill `new_rate` of the members: guaranteed shares first, the rest by priority."""
    for at in range(members):
        c.new_rate[x.members[at]] = 0.0
    if x.counts[HAS_FLOORS]:
        for level in range(len(x.floors)):
            for at in range(touched):
                link = x.touched[at]
                taken = 0.0
                one = w.first[link]
                while one >= 0:
                    hop = hop_of(c, one, link)
                    if c.member_of[one] != x.counts[STAMP] and c.level[one, hop] == level:
                        taken += c.rate[one]
                    one = c.after[one, hop]
                w.residue[link] = max(0.0, x.floors[level] * w.capacity[link] - taken)
            fill(c, w, x, members, touched, level)
    for at in range(touched):
        link = x.touched[at]
        w.residue[link] = w.capacity[link] - w.acks[link] - w.load[link]
    for at in range(members):
        one = x.members[at]
        for hop in range(c.hops[one]):
            w.residue[c.path[one, hop]] += c.rate[one] - c.new_rate[one]
    fill(c, w, x, members, touched, -1)


@inlined
def reschedule(c: Table, q: Table, x: Scratch, one: int) -> None:
    """When a connection next needs attention: its round is over, it is demoted, or all is sent."""
    partner = c.partner[one]
    if partner >= 0 and c.split[min(one, partner)]:
        schedule_pair(c, q, x, min(one, partner))
        return
    if c.phase[one] < SLOW_START:
        return
    due = min(c.round_end[one], max(x.clock[0], c.hears_at[one]))
    if c.rate[one] > 0.0:
        ahead = c.left[one] - max(0.0, c.demoted_at[one])
        due = min(due, x.clock[0] + ahead / c.rate[one])
    schedule(q, x, one, due)


@inlined
def schedule_pair(c: Table, q: Table, x: Scratch, stream: int) -> None:
    """A stream and its feeder: one of them is done, or the stream has caught up."""
    now = x.clock[0]
    feeder = c.partner[stream]
    due = np.inf
    if c.rate[stream] > 0.0:
        due = left_now(c, stream, now) / c.rate[stream]
        faster = c.rate[stream] - c.rate[feeder]
        if c.phase[feeder] != IDLE and faster > 0.0:
            caught_up = max(0.0, ahead_of(c, stream, now)) / faster
            due = min(due, max(caught_up, c.split_at[stream] + LEAST_SPLIT_NS - now))
    schedule(q, x, stream, now + max(0.0, due))
    due = np.inf
    if c.phase[feeder] != IDLE and c.rate[feeder] > 0.0:
        due = max(0.0, left_now(c, feeder, now) / c.rate[feeder])
    schedule(q, x, feeder, now + due)
