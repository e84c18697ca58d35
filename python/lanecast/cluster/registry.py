# SPDX-License-Identifier: Apache-2.0
"""Clusters that outlive the command that started them: one small file each, in a folder of this user."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core, marked_json
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape
from lanecast.fields import FieldError

FORMAT = marked_json.Format(
    "cluster file", "lanecast_cluster", 1, "end its cluster with the Lanecast that started it, or remove the file"
)


@dataclass(frozen=True)
class Entry:
    """A cluster as its file has it."""

    init: int  # pid
    started: str  # in ticks since boot
    shape: Shape

    def check(self) -> None:
        if not self.started.isdecimal():
            raise FieldError("started", f"{self.started!r} is no number of ticks")


def _folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "lanecast" if runtime else _core.temporary_cache("clusters")
    try:
        _core.make_private(folder)  # its files name processes to stop
    except _core.UsageError as error:
        raise _core.UsageError(f"{error}; set XDG_RUNTIME_DIR to a folder of yours") from None
    return folder


def _file(name: str) -> Path:
    if not re.fullmatch(r"[\w-]{1,40}", name):
        raise _core.UsageError(f"name {name!r}: expected letters, digits, - and _")
    return _folder() / f"cluster-{name}.json"


def _started(pid: int) -> str:
    """When a process started, in ticks since boot: a pid alone may have been given to another. Empty: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def save(name: str, cluster: Cluster) -> None:
    marked_json.save(FORMAT, Entry(cluster.init, _started(cluster.init), cluster.shape), _file(name))


def find(name: str) -> Cluster | None:
    """The cluster of this name, if it is up. Raises UsageError for a file that cannot be read."""
    file = _file(name)
    if not file.exists():
        return None
    entry: Entry = marked_json.load(FORMAT, Entry, file, named=False)
    if _started(entry.init) != entry.started:
        file.unlink(missing_ok=True)  # it has ended by itself, or the machine has been restarted
        return None
    return Cluster(entry.shape, entry.init)


def remove(name: str) -> bool:
    """Stop the cluster of this name; False where there is none."""
    cluster = find(name)
    if cluster is None:
        return False
    cluster.stop()
    _file(name).unlink(missing_ok=True)
    return True
