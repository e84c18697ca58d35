# SPDX-License-Identifier: Apache-2.0
"""Training steps at scale, simulated: ZeRO-3 of 7B and 13B parameters and DDP of 1.3B (PCCL, figures 12 and 13).

    python bench/simulated_training.py --machine frontier --json training.json --plot training.png

Collectives are simulated; computing is given, by a rate for each GPU. Results are kept, so that a run that was stopped
goes on. Needs SimGrid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import machines
from lanecast.bench.options import distinct
from lanecast.bench.plots import figure_of, footnote
from lanecast.bench.software import software
from lanecast.bench.tables import console, headed, number
from lanecast.machines import Machine
from lanecast.scale import build, contenders, platform, point, rings
from lanecast.scale import software as costs
from lanecast.scale.contenders import Case
from lanecast.scale.tables import say
from lanecast.scale.training import BUCKET_BYTES, MODELS, Model, ddp_s, zero3_s

_OURS, _VENDORS = "lanecast", "ring-per-nic"
_LEFT = ("model",)
_MODELS = ",".join(model.name for model in MODELS)


def main(  # noqa: PLR0913, PLR0917  one per option
    json_file: Annotated[Path, typer.Option("--json")],
    plot: Annotated[Path | None, typer.Option()] = None,
    machine: Annotated[str, typer.Option()] = "frontier",
    ranks: Annotated[str, typer.Option()] = "128,256,512,1024,2048",
    models: Annotated[str, typer.Option()] = _MODELS,
    tflops: Annotated[float, typer.Option(help="That a GPU computes while it does; assumed.")] = 70,
) -> None:
    """Simulate the collectives of each step, and print and draw what steps take."""
    simulator = build.simulator(say)
    described = machines.load(machine)
    run = {"simulated": True, "simgrid": simulator.simgrid, "machine": described.name,
           "platform": platform.figures(described), "tflops": tflops, **software()}  # fmt: skip

    def taken_s(case: Case, backend: str, with_software: bool) -> float:
        met = contenders.on(backend, case)
        plan = contenders.plan(backend, met)
        cost = costs.cost_of(met.machine, backend, plan.algorithm) if with_software else None
        fewer = rings.on_fewer_ranks(met, plan)
        words = [*platform.words(met.machine), *costs.words(cost), *plan.words(fewer)]
        say(f"{case.collective} of {case.bytes} B on {case.ranks} ranks: {backend}{', with software' if cost else ''}")
        return rings.seconds_on_all(point.run(simulator, words, say).seconds, met, fewer)

    rows: list[dict[str, Any]] = []
    for gpus in platform.rank_counts(described, ranks):
        for model in (model for model in MODELS if model.name in distinct(models)):
            for backend in (_VENDORS, _OURS):
                for with_software in (False, True):
                    times = {
                        case.collective: taken_s(case, backend, with_software)
                        for case in _cases(described, model, gpus)
                    }
                    rows.append(
                        {"model": model.name, "framework": model.framework, "gpus": gpus, "backend": backend,
                         "software": with_software, "step_s": _step_s(model, gpus, tflops * 1e12, times),
                         "computing_s": 3 * model.forward_s(gpus, tflops * 1e12), "collectives_s": times, "run": run}
                    )  # fmt: skip
                    json_file.write_text(json.dumps(rows, indent=1) + "\n")
    _show(rows)
    if plot is not None:
        _draw(rows, plot)


def _cases(machine: Machine, model: Model, gpus: int) -> list[Case]:
    kinds = {"zero3": ("all_gather", "reduce_scatter"), "ddp": ("all_reduce",)}[model.framework]
    size = model.layer_bytes if model.framework == "zero3" else BUCKET_BYTES
    return [Case(machine, kind, gpus, contenders.evenly(size, gpus)) for kind in kinds]


def _step_s(model: Model, gpus: int, flops: float, times: dict[str, float]) -> float:
    forward_s = model.forward_s(gpus, flops)
    if model.framework == "ddp":
        return ddp_s(model.buckets, forward_s, times["all_reduce"])
    return zero3_s(model.layers, forward_s, times["all_gather"], times["reduce_scatter"])


def _name(row: dict[str, Any]) -> str:
    return f"{row['backend']}{', with software' if row['software'] else ''}"


def _show(rows: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(_name(row) for row in rows))
    table = headed("a step, simulated, s", ("model", "GPUs", "computing", *names), _LEFT)
    for model, gpus in dict.fromkeys((row["model"], row["gpus"]) for row in rows):
        mine = {_name(row): row for row in rows if (row["model"], row["gpus"]) == (model, gpus)}
        computing = next(iter(mine.values()))["computing_s"]
        table.add_row(model, str(gpus), number(computing), *(number(mine[name]["step_s"]) for name in names))
    console().print(table)


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each model, a line for each backend, with what software adds and without."""
    models = list(dict.fromkeys((row["model"], row["framework"]) for row in rows))
    figure, axes = figure_of(1.0 + 4.2 * len(models), 4.4, (1, len(models)))
    for axis, (model, framework) in zip(axes, models, strict=True):
        mine = [row for row in rows if row["model"] == model]
        for name in dict.fromkeys(_name(row) for row in mine):
            line = [row for row in mine if _name(row) == name]
            style = "o--" if line[0]["software"] else "o-"
            colour = "tab:green" if line[0]["backend"] == _VENDORS else "tab:blue"
            axis.plot([row["gpus"] for row in line], [row["step_s"] for row in line], style, label=name, color=colour)
        gpus = {row["gpus"]: row["computing_s"] for row in mine}
        axis.plot(list(gpus), list(gpus.values()), "k:", label="computing alone")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(list(gpus), [str(count) for count in gpus])
        axis.set_xlabel("GPUs")
        axis.set_title(f"{model}, {framework}", loc="left", fontsize=10)
    axes[0].set_ylabel("a step (s)")
    axes[0].legend(fontsize=7, frameon=False)
    run = rows[0]["run"]
    figure.suptitle(f"{run['machine']}, simulated: no figure here was measured", fontsize=10)
    footnote(figure, f"computing: {run['tflops']:g} TFLOP/s of each GPU (assumed), {platform.text(run['platform'])}")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    typer.run(main)
