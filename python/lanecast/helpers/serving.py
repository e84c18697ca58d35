# SPDX-License-Identifier: Apache-2.0
"""A helper's whole life: it sleeps until its leader wants a slice of a call moved, and ends with the leader."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lanecast import _core
from lanecast.bound import Bound
from lanecast.helpers import memory, on_gpu
from lanecast.helpers.channel import Channel, Closed
from lanecast.helpers.images import Images, OfProcess, Original, fetch, put_back
from lanecast.helpers.slices import parts_read, parts_written, ranges

_GRACE_S = 5.0  # for a call to end once it was given up, and for peers to hear of it
_SAID_S = 0.1


class Helper:
    """Answers one leader."""

    def __init__(self, channel: Channel, core: Any) -> None:
        """core: the communicator of this slice, one helper for each leader; rank and size are the leaders'."""
        self._channel, self._core = channel, core
        self._waits = False  # for peers, in a call or a split
        self._children: list[threading.Thread] = []  # that serve communicators split from this one
        self._mapped, self._images = memory.MappedMemory(), Images()

    def serve(self, leader: int) -> None:
        """Until the leader (a process) says that it ends, or has ended."""
        ending = threading.Event()
        # A file of its own: the number of one that this thread has closed may be another file's before it looks again.
        watched = os.dup(self._channel.fileno())
        watch = threading.Thread(target=self._watch, args=(leader, ending, watched), daemon=True, name="leader's end")
        watch.start()
        with suppress(Closed):
            while self._answer():
                pass
        ending.set()
        self._channel.close()
        watch.join()  # which holds the communicator, too
        for child in self._children:  # which may outlive it
            child.join()

    def _answer(self) -> bool:
        message, file = self._channel.receive()
        what = message["do"]
        if what == "end":
            return False
        if what == "map":
            self._mapped.map(message["segment"], file, message["bytes"])
        elif what == "unmap":
            self._mapped.unmap(message["segment"])
        elif what == "split":
            self._split(Channel(socket.socket(fileno=file)), message)
        elif what == "peek":
            self._channel.send(can=self._can_read(message["pid"], message["address"]))
        else:
            self._waits = True
            try:
                self._move(message)
                self._channel.send(done=True)
            except Exception as error:
                self._channel.send(error=type(error).__name__, text=str(error))
            finally:
                self._waits = False
        return True

    def _split(self, channel: Channel, asked: dict[str, Any]) -> None:
        """Serve the child as well, by a channel of its own."""
        self._waits = True
        try:
            core = self._core.split(asked["color"], asked["key"])
        except (_core.Error, TypeError):  # which the leader meets, too
            core = None
        finally:
            self._waits = False
        if core is None:
            return channel.close()
        serve = Helper(channel, core).serve
        child = threading.Thread(target=serve, args=(asked["leader"],), daemon=True, name="child")
        self._children = [*filter(threading.Thread.is_alive, self._children), child]
        return child.start()

    @staticmethod
    def _can_read(pid: int, address: int) -> bool:
        """May this process copy from and to the leader's memory? What lies at that address is its own copy."""
        byte, original = np.zeros(1, np.uint8), OfProcess(pid, address)
        try:
            fetch(byte, original, [(0, 1)], 1)
            put_back(byte, original, [(0, 1)], 1)
        except OSError:
            return False
        return True

    def _move(self, message: dict[str, Any]) -> None:
        call, places = Bound(*message["call"]), [memory.Place(**place) for place in message["buffers"]]
        if places[0].gpu is not None and not on_gpu.through_hosts(call):
            self._move_on_gpu(call, message["slice"], places)
        else:
            self._move_on_host(call, message, places)

    def _move_on_host(self, call: Bound, message: dict[str, Any], places: Sequence[memory.Place]) -> None:
        index, slices = message["slice"]
        rank, size, element = self._core.rank, self._core.size, message["element"]
        images = self._images.of([(place.offset, place.bytes) for place in places])
        originals = [self._original(place, message["pid"]) for place in places]
        source, target = (
            self._mapped.at(place) if original is None else image
            for place, original, image in zip(places, originals, images, strict=True)
        )
        if originals[0] is not None:
            fetch(source, originals[0], ranges(parts_read(call, rank, size), index, slices), element)
        self._core.run_slice(index, slices, *call._replace(source=source, target=target))
        if originals[1] is not None:
            put_back(target, originals[1], ranges(parts_written(call, rank, size), index, slices), element)

    def _move_on_gpu(self, call: Bound, slice_of: Sequence[int], places: Sequence[memory.Place]) -> None:
        borrowed = on_gpu.Borrowed(places, call.dtype)
        try:
            source, target = borrowed.buffers
            on_gpu.move_slice(self._core, call._replace(source=source, target=target), *slice_of)
        finally:
            borrowed.close()

    def _original(self, place: memory.Place, pid: int) -> Original | None:
        """None: the leader shares it."""
        if place.gpu is not None:
            return _core.SliceMemory(place.gpu["bus_id"], bytes.fromhex(place.gpu["handle"]), place.gpu["offset"])
        return None if place.segment >= 0 else OfProcess(pid, place.offset)

    def _watch(self, leader: int, ending: threading.Event, watched: int) -> None:
        """A leader that is killed says nothing, and a slice that is under way may wait for peers that wait for it.

        watched: the channel, a file to be closed here.
        """
        ends = select.poll()
        process = -1
        with suppress(OSError):  # it has ended already, and so has the channel
            process = os.pidfd_open(leader)
            ends.register(process, select.POLLIN)
        ends.register(watched, select.POLLRDHUP)
        ends.poll()
        os.close(watched)
        if process >= 0:
            os.close(process)
        while not ending.wait(_SAID_S):  # what the leader has said last may still be on its way
            if self._waits or not _lives(leader):
                break
        else:
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
