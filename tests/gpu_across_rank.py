# SPDX-License-Identifier: Apache-2.0
"""One rank under mpiexec, on the host and the GPU that it is told: collectives between hosts, as they are chosen, and
messages.

Arguments: the name of each rank's host, a folder of kernels. Prints "right", or what is wrong.
"""

from __future__ import annotations

import itertools
import os
import sys

import lanecast
from collective_cases import Case, even
from composed_cases import Memory, form, wrong_in
from gpu_message_cases import around
from gpu_stand_in import Tensor, in_environment, run_on_gpu
from lanecast import Communicator
from lanecast.compose import Knobs
from pipe_jobs import Tell

THREE = ("all_reduce", "all_gather", "reduce_scatter")


def cases(size: int) -> list[Case]:
    return [
        Case(kind, even(kind, count, size), in_place=kind == "all_reduce", chunks=chunks)
        for kind, count, chunks in itertools.product(THREE, (200,), (0, 5))
    ]


def explained(comm: Communicator, place: str) -> list[str]:
    """What is not as it should be: by links that were timed, and groups where each host has several ranks."""
    if os.environ.get("LANECAST_PROFILE"):
        return []
    why = comm.explain_on_gpu("all_reduce", 200)
    by_groups = why.algorithm.endswith(",peers)") or str(comm.topology) != "2x2"
    if by_groups and "level 0 timed: " in why.reason:
        return []
    return [f"{why.algorithm} of messages on the {place}: {why.reason}"]


def all_cases(comm: Communicator, tell: Tell) -> list[str]:
    wrong = run_on_gpu(cases(comm.size), 3, comm, tell)
    memory = Memory(lambda array: Tensor(array, "int64", comm.rank), comm.synchronize)
    for name in ("all_reduce_by_all_gather", "gather"):
        composition = form(name, comm.size)
        for chunks in (0, 5):
            what_is = wrong_in(comm, composition, [333] * composition.parts, Knobs(chunks=chunks), memory=memory)
            wrong += [what_is] if what_is else []
    wrong += [what for turn, count in enumerate((0, 100, 20_000, 1_048_577)) for what in around(comm, turn, count)]
    wanted = os.environ.get("LANECAST_GPU_MESSAGES", "staged")
    if comm.gpu_messages != wanted:
        wrong.append(f"{comm.gpu_messages} messages, {wanted} ones were wanted")
    wrong += explained(comm, "GPU" if wanted == "direct" else "host")
    try:
        comm._core.symmetric_allocate(comm.rank, 64)
        wrong.append("symmetric memory between hosts")
    except lanecast.UsageError as error:
        if "on 2" not in str(error):
            wrong.append(str(error))
    return wrong


if __name__ == "__main__":
    hosts, kernels = sys.argv[1].split(","), sys.argv[2]
    rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    if hosts[rank]:
        os.environ["LANECAST_HOST"] = hosts[rank]
    try:
        communicator = lanecast.init(device=rank, kernel_cache=kernels, timeout_s=100)
        found = in_environment({}, all_cases, communicator, lambda _: None)
    except lanecast.UsageError as error:
        found = [str(error)]
    # In one write: the ranks' lines share a pipe.
    print(("\n".join(found) or "right") + "\n", end="", flush=True)
