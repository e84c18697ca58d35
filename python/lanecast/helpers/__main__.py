# SPDX-License-Identifier: Apache-2.0
"""A helper as its leader starts it: `python -m lanecast.helpers FILE LEADER LEADERS PLACE PROCESSES`.

FILE: its end of a channel. Then which of its host's leaders its own is, and which of that one's processes it is.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from lanecast import _core, nics
from lanecast.helpers import placing, serving
from lanecast.helpers.channel import Channel, Closed
from lanecast.helpers.options import from_text


class _Gathering:
    """The all-gather by which helpers find each other: through their leaders."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __call__(self, mine: bytes) -> bytes:
        self._channel.send(gather=mine.hex())
        return bytes.fromhex(self._channel.receive().text["gathered"])


def _started(channel: Channel, place: int, processes: int) -> tuple[Any, int]:
    """The communicator of this helper, and its leader's process. Raises Closed.

    place: of this process, of so many of leaders and helpers on this host.
    """
    made = channel.receive().text
    os.environ.update(nics.variables_of_helper(place, processes, made["nics_at_once"]))
    options = from_text(made["options"])
    gathering, thread = _Gathering(channel), _core.make_progress_thread()
    core = _core.Communicator.from_all_gather(made["rank"], made["size"], gathering, thread, options)
    channel.send(ready=os.getpid())
    return core, made["leader"]


def main() -> int:
    serving.ignore_interrupts()
    file, leader_here, leaders, place, processes = map(int, sys.argv[1:])
    placing.take_cores(placing.cores_of(placing.cores_here(), leaders, processes)[leader_here][place])
    channel = Channel(socket.socket(fileno=file))
    try:
        core, leader = _started(channel, leader_here * processes + place, leaders * processes)
    except Closed:
        return 1
    except Exception as error:
        channel.send(error=type(error).__name__, text=str(error))
        return 1
    serving.Helper(channel, core).serve(leader)
    return 0


if __name__ == "__main__":
    sys.exit(main())
