"""Lists of steps as tables, for compiled code to play (steps.py).

A player is one rank of one list. Receives stand in the order of their streams, then of their
arrival there; each names the sends that it unlocks.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.fluid.state import FLOAT, INT, Steps, Table, table
from workloads.collectives import Part


@dataclass(frozen=True)
class StepList:
    """A collective of one job: each rank's part, and the stream from rank to rank."""

    parts: Sequence[Part]
    blocks: int
    streams: Mapping[tuple[int, int], int]


def step_tables(lists: Sequence[StepList], streams: Table) -> tuple[Steps, list[list[int]]]:
    """The tables, and the players of each list, rank by rank. Streams learn whom they lead to."""
    players: list[tuple[int, ...]] = []
    sends: list[list[float]] = []
    receives: list[tuple[int, int, float]] = []
    unlocks: list[int] = []
    inbox: list[int] = []
    numbers: list[list[int]] = []
    for one in lists:
        numbers.append(list(range(len(players), len(players) + len(one.parts))))
        for rank, part in enumerate(one.parts):
            first_send = len(sends)
            latest: dict[int, int] = {}  # by stream
            for send in part.sends:
                stream = one.streams[rank, send.to]
                share = send.blocks[1] / one.blocks
                before = latest.get(stream)
                if before is not None:
                    sends[before][-1] = len(sends) + 1
                latest[stream] = len(sends)
                need = len(send.after)
                sends.append([stream, share, need, len(players), before is None, 0])
            waiting: dict[int, list[int]] = defaultdict(list)  # sends, by what they wait for
            for at, send in enumerate(part.sends, start=first_send):
                for receive in send.after:
                    waiting[receive].append(at)
            arriving: dict[int, list[int]] = defaultdict(list)  # receives, by their source
            for at, got in enumerate(part.receives):
                arriving[got.source].append(at)
            counts = len(part.sends), len(part.receives)
            players.append((first_send, *counts, len(inbox), len(arriving)))
            for source, mine in arriving.items():
                stream = one.streams[source, rank]
                inbox.append(stream)
                streams["player"][stream] = len(players) - 1
                streams["inbox_first"][stream] = len(receives)
                streams["inbox_count"][stream] = len(mine)
                for at in mine:
                    share = part.receives[at].blocks[1] / one.blocks
                    first_unlock = len(unlocks)
                    unlocks += waiting[at]
                    receives.append((first_unlock, len(unlocks), share))
    made = Steps(
        players=_filled(
            players,
            first_send=[INT],
            sends=[INT],
            receives=[INT],
            inbox_first=[INT],
            inbox_count=[INT],
            active=[INT],
            left=[INT],  # sends not handed over and receives not arrived
            byte=[FLOAT],
        ),
        sends=_filled(
            sends,
            stream=[INT],
            share=[FLOAT],
            need=[INT],
            player=[INT],
            first=[INT],  # whether it is the first on its stream
            following=[INT],  # 1 + the next one there; 0: there is none
            missing=[INT],
        ),
        receives=_filled(receives, first=[INT], last=[INT], share=[FLOAT]),
        unlocks=np.array(unlocks, dtype=np.int64),
        inbox=np.array(inbox, dtype=np.int64),
    )
    return made, numbers


def _filled(rows: Sequence[Sequence[float]], **columns: list[object]) -> Table:
    """A table whose first columns are given; the others begin at zero."""
    made = table(len(rows), **columns)
    for at, name in enumerate(list(columns)[: len(rows[0]) if rows else 0]):
        made[name] = [row[at] for row in rows]
    return made


def left_byte(steps: Steps, streams: Table, player: int) -> int:
    """Of a transfer under way: what has not arrived at a player yet, as bytes of its vector."""
    mine = steps.players[player]
    if not mine["active"]:
        return 0
    first, count = int(mine["inbox_first"]), int(mine["inbox_count"])
    total = left = 0.0
    for stream in steps.inbox[first : first + count].tolist():
        begin = int(streams["inbox_first"][stream])
        end = begin + int(streams["inbox_count"][stream])
        here = begin + int(streams["inbox_at"][stream])
        total += float(steps.receives["share"][begin:end].sum())
        left += float(steps.receives["share"][here:end].sum())
    return round(mine["byte"] * left / total) if total else 0
