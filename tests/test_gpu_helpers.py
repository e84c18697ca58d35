# SPDX-License-Identifier: Apache-2.0
"""Helpers that map a GPU's buffer, on the driver without a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from gpu_stand_in import Tensor, outcomes
from lanecast import Communicator, _core
from lanecast.helpers.leading import Leader
from pipe_jobs import Tell

COUNT = 10_007
OPTIONS: dict[str, Any] = {"processes_per_gpu": 3, "allow_shared_cores": True}


class OnGpu:
    """An array in a GPU's memory of this process's own, which others can map."""

    def __init__(self, device: int, values: Any) -> None:
        self.memory = _core.WindowMemory(device, values.nbytes)
        whole = (ctypes.c_ubyte * values.nbytes).from_address(self.memory.address)
        self.array = np.frombuffer(whole, np.uint8).view(values.dtype)
        self.array[:] = values
        self.tensor = Tensor(self.array, "int32", device)


def moves_slices(comm: Communicator, tell: Tell) -> list[str]:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    rank, size = comm.rank, comm.size
    numbers = np.arange(COUNT, dtype=np.int32)
    for _ in range(3):
        vector = OnGpu(rank, numbers + rank)
        comm.all_reduce(vector.tensor)
        assert (vector.array == numbers * size + size * (size - 1) // 2).all()
    share, whole = OnGpu(rank, numbers * (rank + 1)), OnGpu(rank, np.zeros(COUNT * size, np.int32))
    comm.all_gather_into_tensor(whole.tensor, share.tensor)
    assert (whole.array == np.concatenate([numbers * (r + 1) for r in range(size)])).all()
    comm.reduce_scatter_tensor(share.tensor, whole.tensor)
    assert (share.array == numbers * (rank + 1) * size).all()
    said = []
    for tensor in (Tensor(np.zeros(COUNT, np.int32), "int32", rank),):  # of no cudaMalloc, as expandable segments
        with pytest.raises(lanecast.UsageError) as refused:
            comm.all_reduce(tensor)
        said.append(str(refused.value))
    return said


def test_slices_of_a_gpus_buffers(tmp_path: Path) -> None:
    for outcome in outcomes(2, moves_slices, str(tmp_path), **OPTIONS):
        assert outcome.text == ""
        assert "that no other process can map" in outcome.value[0]


def leads_on_gpu_zero(comm: Communicator, _: Tell) -> str:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    vector = OnGpu(0, np.zeros(99, np.int32))
    with pytest.raises(lanecast.UsageError) as refused:
        comm.all_reduce(vector.tensor)
    return str(refused.value)


def test_two_leaders_of_one_gpu_are_refused(tmp_path: Path) -> None:
    for outcome in outcomes(2, leads_on_gpu_zero, str(tmp_path), **OPTIONS):
        assert outcome.text == ""
        assert "ranks 0 and 1 both lead on GPU" in outcome.value
