"""A connection's messages arrive whole and in order, however the bytes between them fall."""

import socket
import time
from functools import partial

import pytest

from workloads.connection import HEADER, Connection
from workloads.loop import Clock, Loop

BLANK, CONTENT, EMPTY = (1, 3_000_000, None), (2, 5, b"hello"), (3, 0, None)
LIMIT_NS = 20_000_000_000  # of a machine that is very slow
LONG = (4, 2_000_000, bytes(range(250)) * 8000)


def pair(loop, heard):
    """Two ends, each of which notes what it hears, or why it is broken."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        first = socket.create_connection(door.getsockname())
        second, _ = door.accept()
    first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ends = [
        Connection(sock, loop, partial(lambda at, got: heard[at].append(got), at), heard[at].append)
        for at, sock in enumerate((first, second))
    ]
    return ends, (first, second)


def plain(arrived):
    content = arrived.content
    return arrived.tag, arrived.byte, None if content is None else bytes(content)


def run_until(loop, done):
    def look():
        if done() or loop.clock.now_ns() > LIMIT_NS:
            loop.stop()
        else:
            loop.at(loop.clock.now_ns() + 1_000_000, look)

    loop.at(0, look)
    loop.run()


def test_messages_of_all_kinds_arrive_in_order():
    loop, heard = Loop(Clock(time.monotonic_ns())), ([], [])
    (first, _), _ = pair(loop, heard)
    sent, taken = [BLANK, CONTENT, EMPTY, LONG, BLANK, EMPTY, CONTENT], []
    for at, (tag, byte, content) in enumerate(sent):
        view = None if content is None else memoryview(content)
        first.send(tag, byte, view, partial(taken.append, at))
    run_until(loop, lambda: len(heard[1]) == len(sent))
    assert [plain(one) for one in heard[1]] == sent
    assert taken == list(range(len(sent)))


@pytest.mark.parametrize("piece", [1, 7, HEADER.size, HEADER.size + 1])
def test_messages_cut_anywhere_are_put_together(piece):
    loop, heard = Loop(Clock(time.monotonic_ns())), ([], [])
    _, (raw, _) = pair(loop, heard)
    stream = HEADER.pack(7, False, 3) + b"abc" + HEADER.pack(8, False, 0)
    stream += HEADER.pack(9, True, 4) + b"wxyz"
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    for at, one in enumerate(pieces):
        loop.at(at, partial(raw.send, one))
    run_until(loop, lambda: len(heard[1]) == 3)
    assert [plain(one) for one in heard[1]] == [(7, 3, None), (8, 0, None), (9, 4, b"wxyz")]


def test_who_leaves_in_mid_message_breaks_the_connection():
    loop, heard = Loop(Clock(time.monotonic_ns())), ([], [])
    (first, _), (raw, _) = pair(loop, heard)
    raw.send(HEADER.pack(7, False, 100) + b"abc")
    loop.at(0, first.close)
    run_until(loop, lambda: heard[1])
    assert heard[1][0] == "the other side closed its connection"
