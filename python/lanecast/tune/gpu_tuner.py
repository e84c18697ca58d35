# SPDX-License-Identifier: Apache-2.0
"""`lanecast tune --device cuda`: what moves calls among the GPUs of a host, each way timed and fitted by itself."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lanecast
from lanecast import _core, job
from lanecast.bench import gpu_processes, machine, outputs
from lanecast.bench.arenas import Arenas
from lanecast.bench.backends import lanecast_call
from lanecast.bench.cases import REDUCING, Case
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.measure import GRAPH, Bench, Contender, Row
from lanecast.bench.memory import Memory
from lanecast.bench.protocol import progress
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import PLAIN, SYMMETRIC, Backend, Settings
from lanecast.communicator import Communicator
from lanecast.profiles.gpu_profile import EngineFit, GpuProfile, GpuShape, file_name, save
from lanecast.profiles.profile import default_folder
from lanecast.tune import gpu_tables
from lanecast.tune.fit import Bend, fit_bends

KERNEL, TWO_SHOT, CHAIN = "peer_kernel", "peer_two_shot", "peer_chain"
COPY_ENGINE, DIRECT, NCCL = "copy_engine", "peer_direct", "nccl"
SIZES = (*(1 << k for k in range(12, 19, 2)), *(1 << k for k in range(19, 29)))
GAIN_SIZES = tuple(3 << k for k in range(12, 27, 2))  # between those, where nothing was measured
HALF = "bfloat16"  # stands for float16, too: sums of both are added alike
_LONG = 1 << 20  # bytes; below, a call's time does not depend on the type
# Engines differ by less than the bends of their lines: a chosen one is to be no more than a few percent behind.
_BEND = Bend(worth=0.7, least_error=0.02, least_points=3)

TUNED = {PLAIN: "tuned", SYMMETRIC: "tuned+symm"}
_OF_KERNELS = (KERNEL, TWO_SHOT, CHAIN, DIRECT)
_IN_MEMORY = {DIRECT: SYMMETRIC}
COLLECTIVES_OF = {
    TWO_SHOT: ("all_reduce", "reduce", "broadcast"),
    CHAIN: ("broadcast", "reduce"),
    DIRECT: ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
}  # where not all of them


@dataclass(frozen=True)
class Calibration:
    """How long to look."""

    sizes: Sequence[int] = SIZES
    gain_sizes: Sequence[int] = GAIN_SIZES
    rounds: int = 4  # of which the fastest counts
    gain_rounds: int = 9  # of which the median does
    round_s: float = 1e-3


def run(collectives: Sequence[str], ranks: int, output: Path | None, gain: bool) -> None:
    """Measure, write, show. Starts a process per GPU where no launcher has, and does not return then."""
    if job.detect() is None:
        gpu_processes.start_ranks(ranks)
    calibrate(GpuRanks(), collectives, output, gain, Calibration())


def calibrate(
    ranks: GpuRanks, collectives: Sequence[str], output: Path | None, gain: bool, effort: Calibration
) -> GpuProfile:
    """The same among ranks that have come together; in the end they part. Equal on all but for `measured`."""
    shape = _shape_of(ranks)
    path = output or default_folder() / file_name(shape)
    if ranks.rank == 0:
        if output is None:
            outputs.make_cache(path.parent)
        print(f"measuring {', '.join(collectives)} on {ranks.size} x {shape.gpu} …", file=sys.stderr, flush=True)
    begin = time.monotonic()
    arenas = Arenas(ranks, max(*effort.sizes, *(effort.gain_sizes if gain else ())))
    engines = engines_of(ranks)
    settings = Settings(tuple(collectives), tuple(effort.sizes), (), rounds=effort.rounds, warmup=2,
                              round_s=effort.round_s, graph=True)  # fmt: skip
    rows = _measure(TuneBench(ranks, settings, arenas.memory, engines), "tuning")
    if sums := tuple(name for name in collectives if name in REDUCING):
        long = tuple(size for size in effort.sizes if size >= _LONG)
        of_half = replace(settings, collectives=sums, sizes=long or tuple(effort.sizes[-1:]), dtype=HALF)
        rows += _measure(TuneBench(ranks, of_half, arenas.memory, engines), f"tuning sums of {HALF}")
    profile = GpuProfile(shape, fits_of(rows), _measured(ranks))
    if ranks.rank == 0:
        save(profile, path)
        gpu_tables.show(profile)
        use = "find it by themselves" if output is None else f"use it by LANECAST_PROFILE={path}"
        print(f"wrote {path} after {time.monotonic() - begin:.1f} s; communicators of {ranks.size} such GPUs {use}",
              file=sys.stderr, flush=True)  # fmt: skip
    if gain:
        tuned = ranks.communicator("tuned", profile=str(path))
        first_call(ranks, tuned, COPY_ENGINE)  # it chooses them where a call has named them
        gaining = replace(settings, sizes=tuple(effort.gain_sizes), rounds=effort.gain_rounds)
        bench = TuneBench(ranks, gaining, arenas.memory, engines, tuned)
        found = _measure(bench, "what it gains")
        tuned.synchronize()
        if ranks.rank == 0:
            gpu_tables.show_gains(profile, found)
    arenas.close()
    ranks.close()
    return profile


class TuneBench(Bench):
    """Each engine by name, and, where a tuned communicator is given, the choices without it and by it beside them."""

    def __init__(
        self,
        ranks: Ranks,
        settings: Settings,
        memory: Callable[[str], Memory],
        engines: Sequence[str],
        tuned: Communicator | None = None,
    ) -> None:
        super().__init__(ranks, settings, memory)
        self.engines, self.tuned = engines, tuned

    def of(self, collective: str) -> TuneBench:
        """The same for the ways that take this collective."""
        named = [engine for engine in self.engines if collective in COLLECTIVES_OF.get(engine, _core.KINDS)]
        backends = [_backend(engine) for engine in named]
        if self.tuned is not None:
            backends.append(Backend("lanecast", memory=PLAIN))
            if DIRECT in named:
                backends.append(Backend("lanecast+symm", memory=SYMMETRIC))
        settings = replace(self.settings, backends=tuple(backends))
        return type(self)(self.ranks, settings, self.memory, self.engines, self.tuned)

    def contenders_of_a_size(self) -> int:
        """Called one by one, and from graphs where they can be."""
        backends = self.settings.backends
        chosen = sum(not backend.algorithm for backend in backends)  # each without a profile and by it
        return len(backends) + sum(backend.can_be_captured for backend in backends) + 2 * chosen

    def contenders(self, case: Case) -> list[Contender]:
        """With those of the tuned communicator, on the same buffers."""
        found = super().contenders(case)
        for each in [each for each in found if self.tuned is not None and not each.backend.algorithm]:
            assert self.tuned is not None
            call = lanecast_call(self.tuned, each.payload, "")
            backend = replace(each.backend, name=TUNED[each.backend.memory])
            found.append(replace(each, backend=backend, call=call, times=[]))
        return found


def fits_of(rows: Sequence[Row]) -> list[EngineFit]:
    """The lines of each engine in each collective and kind of type, from the fastest rounds; several where they bend.

    Kernels are taken as replayed from a CUDA graph: called by the host, small calls of all engines take what the host
    does. What is no single launch, copy engines and NCCL, is taken as it is called.
    """
    points: dict[tuple[str, str, bool], list[tuple[int, float]]] = {}
    for row in rows:
        if (row["mode"] == GRAPH) != (row["algorithm"] in _OF_KERNELS):
            continue
        points.setdefault((row["collective"], row["algorithm"], row["dtype"] == HALF), []).append(
            (row["bytes"], min(row["time_us_rounds"]) * 1e-6)
        )
    return [
        EngineFit(collective, engine, half, s.from_bytes, s.alpha_s, s.beta_s_per_byte, s.error)
        for (collective, engine, half), timed in points.items()
        for s in fit_bends([size for size, _ in sorted(timed)], [seconds for _, seconds in sorted(timed)], _BEND)
    ]


def _backend(engine: str) -> Backend:
    memory = _IN_MEMORY.get(engine, PLAIN)
    name = f"lanecast{'+symm' if memory == SYMMETRIC else ''}:{engine}"
    return Backend(name, engine, memory=memory)


def engines_of(ranks: GpuRanks) -> list[str]:
    """All there are; NCCL where it can be opened, as all ranks find alike."""
    found = [KERNEL, TWO_SHOT, CHAIN, COPY_ENGINE, DIRECT]
    try:
        first_call(ranks, ranks.comm, NCCL)
    except _core.UsageError as error:
        if ranks.rank == 0:
            print(f"left out: nccl: {error}", file=sys.stderr, flush=True)
        return found
    return [*found, NCCL]


def first_call(ranks: GpuRanks, comm: Communicator, algorithm: str) -> None:
    """The one that brings all ranks together."""
    import torch

    comm.all_reduce(torch.zeros(1, device=ranks.device.device), algorithm=algorithm)
    ranks.device.synchronize()
    comm.synchronize()


def _measure(bench: TuneBench, what: str) -> list[Row]:
    settings, rows = bench.settings, []
    benches = {collective: bench.of(collective) for collective in settings.collectives}
    rounds = sum(map(TuneBench.contenders_of_a_size, benches.values())) * len(settings.sizes) * settings.rounds
    with progress(what, rounds if bench.ranks.rank == 0 else 0) as advance:
        for collective, each in benches.items():
            for size in settings.sizes:
                rows += each.measure(collective, size, advance)
    wrong = [f"{row['backend']}: {row['collective']} of {row['bytes']} bytes" for row in rows if row["wrong"]]
    if wrong:
        raise _core.InternalError(f"wrong results: {'; '.join(wrong)}")
    return rows


def _shape_of(ranks: GpuRanks) -> GpuShape:
    """Raises UsageError where no profile could hold."""
    core = ranks.comm._core
    if ranks.size < 2:
        raise _core.UsageError("ranks: one has nobody to talk to; tune on two GPUs or more")
    if core.hosts > 1:
        raise _core.UsageError(f"device cuda: ways among the GPUs of one host are tuned, and these are {core.hosts}")
    if not core.kind_of_gpu:
        raise _core.UsageError("device cuda: the GPUs are of several kinds, and a profile holds for one")
    return GpuShape(lanecast.__version__, _core.cpu_model(), core.kind_of_gpu, ranks.size)


def _measured(ranks: GpuRanks) -> dict[str, str]:
    found: dict[str, Any] = machine.describe(ranks)
    software = {name: str(found[name]) for name in ("driver", "torch", "cuda", "nccl", "kernel")}
    return {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "dtype": f"float32, sums also {HALF}",
        **software,
        **found["environment"],
    }
