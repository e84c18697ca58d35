# SPDX-License-Identifier: Apache-2.0
"""Topologies as users write them: sizes such as 2x4, or a file for a layout that no sizes describe."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from lanecast import _core
from lanecast.fields import FieldError, naming_file, read_fields
from lanecast.machines import PREFIX

_SUFFIX = ".toml"
_MOST_DOMAINS = 2**31


@dataclass(frozen=True)
class Level:
    """A way of grouping the ranks, as in the core."""

    name: str
    domain: list[int]  # of each rank


@dataclass(frozen=True)
class Layout:
    """One file: which rank sits where, levels from the outermost inwards."""

    levels: list[Level]


def is_file(text: str) -> bool:
    """Is it the path of a layout? That of a machine's description stands after a prefix."""
    return text.endswith(_SUFFIX) and not text.startswith(PREFIX)


def load(file: str) -> _core.Topology:
    """The topology that a TOML file lays out. Raises UsageError that names file and field."""
    with naming_file(f"topology {file}"):
        layout: Layout = read_fields(Layout, tomllib.loads(Path(file).read_text()))
        size = _checked_size(layout)
        try:
            return _core.Topology(size, [(level.name, level.domain) for level in layout.levels])
        except _core.UsageError as error:
            raise FieldError("levels", str(error).removeprefix("topology: ")) from None


def _checked_size(layout: Layout) -> int:
    """How many ranks it places, on every level the same."""
    if not layout.levels:
        raise FieldError("levels", "none given; ranks without levels need no file, only their number")
    size = len(layout.levels[0].domain)
    for at, level in enumerate(layout.levels):
        if len(level.domain) != size:
            raise FieldError(f"levels[{at}].domain", f"places {len(level.domain)} ranks, levels[0].domain {size}")
        for rank, domain in enumerate(level.domain):
            if not 0 <= domain < _MOST_DOMAINS:
                raise FieldError(f"levels[{at}].domain[{rank}]", f"{domain}, expected 0 to {_MOST_DOMAINS - 1}")
    if size == 0:
        raise FieldError("levels[0].domain", "places no rank")
    return size


def parse(text: str, size: int) -> _core.Topology:
    """The topology of `text`, sizes or a file. Raises UsageError unless it is one of `size` ranks."""
    if not is_file(text):
        return _core.Topology.parse(text, size)
    found = load(text)
    if found.size != size:
        raise _core.UsageError(f"topology {text}: levels[0].domain: places {found.size} ranks, but there are {size}")
    return found
