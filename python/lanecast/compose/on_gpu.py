# SPDX-License-Identifier: Apache-2.0
"""Compositions of a GPU's memory: enqueued behind the caller's stream, as the collectives are."""

from __future__ import annotations

from typing import Any

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.compose.compiled import Binding, CompiledCall
from lanecast.device_calls import DeviceWork


class DevicePair:
    """This rank's memory on its GPU; it may have no input or no output."""

    def __init__(self, source: DeviceBuffer | None, target: DeviceBuffer | None) -> None:
        there = [buffer for buffer in (source, target) if buffer]
        self.any = there[-1]
        self.owners = tuple(buffer.owner for buffer in there)
        device = min(buffer.device for buffer in there)  # unknown where one is: the driver is asked for both
        self.places = (source.address if source else 0, target.address if target else 0, device)


class DeviceCompiledCall(CompiledCall):
    """A composition bound to a GPU's buffers, from Communicator.compile(). The host never blocks.

    Starts and runs come in the order in which they are made, whatever their streams, and several may be under way. What
    goes wrong on the device is raised by later calls and by Communicator.synchronize().
    """

    _core: Any

    def __init__(self, communicator: Any, held: Any, binding: Binding, plan: Any, buffers: DevicePair) -> None:
        """communicator, plan: the core's; the plan was compiled for these buffers."""
        self._communicator, self._held, self._binding, self._buffers = communicator, held, binding, buffers
        self._core = plan
        self._work: DeviceWork | None = None

    def start(self, output: Any = None, input: Any = None) -> None:
        """Begin behind what the current stream holds, on a stream of the communicator's own.

        output, input: other buffers of the same shape, from now on. The buffers belong to the call until the current
        stream is behind wait(). Raises UsageError where they do not fit, and among several hosts in a CUDA graph.
        """
        buffers = self._those(output, input)
        core = self._communicator.enqueue_composed_async(self._core, *buffers.places, buffers.any.stream())
        self._work = DeviceWork(core, self._held, buffers.any.later_streams(), buffers.owners)
        self._buffers = buffers

    def wait(self) -> None:
        """Order what the current stream does from now on behind the last start; at once where there was none."""
        if self._work is not None:
            self._work.wait()

    def run(self, output: Any = None, input: Any = None) -> None:
        """Enqueue it on the current stream. Arguments and errors as of start()."""
        buffers = self._those(output, input)
        self._communicator.enqueue_composed(self._core, *buffers.places, buffers.any.stream())
        self._buffers = buffers

    def is_completed(self) -> bool:
        """True unless the last start is under way."""
        return self._work is None or self._work.is_completed()

    @property
    def program(self) -> _core.Program | None:
        """As CompiledCall has it."""
        program: _core.Program | None = self._core.program
        return program

    def _those(self, output: Any, input: Any) -> DevicePair:
        if output is None and input is None:
            return self._buffers
        return DevicePair(*self._binding.device_buffers(output, input))
