# SPDX-License-Identifier: Apache-2.0
"""All ranks of a group do a thing, or none of them: over torch's store, since there may be nothing else of Lanecast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Made = TypeVar("_Made")


class Refused(Exception):
    """A rank cannot; the same words on all of them."""


def agree(given: Any, what: str, step: Callable[[], _Made]) -> _Made:
    """What this rank's step makes, where those of all ranks succeed. Raises Refused on all ranks where one raises.

    given: torch's DistributedBackendOptions: store, rank, size, timeout. what: the step's name, for the others who wait
    for it.
    """
    made, reason = None, ""
    try:
        made = step()
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    refusal = _Round(given, what).first(reason)
    if refusal:
        raise Refused(refusal)
    return made  # type: ignore[return-value]


class _Round:
    """Rank 0 reads what each rank says, and answers all of them."""

    def __init__(self, given: Any, what: str) -> None:
        from torch.distributed import PrefixStore

        self._store = PrefixStore(f"lanecast {what}", given.store)
        self._rank, self._size, self._timeout = given.group_rank, given.group_size, given.timeout
        self._what = what

    def first(self, reason: str) -> str:
        """The first rank that has one, with it; empty: none has."""
        if self._size == 1:
            return reason
        if self._rank == 0:
            self._store.set("answer", self._answer(reason))
        else:
            self._store.set(str(self._rank), reason)
        answer = self._heard("answer", 0)
        # The store may serve another group of this name later.
        if self._store.add("heard", 1) == self._size:
            self._store.delete_key("answer")
            self._store.delete_key("heard")
        return answer

    def _answer(self, mine: str) -> str:
        said = {0: mine}
        for rank in range(1, self._size):
            said[rank] = self._heard(str(rank), rank)
            self._store.delete_key(str(rank))
        refusals = [f"rank {rank}: {reason}" for rank, reason in said.items() if reason]
        return refusals[0] if refusals else ""

    def _heard(self, key: str, rank: int) -> str:
        from torch.distributed import DistBackendError

        try:
            self._store.wait([key], self._timeout)
        except RuntimeError as error:
            raise DistBackendError(
                f"rank {self._rank} waited {self._timeout.total_seconds():g} s to hear whether rank {rank} "
                f"{self._what}; is LANECAST_TORCH=1 set for all ranks? {error}"
            ) from None
        text: bytes = self._store.get(key)
        return text.decode()
