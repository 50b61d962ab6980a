"""A task's end of the line to the controller: JSON messages, one a line.

A task says `ready` when its sockets stand, waits for `go` (which names the instant that is time
zero), says `beat` while it lives and `done` with its findings. If the line breaks, the
controller is gone and the task ends.
"""

import json
import socket
from typing import Any


class Control:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._buffer = b""

    def fileno(self) -> int:
        return self._line.fileno()

    def say(self, event: str, **details: Any) -> None:
        self._line.sendall(json.dumps({"event": event, **details}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next message; blocks. Ends the task if the controller is gone."""
        while b"\n" not in self._buffer:
            data = self._line.recv(1 << 16)
            if not data:
                raise SystemExit(1)
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
