# SPDX-License-Identifier: Apache-2.0
"""A helper's whole life: it sleeps until its leader wants a slice of a call moved, and ends with the leader."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lanecast import _core
from lanecast.bound import Bound
from lanecast.helpers import memory
from lanecast.helpers.channel import Channel, Closed
from lanecast.helpers.options import from_text
from lanecast.helpers.slices import Range, parts_read, parts_written, ranges

_GRACE_S = 5.0  # for a call to end once it was given up, and for peers to hear of it
_SAID_S = 0.1


class Helper:
    """Answers one leader."""

    def __init__(self, channel: Channel, core: Any) -> None:
        """core: the communicator of this slice, one helper for each leader; rank and size are the leaders'."""
        self._channel, self._core = channel, core
        self._mapped = memory.MappedMemory()
        self._mirrors = {"both": memory.Mirror(), "input": memory.Mirror(), "output": memory.Mirror()}

    def serve(self, leader: int) -> None:
        """Until the leader (a process) says that it ends, or has ended."""
        ending = threading.Event()
        watch = threading.Thread(target=self._watch, args=(leader, ending), daemon=True, name="leader's end")
        watch.start()
        with suppress(Closed):
            while self._answer():
                pass
        ending.set()
        self._channel.close()

    def _answer(self) -> bool:
        message, file = self._channel.receive()
        what = message["do"]
        if what == "end":
            return False
        if what == "map":
            self._mapped.map(message["segment"], file, message["bytes"])
        elif what == "unmap":
            self._mapped.unmap(message["segment"])
        elif what == "peek":
            self._channel.send(can=self._can_read(message["pid"], message["address"]))
        else:
            try:
                self._move(message)
                self._channel.send(done=True)
            except Exception as error:
                self._channel.send(error=type(error).__name__, text=str(error))
        return True

    @staticmethod
    def _can_read(pid: int, address: int) -> bool:
        """May this process copy from and to the leader's memory? What lies at that address is its own copy."""
        byte = memory.Mirror().of(1)
        try:
            memory.read_from(pid, memory.address_of(byte), address, 1)
            memory.write_to(pid, memory.address_of(byte), address, 1)
        except OSError:
            return False
        return True

    def _move(self, message: dict[str, Any]) -> None:
        call = Bound(*message["call"])
        index, slices = message["slice"]
        places = [memory.Place(*place) for place in message["buffers"]]
        element = message["element"]
        read = ranges(parts_read(call, self._core.rank, self._core.size), index, slices)
        written = ranges(parts_written(call, self._core.rank, self._core.size), index, slices)
        source, target = self._buffers(places)
        if places[0].segment < 0:
            self._copy(memory.read_from, message["pid"], (source, places[0]), (read, element))
        self._core.run_slice(index, slices, *call._replace(source=source, target=target))
        if places[1].segment < 0:
            self._copy(memory.write_to, message["pid"], (target, places[1]), (written, element))

    def _buffers(self, places: Sequence[memory.Place]) -> list[memory.Bytes]:
        """Both as this process sees them; where they overlap at the leader's, they do so here."""
        source, target = places
        if all(place.segment < 0 for place in places):
            begin = min(source.offset, target.offset)
            end = max(place.offset + place.bytes for place in places)
            if end - begin < source.bytes + target.bytes:
                whole = self._mirrors["both"].of(end - begin)
                return [whole[place.offset - begin : place.offset - begin + place.bytes] for place in places]
        return [
            self._mirrors[name].of(place.bytes) if place.segment < 0 else self._mapped.at(place)
            for name, place in zip(("input", "output"), places, strict=True)
        ]

    @staticmethod
    def _copy(move: Any, pid: int, buffer: tuple[memory.Bytes, memory.Place], cut: tuple[list[Range], int]) -> None:
        (here, there), (pieces, element) = buffer, cut
        local = memory.address_of(here)
        for first, count in pieces:
            move(pid, local + first * element, there.offset + first * element, count * element)

    def _watch(self, leader: int, ending: threading.Event) -> None:
        """A leader that is killed says nothing, and a slice that is under way may wait for peers that wait for it."""
        ends = select.poll()
        with suppress(OSError):
            ends.register(os.pidfd_open(leader), select.POLLIN)
        ends.register(self._channel.fileno(), select.POLLRDHUP)
        ends.poll()
        if ending.wait(_SAID_S):  # what the leader has said last may still be on its way
            return
        self._core.abort(f"its leader, process {leader}, has ended or has given up its call")
        if not ending.wait(_GRACE_S) or not _lives(leader):
            os._exit(1)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; what becomes of a call then is the leader's to say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Gathering:
    """The all-gather by which helpers find each other: through their leaders."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __call__(self, mine: bytes) -> bytes:
        self._channel.send(gather=mine.hex())
        return bytes.fromhex(self._channel.receive().text["gathered"])


def started(channel: Channel) -> tuple[Any, int]:
    """The communicator of a helper that the library has started, and its leader's process. Raises Closed."""
    from lanecast.startup import progress_thread

    made = channel.receive().text
    core = _core.Communicator.from_all_gather(
        made["rank"], made["size"], Gathering(channel), progress_thread(), from_text(made["options"])
    )
    channel.send(ready=os.getpid())
    return core, made["leader"]
