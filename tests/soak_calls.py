# SPDX-License-Identifier: Apache-2.0
"""One call of each collective, and what it should leave in its buffer: everywhere the same value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lanecast import Communicator


@dataclass(frozen=True)
class Place:
    """Who calls, and with what: `count` elements a part, `value` where one rank's data are to arrive."""

    comm: Communicator
    count: int
    dtype: str
    root: int
    value: int

    @property
    def at_root(self) -> bool:
        return self.comm.rank == self.root

    def share(self, value: int = 0) -> np.ndarray[Any, Any]:
        return np.full(self.count, value, self.dtype)

    def whole(self, value: int = 0) -> np.ndarray[Any, Any]:
        return np.full(self.count * self.comm.size, value, self.dtype)


class SoakCall(NamedTuple):
    """The method's arguments, the buffer that is looked at, and the value in it afterwards."""

    arguments: tuple[Any, ...]
    result: np.ndarray[Any, Any]
    due: int


def _all_gather(place: Place) -> SoakCall:
    whole = place.whole()
    return SoakCall((whole, place.share(place.value)), whole, place.value)


def _reduce_scatter(place: Place) -> SoakCall:
    share, size = place.share(), place.comm.size
    return SoakCall((share, place.whole(place.comm.rank + 1), "sum"), share, size * (size + 1) // 2)


def _all_reduce(place: Place) -> SoakCall:
    vector = place.share(place.comm.rank + 1)
    return SoakCall((vector, "max"), vector, place.comm.size)


def _reduce(place: Place) -> SoakCall:
    vector = place.share(place.comm.rank + 1)
    return SoakCall((vector, place.root, "max"), vector, place.comm.size if place.at_root else place.comm.rank + 1)


def _broadcast(place: Place) -> SoakCall:
    vector = place.share(place.value if place.at_root else 0)
    return SoakCall((vector, place.root), vector, place.value)


def _gather(place: Place) -> SoakCall:
    whole = place.whole()
    share = place.share(place.value)
    return SoakCall((whole if place.at_root else None, share, place.root), whole, place.value if place.at_root else 0)


def _scatter(place: Place) -> SoakCall:
    share = place.share()
    return SoakCall((share, place.whole(place.value) if place.at_root else None, place.root), share, place.value)


def _all_to_all(place: Place) -> SoakCall:
    whole = place.whole()
    return SoakCall((whole, place.whole(place.value)), whole, place.value)


CALLS: dict[str, Callable[[Place], SoakCall]] = {
    "all_gather_into_tensor": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
    "all_reduce": _all_reduce,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all_single": _all_to_all,
}

CORE_NAMES = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
