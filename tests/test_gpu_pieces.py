# SPDX-License-Identifier: Apache-2.0
"""Windows over memory that a program has mapped by itself, piece by piece, on a driver that runs kernels on the CPU:
its peers map it by a file of each piece, and nothing is left of it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Array
from forbidding import forbid
from gpu_pieces import BY_FILE, PIECE, Pieces
from gpu_stand_in import outcomes
from lanecast import Communicator, _core
from launch import ROOT
from open_files import open_files
from pipe_jobs import Tell
from test_gpu_windows import KINDS, LONG, Allocated, settled, small, tried

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver

SENDMSG, SOCKET = 46, 41  # of x86-64
BEGIN = 1000  # elements before which nothing is registered


class Memory:
    """Of a rank, in so many pieces; a part of it, which begins and ends within a piece, is a window."""

    def __init__(self, comm: Communicator, pieces: int) -> None:
        self.pieces = Pieces(comm.rank, [BY_FILE] * pieces)
        self.array = self.pieces.floats()[BEGIN:-BEGIN]
        begin = self.pieces.address + 4 * BEGIN
        self.held: Any = _core.WindowMemory(comm.rank, begin, 4 * self.array.size, self.pieces)

    def opened(self, comm: Communicator) -> bool:
        return comm._core.open_window(self.held)

    def close(self) -> None:
        self.held.retire()

    def free(self) -> None:
        del self.array, self.held
        self.pieces.free()


def held() -> tuple[str, int]:
    """Of the driver's, and files."""
    return gpu_host_library.held(), open_files()


def changes(comm: Communicator, at_first: tuple[str, int]) -> list[str]:
    now = held()
    return [] if now == at_first else [f"rank {comm.rank}: {now} at last, {at_first} at first"]


def calls_on(comm: Communicator, array: Array, turn: int, kinds: tuple[str, ...] = KINDS) -> list[str]:
    """From one half of it to the other, and in place; the shares end in other pieces than they begin in."""
    half = array.size // 2
    wrong: list[str] = []
    for kind in kinds:
        wrong += tried(comm, kind, (array[: half - 1], array[half:]), LONG + 7, turn)
        wrong += tried(comm, kind, (array, array), LONG + 7, turn + 1)
    return wrong


def each_kind(comm: Communicator, _: Tell) -> list[str]:
    small(comm)
    at_first = held()
    memory = Memory(comm, 2 * comm.size)
    assert memory.opened(comm)
    settled(comm)
    wrong = calls_on(comm, memory.array, 1)
    assert comm._core.calls_by_windows() == 2 * len(KINDS)
    memory.close()
    settled(comm)
    wrong += calls_on(comm, memory.array, 11)  # the program has it still
    assert comm._core.calls_by_windows() == 2 * len(KINDS)
    memory.free()
    assert held() == at_first
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_calls_in_pieces(size: int, kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(size, each_kind, kernel_cache)] == [[]] * size


def come_and_go(comm: Communicator, _: Tell) -> list[str]:
    """Each rank by itself: some are closed before anybody has heard of them, some when all have mapped them."""
    small(comm)
    at_first = held()
    wrong: list[str] = []
    for turn in range(100):
        memory = Memory(comm, 1 + turn % 3)
        assert memory.opened(comm)
        calls = (turn + comm.rank) % 3 if turn % 25 else 0
        for _call in range(calls):
            small(comm)
        if turn % 25 == 0:
            settled(comm)
            wrong += tried(comm, "all_reduce", (memory.array, memory.array), 1000, turn)
        memory.close()
        memory.free()  # at once: whoever has it mapped has the physical memory
        for _call in range(2 - calls):
            small(comm)
    settled(comm)
    return wrong + changes(comm, at_first)


def test_nothing_is_left_of_a_hundred(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, come_and_go, kernel_cache)] == [[]] * 2


def outlives(comm: Communicator, _: Tell) -> list[str]:
    """A window that is closed behind its communicator, by one rank; the other one closes it before."""
    small(comm)
    group = comm.split(0, comm.rank)
    assert group is not None
    small(group)
    at_first = held()
    memory = Memory(comm, 4)
    assert memory.opened(group)
    settled(group)
    wrong = calls_on(group, memory.array, 3, ("all_reduce",))
    assert group._core.calls_by_windows() == 2
    if comm.rank == 0:
        memory.close()
    del group
    comm.barrier()
    if comm.rank != 0:
        memory.close()
    memory.free()
    left = held()
    return wrong if left[1] < at_first[1] else [*wrong, f"rank {comm.rank}: {left} at last, {at_first} before"]


def test_closed_before_and_behind_the_communicator(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, outlives, kernel_cache)] == [[]] * 2


def refused(comm: Communicator, _: Tell) -> None:
    """With the reason, whichever piece it is."""
    small(comm)

    def register(pieces: Any, begin: int, count: int) -> None:
        part = pieces.floats()[begin : begin + count]
        with comm.register(Allocated(part, "float32", comm.rank)):
            pass

    def refuses(why: str, make: Callable[[], Any]) -> None:
        whose = f"rank {comm.rank}: register: memory: [0-9]+ bytes on GPU {comm.rank}"
        with pytest.raises(lanecast.UsageError, match=f"{whose} that no other process can map: {why}"):
            make()

    of_piece = PIECE // 4
    mixed = Pieces(comm.rank, [BY_FILE, 0, 8])
    refuses("made by cuMemCreate without CU_MEM_HANDLE_TYPE_POSIX", lambda: register(mixed, 10, of_piece))
    refuses("made by cuMemCreate without CU_MEM_HANDLE_TYPE_POSIX", lambda: register(mixed, 2 * of_piece, 10))
    register(mixed, 0, of_piece)
    other = Pieces(comm.rank + 1, [BY_FILE])
    refuses(f"on GPU {comm.rank + 1}", lambda: register(other, 0, 10))
    whole = Pieces(comm.rank, [BY_FILE])
    end = SimpleNamespace(floats=lambda: np.lib.stride_tricks.as_strided(whole.floats(), (2 * of_piece,)))
    refuses(f"nothing lies at its byte {PIECE}", lambda: register(end, 0, of_piece + 1))
    with pytest.raises(lanecast.UsageError, match=r"memory: 0 bytes on GPU [0-9]+ that no other .*: it is empty"):
        _core.WindowMemory(comm.rank, whole.address + 40, 0, whole)
    many = Pieces(comm.rank, [BY_FILE] * 254)
    refuses("of more than 253 allocations side by side", lambda: register(many, 0, 253 * of_piece + 1))
    register(many, 0, 253 * of_piece)
    gpu_host_library.fail_next("cuMemExportToShareableHandle", 2)
    with pytest.raises(lanecast.TransportError, match="cuMemExportToShareableHandle: CUDA_ERROR_OUT_OF_MEMORY"):
        register(whole, 0, 10)
    settled(comm)
    register(whole, 0, 10)


def test_refused_with_the_reason(kernel_cache: str) -> None:
    assert [outcome.text for outcome in outcomes(2, refused, kernel_cache)] == [""] * 2


CALLS = ("cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess")


def cannot_be_mapped(comm: Communicator, _: Tell) -> list[str]:
    """What the peers fail to map is copied, and they leave nothing."""
    small(comm)
    at_first = held()
    wrong: list[str] = []
    for turn, call in enumerate(CALLS):
        memory = Memory(comm, 4)
        if comm.rank:
            gpu_host_library.fail_next(call, 2, 1 if call == "cuMemMap" else 0)
        assert memory.opened(comm)
        settled(comm)
        wrong += calls_on(comm, memory.array, turn, ("all_gather",))
        memory.close()
        settled(comm)
        memory.free()
    assert comm._core.calls_by_windows() == 0
    comm.barrier()
    return wrong + changes(comm, at_first)


def test_a_peer_that_cannot_map_it(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, cannot_be_mapped, kernel_cache)] == [[]] * 2


def no_room(comm: Communicator, _: Tell) -> list[str]:
    """As long as the system has no room for files on their way, nobody hears of the window."""
    if comm.rank:
        forbid(SENDMSG, errno.ETOOMANYREFS)
    small(comm)
    at_first = held()
    memory = Memory(comm, 4)
    assert memory.opened(comm)
    settled(comm)
    wrong = calls_on(comm, memory.array, 1, ("all_reduce",))
    assert comm._core.calls_by_windows() == 0
    memory.close()
    settled(comm)
    memory.free()
    comm.barrier()
    return wrong + changes(comm, at_first)


def test_no_room_for_files_on_their_way(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, no_room, kernel_cache)] == [[]] * 2


def files() -> list[int]:
    """Of this process; that of the listing is closed by now."""
    return [int(file.name) for file in Path("/proc/self/fd").iterdir()]


def few_files(comm: Communicator, _: Tell) -> list[str]:
    """What rank 1 cannot take whole leaves it the room that it had."""
    small(comm)
    at_first = held()
    memory = Memory(comm, 40)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if comm.rank:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(files()) + 8, hard))
    else:
        assert memory.opened(comm)
    settled(comm)
    for room in [os.dup(0) for _file in range(6)]:
        os.close(room)
    wrong = calls_on(comm, memory.array, 1, ("all_reduce",))
    assert comm._core.calls_by_windows() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    memory.close()
    settled(comm)
    memory.free()
    comm.barrier()
    return wrong + changes(comm, at_first)


def test_more_files_than_a_process_may_open(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, few_files, kernel_cache)] == [[]] * 2


STRANGER = """
import socket, sys
desk = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
desk.bind(bytes.fromhex(sys.argv[1]))
desk.listen()
print("here", flush=True)
print(len(socket.recv_fds(desk.accept()[0], 4096, 253)[1]), flush=True)
"""


def desk_of_this_process() -> tuple[int, bytes]:
    """Its file, and its name."""
    for file in files():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(file)) as end:
            if end.family == socket.AF_UNIX and end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return file, end.getsockname()
    raise AssertionError("this rank listens nowhere")


def name_of_another(comm: Communicator, _: Tell) -> None:
    small(comm)
    memory = Memory(comm, 2)
    if comm.rank:
        file, name = desk_of_this_process()
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), file)
        command = [sys.executable, "-c", STRANGER, name.hex()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "here\n"
            comm.barrier()
            assert stranger.stdout.readline() == "0\n"
    else:
        comm.barrier()
        with pytest.raises(lanecast.TransportError, match="another process has its socket's name"):
            memory.opened(comm)
    comm.barrier()


def test_files_go_to_ranks_alone(kernel_cache: str) -> None:
    assert [outcome.text for outcome in outcomes(2, name_of_another, kernel_cache)] == [""] * 2


def no_sockets(comm: Communicator, _: Tell) -> list[str]:
    if comm.rank:
        forbid(SOCKET)
    small(comm)
    memory = Memory(comm, 2)
    reason = "no file can be handed to rank 1 of the host: a sandbox gives it no Unix socket"
    if comm.rank == 0:
        with pytest.raises(lanecast.TransportError, match=reason):
            memory.opened(comm)
    comm.barrier()
    small(comm)
    return calls_on(comm, memory.array, 1, ("all_reduce",))


def test_a_sandbox_without_sockets(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, no_sockets, kernel_cache)] == [[]] * 2


UNDER_HIP = """
import numpy as np
import lanecast
from gpu_pieces import BY_FILE, Pieces
from lanecast import _core
pieces = Pieces(0, [BY_FILE])
try:
    _core.WindowMemory(0, pieces.address, 64, pieces)
except lanecast.UsageError as error:
    print(error)
"""


def test_drivers_without_such_calls_refuse_it_as_ever() -> None:
    env = {**os.environ, **gpu_host_library.hip_environment()}
    command = [sys.executable, "-c", UNDER_HIP]
    said = subprocess.run(command, env=env, cwd=ROOT / "tests", capture_output=True, text=True, check=True).stdout
    assert "that no other process can map: not of one cudaMalloc (of torch's expandable segments, perhaps)" in said
