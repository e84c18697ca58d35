# SPDX-License-Identifier: Apache-2.0
"""Names, sizes and topologies as they stand on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lanecast import _core, topologies
from lanecast.dtypes import numpy_dtype

TOPOLOGY_HELP = "8, 2x4, 2x2x2, 3+2+4, 2x4:cyclic, or a .toml file."

_SIZE = re.compile(r"([0-9]+)([KMG]?)(?:I?B)?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 18  # fits 64 bits; far more, and Python refuses to make a number of them
_MOST_RANKS = 1 << 20
_UNIT_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def known_name(what: str, name: str, known: Iterable[str]) -> str:
    """`name`, or UsageError with what there is."""
    names = list(known)
    if name not in names:
        raise _core.UsageError(f"{what} {name!r} is unknown; known: {', '.join(names)}")
    return name


def refuse_on_gpu(given: dict[str, Any]) -> None:
    """Raise UsageError for the first of these options that was given."""
    for option, value in given.items():
        if value:
            raise _core.UsageError(f"{option}: is of CPUs; leave it out with --device cuda")


def split_list(text: str) -> tuple[str, ...]:
    """Items between commas, but for commas in parentheses: "mpi,lanecast:hierarchical(ring,direct)" has two."""
    items = re.findall(r"(?:[^,(]|\([^)]*\)?)+", text)
    return tuple(item.strip() for item in items if item.strip())


def distinct(text: str) -> tuple[str, ...]:
    """As split_list(), each item once."""
    return tuple(dict.fromkeys(split_list(text)))


def parse_size(text: str) -> int:
    """Bytes of "64K", "4M" or "1GiB"; units are powers of 1024, as in nccl-tests."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise _core.UsageError(
            f"size {text!r}: expected a whole number of bytes, such as 512, 64K, 4M or 1G (times 1024)"
        )
    return int(match[1]) * _UNIT_BYTES[match[2].upper()]


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes of "4M,16M", or of ranges such as "64K..64M", which double."""
    return _doubling(text, parse_size, "sizes", "byte")


def parse_depths(text: str) -> tuple[int, ...]:
    """Numbers of chunks of "4,16", or of ranges such as "1..128", which double."""

    return _doubling(text, partial(_whole, "depth", "chunks such as 16"), "depths", "chunk")


def parse_processes(text: str) -> tuple[int, ...]:
    """Numbers of processes of "1,2,4", or of ranges such as "1..16", which double."""
    option = "processes-per-gpu"
    return _doubling(text, partial(_whole, option, "processes such as 4"), option, "process")


def _whole(what: str, of: str, item: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", item.strip(), re.ASCII):
        raise _core.UsageError(f"{what} {item!r}: expected a number of {of}")
    return int(item)


def _doubling(text: str, parse: Callable[[str], int], what: str, unit: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for item in split_list(text):
        first, dots, last = item.partition("..")
        number, end = parse(first), parse(last if dots else first)
        if number > end or number == 0:
            raise _core.UsageError(f"{what} {item!r}: need at least 1 {unit}, and ranges run upwards")
        while number <= end:
            numbers.append(number)
            number *= 2
    if not numbers:
        raise _core.UsageError(f"{what}: none given")
    return tuple(dict.fromkeys(numbers))


def parse_dtype(name: str) -> str:
    """An element type that the core knows, and that numpy can fill here."""
    numpy_dtype(known_name("dtype", name, _core.DTYPES))
    return name


def ranks_of(topology: str) -> int:
    """How many ranks "2x4", "3+2+4", "2x4:cyclic" or a file describes; topology_for() judges the rest of a text."""
    if topologies.is_file(topology):
        return topologies.load(topology).size
    shape = topology.partition(":")[0]
    numbers = [int(n[:_MOST_DIGITS]) for n in re.findall("[0-9]+", shape)]
    ranks = sum(numbers) if "+" in shape else math.prod(numbers)
    if ranks > _MOST_RANKS:
        raise _core.UsageError(f"topology {topology!r}: describes more than {_MOST_RANKS} ranks")
    return max(1, ranks)


def topology_for(text: str, ranks: int) -> _core.Topology:
    """The topology that `text` describes; one level for an empty text."""
    if not text:
        return _core.Topology(ranks)
    try:
        return topologies.parse(text, ranks)
    except TypeError:  # bytes that are no UTF-8
        raise _core.UsageError(
            f"topology {text!r}: expected sizes such as 2x4, 2x2x2 or 3+2+4, or a .toml file"
        ) from None
