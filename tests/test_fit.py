# SPDX-License-Identifier: Apache-2.0
"""Fits of synthetic times: what was put in comes out, noise moves it little, and crossovers lie in their bands."""

from __future__ import annotations

import numpy as np
import pytest

from lanecast import Topology, UsageError, _core
from lanecast.tune.fit import Curve, crossover, fit_curve, fit_line, fit_overlap

SIZES = [1 << k for k in range(12, 25, 2)]


def times(alpha_s: float, beta: float, rounds: float, volume: float) -> list[float]:
    return [rounds * alpha_s + volume * m * beta for m in SIZES]


def noisy(seconds: list[float], noise: float, seed: int) -> list[float]:
    factors = np.random.default_rng(seed).uniform(1 - noise, 1 + noise, len(seconds))
    return [t * f for t, f in zip(seconds, factors, strict=True)]


@pytest.mark.parametrize("rounds", [1, 3, 31])
@pytest.mark.parametrize("alpha_s", [0, 1e-6, 5e-5])
@pytest.mark.parametrize("beta", [1e-10, 1e-8])
def test_exact_times_give_their_parameters(rounds: int, alpha_s: float, beta: float) -> None:
    fit = fit_line(SIZES, times(alpha_s, beta, rounds, 0.75), rounds, 0.75)
    assert fit.alpha_s == pytest.approx(alpha_s, rel=1e-6, abs=1e-12)
    assert fit.beta_s_per_byte == pytest.approx(beta, rel=1e-6)
    assert fit.error < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_the_parameters_by_about_as_much(seed: int) -> None:
    fit = fit_line(SIZES, noisy(times(2e-5, 1e-9, 3, 0.75), 0.2, seed), 3, 0.75)
    assert fit.alpha_s == pytest.approx(2e-5, rel=0.3)
    assert fit.beta_s_per_byte == pytest.approx(1e-9, rel=0.3)
    assert 0.01 < fit.error < 0.2


@pytest.mark.parametrize("seconds", [[1e-3, 9e-4, 8e-4], [1e-6, 1e-4, 1e-2]])
def test_no_parameter_is_negative(seconds: list[float]) -> None:
    """Falling times, or times that grow faster than the bytes, must not predict less than nothing elsewhere."""
    fit = fit_line([1000, 2000, 4000], seconds)
    assert fit.alpha_s >= 0
    assert fit.beta_s_per_byte >= 0


def test_the_end_of_a_cache_makes_two_segments() -> None:
    sizes = [1 << k for k in range(12, 28)]
    bend = 1 << 20
    seconds = [1e-5 + 1e-10 * m if m <= bend else 1e-5 + 5e-10 * m for m in sizes]
    curve = fit_curve(sizes, seconds, 1, 1)
    assert len(curve.segments) == 2
    assert bend < curve.segments[1].from_bytes < 2 * bend
    assert all(curve.seconds(m) == pytest.approx(t, rel=0.02) for m, t in zip(sizes, seconds, strict=True))


def test_a_straight_line_stays_one_segment() -> None:
    assert len(fit_curve(SIZES, noisy(times(1e-5, 1e-9, 1, 1), 0.08, 1), 1, 1).segments) == 1


def ring_and_recursive(ranks: int, beta_ring: float, beta_rec: float) -> tuple[Curve, Curve]:
    volume = (ranks - 1) / ranks
    ring = fit_curve(SIZES, times(2e-5, beta_ring, ranks - 1, volume), ranks - 1, volume)
    rec = fit_curve(SIZES, times(2e-5, beta_rec, np.log2(ranks), volume), np.log2(ranks), volume)
    return ring, rec


def test_ring_and_recursive_cross_only_with_a_beta_of_their_own() -> None:
    """PCCL, section IV-C: alpha (p - 1) + beta m (p - 1) / p against alpha log2 p + beta m (p - 1) / p."""
    assert crossover(*ring_and_recursive(8, 1e-9, 1e-9), 1e3, 1e9) is None
    found = crossover(*ring_and_recursive(8, 1e-9, 1.5e-9), 1e3, 1e9)
    assert found is not None
    expected = 2e-5 * (7 - 3) / (0.5e-9 * 7 / 8)
    assert found.at_bytes == pytest.approx(expected, rel=0.02)
    assert found.low_bytes <= found.at_bytes <= found.high_bytes < 1.1 * expected


@pytest.mark.parametrize("seed", range(5))
def test_true_crossover_lies_in_the_band_of_noisy_fits(seed: int) -> None:
    ring = fit_curve(SIZES, noisy(times(2e-5, 1e-9, 7, 0.875), 0.15, seed), 7, 0.875)
    rec = fit_curve(SIZES, noisy(times(2e-5, 1.5e-9, 3, 0.875), 0.15, seed + 100), 3, 0.875)
    found = crossover(ring, rec, 1e3, 1e9)
    assert found is not None
    assert found.low_bytes <= 2e-5 * 4 / (0.5e-9 * 7 / 8) <= found.high_bytes


def test_overlap_comes_out_as_it_went_in() -> None:
    def predict(chunks: int, size: int, hidden: float, latency: float) -> float:
        levels = [1e-4 * (1 + latency * (chunks - 1)) + 1e-8 * size, 1e-5 * (1 + latency * (chunks - 1)) + 5e-9 * size]
        return sum(levels) - hidden * (sum(levels) - max(levels)) * (chunks - 1) / chunks

    cases = [(c, m) for c in (1, 2, 4, 8, 16) for m in (1 << 18, 1 << 22)]
    fit = fit_overlap(
        [lambda h, a, c=c, m=m: predict(c, m, h, a) for c, m in cases],  # type: ignore[misc]
        [1.25 * predict(c, m, 0.7, 0.4) for c, m in cases],
    )
    assert (fit.hidden, fit.latency, fit.scale) == pytest.approx((0.7, 0.4, 1.25))
    assert fit.error < 1e-9


NODES = Topology.parse("2x4", 8)
LINKS = [(75e-6, 1 / 60e6), (2e-6, 1 / 5e9)]


def test_slow_nics_make_a_hierarchy_in_chunks_that_overlap() -> None:
    models = _core.Models(LINKS)
    for collective in ("all_gather", "reduce_scatter", "all_reduce"):
        best = _core.candidates(collective, 16 << 20, NODES, models)[0]
        assert best["algorithm"].startswith("hierarchical(")
        one = _core.predict(collective, 16 << 20, NODES, models, best["algorithm"], 1)
        assert best["chunks"] > 1
        assert best["seconds"] < one
        slowest = _core.predict(collective, 16 << 20, NODES, _core.Models([LINKS[0], (0, 0)]), best["algorithm"], 1)
        assert best["seconds"] < slowest + 0.35 * (one - slowest)  # most of the inner level is hidden


def test_only_what_overlaps_is_cut() -> None:
    models = _core.Models(LINKS)
    assert _core.candidates("all_reduce", 4096, NODES, models)[0]["chunks"] == 1
    flat = {c["algorithm"]: c["chunks"] for c in _core.candidates("all_reduce", 16 << 20, NODES, models)
            if "(" not in c["algorithm"]}  # fmt: skip
    assert flat.pop("double_tree") > 1  # a pipeline, whose chunks follow each other through the rounds
    assert set(flat.values()) == {1}


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_what_passes_through_the_hosts_memory_is_cut(collective: str) -> None:
    """On GPUs of two hosts, chunks are copied while others cross the network; in the hosts' memory there is nothing."""
    hosts, models = Topology.parse("2x1", 2), _core.Models([(20e-6, 1e-9), LINKS[1]])

    def chunks(mib: int, on_gpus: bool) -> int:
        best = _core.candidates(collective, mib << 20, hosts, models, on_gpus)[0]
        assert "(" not in best["algorithm"]  # hierarchies do the same here
        return int(best["chunks"])

    assert [chunks(mib, on_gpus=False) for mib in (1, 16, 256)] == [1, 1, 1]
    assert chunks(1, on_gpus=True) <= 2
    assert 1 < chunks(8, on_gpus=True) <= chunks(16, on_gpus=True) <= chunks(64, on_gpus=True)


def _between_hosts(collective: str) -> _core.Models:
    return _core.Models([(20e-6, 1e-9), LINKS[1]], overlaps=[(collective, 1.0, 0.1, 1.0)])


@pytest.mark.parametrize(
    ("collective", "across"),
    [
        *((kind, "ring") for kind in ("all_gather", "reduce_scatter", "all_reduce")),
        *((kind, "binomial") for kind in ("broadcast", "reduce")),
        ("all_to_all", "pairwise"),
    ],
)
def test_chunks_let_the_levels_of_gpus_overlap(collective: str, across: str) -> None:
    """Where plans have stages: longer calls have more of them, and short ones none."""
    hosts, models = Topology.parse("2x2", 4), _between_hosts(collective)

    def chunks(mib: int) -> int:
        return _core.best_chunks(collective, mib << 20, hosts, models, f"hierarchical({across},peers)", on_gpus=True)

    numbers = [chunks(mib) for mib in (1, 4, 16, 64, 256)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1 < numbers[-1]


def test_levels_of_gpus_that_do_not_overlap_are_not_cut() -> None:
    """A hierarchy of three levels has no stages: its chunks would follow each other."""
    hosts, models = Topology.parse("2x2x2", 8), _core.Models([(20e-6, 1e-9)] * 2 + [LINKS[1]])
    assert _core.best_chunks("all_gather", 256 << 20, hosts, models, "hierarchical(ring,ring,peers)", on_gpus=True) == 1


@pytest.mark.parametrize("on_gpus", [False, True])
def test_a_rank_alone_has_nothing_to_cut(on_gpus: bool) -> None:
    """A hierarchy of one rank has no level at all."""
    alone, models = Topology.parse("1x1", 1), _between_hosts("all_reduce")
    assert _core.best_chunks("all_reduce", 64 << 20, alone, models, "hierarchical(ring,peers)", on_gpus) == 1


def test_fits_decide_where_links_alone_would_not() -> None:
    topology = Topology(4)
    guessed = _core.candidates("all_reduce", 1 << 20, topology, _core.Models([(1e-6, 2e-10)]))
    assert not any(c["measured"] for c in guessed)
    fits = [("all_reduce", "ring", -1, 0, 1e-6, 1e-9), ("all_reduce", "bruck", -1, 0, 1e-6, 0.5e-9)]
    best, second, *_ = _core.candidates("all_reduce", 1 << 20, topology, _core.Models([(1, 1)], fits=fits))
    assert (best["algorithm"], second["algorithm"]) == ("bruck", "ring")
    assert best["measured"]
    assert best["seconds"] == pytest.approx(2 * 2 * 1e-6 + 2 * 0.75 * (1 << 20) * 0.5e-9)


def test_the_fit_of_the_size_counts() -> None:
    fits = [("all_gather", "ring", -1, 0, 0.0, 1e-9), ("all_gather", "ring", -1, 1 << 20, 0.0, 9e-9)]
    models = _core.Models([(1, 1)], fits=fits)
    small, large = (_core.predict("all_gather", m, Topology(2), models, "ring", 1) for m in ((1 << 20) - 1, 1 << 20))
    assert large == pytest.approx(9 * small, rel=1e-3)


@pytest.mark.parametrize(
    ("ranks", "links", "measured"),
    [
        ([0, 1, 2, 3], [LINKS[1]], "direct"),  # a node: what was measured inside nodes
        ([1, 5], [LINKS[0], LINKS[1]], "ring"),  # a lane: what was measured across
        ([0, 1, 4, 5], [LINKS[0], LINKS[1]], "bruck"),  # half of every node: what was measured among all
    ],
)
def test_subgroups_keep_what_was_measured_for_them(
    ranks: list[int], links: list[tuple[float, float]], measured: str
) -> None:
    fits = [
        ("all_gather", "ring", 0, 0, 1e-6, 1e-9),
        ("all_gather", "direct", 1, 0, 1e-6, 1e-9),
        ("all_gather", "bruck", -1, 0, 1e-6, 1e-9),
    ]
    child = _core.Models(LINKS, fits=fits).subset(NODES, ranks)
    assert child.links == links
    flat = [c["algorithm"] for c in _core.candidates("all_gather", 1 << 20, NODES.subset(ranks), child)
            if c["measured"] and "(" not in c["algorithm"]]  # fmt: skip
    assert flat == [measured]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: _core.candidates("all_gather", 1, NODES, _core.Models([(1, 1)])), "models: .* 1 levels, topology 2x4"),
        (lambda: _core.predict("all_gather", 1, NODES, _core.Models(LINKS), "foo", 1), "algorithm 'foo'"),
        (lambda: _core.cost("all_gather", "folding", 4), "algorithm 'folding'"),
        (lambda: _core.Models(LINKS, fits=[("all_scatter", "ring", 0, 0, 1, 1)]), "collective 'all_scatter'"),
    ],
)
def test_wrong_models_are_refused(call: object, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        call()  # type: ignore[operator]
