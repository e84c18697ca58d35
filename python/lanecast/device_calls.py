# SPDX-License-Identifier: Apache-2.0
"""Collectives and messages of a GPU's memory: enqueued behind the caller's stream, as NCCL's; the host never blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.bound import Bound
from lanecast.dtypes import itemsize
from lanecast.point_to_point import Message
from lanecast.work import Work

_ITEM_BYTES = tuple(itemsize(name) for name in _core.DTYPES)


class DeviceWork(Work):
    """A call under way on a stream of the communicator's own, made with async_op=True on a GPU's tensors."""

    _core: Any

    def __init__(self, core: Any, held: Any, stream: Callable[[], int], tensors: tuple[Any, ...]) -> None:
        self._core = core
        held.hold(core, self)
        self._stream = stream  # the caller's current one
        self._tensors = tensors  # their memory must not be given to others while the call runs

    def wait(self) -> None:
        """Order what the current stream does from now on behind this call; the host does not block."""
        self._core.wait(self._stream())
        self._tensors = ()  # whoever gets the memory next uses it behind that stream

    def is_completed(self) -> bool:
        """True when the call is done, also after an error, which synchronize() then raises."""
        return bool(self._core.is_completed())

    def synchronize(self) -> None:
        """Block the host until the call is done. Raises TimeoutError (peer, seconds) or TransportError."""
        self._core.synchronize()
        self._tensors = ()


def enqueue_async(core: Any, held: Any, call: Bound, counts: tuple[Any, ...] | None = None) -> DeviceWork:
    """Hand a call on a GPU's memory to the core's communicator, which runs it on a stream of its own.

    counts: those that lie in the GPU's memory, as Calls._on_device gives them.
    """
    source: DeviceBuffer = call.source
    target: DeviceBuffer = call.target
    tensors = [buffer.owner for buffer in (source, target, *(counts[:2] if counts else ()))]
    return DeviceWork(core.enqueue_async(*call, counts), held, target.later_streams(), tuple(tensors))


def enqueue_messages(core: Any, held: Any, rank: int, messages: list[Message], async_op: bool) -> DeviceWork | None:
    """The same of messages between pairs of ranks, all at once.

    Raises UsageError where not all of them lie on one GPU.
    """
    buffers = [buffer for _, buffer, _, _ in messages if isinstance(buffer, DeviceBuffer)]
    devices = {buffer.device for buffer in buffers}
    if len(buffers) < len(messages) or len(devices) > 1:
        raise _core.UsageError(f"rank {rank}: p2p_op_list: messages of one list lie on one GPU, or all on the CPU")
    moved = [
        (sends, buffer.address, buffer.size * _ITEM_BYTES[buffer.dtype], peer, tag)
        for (sends, _, peer, tag), buffer in zip(messages, buffers, strict=True)
    ]
    first = buffers[0]
    if not async_op:
        core.enqueue_messages(moved, first.device, first.stream())
        return None
    work = core.enqueue_messages_async(moved, first.device, first.stream())
    return DeviceWork(work, held, first.later_streams(), tuple(buffer.owner for buffer in buffers))
