# SPDX-License-Identifier: Apache-2.0
"""A leader's helpers: each moves a slice of its leader's calls."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import Bound
from lanecast.helpers import on_gpu
from lanecast.helpers.agreeing import gather
from lanecast.helpers.buffers import Buffers
from lanecast.helpers.channel import Closed, Message
from lanecast.helpers.images import Images, fetch, put_back
from lanecast.helpers.member import Member
from lanecast.helpers.memory import OwnedMemory, address_of
from lanecast.helpers.slices import counts_of, leaves_some_empty, parts_read, parts_written, ranges
from lanecast.helpers.started import HelpedDeviceWork, HelpedWork, StartedCalls

_GRACE_S = 5.0  # for a helper to end by itself
_LOOK_S = 0.5  # between looks at a helper that has not answered


class Crew:
    """The processes of one leader, itself among them."""

    def __init__(self, core: Any, members: Sequence[Member], *, shared_gpu: bool) -> None:
        """core: the leaders' communicator. shared_gpu: may two leaders have one GPU? Collective over it."""
        self._core = core
        self._members = tuple(members)
        self._lock = threading.Lock()  # who calls first, sends first
        self._open, self._pid = True, os.getpid()
        self._chosen: dict[tuple[int, int, int, int | None], tuple[str, int]] = {}  # by kind, count, type and GPU
        self._gone: deque[int] = deque()  # segments that the helpers still map
        self._kept: list[Bound] = []  # a call that has failed: helpers may have its buffers mapped until they end
        self._shared_gpu = shared_gpu  # or known to be nobody else's
        self._images = Images()  # of this process's own slices of a GPU's buffers
        self._started = StartedCalls(self._lock, self._take_answers, self.end)
        self.memory = OwnedMemory(core.rank, self._announce, self._forget)
        self.copies = all(gather(core, self._may_copy()))
        atexit.register(self.close)

    @property
    def processes(self) -> int:
        """Of a leader, itself included."""
        return 1 + len(self._members)

    @property
    def members(self) -> tuple[Member, ...]:
        return self._members

    @property
    def is_open(self) -> bool:
        """Can calls be moved by several? Not after an error, nor in a forked process."""
        return self._open and os.getpid() == self._pid

    def run(self, call: Bound, processes: int) -> None:
        """Move the call by so many processes, until it is done.

        Raises UsageError where one would have nothing to do, or helpers cannot reach a buffer; TransportError,
        TimeoutError (helper, process) as calls.
        """
        with self._lock:
            call, buffers, at_work = self._prepared(call, processes)
            try:
                self._move(call, buffers, at_work)
            except (_core.UsageError, TypeError):
                raise
            except BaseException:
                self._kept.append(call)
                self.end()
                raise
            finally:
                self._say_gone()

    def start(self, held: Any, call: Bound, processes: int) -> HelpedWork:
        """The same while this process goes on. held: the communicator's started calls.

        On a GPU it waits for the stream that fills the buffers. Raises UsageError as run(), and for an MPI that does
        not let threads call it.
        """
        with self._lock:
            call, buffers, at_work = self._prepared(call, processes)
            self._send(call, buffers, at_work)
            try:
                own = self._start_own(held, call, buffers, 1 + len(at_work))
            except (_core.UsageError, TypeError):
                self._collect(at_work, refused=True)
                raise
            except BaseException:
                self.end()
                raise
            kind = HelpedDeviceWork if buffers.on_gpu else HelpedWork
            work = kind(own, (call, buffers), at_work, self._started)
            self._started.add(work)
            return work

    def _prepared(self, call: Bound, processes: int) -> tuple[Bound, Buffers, Sequence[Member]]:
        """The call as a slice of it is moved, its buffers, and who helps. Raises UsageError."""
        if leaves_some_empty(call, self._core.size, processes):
            raise self._refusal(
                call,
                f"{processes} processes are to share parts of at most {max(counts_of(call, self._core.size))} "
                "elements, which leaves some without any; take fewer",
            )
        call = self._settled(call, processes)
        buffers = Buffers(call, self.memory, self._core.rank)
        if not (self.copies or buffers.all_shared):
            raise self._refusal(
                call,
                "the system does not let helpers copy from and to this process's memory; make the calls on arrays "
                "of shared_empty(), or allow it (kernel.yama.ptrace_scope=0)",
            )
        if buffers.on_gpu and not self._shared_gpu:
            self._refuse_shared_gpu(buffers.gpu_memory[0].bus_id)
        return call, buffers, self._spread(processes)

    def _move(self, call: Bound, buffers: Buffers, at_work: Sequence[Member]) -> None:
        self._send(call, buffers, at_work)
        try:
            self._move_own(call, buffers, 1 + len(at_work))
        except (_core.UsageError, TypeError):
            self._collect(at_work, refused=True)  # theirs are refused alike, and nothing has moved
            raise
        self._collect(at_work)

    def _move_own(self, call: Bound, buffers: Buffers, processes: int) -> None:
        if not buffers.on_gpu:
            self._core.run_slice(0, processes, *call)
            return
        if not on_gpu.through_hosts(call):
            on_gpu.move_slice(self._core, call, 0, processes)
            return
        rank, size = self._core.rank, self._core.size
        images, originals = self._images.of(buffers.addresses), buffers.gpu_memory
        fetch(images[0], originals[0], ranges(parts_read(call, rank, size), 0, processes), buffers.element)
        self._core.run_slice(0, processes, *call._replace(source=images[0], target=images[1]))
        put_back(images[1], originals[1], ranges(parts_written(call, rank, size), 0, processes), buffers.element)

    def _start_own(self, held: Any, call: Bound, buffers: Buffers, processes: int) -> Any:
        if not buffers.on_gpu:
            return self._core.start_slice(held, 0, processes, *call)
        return on_gpu.start_slice(self._core, held, call, 0, processes)

    def _refuse_shared_gpu(self, bus_id: str) -> None:
        """Once, by all ranks alike. Collective."""
        seen = gather(self._core, [_core.host_identity(), bus_id])
        for rank, gpu in enumerate(seen):
            if (first := seen.index(gpu)) != rank:
                raise _core.UsageError(
                    f"ranks {first} and {rank} both lead on GPU {gpu[1]}: give each GPU one leader, or "
                    "allow_shared_gpu=True to try things out"
                )
        self._shared_gpu = True

    def _refusal(self, call: Bound, why: str) -> _core.UsageError:
        return _core.UsageError(f"rank {self._core.rank}: {_core.KINDS[call.kind]}: {why}")

    def _settled(self, call: Bound, processes: int) -> Bound:
        """With the algorithm and chunks of a slice, which helpers have no models to choose by."""
        if call.algorithm or call.reproducible:
            return call
        asked = (call.kind, max(counts_of(call, self._core.size)) // processes, call.dtype)
        gpu = call.target.device if isinstance(call.target, DeviceBuffer) else None
        if (*asked, gpu) not in self._chosen:
            choice = self._core.chosen(*asked)[:2] if gpu is None else on_gpu.chosen(self._core, asked, gpu)
            self._chosen[*asked, gpu] = choice
        algorithm, chunks = self._chosen[*asked, gpu]
        return call._replace(algorithm=algorithm, chunks=call.chunks or chunks)

    def _spread(self, processes: int) -> list[Member]:
        """Helpers of a call that wants fewer: those whose NICs lie furthest apart."""
        return [self._members[k * self.processes // processes - 1] for k in range(1, processes)]

    def _send(self, call: Bound, buffers: Buffers, at_work: Sequence[Member]) -> None:
        told = call._replace(source=None, target=None, counts=[int(count) for count in call.counts])
        for index, member in enumerate(at_work, 1):
            try:
                member.channel.send(
                    do="call",
                    slice=[index, len(at_work) + 1],
                    call=told,
                    buffers=[asdict(place) for place in buffers.places],
                    element=buffers.element,
                    pid=os.getpid(),
                )
            except Closed:
                self._lost(member)

    def _collect(self, at_work: Sequence[Member], *, refused: bool = False) -> None:
        self._started.finish_all()  # their answers come first
        self._take_answers(at_work, refused=refused)

    def _take_answers(self, at_work: Sequence[Member], *, refused: bool = False) -> None:
        if not self._open:
            raise _core.TransportError(
                f"rank {self._core.rank}: its helpers have ended with a call that has failed; make a new communicator"
            )
        answers = [self._answer(member).text for member in at_work]
        for member, answer in zip(at_work, answers, strict=True):
            if "error" in answer and not refused:
                kind = getattr(_core, answer["error"], _core.TransportError)
                self._fail(kind, f"rank {self._core.rank}: {self._name(member)}: {answer['text']}")

    def _answer(self, member: Member) -> Message:
        self._await(member)
        try:
            return member.channel.receive()
        except Closed:
            self._lost(member)

    def _await(self, member: Member) -> None:
        """A helper that runs looks at deadlines by itself; one that gets no processor time cannot."""
        since, worked = time.monotonic(), -1.0
        answers = select.poll()
        answers.register(member.channel.fileno(), select.POLLIN)
        while not answers.poll(_LOOK_S * 1e3):
            now, works = time.monotonic(), member.processor_time()
            if works != worked:
                since, worked = now, works
            elif now - since > self._core.timeout_s:
                self._fail(
                    _core.TimeoutError,
                    f"rank {self._core.rank}: {self._name(member)} has not worked for {self._core.timeout_s:g} s: it "
                    f"{member.state()}; look at that process",
                )

    def _name(self, member: Member) -> str:
        return f"its helper {member.place} of {len(self._members)} (process {member.pid})"

    def _lost(self, member: Member) -> NoReturn:
        ended = ""
        if member.process is not None:
            with suppress(subprocess.TimeoutExpired):
                status = member.process.status(_GRACE_S)
                ended = f", killed by signal {-status}" if status < 0 else f" with status {status}"
        self._fail(
            _core.TransportError,
            f"rank {self._core.rank}: {self._name(member)} has ended{ended}; see why, and make a new communicator",
        )

    def _fail(self, kind: type[Exception], text: str) -> NoReturn:
        self.end()
        self._core.abort(text)
        raise kind(text)

    def _may_copy(self) -> bool:
        """Whether every helper may read and write this process's memory, as where the buffers are not shared."""
        byte: npt.NDArray[np.uint8] = np.zeros(1, np.uint8)
        can = True
        for member in self._members:
            member.channel.send(do="peek", pid=os.getpid(), address=address_of(byte))
            can = bool(self._answer(member).text["can"]) and can
        return can

    def _announce(self, segment: int, file: int, size: int) -> None:
        with self._lock:
            self._say_gone()
            for member in self._members if self._open else ():
                try:
                    member.channel.send(file, do="map", segment=segment, bytes=size)
                except Closed:
                    self._lost(member)

    def _forget(self, segment: int) -> None:
        # From wherever the last array goes, which may be the midst of a call: that says so when it ends.
        self._gone.append(segment)
        if self._lock.acquire(blocking=False):
            try:
                self._say_gone()
            finally:
                self._lock.release()

    def _say_gone(self) -> None:
        while self._gone and os.getpid() == self._pid:
            segment = self._gone.popleft()
            for member in self._members if self._open else ():
                with suppress(Closed):  # the next call says so
                    member.channel.send(do="unmap", segment=segment)

    def split(self, color: int, key: int) -> Crew | None:
        """The helpers of a child of the communicator, made of the same processes. Collective; None: it takes no part.

        Raises what the core's split() does.
        """
        with self._lock:
            members = [member.for_child(color=color, key=key) for member in self._members]
            core = self._core.split(color, key)
        return None if core is None else Crew(core, members, shared_gpu=self._shared_gpu)

    @property
    def core(self) -> Any:
        """The leaders' communicator."""
        return self._core

    def end(self) -> None:
        """Let go of the helpers at once: they give up what is under way, and end."""
        self._open = False
        for member in self._members:
            member.channel.close()

    def close(self) -> None:
        """The helpers end, and those that do not are killed; no process is left."""
        if os.getpid() != self._pid:
            return  # in a forked process: they are the parent's
        atexit.unregister(self.close)
        if self._open:
            for member in self._members:
                with suppress(Closed):
                    member.channel.send(do="end")
            self.end()
        until = time.monotonic() + _GRACE_S
        for member in self._members:
            member.end(max(0.0, until - time.monotonic()))
        self._kept.clear()
        self._started.forget_failed()


def closed_with(holder: object, crew: Crew) -> None:
    """The crew goes when its communicator goes."""
    weakref.finalize(holder, crew.close)
