# SPDX-License-Identifier: Apache-2.0
"""Carried messages as the second interpreter has them: slots, what lanes say and hear, and proxies that move bytes.

A proxy sends what all lanes with a share have put. It has few messages under way at a time, and one is under way until
the receiver has a free slot: so does a transport that announces its messages.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ProgramDict = dict[str, Any]
Bytes = NDArray[np.uint8]


class CarriedEnd:
    """One side of a carried message of a channel."""

    def __init__(self, rank: int, program: ProgramDict, number: int, channel: int) -> None:
        self.rank, self.number, self.channel = rank, number, channel
        self.message: ProgramDict = program["carried"][number]
        self.chunks: int = self.message["chunks"]
        self.of_channel = program["lanes"] // program["channels"]
        self.lanes = range(channel * self.of_channel, (channel + 1) * self.of_channel)
        self.says = dict.fromkeys(self.lanes, 0)  # chunks
        self.posted = self.through = self.taken = 0
        self.heard = 0  # by the channel's first lane, which passes it on
        self.come: set[int] = set()
        self.slots: list[Bytes] = []

    def share(self, chunk: int, lane: int) -> Bytes:
        first = (lane - self.lanes[0]) * self.message["lane_bytes"]
        return self.slots[chunk % len(self.slots)][first : first + self.message["lane_bytes"]]

    def pass_by(self, chunk: int) -> None:
        self.come.add(chunk)
        while self.through in self.come:
            self.through += 1

    @property
    def finished(self) -> bool:
        return (self.through if self.message["sends"] else self.taken) == self.chunks


class Proxies:
    """Of all ranks. bytes_of: of a lane's share of a chunk of a message. paces: as a proxy has few under way."""

    LEAST = 2  # messages under way

    def __init__(
        self,
        programs: Sequence[ProgramDict],
        bytes_of: Callable[[int, int, int, int], int],
        garbage: np.random.Generator,
        rng: random.Random,
    ) -> None:
        self._bytes_of, self._garbage, self._random = bytes_of, garbage, rng
        self.ends: dict[tuple[int, int, int], CarriedEnd] = {}  # rank, message, channel
        self._pairs: dict[tuple[int, int, int, int], dict[bool, CarriedEnd]] = defaultdict(dict)
        for rank, program in enumerate(programs):
            for number, message in enumerate(program["carried"]):
                pair = (rank, message["peer"]) if message["sends"] else (message["peer"], rank)
                for channel in range(program["channels"]):
                    end = CarriedEnd(rank, program, number, channel)
                    length = end.of_channel * message["lane_bytes"]
                    end.slots = [garbage.integers(0, 256, length, np.uint8) for _ in range(message["slots"])]
                    self.ends[rank, number, channel] = end
                    self._pairs[(*pair, message["ordinal"], channel)][message["sends"]] = end
        self._paces = rng.random() < 0.5
        self._delay = [{what["carried"]: what["delay"] for what in p["puts"]} for p in programs]
        self._under_way: list[tuple[CarriedEnd, int]] = []  # of senders

    def unmatched(self) -> str:
        """A message that only one side knows, or that has not the same shares on both; or nothing."""
        for (sender, receiver, ordinal, channel), both in self._pairs.items():
            where = f"message {ordinal} from rank {sender} to rank {receiver}, channel {channel}"
            if len(both) < 2:
                return f"{where}: only one side has it"
            if both[True].message["lane_bytes"] != both[False].message["lane_bytes"]:
                return f"{where}: shares lie differently"
            for chunk in range(both[True].chunks):
                if self.shares(both[True], chunk) != self.shares(both[False], chunk):
                    return f"{where}: chunk {chunk} has other shares on one side"
        return ""

    def shares(self, end: CarriedEnd, chunk: int) -> dict[int, int]:
        """Bytes by lane, of those that have any."""
        each = {lane: self._bytes_of(end.rank, end.number, chunk, lane) for lane in end.lanes}
        return {lane: length for lane, length in each.items() if length}

    def _all_say(self, end: CarriedEnd, chunk: int) -> bool:
        return all(end.says[lane] > chunk for lane in self.shares(end, chunk))

    def _tick(self, end: CarriedEnd, chunk: int) -> int:
        delay: int = self._delay[end.rank][end.number]
        return chunk + delay

    def _has_room(self, end: CarriedEnd) -> bool:
        """One that is put no later than all under way always leaves: those may wait for what comes of it."""
        own = [self._tick(other, chunk) for other, chunk in self._under_way if other.rank == end.rank]
        return not self._paces or len(own) < self.LEAST or self._tick(end, end.posted) < min(own)

    def move(self) -> list[int]:
        """Does what can be done, in a random order; the ranks for whose lanes something has changed."""
        touched: list[int] = []
        moved = True
        while moved:
            moved = False
            ends = list(self.ends.values())
            self._random.shuffle(ends)
            for end in ends:
                if self._send(end) if end.message["sends"] else self._receive(end):
                    moved = True
                    touched.append(end.rank)
            for one in self._random.sample(self._under_way, len(self._under_way)):
                if receiver := self._arrives(*one):
                    moved = True
                    touched += [one[0].rank, receiver.rank]
        return touched

    def _send(self, end: CarriedEnd) -> bool:
        chunk = end.posted
        if chunk == end.chunks or chunk - end.through >= len(end.slots) or not self._all_say(end, chunk):
            return False
        if not self.shares(end, chunk):
            end.pass_by(chunk)
        elif self._has_room(end):
            self._under_way.append((end, chunk))
        else:
            return False
        end.posted += 1
        return True

    def _receive(self, end: CarriedEnd) -> bool:
        moved = False
        while end.taken < end.through and self._all_say(end, end.taken):
            end.taken, moved = end.taken + 1, True
        while end.posted < end.chunks and end.posted - end.taken < len(end.slots):
            slot = end.slots[end.posted % len(end.slots)]
            slot[:] = self._garbage.integers(0, 256, len(slot), np.uint8)  # the NIC may write from now on
            if not self.shares(end, end.posted):
                end.pass_by(end.posted)
            end.posted, moved = end.posted + 1, True
        return moved

    def _arrives(self, sender: CarriedEnd, chunk: int) -> CarriedEnd | None:
        message = sender.message
        receiver = self._pairs[sender.rank, message["peer"], message["ordinal"], sender.channel][False]
        if chunk >= receiver.posted:
            return None
        source, target = (end.slots[chunk % len(end.slots)] for end in (sender, receiver))
        last, length = max(self.shares(sender, chunk).items())
        stop = (last - sender.lanes[0]) * message["lane_bytes"] + length
        target[:stop] = source[:stop]
        source[:] = self._garbage.integers(0, 256, len(source), np.uint8)  # nobody reads it again
        self._under_way.remove((sender, chunk))
        sender.pass_by(chunk)
        receiver.pass_by(chunk)
        return receiver
