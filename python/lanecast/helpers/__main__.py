# SPDX-License-Identifier: Apache-2.0
"""A helper as its leader starts it: `python -m lanecast.helpers FILE`, where the file is its end of a channel."""

import socket
import sys

from lanecast.helpers import placing, serving
from lanecast.helpers.channel import Channel, Closed


def main() -> int:
    serving.ignore_interrupts()
    placing.take_cores(int(core) for core in sys.argv[2].split(","))
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    try:
        core, leader = serving.started(channel)
    except Closed:
        return 1
    except Exception as error:
        channel.send(error=type(error).__name__, text=str(error))
        return 1
    serving.Helper(channel, core).serve(leader)
    return 0


if __name__ == "__main__":
    sys.exit(main())
