# SPDX-License-Identifier: Apache-2.0
"""A rank with an open transport: posts messages whose payload it can check when they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanecast import _core
from ranks import DEADLINE_S, Rank

Bytes = NDArray[np.uint8]
EVERYBODY = 999  # the destination of what goes to several peers from one memory


def payload(source: int, destination: int, serial: int, size: int) -> Bytes:
    """Bytes that depend on all of these and on their position, so a swap of any of them shows."""
    seed = ((source * 1009 + destination) * 1_000_003 + serial) * 0x9E3779B97F4A7C15 % 2**64
    words = np.arange((size + 7) // 8, dtype=np.uint64) + np.uint64(seed)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return words.view(np.uint8)[:size]


@dataclass(frozen=True)
class Item:
    """One message between a pair of ranks."""

    tag: int
    serial: int
    size: int
    cuts: Sequence[int] = ()  # where its memory is cut into spans
    to_all: bool = False  # sent by send_one_memory()
    stamp: int = 0
    kind: str = ""  # of the call that it belongs to
    on_gpu: bool = False  # in memory of Endpoint.gpu's, at both ends


def _no_gpu(size: int) -> Bytes:
    raise AssertionError(f"{size} bytes of a GPU's memory, and this endpoint has none")


class Recorder:
    """A consumer that checks that pieces come in order, and notes where they were cut."""

    def __init__(self, into: Bytes) -> None:
        self.into = into
        self.cuts = [0]

    def __call__(self, offset: int, data: bytes) -> None:
        assert offset == self.cuts[-1], f"a piece starts at byte {offset}, due was {self.cuts[-1]}"
        assert data, "an empty piece"
        self.cuts.append(offset + len(data))
        self.into[offset : offset + len(data)] = np.frombuffer(data, np.uint8)


class Endpoint:
    def __init__(self, transport: _core.Transport, me: Rank) -> None:
        self.transport = transport
        self.rank = me.rank
        self.size = me.size
        self.barrier = me.barrier
        self.gpu: Callable[[int], Bytes] = _no_gpu  # so many bytes of a GPU's memory
        self.peers = [peer for peer in range(me.size) if peer != me.rank]
        self._open: set[int] = set()
        self._due: list[tuple[Bytes, Bytes, str]] = []

    def watch(self, request: int) -> None:
        """Let wait() wait for a request that was posted on the transport itself."""
        self._open.add(request)

    def send(self, peer: int, item: Item) -> int:
        data = self._memory(item)
        data[:] = payload(self.rank, peer, item.serial, item.size)
        request = self.transport.send(peer, item.tag, np.split(data, item.cuts), item.stamp, item.kind)
        self.watch(request)
        return request

    def send_one_memory(self, posts: Sequence[tuple[int, Item]], memory: Bytes) -> dict[int, int]:
        """Items of one serial and size; returns the last request by peer."""
        requests: dict[int, int] = {}
        for peer, item in posts:
            if not requests:
                memory[: item.size] = payload(self.rank, EVERYBODY, item.serial, item.size)
            requests[peer] = self.transport.send(peer, item.tag, np.split(memory[: item.size], item.cuts))
            self.watch(requests[peer])
        return requests

    def is_open(self, request: int) -> bool:
        return request in self._open

    def receive(self, peer: int, item: Item) -> int:
        into = self._due_from(peer, item)
        request = self.transport.receive(peer, item.tag, np.split(into, item.cuts), item.stamp, item.kind)
        self.watch(request)
        return request

    def consume(self, peer: int, item: Item) -> Recorder:
        recorder = Recorder(self._due_from(peer, item))
        self.watch(self.transport.consume(peer, item.tag, item.size, recorder, item.kind))
        return recorder

    def refuse(self, peer: int, tag: int, into: Bytes, stamp: int, kind: str = "") -> None:
        """Receive what is not to be received."""
        self.watch(self.transport.receive(peer, tag, [into], stamp, kind))
        self.progress_until(lambda: False)

    def _memory(self, item: Item) -> Bytes:
        return self.gpu(item.size) if item.on_gpu else np.empty(item.size, np.uint8)

    def _due_from(self, peer: int, item: Item) -> Bytes:
        into = self._memory(item)
        into[:] = 0xEE
        destination = EVERYBODY if item.to_all else self.rank
        self._due.append((into, payload(peer, destination, item.serial, item.size), f"{item} from rank {peer}"))
        return into

    def progress(self) -> None:
        done = self.transport.progress()
        assert self._open.issuperset(done), "reported twice, or never posted"
        self._open.difference_update(done)
        if not done:
            time.sleep(0)  # there may be more ranks than cores

    def progress_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self.progress()
            assert time.monotonic() < deadline, f"rank {self.rank}: never came about"

    def wait(self) -> None:
        """Wait for everything posted and compare what came with what was due."""
        deadline = time.monotonic() + DEADLINE_S
        while self._open:
            self.progress()
            assert time.monotonic() < deadline, f"rank {self.rank}: {len(self._open)} requests are still open"
        for into, due, what in self._due:
            assert np.array_equal(into, due), f"rank {self.rank}: {what}: wrong data"
        self._due.clear()

    def wait_and_tell(self, awaited: Sequence[int], condition: Callable[[], bool]) -> None:
        """Wait until all ranks have seen it, and say meanwhile whom this one waits for: ranks answer while they do."""
        said, heard = False, [np.empty(1, np.uint8) for _ in self.peers]
        for peer, byte in zip(self.peers, heard, strict=True):
            self.watch(self.transport.receive(peer, 1 << 12, [byte]))

        def all_have_seen() -> bool:
            nonlocal said
            self.transport.publish_wait(awaited)
            if not said and condition():
                said = True
                for peer in self.peers:
                    self.watch(self.transport.send(peer, 1 << 12, [np.zeros(1, np.uint8)]))
            return said and not self._open

        self.progress_until(all_have_seen)

    def wait_until_lost(self, peer: int) -> str:
        """Poll until the transport knows something against the peer; returns what."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if why := self.transport.lost(peer):
                return why
            try:
                self.transport.progress()
            except _core.TransportError as error:
                return str(error)
            time.sleep(0)
        raise AssertionError(f"rank {self.rank} never learned that rank {peer} is lost")
