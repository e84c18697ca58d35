# SPDX-License-Identifier: Apache-2.0
"""What of a benchmark can run where it is to run, by the core's own tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from lanecast import _core
from lanecast.bench.cases import REDUCING, is_exact
from lanecast.bench.options import known_name, topology_for
from lanecast.bench.settings import CPU, MPI, Backend, Settings
from lanecast.dtypes import DTYPE_CODES, OP_CODES, itemsize
from lanecast.wording import counted


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
    """The backends that run this collective on this topology; pinned algorithms of GPUs are judged by their calls."""
    known = _core.algorithms_for(collective, topology)
    return [
        backend
        for backend in settings.backends
        if (not backend.algorithm or backend.memory != CPU or backend.algorithm in known)
        and backend.takes(collective, settings.dtype, settings.op)
        and not (collective in REDUCING and _lacks_reduction(backend, settings))
    ]


def _lacks_reduction(backend: Backend, settings: Settings) -> bool:
    """Would an MPI have to reduce what MPI has no reduction for?"""
    if backend.library == MPI and settings.op == "avg":
        return True
    return backend.needs_mpi and not _core.mpi_reduces(DTYPE_CODES[settings.dtype])


def left_out(settings: Settings) -> str:
    """A sentence on the backends that reductions are measured without; empty where they take all."""
    names = [backend.name for backend in settings.backends if _lacks_reduction(backend, settings)]
    reductions = [name for name in settings.collectives if name in REDUCING]
    if not names or not reductions:
        return ""
    lacking = settings.dtype if not _core.mpi_reduces(DTYPE_CODES[settings.dtype]) else settings.op
    return f"MPI has no reduction {lacking}: {', '.join(reductions)} without {', '.join(names)}"


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
    for topology in shapes:
        check_transports(settings.transports, topology)
    check_elements(settings, ranks)
    check_memory(settings, 1 if found else ranks)
    check_in_place(settings)
    check_reduction(settings)
    check_exact(settings, ranks)
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


def check_transports(transports: str, topology: _core.Topology) -> None:
    """Raise UsageError for names that are not one for each level."""
    levels = len(topology.levels) + 1
    if transports and len(transports.split(",")) not in {1, levels}:
        many = f", or {levels}, outermost level first" if levels > 1 else ""
        raise _core.UsageError(f"transports {transports!r}: topology {topology} needs one name{many}")


def check_elements(settings: Settings, ranks: int) -> None:
    """Raise UsageError for sizes that do not hold an element of each rank."""
    smallest = min(settings.sizes)
    if smallest < ranks * itemsize(settings.dtype):
        raise _core.UsageError(f"size {smallest} holds less than one {settings.dtype} of each of {ranks} ranks")


def check_memory(settings: Settings, ranks: int) -> None:
    """Raise UsageError for sizes of which so many ranks of this host could not each hold a full buffer."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size, whose = max(settings.sizes), counted(ranks, "rank")
    if size * ranks > memory:
        raise _core.UsageError(
            f"size {size}: one for each of {whose} is more than this host's {memory} bytes of memory"
        )


def check_in_place(settings: Settings) -> None:
    """Raise UsageError for a collective that is never in place, rather than measure it under that name."""
    never = [name for name in settings.collectives if not _core.may_be_in_place(name)]
    if settings.in_place and never:
        raise _core.UsageError(f"in-place: {', '.join(never)} needs two buffers")


def check_reduction(settings: Settings) -> None:
    """Raise UsageError for an operator that does not take the type, here or in an MPI that is to reduce alone."""
    if not set(settings.collectives) & set(REDUCING):
        return
    op, dtype = OP_CODES[settings.op], DTYPE_CODES[settings.dtype]
    if not _core.supports(op, dtype):
        takes = [name for name, code in DTYPE_CODES.items() if _core.supports(op, code)]
        raise _core.UsageError(f"op {settings.op!r} does not take {settings.dtype}; it takes {', '.join(takes)}")
    if not all(_lacks_reduction(backend, settings) for backend in settings.backends):
        return
    if _core.mpi_reduces(dtype):
        raise _core.UsageError("backend 'mpi': MPI has no op avg; add the backend lanecast, or compare with --op sum")
    takes = [name for name, code in DTYPE_CODES.items() if _core.mpi_reduces(code)]
    raise _core.UsageError(
        f"backends mpi and lanecast:mpi: MPI reduces no {settings.dtype}; it takes {', '.join(takes)}"
    )


def check_exact(settings: Settings, ranks: int) -> None:
    """Raise UsageError for a reduction whose result could not be checked element by element."""
    if set(settings.collectives) & set(REDUCING) and not is_exact(settings.dtype, settings.op, ranks):
        raise _core.UsageError(
            f"dtype {settings.dtype!r}: too narrow to check op {settings.op} of {ranks} ranks, whose results are "
            "rounded; take fewer ranks, op max, or a wider type"
        )
