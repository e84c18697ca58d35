# SPDX-License-Identifier: Apache-2.0
"""Calls that somebody holds: started ones, and those that are bound once and made many times."""

from __future__ import annotations

from lanecast import _core


class Work:
    """A call under way, made with async_op=True."""

    def __init__(self, core: _core.Work) -> None:
        self._core = core

    def wait(self) -> None:
        """Block until this rank's buffers may be used again; never a barrier.

        Raises TimeoutError (peer, step, seconds) or TransportError; Ctrl-C ends the wait.
        """
        self._core.wait()

    def is_completed(self) -> bool:
        """True when the call is done, also after an error, which wait() then raises."""
        return self._core.is_completed()


class PersistentCall:
    """A collective bound to its buffers, from Communicator.persistent(): no start after the first plans or allocates.

    Each start is a call like any other: all ranks make it, in the same order among their calls.
    """

    def __init__(self, core: _core.PersistentCall, held: _core.HeldCalls) -> None:
        self._core = core
        self._held = held  # keeps it until a start is done, also where nobody else does

    def start(self) -> None:
        """Begin, with what the buffers hold now; they belong to the call until wait() returns.

        Raises UsageError while the start before has not been completed, and over an MPI without MPI_THREAD_MULTIPLE.
        """
        self._core.start(self._held)

    def wait(self) -> None:
        """Block until the last start is done; return at once where there was none. Raises as Work.wait() does."""
        self._core.wait()

    def run(self) -> None:
        """Do both, in the caller's own thread where no other call is under way: the fastest."""
        self._core.run()

    def is_completed(self) -> bool:
        """True unless a start is under way."""
        return self._core.is_completed()
