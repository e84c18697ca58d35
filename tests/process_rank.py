# SPDX-License-Identifier: Apache-2.0
"""One rank of a job under mpiexec: many communicators, many cases on each, since starting a job takes long.

Arguments: how many cases to try ("all", or "some": each algorithm, with some counts), then pairs of topology and
transports, "-" for a default. Prints what is wrong, then how much it has tried.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import lanecast
from collective_cases import Case, even, run_cases
from lanecast import Communicator, _core
from message_cases import all_cases

# What is tried where it exists: every simple algorithm, and hierarchies with and without the library's own.
SIMPLE = (
    "ring", "recursive_doubling", "bruck", "direct", "folding", "one_shot", "double_tree", "mpi",
    "binomial", "chain", "scatter_all_gather", "pairwise",
)  # fmt: skip
WITHIN = ("direct", "mpi", "bruck")
REDUCING = ("reduce_scatter", "all_reduce", "reduce")
COUNTS = (0, 1, 7, 997, 20_011)


def algorithms(comm: Communicator, kind: str) -> Iterator[str]:
    existing = set(_core.algorithms_for(kind, comm.topology))
    levels = len(comm.topology.levels)
    hierarchies = (f"hierarchical({'ring,' * levels}{within})" for within in WITHIN)
    pairs = (
        ("mpi", "mpi"),
        ("bruck", "ring"),
        ("chain", "binomial"),
        ("binomial", "direct"),
        ("bruck", "pairwise"),
    )
    others = [f"hierarchical({f'{across},' * levels}{within})" for across, within in pairs]
    has_mpis_own = "mpi" in comm.transports and kind in _core.KINDS[:3]
    for name in (*SIMPLE, *hierarchies, *others):
        if name in existing and ("mpi" not in name or has_mpis_own):
            yield name


def cases(comm: Communicator) -> Iterator[Case]:
    size = comm.size
    types = itertools.cycle(
        [
            ("float32", "sum"),
            ("int64", "prod"),
            ("uint8", "max"),
            ("float64", "avg"),
            ("int16", "bxor"),
            ("int8", "min"),
        ]
    )
    flags = itertools.cycle(itertools.product((False, True), (0, 1, 5), (False, True)))
    small = itertools.cycle([("bfloat16", "sum"), ("float8_e4m3", "max"), ("float16", "avg")])
    for kind in _core.KINDS:
        for algorithm in algorithms(comm, kind):
            shapes = [even(kind, count, size) for count in COUNTS]
            if len(shapes[0]) == size > 1:
                shapes += [tuple(331 * (rank % 3) for rank in range(size)), (0,) * (size - 1) + (5000,)]
            for counts in shapes:
                dtype, op = next(types)
                in_place, chunks, async_op = next(flags)
                if kind not in REDUCING:
                    op = "sum"
                in_place = in_place and _core.may_be_in_place(kind)
                yield Case(kind, counts, algorithm, dtype, op, in_place, chunks, async_op, root=size // 2)
            if "mpi" not in algorithm:
                dtype, op = next(small)
                yield Case(kind, shapes[3], algorithm, dtype, op if kind in REDUCING else "sum")


def try_out(comm: Communicator, every: int) -> tuple[list[str], int]:
    # Calls of nothing would fall in step with the choice, and leave little else.
    some = [case for case in cases(comm) if every == 1 or any(case.counts)][::every]
    wrong, messages = all_cases(comm, (0, 1000, 200_003))
    wrong += run_cases(comm, some)
    child = comm.split(comm.rank % 2, key=-comm.rank)
    assert child is not None
    del comm
    of_child = [Case("all_reduce", (5000,), chunks=2), Case("all_gather", (30,) * child.size, in_place=True)]
    return wrong + run_cases(child, of_child), len(some) + len(of_child) + messages


def main(arguments: list[str]) -> None:
    total, every = 0, {"all": 1, "some": 4}[arguments[0]]
    for topology, transports in zip(arguments[1::2], arguments[2::2], strict=True):
        options = {"topology": topology, "transports": transports}
        comm = lanecast.init(timeout_s=60.0, **{name: value for name, value in options.items() if value != "-"})
        wrong, tried = try_out(comm, every)
        total += tried
        for line in wrong[:5]:
            print(f"{topology} over {transports}: {line}", flush=True)
    print(f"rank {comm.rank} of {comm.size}: {total} calls", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
