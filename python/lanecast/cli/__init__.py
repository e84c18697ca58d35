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
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from lanecast import _core, launch

COMMANDS = ("demo", "explain", "info", "scale", "trace", "tune", "bench", "cluster", "compose", "learn", "plan")
_MARKUP: Final = "markdown"  # reflows paragraphs, and takes nothing in brackets for a style


class _Imported(Mapping[str, Any]):
    """Subcommands by name; one is imported when it is asked for.

    All of them take most of a second, and each rank of a job is a process that needs one.
    """

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        module, parent = importlib.import_module(f"lanecast.cli.{name}"), typer.Typer(rich_markup_mode=_MARKUP)
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=name)
        else:
            parent.command(name)(getattr(module, name))
        return typer.main.get_group(parent).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Imported()  # type: ignore[assignment]  # nobody adds one

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands[cmd_name] if cmd_name in COMMANDS else None


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
