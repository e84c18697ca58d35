# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks, under the names of torch.distributed. The other ranks need not know of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from lanecast import _core
from lanecast._core import DeviceBuffer
from lanecast.buffers import Array, as_buffer
from lanecast.work import Work

Message = tuple[bool, Array | DeviceBuffer, int, int]  # is it a send?, buffer, peer, tag

_OPS = ("isend", "irecv")


@dataclass(frozen=True)
class P2POp:
    """One message of a batch. op: "isend" or "irecv", or the communicator's method of that name."""

    op: str | Callable[..., Any]
    tensor: Any
    peer: int
    tag: int = 0


class PointToPoint(ABC):
    """The methods; what becomes of the messages is up to the class that has them."""

    rank: int

    @abstractmethod
    def _exchange(self, messages: list[Message], async_op: bool) -> Work | None: ...

    def send(self, tensor: Any, dst: int, tag: int = 0, *, async_op: bool = False) -> Work | None:
        """Send `tensor` to rank `dst`, where a recv with the same tag takes it.

        Returns when `tensor` may be used again, which small messages allow before the receive. Messages of two ranks
        match by tag, equal tags in the order of their posting, and never meet a collective; they wait for no call
        started before.
        Of a GPU's memory they are enqueued behind the current stream, and match in the order of the calls, all with
        tag 0; all ranks come to the first one, unless the communicator was made with device=N.
        tag: from 0 up to 2^14 - 1 on any MPI, far more elsewhere. Zero elements are a message as well.
        Raises UsageError (argument, rank); TransportError (peer, tag, both sizes) where the receive is of another size,
        on the receiver at least; TimeoutError (peer, tag, bytes).
        """
        return self._exchange([self._message("isend", tensor, dst, tag)], async_op)

    def recv(self, tensor: Any, src: int, tag: int = 0, *, async_op: bool = False) -> Work | None:
        """Receive into `tensor` what rank `src` sends with the same tag and as many bytes. Raises as send does."""
        return self._exchange([self._message("irecv", tensor, src, tag)], async_op)

    def isend(self, tensor: Any, dst: int, tag: int = 0) -> Work:
        """Start a send; `tensor` belongs to it until wait() returns. A GPU's waits for no other message."""
        return self._started([self._message("isend", tensor, dst, tag)])

    def irecv(self, tensor: Any, src: int, tag: int = 0) -> Work:
        """Start a receive; `tensor` belongs to it until wait() returns."""
        return self._started([self._message("irecv", tensor, src, tag)])

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[Work]:
        """Start all messages of a list at once; whatever their order on the ranks, they cannot deadlock.

        All are the CPU's memory, or all a GPU's; then a rank may send to itself what it receives in the same list.

        Returns one work for the whole batch, in a list as torch.distributed does. Raises as send does.
        """
        return [self._started(self._messages(p2p_op_list))]

    def batch_send_recv(self, p2p_op_list: Sequence[P2POp]) -> None:
        """Do the same and block until all buffers may be used again; needs no MPI_THREAD_MULTIPLE.

        A GPU's are enqueued on the current stream instead, and the host goes on.
        """
        self._exchange(self._messages(p2p_op_list), False)

    def _started(self, messages: list[Message]) -> Work:
        work = self._exchange(messages, True)
        assert work is not None
        return work

    def _messages(self, operations: Sequence[P2POp]) -> list[Message]:
        try:
            fields = [(getattr(o.op, "__name__", o.op), o.tensor, o.peer, o.tag) for o in operations]
        except (AttributeError, TypeError) as error:
            raise _core.UsageError(f"rank {self.rank}: p2p_op_list: expected a list of P2POp; {error}") from None
        return [self._message(*each) for each in fields]

    def _message(self, op: Any, tensor: Any, peer: int, tag: int) -> Message:
        if op not in _OPS:
            raise _core.UsageError(f"rank {self.rank}: op {op!r} is unknown; known: {', '.join(_OPS)}")
        sends = op == "isend"
        buffer = as_buffer(tensor, "tensor", self.rank, written=not sends)
        try:
            peer, tag = index(peer), index(tag)
        except TypeError:
            name = "dst" if sends else "src"
            raise _core.UsageError(f"rank {self.rank}: {name}={peer!r}, tag={tag!r}: expected two numbers") from None
        return sends, buffer.view, peer, tag
