# SPDX-License-Identifier: Apache-2.0
"""Calls on numpy arrays that leave nothing to ask are made in one step, and all others are looked at as ever."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core
from lanecast.bound import Calls
from lanecast.dtypes import numpy_dtype

RANKS = 3
Make = Callable[[Communicator], Any]
SIX = np.zeros((3, 2), "float32")
FIXED = np.frombuffer(b"1234", "float32")  # which nobody may write


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Kinds of the calls whose arguments Python has looked at."""
    kinds: list[int] = []
    bound = Calls._bound

    def spied(self: Calls, asked: Any, counts: Any) -> Any:
        kinds.append(asked[0])
        return bound(self, asked, counts)

    monkeypatch.setattr(Calls, "_bound", spied)
    return kinds


def mine(comm: Communicator, count: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.arange(count).astype(dtype) + 10 * comm.rank


def zeros(count: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.zeros(count, dtype)


def every(comm: Communicator) -> Iterator[tuple[str, np.ndarray[Any, Any], list[float]]]:
    """What has come of each collective, and what should."""
    r, n = comm.rank, comm.size
    all_of = [float(k + 10 * q) for q in range(n) for k in range(2)]
    sums = [float(n * k + 10 * sum(range(n))) for k in range(2 * n)]
    out = zeros(2 * n)
    comm.all_gather_into_tensor(out, mine(comm, 2))
    yield "all_gather", out, all_of
    out = mine(comm, 2 * n)
    comm.all_reduce(out)
    yield "all_reduce", out, sums
    out = zeros(2)
    comm.reduce_scatter_tensor(out, mine(comm, 2 * n))
    yield "reduce_scatter", out, sums[2 * r : 2 * r + 2]
    out = zeros(2 * n)
    comm.all_to_all_single(out, mine(comm, 2 * n))
    yield "all_to_all", out, [float(2 * r + k + 10 * q) for q in range(n) for k in range(2)]
    out = mine(comm, 3)
    comm.broadcast(out, 1)
    yield "broadcast", out, [10.0, 11.0, 12.0]
    out = mine(comm, 2 * n)
    comm.reduce(out, 2)
    yield "reduce", out, sums if r == 2 else [float(k + 10 * r) for k in range(2 * n)]


def test_plain_arrays_are_taken_at_once(looked_at: list[int]) -> None:
    def body(comm: Communicator) -> list[str]:
        return [name for name, found, wanted in every(comm) if found.tolist() != wanted]

    assert lanecast.run_threads(RANKS, body) == [[]] * RANKS
    assert looked_at == []


@pytest.mark.parametrize("dtype", [name for name in _core.DTYPES if np.dtype(numpy_dtype(name)).isbuiltin == 1])
def test_so_is_each_type_of_numpys_own(dtype: str, looked_at: list[int]) -> None:
    def body(comm: Communicator) -> list[object]:
        arrays = [np.full(3, 7, dtype), pickle.loads(pickle.dumps(np.full(3, 7, dtype)))]
        if dtype.endswith("int64"):
            arrays.append(np.full(3, 7, "ulonglong" if dtype[0] == "u" else "longlong"))
        for array in arrays:
            comm.all_reduce(array)
        return [array.tolist() for array in arrays if array.tolist() != [7 * comm.size] * 3]

    assert lanecast.run_threads(RANKS, body) == [[]] * RANKS
    assert looked_at == []


class Impostor(bytearray):
    dtype = np.dtype("float64")


def test_what_only_looks_like_an_array_is_refused() -> None:
    def body(comm: Communicator) -> str:
        comm.all_reduce(np.zeros(1))
        with pytest.raises(lanecast.UsageError) as caught:
            comm.all_gather_into_tensor(Impostor(16), np.arange(16.0))
        return str(caught.value)

    assert "output has dtype uint8" in lanecast.run_threads(1, body)[0]


REFUSED: dict[str, tuple[Make, str]] = {
    "not contiguous": (lambda c: c.all_reduce(zeros(4)[::2]), "tensor is not contiguous"),
    "read-only": (lambda c: c.all_reduce(np.broadcast_to(np.float32(1), (1,))), "tensor is read-only"),
    "two types": (lambda c: c.all_gather_into_tensor(zeros(1), zeros(1, "int32")), "they must be equal"),
    "sizes": (lambda c: c.all_gather_into_tensor(zeros(3), zeros(2)), "needs 2"),
    "rows": (lambda c: lanecast.run_threads(2, lambda two: two.all_to_all_single(SIX, SIX.copy())),
             "3 rows, which 2 ranks cannot share evenly"),
    "root": (lambda c: c.broadcast(zeros(1), 7), "src: rank 7 is outside 0 to 0"),
    "no root": (lambda c: c.broadcast(zeros(1), cast("int", None)), "src=None: expected a rank"),
    "read-only in place": (lambda c: c.all_gather_into_tensor(FIXED, FIXED), "read-only"),
    "type": (lambda c: c.all_reduce(np.zeros(1, "datetime64[s]")), "datetime64"),
    "byte order": (lambda c: c.all_reduce(np.zeros(1, ">f4")), "tensor"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_as_ever(what: str) -> None:
    make, why = REFUSED[what]

    def body(comm: Communicator) -> str:
        comm.all_reduce(zeros(1))
        with pytest.raises(lanecast.UsageError) as caught:
            make(comm)
        return str(caught.value)

    assert why in lanecast.run_threads(1, body)[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda c: c.all_reduce(np.ones(3, ml_dtypes.bfloat16)),
        lambda c: c.all_reduce(bytearray(8)),
        lambda c: c.all_gather_into_tensor(zeros(2), zeros(2), counts=[2]),
        lambda c: c.all_to_all_single(zeros(2), zeros(2), [2], [2]),
        lambda c: c.all_reduce(zeros(1), async_op=True).wait(),
    ],
)
def test_all_else_is_looked_at(make: Make, looked_at: list[int]) -> None:
    def body(comm: Communicator) -> int:
        comm.all_reduce(zeros(1))
        comm.all_reduce(np.zeros(1, "uint8"))
        before = len(looked_at)
        make(comm)
        return len(looked_at) - before

    assert lanecast.run_threads(1, body) == [1]


def test_an_array_without_elements_and_one_without_dimensions() -> None:
    def body(comm: Communicator) -> list[float]:
        comm.all_reduce(zeros(0))
        one = np.array(float(comm.rank))
        comm.all_reduce(one)
        comm.all_to_all_single(zeros(0), zeros(0))
        return [float(one)]

    assert lanecast.run_threads(RANKS, body) == [[3.0]] * RANKS


def test_an_array_is_let_go_after_the_call() -> None:
    def body(comm: Communicator) -> None:
        array = zeros(4)
        comm.all_reduce(array)
        comm.all_reduce(array)
        array.resize(8)  # refused while somebody has its memory

    lanecast.run_threads(1, body)
