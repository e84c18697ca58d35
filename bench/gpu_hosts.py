# SPDX-License-Identifier: Apache-2.0
"""All that is measured on the GPUs of a machine, on one host and on emulated ones, in one call of under ten minutes.

    python bench/gpu_hosts.py --json gpus.json --markdown gpus.md --heatmap gpus.png --plot hosts.png

Checks the collectives on all GPUs; measures them beside NCCL on one host, 1 KiB to 1 GiB, fp32 and bf16, eager and
from a graph, also composed; measures the memory of a group; makes hosts of the machine, each with a share of the GPUs,
first with an emulated NIC of 50 GB/s for each GPU, then with NICs of 10 Gbit/s (`lanecast cluster`); measures
collectives there, beside NCCL and the NICs' goodput, and training; and says which of the project's aims are reached.
With two GPUs each host has one, and hosts of two ranks share them, to see that results are right.

Each step is a program of its own with a part of the time, and files are written after every one. Needs what
`lanecast bench --device cuda` and `lanecast cluster` need; `--parts` leaves some out.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import gpu_report
import gpu_tables
import lanecast
from gpu_aims import judged
from gpu_steps import PARTS, Asked
from lanecast import launch
from lanecast.bench import outputs
from lanecast.bench.device import require_torch
from lanecast.bench.options import distinct, known_name
from timed_steps import Outcome, Step, run, shares


def steps(asked: Asked, parts: Sequence[str]) -> list[Step]:
    """In the order of PARTS, whatever that of `parts`. Raises UsageError for an unknown one."""
    wanted = {known_name("part", name, PARTS) for name in parts}
    return [step for name, make in PARTS.items() if name in wanted for step in make(asked)]


def measure(todo: Sequence[Step], limit_s: float) -> Iterator[Outcome]:
    """Run the steps, and say how far they are."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for k, (step, share_s) in enumerate(shares(todo, limit_s)):
            at = f"[{time.monotonic() - begun:3.0f} s] {k + 1} of {len(todo)}"
            print(f"{at}: {step.name}, at most {share_s:.0f} s …", flush=True)
            outcome = run(step, share_s, Path(folder))
            print(f"  {outcome.seconds:.0f} s, {len(outcome.rows)} rows: {outcome.summary}", flush=True)
            if outcome.problem:
                print(outcome.output, flush=True)
            yield outcome


def write(outcomes: Sequence[Outcome], json_file: Path | None, page: Path | None) -> None:
    """What is there so far."""
    command = gpu_report.command_line()
    rows = [row for outcome in outcomes for row in outcome.rows]
    if json_file is not None:
        found: dict[str, Any] = {"command": command, "steps": [outcome.facts() for outcome in outcomes]}
        found["aims"] = [vars(aim) | {"missed_by": aim.missed_by} for aim in judged(rows)]
        head = json.dumps(found)[:-1]
        json_file.write_text(head + ', "rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n")
    if page is not None:
        page.write_text(gpu_report.markdown(outcomes, command))


def main(  # noqa: PLR0913, PLR0917  one per option
    parts: Annotated[str, typer.Option(help=f"Of {', '.join(PARTS)}.")] = ",".join(PARTS),
    minutes: Annotated[float, typer.Option(min=0.1, help="For all of it.")] = 9,
    gpus: Annotated[int, typer.Option(min=0, help="How many to use; 0: all.")] = 0,
    sizes: Annotated[str, typer.Option(help="On one host.")] = Asked.sizes,
    cluster_sizes: Annotated[str, typer.Option(help="Between hosts.")] = Asked.cluster_sizes,
    dtypes: str = ",".join(Asked.dtypes),
    rounds: Annotated[int, typer.Option(min=1, help="Each runs every backend once; the median is shown.")] = 5,
    nics: Annotated[int, typer.Option(min=1, help="Of each emulated host.")] = 2,
    rate: Annotated[str, typer.Option(help="Of each NIC.")] = "10gbit",
    gpu_nics: Annotated[str, typer.Option(help="Of each GPU, in the part fast.")] = Asked.gpu_nics,
    model: Annotated[str, typer.Option(help="A preset of train_gpt.py.")] = Asked.model,
    trials: Annotated[int, typer.Option(min=1, help="Training jobs of each backend.")] = Asked.trials,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows, steps and aims here.")] = None,
    page: Annotated[Path | None, typer.Option("--markdown", help="Write the tables here.")] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Draw speed relative to NCCL on one host.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", help="Draw the shares of the bound between hosts.")] = None,
) -> None:
    """Check, measure, judge, and write what was asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and so ends the step, too
    outputs.check(json_file, page)
    for file in (heatmap, picture):
        outputs.check_picture(file)
    count = gpus or require_torch().cuda.device_count()
    asked = Asked(count, sizes, cluster_sizes, distinct(dtypes), rounds, nics, rate, gpu_nics, model, trials)
    outcomes: list[Outcome] = []
    for outcome in measure(steps(asked, distinct(parts)), minutes * 60):
        outcomes.append(outcome)
        write(outcomes, json_file, page)  # what is there outlives an impatient user
    rows = [row for outcome in outcomes for row in outcome.rows]
    print("\n".join(gpu_tables.aims(list(judged(rows)))))
    for drawn in gpu_report.draw(rows, heatmap, picture):
        print(f"wrote {drawn}")
    failed = [outcome.step.name for outcome in outcomes if outcome.problem]
    if failed:
        raise lanecast.TransportError(f"not all went well: {', '.join(failed)}; see above")


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
