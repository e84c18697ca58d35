# SPDX-License-Identifier: Apache-2.0
"""The communicator of leaders that have helpers."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy.typing as npt

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import NONE, Asked
from lanecast.communicator import Communicator
from lanecast.helpers.choosing import Trials
from lanecast.helpers.crew import Crew, closed_with
from lanecast.helpers.member import Member
from lanecast.helpers.on_gpu import through_hosts
from lanecast.helpers.slices import SLICED
from lanecast.work import Work


class Leader(Communicator):
    """One whose all-reduces, all-gathers and reduce-scatters several processes may move."""

    def __init__(self, core: Any, crew: Crew) -> None:
        super().__init__(core)
        self._crew = crew
        self._trials = Trials(core, crew.processes)
        closed_with(self, crew)

    @property
    def processes_per_gpu(self) -> int:
        """Of each leader, itself included."""
        return self._crew.processes

    @property
    def helpers(self) -> tuple[Member, ...]:
        """The other processes of this leader: place, pid, cores."""
        return self._crew.members

    def use_processes(self, processes: int | None) -> None:
        """Move every call from now on by so many processes; None: by as many as were found to be fastest.

        Equal on all ranks. Calls on a GPU's memory go by several processes only where this says so: each maps the
        tensors and calls its own kernels on its slice, and the call ends when the result is there. Raises UsageError
        for more than there are.
        """
        if processes is not None and not 1 <= index(processes) <= self._crew.processes:
            raise _core.UsageError(
                f"rank {self.rank}: use_processes: {processes} of the {self._crew.processes} that init() was given"
            )
        self._trials.pin(processes)

    def _split(self, color: int, key: int) -> Communicator | None:
        if not self._crew.is_open or not (isinstance(color, int) and isinstance(key, int)):
            return super()._split(color, key)
        crew = self._crew.split(color, key)
        return None if crew is None else Leader(crew.core, crew)

    def shared_empty(self, count: int, dtype: Any = "float32") -> npt.NDArray[Any]:
        """An array of zeros in memory that the helpers map: they move slices of it without a copy.

        Not collective. The memory is freed when no array lies in it any more. Raises TransportError where the host has
        none left.
        """
        return self._crew.memory.empty(count, dtype)

    def _make(self, asked: Asked, async_op: bool, counts: Any = NONE) -> Work | None:
        if asked[0] not in SLICED:
            return super()._make(asked, async_op, counts)
        call = self._bound(asked, counts)
        on_gpu = isinstance(call.source, DeviceBuffer)
        if not self._crew.is_open or (on_gpu and not self._trials.pinned_to_several):
            return super()._make(asked, async_op, counts)
        if not isinstance(call.algorithm, str) or not isinstance(call.chunks, int):
            return super()._make(asked, async_op, counts)  # which says what is wrong
        if not async_op:
            self._trials.run(call, self._crew)
            return None
        number = self._trials.known(call, self._crew)
        if number == 1 or (on_gpu and through_hosts(call)):
            return super()._make(asked, async_op, counts)
        return self._crew.start(self._held, call, number)
