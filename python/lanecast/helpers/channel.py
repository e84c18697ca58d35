# SPDX-License-Identifier: Apache-2.0
"""What a leader and its helper say to each other: short messages over a socket, with files of memory beside them."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import suppress
from typing import Any, NamedTuple

_HEAD = struct.Struct("<IB")  # bytes of the text, files beside it


class Closed(Exception):
    """The other side has closed the channel, or has ended."""


class Message(NamedTuple):
    """One message as it came."""

    text: dict[str, Any]
    file: int = -1  # of memory, which is the receiver's to close


class Channel:
    """One side. Who waits in receive() sleeps."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setblocking(True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, file: int = -1, **text: Any) -> None:
        """Raises Closed."""
        body = json.dumps(text).encode()
        try:
            if file >= 0:
                socket.send_fds(self._socket, [_HEAD.pack(len(body), 1)], [file])
                self._socket.sendall(body)
            else:
                self._socket.sendall(_HEAD.pack(len(body), 0) + body)
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> Message:
        """Raises Closed."""
        try:
            head, files, _, _ = socket.recv_fds(self._socket, _HEAD.size, 1)
            length, _ = _HEAD.unpack(head + self._exactly(_HEAD.size - len(head)))
            return Message(json.loads(self._exactly(length)), files[0] if files else -1)
        except OSError as error:
            raise Closed(str(error)) from None

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count > 0:
            part = self._socket.recv(count)
            if not part:
                raise Closed("its end has closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        with suppress(OSError):  # the other side has closed it
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever waits here for the other side's end
        self._socket.close()
