# SPDX-License-Identifier: Apache-2.0
"""Ranks on emulated NICs with memory of the stand-in's GPUs, and what settles which of their letters comes first.

That is settled without clocks: a rank takes nothing while it does not progress, letters of a pair of ranks come in
order, and a peer that does not progress takes a queue full of them, behind which others wait.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gpu_host_library
from emulated_network import network, open_emulated
from lanecast import _core
from ranks import Rank, in_processes
from transport_endpoint import Bytes, Endpoint, Item

NICS = "1GBps,10us"
STAND_IN = {"LANECAST_CUDA_LIBRARY": str(gpu_host_library.library())}
ARENA = 48 << 20  # bytes of each rank's GPU
LONG = 100_001
FULL = 40  # letters: more than the sender's queue and the receiver's hold together
HELLO, FILLING, LAST = 100, 101, 102  # tags


def gpu_memory(transport: _core.Transport, ordinal: int) -> Callable[[int], Bytes]:
    """Memory of a stand-in's GPU in which the transport's messages may lie: each call takes another piece of it."""
    driver, begin = gpu_host_library.opened(), gpu_host_library.memory(ordinal, ARENA)
    handle, bus_id = ctypes.create_string_buffer(64), ctypes.create_string_buffer(32)
    assert driver.cuIpcGetMemHandle(handle, ctypes.c_uint64(begin)) == 0
    assert driver.cuDeviceGetPCIBusId(bus_id, len(bus_id), ordinal) == 0
    transport.register_memory(begin, ARENA, handle.raw, bus_id.value.decode())
    memory: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * ARENA).from_address(begin))
    taken = 0

    def take(size: int) -> Bytes:
        nonlocal taken
        taken += size
        return memory[taken - size : taken]

    return take


Body = Callable[[Endpoint], object]


def endpoint_main(folder: Path, body: Body, me: Rank) -> None:
    os.environ.update(STAND_IN)
    transport = open_emulated(folder, me)
    try:
        end = Endpoint(transport, me)
        end.gpu = gpu_memory(transport, me.rank)
        end.barrier()
        body(end)
        end.barrier()
    finally:
        transport.close()


def run(body: Body, size: int = 2) -> None:
    in_processes(size, functools.partial(endpoint_main, network(NICS, environment=STAND_IN).folder, body))


def gpu_item(tag: int, serial: int, size: int = LONG, stamp: int = 0) -> Item:
    return Item(tag, serial, size, stamp=stamp, on_gpu=True)


def tell(end: Endpoint, sender: int) -> None:
    """What the sender has sent the other before has come there as well, unless it has come by a put."""
    if end.rank == sender:
        end.send(1 - sender, Item(HELLO, 0, 8))
    else:
        hello = end.receive(sender, Item(HELLO, 0, 8))
        end.progress_until(lambda: not end.is_open(hello))


def fill(end: Endpoint) -> None:
    """Rank 0's letters to rank 1, which takes none: what rank 0 sends afterwards without a put waits behind them."""
    if end.rank == 0:
        for serial in range(FULL):
            end.send(1, Item(FILLING, serial, 8))


def settle(end: Endpoint) -> None:
    """Wait for all, also for letters that are done and have no room in a queue yet: fragments go behind these."""
    for peer in end.peers:
        end.send(peer, Item(LAST, 0, 20_000))
        end.receive(peer, Item(LAST, 0, 20_000))
    end.wait()


def drain(end: Endpoint) -> None:
    if end.rank == 1:
        for serial in range(FULL):
            end.receive(0, Item(FILLING, serial, 8))
    settle(end)


def until_done(end: Endpoint, requests: list[int]) -> None:
    end.progress_until(lambda: not any(end.is_open(request) for request in requests))
