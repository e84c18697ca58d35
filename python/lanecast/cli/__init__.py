# SPDX-License-Identifier: Apache-2.0
"""The command `lanecast`; one file per subcommand: its options, and a call of the package that does the work.

Nothing but the console script comes in here, and no other package imports it: what measures is `lanecast.bench`, what
learns `lanecast.learn`, what simulates `lanecast.scale`. Begin with the `app` below, which lists the subcommands.
"""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import typer

from lanecast import _core, launch
from lanecast.cli import bench, bench_train, cluster, compose, demo, explain, info, learn, plan, scale, trace, tune

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # reflows paragraphs, and takes nothing in brackets for a style
    help="Hierarchical collective communication: plans that are proven before they run.",
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"lanecast {_core.VERSION}")
        raise typer.Exit


@app.callback()
def _lanecast(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options that stand before a subcommand; `version` acts by its callback."""


benches = typer.Typer(invoke_without_command=True)
benches.callback()(bench.bench)
benches.command("train")(bench_train.train)

app.command("demo")(demo.demo)
app.command("explain")(explain.explain)
app.command("info")(info.info)
app.command("scale")(scale.scale)
app.command("trace")(trace.trace)
app.command("tune")(tune.tune)
app.add_typer(benches, name="bench")
app.add_typer(cluster.app, name="cluster")
app.add_typer(compose.app, name="compose")
app.add_typer(learn.app, name="learn")
app.add_typer(plan.app, name="plan")


def main() -> None:
    """Entry point of the console script: errors become one line and an exit status, 2 for wrong usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # arrows and dashes on a terminal that knows ASCII only
    # Programs inherit what ignores it, a supervisor's say, and then no exit status of a job or a compiler can be told.
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        app()
    except Exception as error:
        launch.fail(error)
