# SPDX-License-Identifier: Apache-2.0
"""Files that a command will write: looked at first, so that no measurement is lost to a name that cannot be one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lanecast import _core

PICTURES = (".png", ".pdf", ".svg")


def check(*files: Path | None) -> None:
    """Raise UsageError for the first of these that cannot be written; None stands for none."""
    for file in files:
        if file is None:
            continue
        folder = file.absolute().parent
        if not folder.is_dir():
            raise _core.UsageError(f"{file}: the folder {file.parent} does not exist")
        if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
            within = "" if file.is_absolute() else f" in {folder}"
            raise _core.UsageError(f"{file}: cannot be written{within}")


def check_picture(file: Path | None) -> None:
    """The same of a picture, whose name says its kind."""
    check(file)
    if file is not None and file.suffix not in PICTURES:
        raise _core.UsageError(f"{file}: pictures end in {', '.join(PICTURES)}")


def make_cache(folder: Path) -> None:
    """Make one of the user's cache, from which communicators read. Raises UsageError that says what else to name."""
    try:
        _core.make_private(folder)
    except _core.UsageError as error:
        raise _core.UsageError(
            f"{folder} cannot be used: {error}; name a file by --output, or set XDG_CACHE_HOME to a folder of yours"
        ) from None


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    """A list of rows, one per line of the file; what a run shares is in each under `run`."""
    save_rows(path, rows)
    print(f"wrote {path}", file=sys.stderr)


def save_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
