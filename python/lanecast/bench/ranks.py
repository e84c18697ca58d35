# SPDX-License-Identifier: Apache-2.0
"""This process among the others of a benchmark: what they agree on, and how long a call takes all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lanecast import _core
from lanecast.bench.device import HOST, Call, Device
from lanecast.communicator import Communicator


class Times(NamedTuple):
    """Microseconds of a call on the slowest rank, by the clock of the device and by the host's."""

    device_us: float
    host_us: float


class Ranks:
    """Ranks whose calls move the CPU's memory; every method is collective."""

    device: Device = HOST
    one_tensor: tuple[str, ...] = ()  # collectives whose calls take one tensor, so that they are always in place

    def __init__(self, comm: Communicator, mpi: _core.MpiBaseline | None = None) -> None:
        """mpi: the library to compare with."""
        self.comm, self.mpi = comm, mpi
        self.rank, self.size = comm.rank, comm.size

    def __str__(self) -> str:
        return str(self.comm.topology)

    @property
    def control(self) -> Communicator:
        """For the hosts' own numbers."""
        return self.comm

    def plain(self, size_bytes: int) -> Any:
        """Memory of so many bytes where buffers lie, zeroed."""
        return np.zeros(size_bytes, np.uint8)

    def latest(self, own: float) -> float:
        """The largest of all ranks' numbers."""
        number = np.array([own])
        self.control.all_reduce(number, "max")
        return float(number[0])

    def total(self, own: int) -> int:
        """The sum of all ranks' numbers."""
        number = np.array([own])
        self.control.all_reduce(number)
        return int(number[0])

    def timed(self, call: Call, repeats: int) -> Times:
        """Of `repeats` calls one after the other, begun together, the mean."""
        device = self.device
        device.synchronize()
        self.latest(0)  # no rank leaves an all-reduce before all have come
        if device.queues:
            call()  # on the device it ends when all ranks have come
        first, begin = device.mark(), HOST.mark()
        for _ in range(repeats):
            call()
        end, last = HOST.mark(), device.mark()
        device.synchronize()
        own = np.array([device.elapsed_us(first, last), HOST.elapsed_us(begin, end)]) / repeats
        self.control.all_reduce(own, "max")
        return Times(*own.tolist())
