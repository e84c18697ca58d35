# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of all ranks with data, as their kernel would: a second opinion on how plans become programs.

Knows a program only as it is exported, and shares no code with the library. Both queues of every lane of every rank go
on by themselves, an instruction at a time, in an order that a seed draws; rings hold as many bytes as they are said to,
and scratch memory, rings and outputs hold garbage at first. Instructions are done at once: two that could meet may also
come in either order, and in one of the two the data are wrong.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collective_cases import UFUNCS
from program_proxies import CarriedEnd, Proxies
from program_rings import Ring, WrongProgram, grains, length_of, place, slice_of

ProgramDict = dict[str, Any]
Bytes = NDArray[np.uint8]
Buffers = tuple[Bytes, Bytes]  # a rank's input and output, which may share memory


class Queue:
    """One of the two of a lane of a rank, at some round."""

    def __init__(self, rank: int, lane: int, name: str, program: ProgramDict) -> None:
        self.rank, self.lane, self.name, self.program = rank, lane, name, program
        self.list: list[ProgramDict] = program[name]
        self.rounds = len(self.list) * (program["chunks"] + program["delays"])
        self.ended = 0
        self.other: Queue
        self.at: int | None = None  # in its ring, within a message
        self.peer = 0  # whose message that is
        self.speed = 1.0
        self.lengths: list[int] | None = None  # of the runs of an instruction that waits
        self.joined: int | None = None  # round of this queue that the other one has put already
        self.is_parked = False
        self.waits_for = ""

    def __str__(self) -> str:
        number = self.ended % len(self.list)
        what = self.list[number]
        peer = "" if what["peer"] is None else f" rank {what['peer']}"
        return (
            f"rank {self.rank} lane {self.lane}, {self.name} {number} of tick {self.ended // len(self.list)}: "
            f"{what['operation']}{peer}, step {what['step']}, waits for {self.waits_for}"
        )

    def needed(self, what: ProgramDict, tick: int, chunk: int) -> int:
        """Rounds of the other queue that have to have ended."""
        others = len(self.other.list)
        rounds = (tick - what["needs_back"]) * others + what["needs"] if what["needs"] else 0
        generations = self.program["generations"]
        if what["writes_scratch"] and chunk >= generations:
            rounds = max(rounds, (chunk - generations + self.program["delays"] + 1) * others)
        return rounds


class Interpreter:
    """One run of the programs of all ranks, on these buffers."""

    def __init__(
        self, programs: Sequence[ProgramDict], buffers: Sequence[Buffers], ring_bytes: int, seed: int, dtype: str
    ) -> None:
        self._random = random.Random(seed)
        self._garbage = np.random.default_rng(seed)
        self._dtype = np.dtype(dtype)
        self._buffers = buffers
        self._ring_bytes = max(ring_bytes, 1)
        self._rings: dict[tuple[int, int, int], Ring] = {}  # sender, receiver, lane
        self._scratch: dict[tuple[int, int, int], Bytes] = {}  # rank, lane, generation
        self._queues: dict[tuple[int, int, str], Queue] = {}
        # Of each queue a speed: in some runs alike, in some so unlike that the slow ones stand still meanwhile.
        self._spread = self._random.choice([0, 2, 6])
        for rank, program in enumerate(programs):
            for lane in range(program["lanes"]):
                pair = [Queue(rank, lane, name, program) for name in ("puts", "takes")]
                for queue, other in zip(pair, reversed(pair), strict=True):
                    queue.other = other
                    queue.speed = self._some_speed()
                    self._queues[rank, lane, queue.name] = queue
        self._now = 0.0
        self._ready: list[tuple[float, int, Queue]] = []
        self._count = 0
        self._of_message: dict[tuple[int, int], list[ProgramDict]] = {}  # rank, carried message
        for rank, program in enumerate(programs):
            for what in program["puts"] + program["takes"]:
                if what["carried"] is not None:
                    self._of_message.setdefault((rank, what["carried"]), []).append(what)
        self._lanes = [program["lanes"] for program in programs]
        self._proxies = Proxies(programs, self._share_bytes, self._garbage, self._random)

    def run(self) -> None:
        if said := self._proxies.unmatched():
            raise WrongProgram(said)
        self._move_carried()
        for queue in self._queues.values():
            self._push(queue)
        while self._ready or self._move_carried():
            if not self._ready:
                continue
            self._now, _, queue = heapq.heappop(self._ready)
            if queue.ended == queue.rounds:
                continue
            if self._random.random() < 0.01:
                queue.speed = self._some_speed()
            if self._go_on(queue):
                queue.ended += 1
                self._push(queue)
                self._wake(queue.other)
            else:
                queue.is_parked = True
        stuck = [queue for queue in self._queues.values() if queue.ended < queue.rounds]
        if stuck:
            raise WrongProgram("\n".join(["nobody goes on:", *map(str, stuck[:8])]))
        self._expect_all_taken()

    def _expect_all_taken(self) -> None:
        for (sender, receiver, lane), ring in self._rings.items():
            if ring.ends or ring.put != ring.arrived or ring.taken != ring.emptied:
                raise WrongProgram(f"rank {receiver} does not take all that rank {sender} puts, in lane {lane}")
        for end in self._proxies.ends.values():
            if not end.finished:
                raise WrongProgram(f"rank {end.rank}: the proxy never ends with message {end.number}")

    def _share_bytes(self, rank: int, number: int, chunk: int, lane: int) -> int:
        slice_number = chunk * self._lanes[rank] + lane
        return sum(length_of(run[0], slice_number) for what in self._of_message[rank, number] for run in what["runs"])

    def _move_carried(self) -> bool:
        """Wakes whom it may concern; False where nothing has moved."""
        touched = set(self._proxies.move())
        for queue in self._queues.values():
            if queue.rank in touched:
                self._wake(queue)
        return bool(touched)

    def _end_of(self, queue: Queue, what: ProgramDict) -> CarriedEnd:
        of_channel = queue.program["lanes"] // queue.program["channels"]
        return self._proxies.ends[queue.rank, what["carried"], queue.lane // of_channel]

    def _some_speed(self) -> float:
        return float(10 ** self._random.uniform(-self._spread, 0))

    def _push(self, queue: Queue) -> None:
        self._count += 1
        heapq.heappush(self._ready, (self._now + self._random.expovariate(queue.speed), self._count, queue))

    def _wake(self, queue: Queue) -> None:
        if queue.is_parked:
            queue.is_parked = False
            self._push(queue)

    def _go_on(self, queue: Queue) -> bool:
        """Does one round; False where it has to wait."""
        tick, number = divmod(queue.ended, len(queue.list))
        what = queue.list[number]
        chunk = tick - what["delay"]
        if not 0 <= chunk < queue.program["chunks"]:
            return True
        slice_number = chunk * queue.program["lanes"] + queue.lane
        if queue.lengths is None:
            queue.lengths = [length_of(run[0], slice_number) for run in what["runs"]]
        lengths = queue.lengths
        talks = what["peer"] is not None
        if talks and queue.at is not None and queue.peer != what["peer"]:
            raise WrongProgram(f"{queue}: the message to or from rank {queue.peer} has not ended")
        # An instruction without bytes waits for nobody, unless its lane hears for its channel.
        hears = what["carried"] is not None and self._hears_for_others(queue, self._end_of(queue, what))
        if (any(lengths) or hears) and not self._may_begin(queue, what, sum(lengths)):
            return False
        if queue.joined != queue.ended:
            for run, length in zip(what["runs"], lengths, strict=True):
                if length:
                    self._move(queue, what, run, length)
            if what["joined"] and queue.name == "takes" and any(lengths):
                self._put_at_once(queue, what, lengths)
            if talks and what["ends"]:
                self._end_message(queue, what)
        queue.lengths = None
        return True

    def _put_at_once(self, queue: Queue, what: ProgramDict, lengths: list[int]) -> None:
        """A sum writes into the ring of the put that is joined to it, if that has come so far and finds room."""
        other = queue.other
        if other.ended == other.rounds:
            return
        tick, number = divmod(other.ended, len(other.list))
        put = other.list[number]
        chunk = tick - put["delay"]
        if not put["joined"] or other.needed(put, tick, chunk) != queue.ended + 1 or self._random.random() < 0.3:
            return
        slice_number = chunk * other.program["lanes"] + other.lane
        if lengths != [length_of(run[0], slice_number) for run in put["runs"]]:
            raise WrongProgram(f"{other}: it is joined to a sum of another size")
        ring = self._ring(other, put["peer"])
        at = ring.put if other.at is None else other.at
        if not self._has_room(ring, at + sum(lengths)):
            return
        for run, length in zip(what["runs"], lengths, strict=True):
            ring.write(at, self._view(queue, what, run[0]))
            at += length
        other.joined, other.at, other.peer = other.ended, at, put["peer"]
        if put["ends"]:  # the peer hears before the put ends
            self._end_message(other, put)

    def _ring(self, queue: Queue, peer: int) -> Ring:
        pair = (queue.rank, peer) if queue.name == "puts" else (peer, queue.rank)
        key = (*pair, queue.lane)
        if key not in self._rings:
            self._rings[key] = Ring(self._garbage.integers(0, 256, self._ring_bytes, np.uint8))
        return self._rings[key]

    def _may_begin(self, queue: Queue, what: ProgramDict, length: int) -> bool:
        tick = queue.ended // len(queue.list)
        rounds = queue.needed(what, tick, tick - what["delay"])
        if queue.other.ended < rounds:
            queue.waits_for = f"round {rounds} of the other queue, which is at {queue.other.ended}"
            return False
        if what["peer"] is None or queue.joined == queue.ended:
            return True
        if what["carried"] is not None:
            return self._hears(queue, self._end_of(queue, what), tick - what["delay"])
        ring = self._ring(queue, what["peer"])
        if queue.name == "puts":
            end = (ring.put if queue.at is None else queue.at) + length
            queue.waits_for = f"room for {length} bytes"
            return self._has_room(ring, end)
        end = (ring.taken if queue.at is None else queue.at) + length
        queue.waits_for = f"{length} bytes to come"
        return ring.arrived >= grains(end)

    def _has_room(self, ring: Ring, end: int) -> bool:
        return end <= self._ring_bytes or ring.emptied >= grains(end - self._ring_bytes)

    def _hears_for_others(self, queue: Queue, end: CarriedEnd) -> bool:
        chunk = queue.ended // len(queue.list) - queue.list[queue.ended % len(queue.list)]["delay"]
        return queue.lane == end.lanes[0] and chunk < end.chunks

    def _hears(self, queue: Queue, end: CarriedEnd, chunk: int) -> bool:
        first = queue.lane == end.lanes[0]
        count = end.through if first else end.heard
        queue.waits_for = f"chunk {chunk} of its message {end.number}, of which it has heard {count}"
        if chunk >= count + (len(end.slots) if queue.name == "puts" else 0):
            return False
        if first and count > end.heard:
            end.heard = count
            for lane in end.lanes:
                self._wake(self._queues[queue.rank, lane, queue.name])
        return True

    def _through_slot(self, queue: Queue, what: ProgramDict, views: list[Bytes], length: int) -> None:
        queue.at = queue.at or 0
        chunk = queue.ended // len(queue.list) - what["delay"]
        share = self._end_of(queue, what).share(chunk, queue.lane)[queue.at : queue.at + length]
        if len(share) != length:
            raise WrongProgram(f"{queue}: the share is longer than its place")
        if queue.name == "puts":
            share[:] = views[0]
        else:
            self._write(views[0], what, [*views[1:], share])
        queue.at, queue.peer = queue.at + length, what["peer"]

    def _move(self, queue: Queue, what: ProgramDict, run: list[ProgramDict], length: int) -> None:
        views = [self._view(queue, what, operand) for operand in run]
        if any(len(view) != length for view in views):
            raise WrongProgram(f"{queue}: adds or copies sizes that differ: {[len(view) for view in views]}")
        if what["peer"] is None:
            self._write(views[0], what, views[1:])
            return
        if what["carried"] is not None:
            self._through_slot(queue, what, views, length)
            return
        ring = self._ring(queue, what["peer"])
        if queue.at is None:
            queue.at, queue.peer = ring.put if queue.name == "puts" else ring.taken, what["peer"]
        if queue.name == "puts":
            ring.write(queue.at, views[0])
        else:
            self._write(views[0], what, [*views[1:], ring.read(queue.at, length)])
        queue.at += length

    def _write(self, target: Bytes, what: ProgramDict, sources: list[Bytes]) -> None:
        if what["operation"] in ("take", "copy"):
            target[:] = sources[0]
            return
        values = [source.copy().view(self._dtype) for source in sources]
        total = values[0]
        with np.errstate(over="ignore"):
            for value in values[1:]:
                total = UFUNCS[what["op"]](total, value)
        if what["divisor"] != 1:
            total = total // self._dtype.type(what["divisor"])
        target[:] = total.view(np.uint8)

    def _view(self, queue: Queue, what: ProgramDict, operand: ProgramDict) -> Bytes:
        program = queue.program
        chunk = queue.ended // len(queue.list) - what["delay"]
        number = chunk * program["lanes"] + queue.lane
        length = slice_of(operand, number)
        lo, hi = (place(operand, operand[name], length) for name in ("from", "to"))
        first = operand["base"] + lo
        if operand["space"] == "scratch":
            memory = self._generation(queue, chunk % program["generations"])
            first -= place(operand, operand["slot_from"], length)
        else:
            memory = self._buffers[queue.rank][0 if operand["space"] == "in" else 1]
            first += number * operand["stride"]
        if not 0 <= first <= first + hi - lo <= len(memory):
            raise WrongProgram(f"{queue}: bytes {first} to {first + hi - lo} of {len(memory)} of {operand['space']}")
        return memory[first : first + hi - lo]

    def _generation(self, queue: Queue, number: int) -> Bytes:
        key = queue.rank, queue.lane, number
        if key not in self._scratch:
            self._scratch[key] = self._garbage.integers(0, 256, queue.program["scratch_bytes"], np.uint8)
        return self._scratch[key]

    def _end_message(self, queue: Queue, what: ProgramDict) -> None:
        if queue.at is None:
            return  # an empty message is none
        if what["carried"] is not None:
            queue.at = None
            self._end_of(queue, what).says[queue.lane] = queue.ended // len(queue.list) - what["delay"] + 1
            if self._random.random() < 0.5:  # a proxy may look later
                self._move_carried()
            return
        ring, end = self._ring(queue, what["peer"]), queue.at
        queue.at = None
        if queue.name == "puts":
            ring.ends.append(end)
            ring.put = ring.arrived = grains(end)
            self._wake(self._queues[what["peer"], queue.lane, "takes"])
            return
        if ring.ends.popleft() != end:
            raise WrongProgram(f"{queue}: takes more or less than rank {what['peer']} has put")
        ring.taken = ring.emptied = grains(end)
        self._wake(self._queues[what["peer"], queue.lane, "puts"])


def run_programs(
    programs: Sequence[ProgramDict],
    buffers: Sequence[Buffers],
    ring_bytes: int,
    seed: int = 0,
    dtype: str = "int64",
) -> None:
    """Raises WrongProgram where they do not come to their ends; what the outputs hold then is for the caller to see."""
    Interpreter(programs, buffers, ring_bytes, seed, dtype).run()
