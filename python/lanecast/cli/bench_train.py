# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench train`: backends of torch.distributed by the steps of a training program."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core
from lanecast.bench import machine, outputs, tables, training
from lanecast.bench.options import distinct, known_name


def train(  # noqa: PLR0913, PLR0917  one per option
    model: Annotated[str, typer.Option(help=f"One of {', '.join(training.MODELS)}.")] = "gpt-2m",
    strategies: Annotated[str, typer.Option(help=f"Of {', '.join(training.STRATEGIES)}.")] = "ddp,fsdp2",
    backends: Annotated[
        str, typer.Option(help="Of torch.distributed, or lanecast:ALGORITHM. The last is the baseline.")
    ] = "lanecast,lanecast:recursive_doubling,gloo",
    ranks: Annotated[int, typer.Option(min=1)] = 2,
    hosts: Annotated[int, typer.Option(min=1, help="Emulated, which have equal shares of ranks and GPUs.")] = 1,
    nics: Annotated[int, typer.Option(min=1, help="Of each emulated host.")] = 2,
    rate: Annotated[str, typer.Option(help="Of each NIC.")] = "10gbit",
    trials: Annotated[int, typer.Option(min=1, help="Jobs of each backend.")] = 3,
    batch_tokens: Annotated[int, typer.Option(help="Of all ranks in a step; 0: the model's.")] = 0,
    micro_batch: Annotated[int, typer.Option(help="Sequences of a rank at a time.")] = 4,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
) -> None:
    """Compare backends of torch.distributed by the steps of a training program.

    Each trial of a backend is a job of its own, under torchrun or on emulated hosts, and the backends take turns.
    Losses are held against those of the last backend, the baseline. Needs torch.
    """
    names, plans = (
        distinct(backends),
        [known_name("strategy", name, training.STRATEGIES) for name in distinct(strategies)],
    )
    known_name("model", model, training.MODELS)
    if not names or not plans:
        raise _core.UsageError(f"{'strategies' if names else 'backends'}: none given")
    outputs.check(json_file)
    training.require_torch()
    training.check_backends(names)
    where = training.place(hosts, ranks, nics, rate)
    baseline = names[-1]
    options = (f"--micro-batch={micro_batch}", *([f"--batch-tokens={batch_tokens}"] if batch_tokens else []))
    out, progress = tables.console(), tables.console("stderr")
    rows = []
    for strategy in plans:
        case = training.Case(model, strategy, ranks, options, where)
        found: dict[str, list[training.Trial]] = {name: [] for name in names}
        for k in range(trials):
            for name in names:
                progress.print(f"{strategy} on {name}, trial {k + 1} of {trials} …")
                trial = case.run(name)
                found[name].append(trial)
                progress.print(f"  {trial['tokens_per_s']:.0f} tokens/s, {trial['step_s']:.3f} s a step")
        rows += [training.row_of(strategy, name, found[name], found[baseline]) for name in names]
    from importlib import metadata

    lanecast_version = f"lanecast {_core.VERSION} ({machine.git_commit() or 'installed'})"
    out.print(f"machine   {_core.cpu_model()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    out.print(f"software  torch {metadata.version('torch')}, {lanecast_version}")
    out.print(f"command   {machine.command_line()}\n")
    on = f"{ranks} ranks of {hosts} host{'s' * (hosts > 1)}"
    out.print(training.table_of(rows, f"{model} on {on}; {trials} x 10 steps, the last 8 of each count", baseline))
    if json_file is not None:
        json_file.write_text(json.dumps({"command": machine.command_line(), "rows": rows}, indent=1) + "\n")
    apart = [row["backend"] for row in rows if not row["loss_apart"] <= training.CLOSE]
    if apart:
        raise _core.UsageError(f"losses on {', '.join(apart)} differ from those on {baseline}")
