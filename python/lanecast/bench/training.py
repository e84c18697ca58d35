# SPDX-License-Identifier: Apache-2.0
"""Steps of examples/train_gpt.py on several backends of torch.distributed, which take turns.

Each trial of a backend is a job of its own, under torchrun or with --hosts on an emulated cluster, and a round holds
one trial of each, so that what disturbs the machine meets all of them. A backend `lanecast:ALGORITHM` has that
algorithm pinned. Losses are compared step by step with those of the last backend, the baseline: a faster step that
learns something else is no faster step.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from lanecast import _core
from lanecast.bench import tables
from lanecast.bench.on_hosts import Hosts
from lanecast.bench.options import known_name

PROGRAM = Path(_core.__file__).parent / "examples" / "train_gpt.py"
STRATEGIES = ("ddp", "fsdp2", "zero3")
MODELS = ("gpt-2m", "gpt-25m", "gpt-124m", "gpt-1.3b", "gpt-7b", "gpt-13b")  # of a program that needs torch to say them
CLOSE = 0.01  # of a loss: what another order of additions may change in ten steps

_LINGER_S = 15.0  # in which those who have trained draw their pictures and part

Trial = dict[str, Any]  # the report of train_gpt.py


@dataclass(frozen=True)
class Case:
    model: str
    strategy: str
    ranks: int
    options: tuple[str, ...]  # more of train_gpt.py's
    where: Hosts | None = None  # instead of this one

    def run(self, backend: str) -> Trial:
        """Ten steps on new processes. Raises UsageError with the end of what they printed where they fail."""
        name, _, algorithm = backend.partition(":")
        environment = {"OMP_NUM_THREADS": "1", **os.environ, **({"LANECAST_ALGORITHM": algorithm} if algorithm else {})}
        with tempfile.TemporaryDirectory() as folder:
            program = [str(PROGRAM), f"--model={self.model}", f"--strategy={self.strategy}", f"--backend={name}"]
            command = self._started([*program, "--trials=1", f"--out={folder}", *self.options])
            file, log = Path(folder) / "report.json", Path(folder) / "output.txt"
            with log.open("w") as output:
                wait_for(subprocess.Popen(command, env=environment, stdout=output, stderr=output), file)
            if not file.is_file():
                said = log.read_text(errors="replace")[-3000:]
                raise _core.UsageError(f"{self.strategy} on {backend} failed:\n{said}")
            report: Trial = json.loads(file.read_text())
        return report

    def _started(self, program: list[str]) -> list[str]:
        if self.where is not None:
            return self.where.command([sys.executable, *program])
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [sys.executable, *torchrun, *program]


def wait_for(job: subprocess.Popen[bytes], report: Path) -> None:
    """Wait for a job: not forever where it has reported, since processes with gloo groups may abort or hang then."""
    while job.poll() is None and not report.is_file():
        time.sleep(0.1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(_LINGER_S)
    job.terminate()
    job.wait()


def require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise _core.UsageError("bench train: trains by PyTorch, which is not installed: pip install torch")


def check_backends(names: Sequence[str]) -> None:
    """Raise UsageError for those that torch does not know, rather than with what is left of a job."""
    from torch.distributed import Backend

    for name in names:
        known_name("backend", name.partition(":")[0], dict.fromkeys(["lanecast", *Backend.backend_list]))


def place(hosts: int, ranks: int, nics: int, rate: str) -> Hosts | None:
    """None: this host."""
    if hosts == 1:
        return None
    if ranks % hosts:
        raise _core.UsageError(f"ranks: {ranks} are not equally many on each of {hosts} hosts")
    import torch

    return Hosts(hosts, ranks // hosts, torch.cuda.device_count(), nics, rate)


def row_of(strategy: str, backend: str, trials: list[Trial], baseline: list[Trial]) -> dict[str, Any]:
    """Mean and spread of all trials' steps, beside the baseline's."""
    steps_s = [trial["step_s"] for trial in trials]
    tokens_per_s = [trial["tokens_per_s"] for trial in trials]
    theirs_s = [trial["step_s"] for trial in baseline]
    losses = zip(trials[0]["losses"], baseline[0]["losses"], strict=True)
    return {
        "strategy": strategy,
        "backend": backend,
        "ranks": trials[0]["ranks"],
        "step_s": statistics.fmean(steps_s),
        "step_spread_s": statistics.fmean(trial["step_spread_s"] for trial in trials),
        "tokens_per_s": statistics.fmean(tokens_per_s),
        "step_s_trials": steps_s,
        "times_as_fast": statistics.median(theirs / ours for ours, theirs in zip(steps_s, theirs_s, strict=True)),
        "loss_first": trials[0]["losses"][0],
        "loss_last": trials[0]["losses"][-1],
        "loss_apart": max(abs(ours - theirs) / abs(theirs) for ours, theirs in losses),
    }


def table_of(rows: Sequence[dict[str, Any]], title: str, baseline: str) -> Table:
    headings = ("strategy", "backend", "step (s)", "spread (s)", "tokens/s", f"x {baseline}", "loss", "apart")
    table = tables.headed(title, headings, left=("strategy", "backend"))
    for row in rows:
        table.add_row(
            row["strategy"], row["backend"], f"{row['step_s']:.3f}", f"{row['step_spread_s']:.3f}",
            f"{row['tokens_per_s']:.0f}", f"{row['times_as_fast']:.2f}",
            f"{row['loss_first']:.3f} to {row['loss_last']:.3f}", f"{row['loss_apart']:.1e}",
        )  # fmt: skip
    return table
