"""Messages that arrive, and the collectives that they are steps of (compiled).

Any list of steps is played by counters: a message that arrives counts down those that wait for it,
and one that waits for nothing more is handed to its stream. Rings, whose lists would be long, need
no list: step k goes on when step k - 1 is here. Whoever waits outside is told when a collective is
done, or when a message that is in none has arrived.
"""

import numpy as np
from numba import njit

from testbed.fluid.heap import schedule
from testbed.fluid.held import Held
from testbed.fluid.inner import inner
from testbed.fluid.state import MESSAGES, N_TOLD, State
from testbed.fluid.streams import post

RING_DONE, ARRIVED, STEPS_DONE = range(3)


@inner
def arrive(state: State, stream: int) -> None:
    c, s, q, x = state.c, state.s, state.q, state.x
    s.arrival_head[stream] = (s.arrival_head[stream] + 1) % MESSAGES
    s.arriving[stream] -= 1
    coming = s.arrivals[stream, s.arrival_head[stream]] if s.arriving[stream] else np.inf
    schedule(q, x, len(c) + stream, coming)
    sender = s.due[stream] - 1
    if sender >= 0:  # what found no room
        hand_over(state, stream)
        end_if_done(state, state.p.sends.player[sender])
    receiver = s.next[stream]
    if receiver >= 0:
        s.arrived[receiver] += 1
        ring_on(state, receiver)
    elif s.player[stream] >= 0:
        step_arrived(state, stream)
    else:
        tell(state, stream, ARRIVED)


@inner
def tell(state: State, whom: int, kind: int) -> None:
    x = state.x
    x.told[x.counts[N_TOLD]] = whom
    x.told_kind[x.counts[N_TOLD]] = kind
    x.counts[N_TOLD] += 1


@njit(cache=True)
def begin_ring(held: Held, stream: int, chunk: float) -> None:
    """A worker takes part in an all-reduce; `chunk` bytes travel in each step."""
    state = held.state
    s = state.s
    s.active[stream] = 1
    s.handed[stream] = 0
    s.chunk[stream] = chunk
    ring_on(state, stream)


@inner
def ring_on(state: State, stream: int) -> None:
    """Send what a worker may: step k once it has received step k - 1."""
    s = state.s
    if not s.active[stream]:
        return
    steps = s.steps[stream]
    received = min(steps, s.arrived[stream] - s.earlier[stream])
    while s.handed[stream] < steps and s.handed[stream] <= received:
        post(state, stream, s.chunk[stream])
        s.handed[stream] += 1
    if s.handed[stream] == steps and received == steps:
        s.active[stream] = 0
        s.earlier[stream] += steps
        tell(state, stream, RING_DONE)


@njit(cache=True)
def begin_steps(held: Held, player: int, byte: float) -> None:
    """A rank takes part in a collective over so many bytes."""
    state = held.state
    s, players, sends = state.s, state.p.players, state.p.sends
    players.active[player] = 1
    players.byte[player] = byte
    players.left[player] = players.sends[player] + players.receives[player]
    first = players.first_send[player]
    inbox = players.inbox_first[player]
    for at in range(first, first + players.sends[player]):
        sends.missing[at] = sends.need[at]
    for at in range(inbox, inbox + players.inbox_count[player]):
        s.inbox_at[state.p.inbox[at]] = 0
    for at in range(first, first + players.sends[player]):
        if sends.first[at]:
            s.due[sends.stream[at]] = at + 1
            hand_over(state, sends.stream[at])
    for at in range(inbox, inbox + players.inbox_count[player]):
        stream = state.p.inbox[at]
        while s.ahead[stream] and s.inbox_at[stream] < s.inbox_count[stream]:
            s.ahead[stream] -= 1
            take(state, player, stream)
    end_if_done(state, player)


@inner
def step_arrived(state: State, stream: int) -> None:
    s = state.s
    player = s.player[stream]
    if state.p.players.active[player] and s.inbox_at[stream] < s.inbox_count[stream]:
        take(state, player, stream)
        end_if_done(state, player)
    else:
        s.ahead[stream] += 1  # its sender is a transfer ahead


@inner
def take(state: State, player: int, stream: int) -> None:
    """The next receive from this stream is here: what waited for it may go."""
    s, receives, sends = state.s, state.p.receives, state.p.sends
    got = s.inbox_first[stream] + s.inbox_at[stream]
    s.inbox_at[stream] += 1
    state.p.players.left[player] -= 1
    for at in range(receives.first[got], receives.last[got]):
        send = state.p.unlocks[at]
        sends.missing[send] -= 1
        if sends.missing[send] == 0:
            hand_over(state, sends.stream[send])


@inner
def hand_over(state: State, stream: int) -> None:
    """Give a stream its next messages, as far as they wait for nothing and it has room."""
    s, players, sends = state.s, state.p.players, state.p.sends
    while s.due[stream]:
        send = s.due[stream] - 1
        player = sends.player[send]
        if sends.missing[send] or not post(state, stream, players.byte[player] * sends.share[send]):
            return
        players.left[player] -= 1
        s.due[stream] = sends.following[send]


@inner
def end_if_done(state: State, player: int) -> None:
    players = state.p.players
    if players.active[player] and players.left[player] == 0:
        players.active[player] = 0
        tell(state, player, STEPS_DONE)
