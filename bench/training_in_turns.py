# SPDX-License-Identifier: Apache-2.0
"""Training steps on several backends of torch.distributed within one job, a few steps at a time in turns.

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 bench/training_in_turns.py --strategy ddp

Jobs of their own, as `lanecast bench train` starts them, meet a busy machine in different moods; here each round holds
some steps of every backend. On CPUs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import lanecast.torch

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from gpt import corpus
from gpt.model import PRESETS
from gpt.sharding import Replicas, Shards, Trained

STRATEGIES = {"ddp": Replicas, "fsdp2": Shards}
MICRO_BATCH, STEPS, CPU = 4, 4, torch.device("cpu")  # sequences of a rank at a time, steps of a turn


def group_of(backend: str) -> dist.ProcessGroup:
    """lanecast:ALGORITHM has that one pinned."""
    name, _, algorithm = backend.partition(":")
    options = None
    if algorithm:
        options = lanecast.torch.Options()
        options.algorithm = algorithm
    return dist.new_group(backend=name, pg_options=options)


class Turn:
    """A model that one group trains."""

    def __init__(self, options: argparse.Namespace, group: dist.ProcessGroup) -> None:
        shape = PRESETS[options.model]
        self.group, self.times_s = group, list[float]()
        self.trained: Trained = STRATEGIES[options.strategy](shape, CPU, 3e-4, group)
        self.batches = corpus.Batches(corpus.load(""), shape.sequence, dist.get_rank())
        tokens = options.batch_tokens or shape.batch_tokens
        self.passes = max(1, round(tokens / (dist.get_world_size() * MICRO_BATCH * shape.sequence)))

    def take(self) -> None:
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(STEPS):
            loss = torch.zeros(())
            for k in range(self.passes):
                loss += self.trained.pass_(self.batches.next(MICRO_BATCH, CPU), self.passes, k == self.passes - 1)
            self.trained.step()
            dist.all_reduce(loss, group=self.group)
        self.times_s.append((time.perf_counter() - begun) / STEPS)


def main() -> None:
    """Print the median and the least step of each backend; the first round is left out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=PRESETS, default="gpt-2m")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp")
    parser.add_argument("--backends", default="lanecast,gloo", help="of torch.distributed, or lanecast:ALGORITHM")
    parser.add_argument("--batch-tokens", type=int, default=0, help="of all ranks in a step; 0: the model's")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    turns = {name: Turn(options, group_of(name)) for name in options.backends.split(",")}
    for _ in range(1 + options.rounds):
        for turn in turns.values():
            turn.take()
    for name, turn in turns.items() if dist.get_rank() == 0 else ():
        median_s, least_s = statistics.median(turn.times_s[1:]), min(turn.times_s[1:])
        print(f"{options.strategy:>6}  {name:<28} median {median_s:.3f} s a step  least {least_s:.3f} s", flush=True)
    os._exit(0)  # a process with gloo groups may abort or hang at its end


if __name__ == "__main__":
    main()
