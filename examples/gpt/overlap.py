# SPDX-License-Identifier: Apache-2.0
"""How much of a step's communication goes on beside its computation, from a trace of torch.profiler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Span = tuple[float, float]  # begin and end, microseconds

COMMUNICATION = ("lanecast_", "nccl", "Memcpy PtoP")  # how names of kernels begin, and of copies between GPUs
CALLS = ("lanecast:", "nccl:", "gloo:", "mpi:")  # of c10d, as its backends call them


def measured(file: Path, steps: int) -> dict[str, float]:
    """Seconds of a step's communication, and how many of them are beside computation, in a trace of `steps` steps.

    Where there are kernels of GPUs, those of collectives beside all others; else calls of c10d, from their start to
    their end, beside torch's operators. Times of several at once count once.
    """
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt") as opened:
        events = [event for event in json.load(opened)["traceEvents"] if event.get("ph") == "X"]
    communication, computation = spans(events)
    shared = length(communication) + length(computation) - length([*communication, *computation])
    return {"communication_s": length(communication) / steps / 1e6, "beside_s": shared / steps / 1e6}


def sentence(found: dict[str, float]) -> str:
    share = found["beside_s"] / found["communication_s"] if found["communication_s"] else 0.0
    return (
        "communication takes {communication_s:.4f} s of a profiled step of {profiled_step_s:.4f} s, {beside_s:.4f} s "
        "of them ({share:.0%}) beside computation".format(share=share, **found)
    )


def spans(events: list[dict[str, Any]]) -> tuple[list[Span], list[Span]]:
    """Of communication and of computation."""
    on_gpu = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy")]
    moves, works = [], []
    for event in on_gpu or events:
        span = (event["ts"], event["ts"] + event["dur"])
        if event["name"].startswith(COMMUNICATION if on_gpu else CALLS):
            moves.append(span)
        elif event["cat"] == "kernel" if on_gpu else event["name"].startswith("aten::"):
            works.append(span)
    return moves, works


def length(of: list[Span]) -> float:
    """Of all of them together, where they overlap once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(of):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
