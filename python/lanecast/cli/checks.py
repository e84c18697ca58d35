# SPDX-License-Identifier: Apache-2.0
"""What of a benchmark can run where it is to run, by the core's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lanecast import _core
from lanecast.cli.options import Backend, Settings, known_name, topology_for
from lanecast.cli.payload import REDUCING
from lanecast.dtypes import DTYPE_CODES, OP_CODES, itemsize


def summary(algorithms: Sequence[str]) -> list[str]:
    """Algorithm names with all hierarchical ones as one pattern."""
    flat = [name for name in algorithms if "(" not in name]
    return flat if len(flat) == len(algorithms) else [*flat, "hierarchical(ACROSS,…,WITHIN) of them"]


def choose_baseline(wanted: str, backends: Sequence[Backend]) -> str:
    """The backend that others are compared with: the wanted one, else MPI or NCCL, else the first."""
    names = [backend.name for backend in backends]
    if wanted:
        return known_name("baseline", wanted, names)
    return next((name for name in ("mpi", "nccl") if name in names), names[0])


def takers(settings: Settings, collective: str, topology: _core.Topology) -> list[Backend]:
    """The backends that run this collective on this topology."""
    known = _core.algorithms_for(collective, topology)
    return [backend for backend in settings.backends if not backend.algorithm or backend.algorithm in known]


def without_mpi(settings: Settings) -> Settings:
    """The same with what runs where no MPI does."""
    backends = tuple(backend for backend in settings.backends if not backend.needs_mpi)
    if not backends:
        raise _core.UsageError("all backends need an MPI, and there is none: pip install mpich, or add lanecast")
    baseline = settings.baseline if settings.baseline in {b.name for b in backends} else backends[0].name
    return replace(settings, backends=backends, baseline=baseline, transports="")


def topologies(settings: Settings, ranks: int, found: _core.Topology | None = None) -> list[_core.Topology]:
    """Those to measure on; `found`: how the ranks sit where the settings leave it open."""
    return [found if found and not text else topology_for(text, ranks) for text in settings.topologies]


def check(settings: Settings, ranks: int, found: _core.Topology | None = None) -> None:
    """Raise UsageError for what cannot run on so many ranks; `found`: as for topologies()."""
    shapes = topologies(settings, ranks, found)
    check_elements(settings, ranks)
    check_reduction(settings)
    for backend in settings.backends:
        known: dict[str, None] = {}
        for topology in shapes:
            for collective in settings.collectives:
                known.update(dict.fromkeys(_core.algorithms_for(collective, topology)))
        if backend.algorithm and backend.algorithm not in known:
            raise _core.UsageError(
                f"algorithm {backend.algorithm!r} does not run {', '.join(settings.collectives)} on "
                f"{', '.join(str(topology) for topology in shapes)}; known: {', '.join(summary(list(known)))}"
            )


def check_elements(settings: Settings, ranks: int) -> None:
    """Raise UsageError for sizes that do not hold an element of each rank."""
    smallest = min(settings.sizes)
    if smallest < ranks * itemsize(settings.dtype):
        raise _core.UsageError(f"size {smallest} holds less than one {settings.dtype} of each of {ranks} ranks")


def check_reduction(settings: Settings) -> None:
    """Raise UsageError for an operator that does not take the type, here or in an MPI that is to take part."""
    if not set(settings.collectives) & set(REDUCING):
        return
    op, dtype = OP_CODES[settings.op], DTYPE_CODES[settings.dtype]
    if not _core.supports(op, dtype):
        takes = [name for name, code in DTYPE_CODES.items() if _core.supports(op, code)]
        raise _core.UsageError(f"op {settings.op!r} does not take {settings.dtype}; it takes {', '.join(takes)}")
    if settings.op == "avg" and any(backend.is_mpi for backend in settings.backends):
        raise _core.UsageError("backend 'mpi': MPI has no op avg; leave the backend out, or compare with --op sum")
    if any(backend.needs_mpi for backend in settings.backends) and not _core.mpi_reduces(dtype):
        takes = [name for name, code in DTYPE_CODES.items() if _core.mpi_reduces(code)]
        raise _core.UsageError(f"backends mpi and native: MPI reduces no {settings.dtype}; it takes {', '.join(takes)}")
