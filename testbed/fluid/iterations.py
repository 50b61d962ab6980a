"""MLTCP: who has sent more of an iteration has a larger share of a full link (compiled).

What an iteration is, nobody tells: the pauses do, by the rule of the virtual engine's kernel
(testbed/virtual/tcp_mltcp.c). A share that grows with every byte would be an event a byte: it grows
in steps.
"""

import numpy as np

from testbed.fluid import tcp
from testbed.fluid.inner import inlined, inner
from testbed.fluid.rates import touch
from testbed.fluid.state import ISOLATES, ITERATES, State

STEP = 1.1  # of a gain: in a tenth more, which makes 22 steps an iteration


@inlined
def begin_message(state: State, stream: int, idle: bool) -> None:
    """The message at the head of the line is what a stream has left to send."""
    state.c.left[stream] = state.s.sizes[stream, state.s.head[stream]]
    if state.x.counts[ITERATES]:
        count_in(state, stream, idle)


@inner
def count_in(state: State, stream: int, idle: bool) -> None:
    """A message belongs to this iteration, or after a pause to the next one."""
    if idle:
        pause(state, stream)
    state.s.so_far[stream] += state.c.left[stream]
    weigh(state, stream)


@inner
def pause(state: State, stream: int) -> None:
    """A pause that is not much shorter than the one that ended the last iteration ends this one."""
    s, now = state.s, state.x.clock[0]
    ticks = np.floor(now / tcp.TICK_NS) - np.floor(s.busy_ns[stream] / tcp.TICK_NS)
    sent = s.so_far[stream]
    if ticks == 0.0:
        return
    if sent < tcp.LEAST_ITERATION:
        s.so_far[stream] = 0.0
    elif 2.0 * ticks > s.pause[stream] or sent > 2.0 * s.whole[stream]:
        s.whole[stream], s.pause[stream] = sent, ticks
        s.so_far[stream] = 0.0


@inner
def weigh(state: State, stream: int) -> None:
    """The weight of a stream, and of its feeder, as far as the iteration is; and when it changes.

    Of AIMD with a common loss probability, windows are in proportion to the root of what is added.
    Where receivers hold windows, or each connection has a queue of its own, windows share nothing.
    """
    c, w, s, x = state.c, state.w, state.s, state.x
    whole = s.whole[stream]
    if whole == 0.0 or x.counts[ISOLATES]:
        return
    end = s.so_far[stream] - c.missing[stream]
    sent = end - c.left[stream]
    gain = tcp.mltcp_gain(sent / whole)
    grows = c.window[stream] < c.receive[stream]
    c.weight[stream] = c.weight[c.partner[stream]] = np.sqrt(gain) if grows else 1.0
    following = whole * tcp.mltcp_share(STEP * gain)
    c.demoted_at[stream] = end - following if following > sent + 1.0 else -1.0
    for hop in range(c.hops[stream]):
        touch(w, x, c.path[stream, hop])
    if c.split[stream]:
        touch(w, x, c.path[c.partner[stream], 0])
