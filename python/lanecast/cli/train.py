# SPDX-License-Identifier: Apache-2.0
"""`lanecast learn train`: from a database of times to a model, with how good it is on what it has not seen."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import _core
from lanecast.bench import outputs
from lanecast.bench.options import distinct, known_name
from lanecast.bench.software import software
from lanecast.bench.tables import size_text
from lanecast.learn import tables as learned_tables
from lanecast.learn.cases import Case
from lanecast.learn.database import Database
from lanecast.learn.judging import ALL, HELD_OUT, LEARNED, Judged, judge, together
from lanecast.learn.scopes import of_calls, one_of
from lanecast.learn.subjects import Subject, subjects_of
from lanecast.learn.training import LEAST_CASES, Fitted, require_scikit_learn, with_times
from lanecast.learn.training import train as fit
from lanecast.profiles.model import Model, Trained, file_name, save
from lanecast.profiles.profile import default_folder
from lanecast.profiles.scope import MEASURED, Scope
from lanecast.scale import platform


def train(  # noqa: PLR0913, PLR0917  one per option
    database: Annotated[Path, typer.Argument(help="SQLite file of `lanecast learn measure` or `simulate`.")],
    machine: Annotated[str, typer.Option(help="Of which times, where the file has those of several.")] = "",
    origin: Annotated[str, typer.Option(help="measured, simulated or modelled, where the file has several.")] = "",
    collectives: Annotated[str, typer.Option(help="Comma-separated; default: all that the file has.")] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; default: in the user's cache.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the tables here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw what is chosen where, and what it loses.")] = None,
    times: Annotated[
        bool, typer.Option(help="Keep what calls took, for explain() and for calls that are slow.")
    ] = True,
) -> None:
    """Train a support vector machine for each collective, and judge it on a fifth that it has not seen.

    Regret is the share of the best algorithm's time that a choice takes more. Needs scikit-learn, which the extra
    `learn` of the package brings.
    """
    version = require_scikit_learn()
    outputs.check(output, json_file)
    outputs.check_picture(plot)
    if output is None:
        outputs.make_cache(default_folder())
    asked = [known_name("collective", name, _core.KINDS) for name in distinct(collectives)]
    with Database(database) as opened:
        scope = one_of(opened.scopes(), machine, origin, database)
        subjects = subjects_of(opened, scope, asked)
        if not asked:
            subjects = _with_enough(subjects) or subjects
        runs = [run for one in of_calls(opened.scopes(), scope) for run in opened.software(one)]
    fitted = [fit(each.collective, each.cases) for each in subjects]
    judged = together([row for each, one in zip(subjects, fitted, strict=True) for row in judge(one, each.cases)])
    about = _about(version, runs, subjects, judged)
    scope = replace(scope, calls="")
    path = output or default_folder() / file_name(scope)
    trained = [_kept(scope, each, one) for each, one in zip(subjects, fitted, strict=True)]
    if scope.origin == MEASURED and times:
        trained = [with_times(one, each.cases) for each, one in zip(subjects, trained, strict=True)]
    save(Model(scope, trained, about), path)
    learned_tables.show(scope, judged)
    if json_file is not None:
        rows = [
            {**asdict(row), "accuracy": row.accuracy, "as_good": row.as_good, "scope": asdict(scope)} for row in judged
        ]
        json_file.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    if plot is not None:
        platforms = [platform.text(run["platform"]) for run in runs if "platform" in run]
        drawn = [(each.cases, one) for each, one in zip(subjects, fitted, strict=True)]
        _draw(scope, drawn, plot, platforms[-1] if platforms else "")
    found = "communicators that it fits find it by themselves" if output is None and scope.origin == MEASURED else ""
    print(f"wrote {path}; {found or f'use it by LANECAST_PROFILE={path}'}", file=sys.stderr)


def _with_enough(subjects: list[Subject]) -> list[Subject]:
    """Those of which there are enough cases; says which of the others are left out."""
    short = [each for each in subjects if len(each.cases) < LEAST_CASES]
    if len(short) < len(subjects):
        for each in short:
            what = " ".join([each.collective, *each.calls])
            print(f"left out: {what}: {len(each.cases)} configurations of at least {LEAST_CASES}", file=sys.stderr)
    return [each for each in subjects if each not in short]


def _kept(scope: Scope, subject: Subject, fitted: Fitted) -> Trained:
    """What the file gets: on GPUs trained on all cases, since without a fifth of few sizes others would be beyond."""
    trained = fitted.refit(subject.cases) if scope.gpu else fitted.trained
    return replace(trained, calls=list(subject.calls))


def _about(version: str, runs: list[dict[str, Any]], subjects: list[Subject], judged: list[Judged]) -> dict[str, str]:
    """What a person wants to know of the file."""
    about = {name: str(value) for name, value in software().items() if name != "environment"}
    every = [case for each in subjects for case in each.cases]
    sizes = [case.bytes for case in every]
    times = f"{len(runs)} runs of {', '.join(map(str, sorted({case.ranks for case in every})))} ranks"
    about |= {"scikit-learn": version, "times": f"{times}, {size_text(min(sizes))} to {size_text(max(sizes))}"}
    about["times at commit"] = ", ".join(dict.fromkeys(str(run.get("commit")) for run in runs))
    added = dict.fromkeys(cost["name"] for run in runs for cost in run.get("software_costs", []))
    if added:
        about["software counted"] = ", ".join(added)
    if with_gpus := dict.fromkeys(text for run in runs if (text := _with_gpus(run))):
        about["times with"] = "; ".join(with_gpus)
    for row in judged:
        if (row.cases, row.chooser) == (HELD_OUT, LEARNED):
            configurations = sum(len(each.cases) for each in subjects if row.collective in {each.collective, ALL})
            about[row.collective] = (
                f"{configurations} configurations; of {row.size} held out {row.correct} right "
                f"({row.accuracy:.1%}; {row.equal} within 1%), "
                f"mean regret {row.mean_regret:.2%}, worst {row.worst_regret:.1%}"
            )
    return about


def _with_gpus(run: dict[str, Any]) -> str:
    """What calls on GPUs depend on beside the cards."""
    known = [f"{name} {run[name]}" for name in ("driver", "cuda", "nccl", "torch") if name in run]
    of_nccl = [f"{name}={value}" for name, value in run.get("environment", {}).items() if name == "NCCL_NVLS_ENABLE"]
    return ", ".join(known + of_nccl) if known else ""


def _draw(scope: Scope, learned: list[tuple[list[Case], Fitted]], path: Path, rests_on: str) -> None:
    from lanecast.learn import plots as learned_plots

    learned_plots.draw(scope, learned, path, rests_on)
