# SPDX-License-Identifier: Apache-2.0
"""`lanecast learn train`: from a database of times to a model, with how good it is on what it has not seen."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import _core
from lanecast.bench import outputs
from lanecast.bench.options import distinct, known_name
from lanecast.bench.software import software
from lanecast.bench.tables import size_text
from lanecast.learn import tables as learned_tables
from lanecast.learn.cases import Case, cases_of
from lanecast.learn.database import Database
from lanecast.learn.judging import HELD_OUT, LEARNED, Judged, judge
from lanecast.learn.scopes import one_of
from lanecast.learn.training import Fitted, require_scikit_learn, with_times
from lanecast.learn.training import train as fit
from lanecast.profiles.model import Model, file_name, save
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
    with Database(database) as opened:
        scope = one_of(opened.scopes(), machine, origin, database)
        times = opened.read(scope)
        runs = opened.software(scope)
    asked = [known_name("collective", name, _core.KINDS) for name in distinct(collectives)]
    present = {configuration.collective for configuration in times}
    cases = {name: cases_of(name, scope, times) for name in asked or [kind for kind in _core.KINDS if kind in present]}
    fitted = {name: fit(name, some) for name, some in cases.items()}
    judged = [row for name, some in cases.items() for row in judge(fitted[name], some)]
    about = _about(version, runs, cases, judged)
    path = output or default_folder() / file_name(scope)
    trained = [each.trained for each in fitted.values()]
    if scope.origin == MEASURED:
        trained = [with_times(each, cases[each.collective]) for each in trained]
    save(Model(scope, trained, about), path)
    learned_tables.show(scope, judged)
    if json_file is not None:
        rows = [
            {**asdict(row), "accuracy": row.accuracy, "as_good": row.as_good, "scope": asdict(scope)} for row in judged
        ]
        json_file.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    if plot is not None:
        platforms = [platform.text(run["platform"]) for run in runs if "platform" in run]
        _draw(scope, [(cases[name], fitted[name]) for name in cases], plot, platforms[-1] if platforms else "")
    found = "communicators that it fits find it by themselves" if output is None and scope.origin == MEASURED else ""
    print(f"wrote {path}; {found or f'use it by LANECAST_PROFILE={path}'}", file=sys.stderr)


def _about(
    version: str, runs: list[dict[str, Any]], cases: dict[str, list[Case]], judged: list[Judged]
) -> dict[str, str]:
    """What a person wants to know of the file."""
    about = {name: str(value) for name, value in software().items() if name != "environment"}
    every = [case for some in cases.values() for case in some]
    sizes = [case.bytes for case in every]
    times = f"{len(runs)} runs of {', '.join(map(str, sorted({case.ranks for case in every})))} ranks"
    about |= {"scikit-learn": version, "times": f"{times}, {size_text(min(sizes))} to {size_text(max(sizes))}"}
    about["times at commit"] = ", ".join(dict.fromkeys(str(run.get("commit")) for run in runs))
    for row in judged:
        if (row.cases, row.chooser) == (HELD_OUT, LEARNED):
            about[row.collective] = (
                f"{len(cases[row.collective])} configurations; of {row.size} held out {row.correct} right "
                f"({row.accuracy:.1%}; {row.equal} within 1%), "
                f"mean regret {row.mean_regret:.2%}, worst {row.worst_regret:.1%}"
            )
    return about


def _draw(scope: Scope, learned: list[tuple[list[Case], Fitted]], path: Path, rests_on: str) -> None:
    from lanecast.learn import plots as learned_plots

    learned_plots.draw(scope, learned, path, rests_on)
