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
from gpt.messages import Messages
from gpt.model import PRESETS
from gpt.sharding import STRATEGIES, Trained

STEPS = 10
PROFILED = 3  # steps, behind the trials


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=PRESETS, default="gpt-2m")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp")
    parser.add_argument("--backend", default="lanecast", help="of torch.distributed")
    parser.add_argument("--corpus", default="", help="a text file; default: the source of Python's standard library")
    parser.add_argument("--micro-batch", type=int, default=4, help="sequences of a rank at a time")
    parser.add_argument("--batch-tokens", type=int, help="of all ranks together, in a step; default: the model's")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a call waits for a rank")
    parser.add_argument("--out", type=Path, help="a folder for report.json, loss.png and messages.png")
    parser.add_argument("--profile", type=Path, help="a file (.json, .json.gz) for rank 0's trace of three more steps")
    return parser.parse_args()


def device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def begin(options: argparse.Namespace) -> None:
    timeout = timedelta(seconds=options.timeout)
    if options.strategy == "zero3":
        try:
            import deepspeed
        except ImportError:
            raise SystemExit("train_gpt: --strategy zero3 is DeepSpeed's: pip install deepspeed") from None
        deepspeed.init_distributed(dist_backend=options.backend, timeout=timeout)
    else:
        dist.init_process_group(options.backend, timeout=timeout)


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
        file.parent.mkdir(parents=True, exist_ok=True)
        recorded.export_chrome_trace(str(file))
        return {"profiled_step_s": step_s, **overlap.measured(file, PROFILED)}


def main() -> None:
    options = arguments()
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
