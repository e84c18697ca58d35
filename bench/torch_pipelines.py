# SPDX-License-Identifier: Apache-2.0
"""A training step of torch's pipelines beside what computation and messages add up to; on GPUs, or small on CPUs.

    LANECAST_TORCH=1 LANECAST_GPU_NICS=50GBps,12us torchrun --nproc-per-node 2 bench/torch_pipelines.py

The bound is the schedule's own order of forwards and backwards. Each takes what it takes alone, with all ranks at work,
and each message the latency and its bytes at the rate of --nic. Without LANECAST_TORCH=1 the group is NCCL's or gloo's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

ON_GPU = torch.cuda.is_available()
WIDTH, ROWS, PARTS = (4096, 2048, 8) if ON_GPU else (64, 32, 4)  # features, rows of a microbatch, microbatches
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
WARM_UP, ROUNDS = 3, 9
SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}
Action = tuple[str, int, int]  # "F" or "B", stage, microbatch


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.down(torch.relu(self.up(x)))


def loss_of(out: torch.Tensor, target: torch.Tensor) -> Any:
    return torch.nn.functional.mse_loss(out.float(), target.float())


def now() -> float:
    if ON_GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


def alone(stage: torch.nn.Module, device: torch.device) -> tuple[float, float]:
    """Seconds of a forward and of a backward, each in a row of them: with the loss on the last rank, and without a
    gradient of the input on the first, as in a step."""
    first, last = dist.get_rank() == 0, dist.get_rank() == dist.get_world_size() - 1
    rows = [torch.randn(ROWS, WIDTH, device=device, dtype=DTYPE, requires_grad=not first) for _ in range(PARTS)]
    target = torch.randn(ROWS, WIDTH, device=device, dtype=DTYPE)
    found = []
    for _ in range(WARM_UP + ROUNDS):
        stage.zero_grad()
        dist.barrier()
        begin = now()
        outs = [loss_of(stage(x), target) if last else stage(x) for x in rows]
        middle = now()
        above = torch.randn_like(outs[0])
        again = now()
        for out in outs:
            out.backward(above)
        found.append(((middle - begin) / PARTS, (now() - again) / PARTS))
    forwards, backwards = zip(*found[WARM_UP:], strict=True)
    return statistics.median(forwards), statistics.median(backwards)


def order_of(name: str, ranks: int) -> list[list[Action]]:
    """What each rank does, one stage a rank."""
    if name == "GPipe":
        return [[(kind, rank, k) for kind in "FB" for k in range(PARTS)] for rank in range(ranks)]
    order = []
    for rank in range(ranks):
        ahead = min(ranks - rank, PARTS)
        mine: list[Action] = [("F", rank, k) for k in range(ahead)]
        for k in range(PARTS):
            mine.append(("B", rank, k))
            if k + ahead < PARTS:
                mine.append(("F", rank, k + ahead))
        order.append(mine)
    return order


def step_s(order: list[list[Action]], times: dict[tuple[str, int], float], message_s: float) -> float:
    """When the last action ends; an action begins when its rank is free and what it needs has come."""
    ends: dict[Action, float] = {}
    free, done, ranks = [0.0] * len(order), [0] * len(order), len(order)
    while any(done[rank] < len(order[rank]) for rank in range(ranks)):
        for rank in range(ranks):
            while done[rank] < len(order[rank]):
                kind, _, k = order[rank][done[rank]]
                neighbour = rank - 1 if kind == "F" else rank + 1
                comes = (kind, neighbour, k) if 0 <= neighbour < ranks else None
                if comes is not None and comes not in ends:
                    break
                begin = max(free[rank], ends[comes] + message_s if comes is not None else 0.0)
                free[rank] = ends[kind, rank, k] = begin + times[kind, rank]
                done[rank] += 1
    return max(free)


def measured(name: str, stage: torch.nn.Module, device: torch.device) -> tuple[float, list[float]]:
    """Seconds of a step on the slowest rank, and the last rank's losses."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    run = SCHEDULES[name](PipelineStage(stage, rank, ranks, device), PARTS, loss_fn=loss_of, scale_grads=False)
    torch.manual_seed(7)
    rows, target = (torch.randn(PARTS * ROWS, WIDTH, device=device, dtype=DTYPE) for _ in range(2))
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    seconds, losses = [], []
    for _ in range(WARM_UP + ROUNDS):
        optimizer.zero_grad()
        dist.barrier()
        found: list[torch.Tensor] = []
        begin = now()
        run.step(*([rows] if rank == 0 else []), **({"target": target, "losses": found} if rank == ranks - 1 else {}))
        seconds.append(now() - begin)
        optimizer.step()
        losses += [torch.stack(found).mean().item()] if found else []
    slowest = torch.tensor([statistics.median(seconds[WARM_UP:])], dtype=torch.float64, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item(), losses


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nic", default="50e9,12e-6", help="bytes per second, and seconds of latency")
    options.add_argument("--layers", default="2,6", help="of a stage; several with commas between")
    asked = options.parse_args()
    rate, latency_s = (float(each) for each in asked.nic.split(","))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if ON_GPU else torch.device("cpu")
    if ON_GPU:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if ON_GPU else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    message_s = latency_s + ROWS * WIDTH * DTYPE.itemsize / rate
    for layers in map(int, asked.layers.split(",")):
        for name in SCHEDULES:
            torch.manual_seed(1000 + rank)
            stage = torch.nn.Sequential(*(Layer() for _ in range(layers))).to(device, DTYPE)
            mine = torch.tensor(alone(stage, device), dtype=torch.float64, device=device)
            every = [torch.empty_like(mine) for _ in range(ranks)]
            dist.all_gather(every, mine)
            times = {(kind, r): every[r][i].item() for r in range(ranks) for i, kind in enumerate("FB")}
            took_s, losses = measured(name, stage, device)
            if rank == ranks - 1:
                order = order_of(name, ranks)
                compute_s, bound_s = step_s(order, times, 0.0), step_s(order, times, message_s)
                row = {"schedule": name, "layers": layers, "step_ms": 1e3 * took_s, "compute_ms": 1e3 * compute_s}
                row |= {"bound_ms": 1e3 * bound_s, "of_bound": took_s / bound_s, "losses": losses}
                print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
