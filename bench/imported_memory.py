# SPDX-License-Identifier: Apache-2.0
"""Does a GPU-aware Open MPI take memory of a GPU that another process has allocated, as the helpers of a GPU pass it?

mpirun -n 3 python bench/imported_memory.py    (on two GPUs, with an Open MPI whose UCX knows CUDA)

Rank 0 allocates on GPU 0. Rank 1 maps that memory by its IPC handle. It exchanges messages with rank 2, on GPU 1, and
makes all-reduces with it: of memory of its own, then of the imported memory. Each says what the calls returned, and
whether all elements are right. Messages come first: an Open MPI that was built without CUDA adds on the host, and ends
in its first all-reduce of a GPU's memory.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch

from lanecast import _core

COUNT = 16 << 20  # floats
TIMES = 5


class Mpi:
    """The few calls of Open MPI's that this needs."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.library.MPI_Init(None, None)
        self.world, self.float = self.handle("ompi_mpi_comm_world"), self.handle("ompi_mpi_float")
        self.byte, self.sum = self.handle("ompi_mpi_byte"), self.handle("ompi_mpi_op_sum")
        found = ctypes.c_int()
        self.library.MPI_Comm_rank(self.world, ctypes.byref(found))
        self.rank = found.value
        self.pair = ctypes.c_void_p()
        self.library.MPI_Comm_split(self.world, int(self.rank == 0), self.rank, ctypes.byref(self.pair))
        self.library.MPI_Comm_set_errhandler(self.pair, self.handle("ompi_mpi_errors_return"))

    def handle(self, name: str) -> Any:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, name)))

    def broadcast(self, text: bytes) -> bytes:
        room = ctypes.create_string_buffer(text, 512)
        self.library.MPI_Bcast(room, 512, self.byte, 0, self.world)
        return room.raw

    def all_reduce(self, source: int, target: int) -> int:
        return int(
            self.library.MPI_Allreduce(
                ctypes.c_void_p(source), ctypes.c_void_p(target), COUNT, self.float, self.sum, self.pair
            )
        )

    def exchange(self, source: int, target: int) -> int:
        """Both of the pair send at once."""
        peer, status = ctypes.c_int(2 - self.rank), ctypes.c_void_p(0)  # MPI_STATUS_IGNORE
        return int(
            self.library.MPI_Sendrecv(
                ctypes.c_void_p(source), COUNT, self.float, peer, 0,
                ctypes.c_void_p(target), COUNT, self.float, peer, 0, self.pair, status,
            )
        )  # fmt: skip


def tried(rank: int, name: str, call: Callable[[], int], target: Any, expected: float) -> None:
    codes = {call()}  # connections, and what else a first call makes
    torch.cuda.synchronize()
    begin = time.perf_counter()
    codes |= {call() for _ in range(TIMES)}
    torch.cuda.synchronize()
    took_ms = (time.perf_counter() - begin) / TIMES * 1e3
    wrong = int((target != expected).sum())
    print(f"rank {rank}: {name}: codes {sorted(codes)}, {wrong} wrong elements, {took_ms:.2f} ms", flush=True)
    target.zero_()


def both_tried(mpi: Mpi, name: str, source: int, target: Any) -> None:
    torch.cuda.synchronize()
    address = target.data_ptr()
    tried(mpi.rank, f"messages, {name}", lambda: mpi.exchange(source, address), target, float(3 - mpi.rank))
    tried(mpi.rank, f"all-reduce, {name}", lambda: mpi.all_reduce(source, address), target, 3.0)


def main() -> None:
    mpi = Mpi()
    device = mpi.rank // 2
    torch.cuda.set_device(device)
    own = torch.full((COUNT,), float(max(1, mpi.rank)), device="cuda")  # 1, 1 and 2
    result = torch.zeros(COUNT, device="cuda")
    if mpi.rank > 0:
        both_tried(mpi, "own memory", own.data_ptr(), result)
    slices = _core.SliceMemory(_core.DeviceBuffer(own.data_ptr(), 0, COUNT, device, own, int), own.nbytes)
    said = f"{slices.bus_id};{slices.handle.hex()};{slices.offset};"
    bus_id, handle, offset, _ = mpi.broadcast(said.encode()).decode().split(";")
    if mpi.rank == 1:
        mapped = _core.SliceMemory(bus_id, bytes.fromhex(handle), int(offset))
        both_tried(mpi, "imported memory", mapped.address, result)
    elif mpi.rank == 2:
        both_tried(mpi, "own memory, its peer's is imported", own.data_ptr(), result)
    mpi.library.MPI_Barrier(mpi.world)
    mpi.library.MPI_Finalize()


if __name__ == "__main__":
    main()
