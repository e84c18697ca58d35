# SPDX-License-Identifier: Apache-2.0
"""What fits predict and what is then measured: on links of known speed, and between processes of this machine."""

from __future__ import annotations

import json
import sys

import pytest

from lanecast import Communicator, _core
from lanecast.tune.fit import Curve, crossover, fit_curve
from lanecast.tune.measure import Effort, Stopwatch, calls_for
from lanecast.tune.tuner import tune
from launch import mpich
from slow_links import on_slow_links

FAST, SLOW = (2e-6, 1 / 2e9), (75e-6, 1 / 60e6)


def times_of(comm: Communicator, names: list[str], sizes: list[int]) -> dict[str, list[float]]:
    watch = Stopwatch(comm, Effort((), 1, 1.0))
    found: dict[str, list[float]] = {name: [] for name in names}
    for size in sizes:
        calls = calls_for(comm, "all_gather", size, [(name, 1) for name in names])
        for name, t in zip(names, watch.fastest(calls), strict=True):
            found[name].append(t)
    return found


def test_measured_crossover_lies_where_the_fits_predict_it() -> None:
    """Ring and recursive doubling on links that get slower with distance, as tapered global links do (PCCL, Fig. 6)."""
    near, far = (8e-3, 1 / 200e6), (8e-3, 1 / 50e6)
    names, fitted, between = ["ring", "recursive_doubling"], [1 << 14, 1 << 18, 3 << 20, 6 << 20], [1 << 18, 4 << 20]
    found, checked = on_slow_links(
        4, [near, far], lambda rank, peer: int(abs(rank - peer) == 2),
        lambda comm: (times_of(comm, names, fitted), times_of(comm, names, between)), "4",
    )[0]  # fmt: skip
    curves: dict[str, Curve] = {}
    for name in names:
        rounds, volume = _core.cost("all_gather", name, 4)
        curves[name] = fit_curve(fitted, found[name], rounds, volume)
    predicted = crossover(curves["ring"], curves["recursive_doubling"], 1 << 10, 1 << 28)
    assert predicted is not None
    true = 2 * near[0] / (far[1] - near[1])  # 3 alpha + 3/4 m beta = 2 alpha + 1/4 m beta + 1/2 m beta'
    assert predicted.low_bytes < true < predicted.high_bytes
    below, above = ({name: checked[name][k] for name in names} for k in range(2))
    assert below["recursive_doubling"] < below["ring"]
    assert above["ring"] < above["recursive_doubling"]
    assert between[0] < predicted.at_bytes < between[1]


@pytest.mark.timeout(1200)  # hundreds of calls of four threads, which take turns on a crowded machine
def test_slow_nics_are_tuned_to_a_hierarchy_in_chunks() -> None:
    """2 x 2 ranks with a slow NIC each: the choice has to be about as fast as the best of many that are tried."""
    domain = [0] * 2 + [1] * 2
    size = 4 << 20
    tried = [(f"hierarchical({a},direct)", n) for a in ("ring", "bruck") for n in (1, 4)] + [("ring", 1)]

    def body(comm: Communicator) -> tuple[tuple[str, int], list[float]]:
        effort = Effort((1 << 14, 1 << 22), 1, 0.15)
        comm._core.adopt(tune(comm, effort, ["all_gather"]).models())
        chosen = comm.chosen("all_gather", size // 4 // comm.size)
        calls = calls_for(comm, "all_gather", size, [chosen, *tried])
        return chosen, Stopwatch(comm, Effort((), 1, 1.0)).fastest(calls)

    (algorithm, _), times = on_slow_links(
        4, [FAST, SLOW], lambda rank, peer: int(domain[rank] != domain[peer]), body, "2x2"
    )[0]
    assert algorithm.startswith("hierarchical(")
    assert times[0] < 1.1 * min(times)
    assert times[0] < times[-1] / 2


CROSSING = """
import json, lanecast
from lanecast.tune.measure import Effort, Stopwatch, calls_for
comm = lanecast.init()
watch = Stopwatch(comm, Effort((), 7, 1.0))
sizes = [1 << k for k in range(12, 23)]
times = [watch.fastest(calls_for(comm, "all_reduce", s, [("folding", 1), ("bruck", 1)])) for s in sizes]
if comm.rank == 0:
    print(json.dumps([sizes, times]))
"""


def crossing_here() -> tuple[list[int], tuple[float, float]] | None:
    """Where folding and bruck cross: between two measured sizes, and by fits of others; None if it was too noisy."""
    sizes, times = json.loads(mpich(4, [sys.executable, "-c", CROSSING]))
    odd = [folding < bruck for folding, bruck in times[1::2]]
    flips = [k for k in range(1, len(odd)) if odd[k] != odd[k - 1]]
    curves = []
    for k, name in enumerate(("folding", "bruck")):
        rounds, volume = _core.cost("all_reduce", name, 4)
        curves.append(fit_curve(sizes[::2], [t[k] for t in times[::2]], rounds, volume))
    predicted = crossover(curves[0], curves[1], sizes[0], sizes[-1])
    if len(flips) != 1 or predicted is None:
        return None
    return sizes[1::2][flips[0] - 1 : flips[0] + 1], (predicted.low_bytes, predicted.high_bytes)


@pytest.mark.long  # which is measured on a quiet machine, or not at all
def test_crossover_on_this_machine() -> None:
    """Few rounds against few bytes, between processes: measured on every other size, predicted from the rest."""
    seen = []
    for _ in range(3):  # other programs run as well
        found = crossing_here()
        if found is None:
            continue
        (below, above), (low, high) = found
        seen.append(found)
        if low / 2 <= above and below <= high * 2:
            return
    if not seen:
        pytest.skip("this machine is too busy to tell the algorithms apart")
    pytest.fail(f"measured between, predicted band: {seen}")
