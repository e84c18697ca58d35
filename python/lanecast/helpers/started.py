# SPDX-License-Identifier: Apache-2.0
"""Calls that a leader has started and whose helpers have yet to answer; each helper answers in the calls' order."""

from __future__ import annotations

import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lanecast import _core
from lanecast.helpers.member import Member
from lanecast.work import Work

Collect = Callable[[Sequence[Member]], None]  # takes the answers of these, and raises what one of them says


class HelpedWork(Work):
    """A call under way that several processes move."""

    def __init__(self, own: Any, buffers: Any, at_work: Sequence[Member], calls: StartedCalls) -> None:
        """own: the leader's slice. buffers: what helpers read and write until they have answered."""
        super().__init__(own)
        self._calls, self._buffers = calls, buffers
        self.unanswered = list(at_work)
        self.error: BaseException | None = None

    def wait(self) -> None:
        """See Work.wait(). Raises what a helper has met as well, with its name."""
        try:
            super().wait()
        except _core.Error:  # the leader's communicator has failed, and helpers would wait for nothing
            self._calls.end()
            raise
        self._calls.finish(self)
        if self.error is not None:
            raise self.error

    def is_completed(self) -> bool:
        return super().is_completed() and self._calls.has_finished(self)


class HelpedDeviceWork(HelpedWork):
    """The same on a GPU's tensors: wait() blocks the host until the helpers' slices are there."""

    _core: Any

    def synchronize(self) -> None:
        """Block the host until the call is done. Raises as wait() does."""
        self._core.synchronize()
        self.wait()


class StartedCalls:
    """Of one leader, in their order."""

    def __init__(self, lock: threading.Lock, collect: Collect, end: Callable[[], None]) -> None:
        """lock: of whoever speaks with helpers. end: lets go of these."""
        self._lock, self._collect, self.end = lock, collect, end
        self._open: deque[HelpedWork] = deque()
        self._failed: list[HelpedWork] = []  # helpers may write to their buffers until they end

    def add(self, work: HelpedWork) -> None:
        """By who has the lock, and has told the helpers."""
        self.look()
        self._open.append(work)

    def finish(self, work: HelpedWork) -> None:
        """Wait until the helpers have answered this call."""
        with self._lock:
            while work.unanswered:
                self._finish_first()

    def finish_all(self) -> None:
        """The same of all calls; by who has the lock. An error is that of the call which has met it."""
        while self._open:
            self._finish_first()

    def has_finished(self, work: HelpedWork) -> bool:
        if self._lock.acquire(blocking=False):  # else somebody waits for answers
            try:
                self.look()
            finally:
                self._lock.release()
        return not work.unanswered

    def forget_failed(self) -> None:
        """Once all helpers have ended."""
        self._failed.clear()

    def look(self) -> None:
        """Take the answers that are there; by who has the lock."""
        while self._open:
            first = self._open[0]
            for member in [member for member in first.unanswered if _has_answered(member)]:
                self._take(first, [member])
            if first.unanswered:
                return
            if self._open:
                self._open.popleft()

    def _finish_first(self) -> None:
        first = self._open.popleft()
        self._take(first, list(first.unanswered))

    def _take(self, work: HelpedWork, members: Sequence[Member]) -> None:
        try:
            self._collect(members)
        except BaseException as error:
            self.end()
            self._failed += [work, *self._open]
            for failed in self._failed:  # nobody answers any more
                failed.error = failed.error or error
                failed.unanswered.clear()
            self._open.clear()
        work.unanswered = [member for member in work.unanswered if member not in members]


def _has_answered(member: Member) -> bool:
    answers = select.poll()
    try:
        answers.register(member.channel.fileno(), select.POLLIN)
    except ValueError:  # closed, since another call has failed
        return True
    return bool(answers.poll(0))
