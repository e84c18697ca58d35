# SPDX-License-Identifier: Apache-2.0
"""What a helper of a GPU does for each call beside moving its slice, step by step: median microseconds.

python bench/helper_steps.py    (on a GPU)

The parent owns a buffer, as a leader does. The child maps it and lets it go, as a helper does in each call.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from lanecast import _core

BYTES = 256 << 20
TIMES = 50


def median_us(step: Callable[[], Any]) -> float:
    took = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        step()
        took.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(took)


def helper(channel: Connection) -> None:
    bus_id, handle, offset = channel.recv()
    torch.zeros(1, device="cuda")  # its context
    kept: list[Any] = []

    def let_go() -> float:
        kept.append(_core.SliceMemory(bus_id, handle, offset))
        begin = time.perf_counter()
        kept.clear()
        return (time.perf_counter() - begin) * 1e6

    channel.send("ready")
    while (asked := channel.recv()) == "answer":
        channel.send(asked)
    let_go()
    unmapped_us = statistics.median(let_go() for _ in range(TIMES))
    both_us = median_us(let_go)
    channel.send((both_us - unmapped_us, unmapped_us))


def main() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=helper, args=(there,))
    child.start()
    count = BYTES // 4
    own = torch.zeros(count, device="cuda")
    buffer = _core.DeviceBuffer(own.data_ptr(), _core.DTYPES.index("float32"), count, 0, own, int)
    memory = _core.SliceMemory(buffer, own.nbytes)
    here.send((memory.bus_id, memory.handle, memory.offset))
    here.recv()

    def ask() -> None:
        here.send("answer")
        here.recv()

    print(f"{torch.cuda.get_device_name()}, {BYTES >> 20} MiB, median of {TIMES}, us")
    print(f"  the leader exports its buffer       {median_us(lambda: _core.SliceMemory(buffer, own.nbytes)):8.1f}")
    print(f"  the leader waits for an idle stream {median_us(torch.cuda.synchronize):8.1f}")
    print(f"  a question and its answer           {median_us(ask):8.1f}")
    here.send("map")
    mapped_us, unmapped_us = here.recv()
    child.join()
    print(f"  the helper maps the buffer          {mapped_us:8.1f}")
    print(f"  the helper unmaps it                {unmapped_us:8.1f}")


if __name__ == "__main__":
    main()
