# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT on several ranks and measures it.

torchrun --nproc-per-node 2 examples/train_gpt.py --model gpt-2m --strategy ddp --backend lanecast

Each trial is 10 steps, of which the last 8 are measured; the batch of all ranks is the same whatever their number. On
GPUs with one rank each, where there are any.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gpt import corpus, overlap, report
from gpt.arguments import arguments
from gpt.messages import Messages
from gpt.model import PRESETS
from gpt.sharding import STRATEGIES, Trained

STEPS = 10
PROFILED = 3  # steps, behind the trials


def device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def begin(options: argparse.Namespace) -> None:
    timeout = timedelta(seconds=options.timeout)
    try:
        if options.strategy == "zero3":
            import deepspeed

            deepspeed.init_distributed(dist_backend=options.backend, timeout=timeout)
        else:
            dist.init_process_group(options.backend, timeout=timeout)
    except ImportError:
        raise SystemExit("train_gpt: --strategy zero3 is DeepSpeed's: pip install deepspeed") from None
    except (ValueError, AssertionError) as error:  # the latter where torch knows no such name
        raise SystemExit(f"train_gpt: --backend {options.backend}: {error}") from None


class Trainer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.shape = PRESETS[options.model]
        self.device = device()
        self.ranks = dist.get_world_size()
        self.micro_batch = options.micro_batch
        tokens = options.batch_tokens or self.shape.batch_tokens
        self.passes = max(1, round(tokens / (self.ranks * self.micro_batch * self.shape.sequence)))
        self.step_tokens = self.passes * self.ranks * self.micro_batch * self.shape.sequence
        self.batches = corpus.Batches(corpus.load(options.corpus), self.shape.sequence, 1234 + dist.get_rank())
        torch.manual_seed(0)
        self.trained: Trained = STRATEGIES[options.strategy](self.shape, self.device, options.learning_rate)

    def step(self) -> float:
        """The mean loss of all ranks."""
        loss = torch.zeros((), device=self.device)
        for k in range(self.passes):
            batch = self.batches.next(self.micro_batch, self.device)
            loss += self.trained.pass_(batch, self.passes, k == self.passes - 1)
        self.trained.step()
        loss /= self.passes * self.ranks
        dist.all_reduce(loss)
        return float(loss)  # and so the step has ended

    def profile(self, file: Path) -> dict[str, float]:
        """Writes rank 0's trace of some steps, which says there how much communication goes on beside computation."""
        recorded = torch.profiler.profile() if dist.get_rank() == 0 else None
        with recorded or nullcontext():
            begun = time.perf_counter()
            for _ in range(PROFILED):
                self.step()
            step_s = (time.perf_counter() - begun) / PROFILED
        if recorded is None:
            return {}
        recorded.export_chrome_trace(str(file))
        return {"profiled_step_s": step_s, **overlap.measured(file, PROFILED)}


def main() -> None:
    options = arguments(__doc__)
    begin(options)
    trainer = Trainer(options)
    losses, trials_s = [], []
    for _ in range(options.trials):
        trial_s = []
        for _ in range(STEPS):
            begun = time.perf_counter()
            losses.append(trainer.step())
            trial_s.append(time.perf_counter() - begun)
        trials_s.append(trial_s)
    with Messages() as messages:
        trainer.step()
    beside = trainer.profile(options.profile) if options.profile else {}
    if dist.get_rank() == 0:
        found = report.summary(trials_s, trainer.step_tokens)
        print(
            f"{options.model}, {options.strategy}, {options.backend}, {trainer.ranks} ranks of {trainer.device.type}: "
            f"{found['tokens_per_s']:.0f} tokens/s; a step of {trainer.step_tokens} tokens takes "
            f"{found['step_s']:.3f} s ± {found['step_spread_s']:.3f}; loss {losses[0]:.3f} to {losses[-1]:.3f}"
        )
        if beside:
            print(f"{overlap.sentence(beside)}: {options.profile}")
        if options.out:
            said = {name: getattr(options, name) for name in ("model", "strategy", "backend")}
            found = {**said, "ranks": trainer.ranks, **found, **beside, "losses": losses}
            report.write(options.out, found, messages.sizes)
    # Wait for the report: a process with gloo groups may abort at its very end, and torchrun then ends the others.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
