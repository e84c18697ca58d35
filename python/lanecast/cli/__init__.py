# SPDX-License-Identifier: Apache-2.0
"""The command `lanecast`; one file per subcommand: its options, and a call of the package that does the work.

Nothing but the console script comes in here, and no other package imports it: what measures is `lanecast.bench`, what
learns `lanecast.learn`, what simulates `lanecast.scale`. Begin with `COMMANDS` below.
"""

from __future__ import annotations

import importlib
import io
import signal
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from lanecast import _core, launch

COMMANDS = ("demo", "explain", "info", "scale", "trace", "tune", "bench", "cluster", "compose", "learn", "plan")
_MARKUP: Final = "markdown"  # reflows paragraphs, and takes nothing in brackets for a style


class _Commands(TyperGroup):
    """Imports a subcommand when it is asked for.

    All of them take most of a second, and each rank of a job is a process that needs one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # what a misspelt one may mean

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, parent = importlib.import_module(f"lanecast.cli.{cmd_name}"), typer.Typer(rich_markup_mode=_MARKUP)
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=cmd_name)
        else:
            parent.command(cmd_name)(getattr(module, cmd_name))
        return typer.main.get_group(parent).commands[cmd_name]


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
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
