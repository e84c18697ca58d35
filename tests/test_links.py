# SPDX-License-Identifier: Apache-2.0
"""Links between hosts: how they are timed, who has them timed, and what calls choose by them."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lanecast
from file_formats import PROFILE
from lanecast import Communicator, _core
from lanecast.startup import progress_thread
from launch import mpich
from ranks import Rank, in_threads

STEP = 1.25  # what is measured is rounded to its powers
MIB = 1 << 20
COUNTS = (1, 2, 4, 8, 16, 32, 64)
SIZES = tuple(1 << k for k in range(13, 31, 2))
INSIDE = (1e-6, 1 / 5e9)


@dataclass
class Network:
    """Two ranks on a link of known speed, in time of its own. burst: bytes that a shaper lets through at once."""

    alpha_s: float
    rate: float  # bytes a second
    gap_s: float = 0.0
    burst: float = 0.0
    disturbed: Callable[[int], float] = lambda _: 0.0  # seconds more of the n-th volley

    now_s: float = 0.0
    tokens: float = 0.0
    volleys: int = 0

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def volley(self, messages: int, size: int) -> None:
        size *= messages
        self.tokens -= size
        seconds = 2 * self.alpha_s + messages * self.gap_s + size / (50 * self.rate if self.burst else self.rate)
        if self.tokens < 0 and self.burst:  # what is more than the bucket holds waits for tokens
            seconds = max(seconds, -self.tokens / self.rate)
        self.volleys += 1
        seconds += self.disturbed(self.volleys)
        self.now_s += seconds
        self.tokens = min(self.burst, self.tokens + seconds * self.rate)

    def timed(self, budget_s: float = 0.3) -> tuple[float, float, float]:
        return _core.time_link(lambda: self.now_s, self.volley, budget_s)


def near(value: float) -> Any:
    """Within the rounding, and a hair."""
    return pytest.approx(value, rel=math.sqrt(STEP) * 1.01 - 1)


@pytest.mark.parametrize(
    ("alpha_s", "rate", "gap_s"),
    [(12e-6, 50e9, 1e-6), (12e-6, 12.5e9, 3e-6), (30e-6, 1.25e9, 3e-6), (200e-6, 60e6, 100e-6), (2e-3, 5e6, 1e-3)],
)
def test_a_link_comes_out_as_it_is(alpha_s: float, rate: float, gap_s: float) -> None:
    network = Network(alpha_s, rate, gap_s)
    alpha, beta, gap = network.timed()
    assert (alpha, gap) == (near(alpha_s), near(gap_s))
    assert 1 / beta == pytest.approx(rate, rel=STEP * 1.05 - 1)


def test_values_are_steps_so_that_noise_flips_no_choice() -> None:
    found = {Network(12e-6 * (1 + off), 50e9 * (1 + off), 1e-6).timed() for off in (-0.02, -0.01, 0, 0.01, 0.02)}
    assert len(found) == 1
    assert all(math.log(value, STEP) == pytest.approx(round(math.log(value, STEP))) for value in found.pop())


@pytest.mark.parametrize("burst", [64 << 10, 1 * MIB, 6 * MIB])
@pytest.mark.parametrize("rate", [60e6, 1.25e9])
def test_a_burst_does_not_count(burst: int, rate: float) -> None:
    """A token bucket lets its burst through at any speed; what calls see is what comes behind it."""
    _, beta, _ = Network(30e-6, rate, 3e-6, burst).timed()
    assert 1 / beta == pytest.approx(rate, rel=STEP**2 - 1)


def test_what_disturbs_most_messages_does_not_count() -> None:
    """Of several the fastest: a busy machine only ever makes them slower."""
    network = Network(12e-6, 12.5e9, 2e-6, disturbed=lambda n: 0.0 if n % 3 == 0 else 2e-3)
    alpha, beta, gap = network.timed()
    assert (alpha, gap) == (near(12e-6), near(2e-6))
    assert 1 / beta == pytest.approx(12.5e9, rel=STEP * 1.05 - 1)


@pytest.mark.parametrize(("rate", "longest_s"), [(50e9, 0.03), (1.25e9, 0.1), (60e6, 0.35), (1e6, 3.5)])
def test_timing_takes_little_time(rate: float, longest_s: float) -> None:
    """Tens of milliseconds, and on links that want seconds for a message no more than a few messages."""
    network = Network(20e-6, rate, 2e-6)
    network.timed()
    assert network.now_s < longest_s


def on_hosts(hosts: str, main: Callable[[Rank], Any]) -> list[Any]:
    return in_threads(len(hosts), main)


@pytest.mark.parametrize("hosts", ["ab", "aab", "aabb", "abab", "abc", "aabbc", "aabbccdd", "abcdefg"])
def test_all_ranks_find_the_same_whatever_their_clocks_say(hosts: str) -> None:
    """Clocks that begin anywhere and run at speeds of their own, beside links that are as they are."""

    def main(rank: Rank) -> Any:
        speed, begin = 1 + rank.rank / 3, -1e6 * rank.rank
        assert rank.world is not None
        return _core.time_links(rank.world, rank.rank, list(hosts), lambda: begin + speed * time.monotonic())

    first, *others = on_hosts(hosts, main)
    assert all(found == first for found in others)
    several_each = len(hosts) > len(set(hosts))
    assert [link is not None for link in first] == [True, False] if several_each else [True]
    assert all(value > 0 for value in first[0])


def test_one_host_has_nothing_to_time() -> None:
    def now() -> float:
        raise AssertionError

    def main(rank: Rank) -> Any:
        assert rank.world is not None
        return _core.time_links(rank.world, rank.rank, ["a"] * 3, now)

    assert on_hosts("aaa", main) == [[None]] * 3


def made(rank: Rank, hosts: str, **options: Any) -> Communicator:
    """A communicator of threads that take themselves for ranks of these hosts, before it has looked for a profile."""
    assert rank.world is not None
    core = _core.Communicator.from_slow_threads(
        rank.world, rank.rank, progress_thread(), {"timeout_s": 60.0, **options},
        _core.Slowness([], [], None, list(hosts)),
    )  # fmt: skip
    return Communicator(core)


def settled(rank: Rank, hosts: str, profile: str = "none", **options: Any) -> Communicator:
    comm = made(rank, hosts, **options)
    _core.adopt_profile(comm._core, profile.encode(), False)
    return comm


def test_a_communicator_between_hosts_times_them_and_says_so() -> None:
    def main(rank: Rank) -> Any:
        comm = settled(rank, "aabb")
        models = comm._core.models
        reason = comm.explain("all_reduce", 1 << 20).reason
        comm.barrier()
        return models.packed, models.sources, models.timing, reason

    (packed, sources, timing, reason), *others = on_hosts("aabb", main)
    assert all(other[0] == packed for other in others)
    assert sources == ["timed", "assumed"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC in \d+ ms", timing)
    assert f"timed {timing}; level 0 timed: " in reason
    assert re.search(r"level 0 timed: [\d.]+ us, [\d.e+]+ GB/s, [\d.]+ us a further message\)$", reason)


def test_a_split_inherits_what_was_timed() -> None:
    def main(rank: Rank) -> Any:
        comm = settled(rank, "aabb")
        across, within = comm.split(rank.rank % 2), comm.split(rank.rank // 2)
        assert across is not None
        assert within is not None
        found = [each._core.models for each in (comm, across, within)]
        comm.barrier()
        return [(models.timing, models.sources, models.links) for models in found]

    for whole, across, within in on_hosts("aabb", main):
        assert whole[0] == across[0] != within[0] == ""
        assert across[1][0] == "timed"
        assert across[2][0] == whole[2][0]
        assert within[1] == ["assumed"]


@pytest.mark.parametrize(
    ("hosts", "options", "sources"),
    [
        ("aaaa", {}, ["assumed"]),
        ("aabb", {"links": "assume"}, ["assumed", "assumed"]),
        ("aabb", {"links": "12us,50GBps"}, ["given", "assumed"]),
    ],
)
def test_what_is_not_timed(hosts: str, options: dict[str, str], sources: list[str]) -> None:
    def main(rank: Rank) -> Any:
        models = settled(rank, hosts, **options)._core.models
        return models.sources, models.timing, models.links[0]

    for found, timing, link in on_hosts(hosts, main):
        assert (found, timing) == (sources, "")
        if "given" in sources:
            assert link == pytest.approx((12e-6, 1 / 50e9))


CHOICES = """
import lanecast
comm = lanecast.init(transports="mpi,shm", topology="2x2")
if comm.rank == 0:
    kinds = ("all_to_all", "all_gather", "reduce", "scatter", "gather")
    print(*(comm.chosen(kind, 1 << 20)[0] for kind in kinds), comm.chosen("scatter", 1 << 10)[0])
"""


def test_a_library_within_a_host_is_no_network() -> None:
    """Between nodes that one host plays messages are copies: an all-to-all need not cross less by moving twice."""
    assert mpich(4, [sys.executable, "-c", CHOICES]).split() == [
        "pairwise",
        "hierarchical(ring,ring)",
        "hierarchical(binomial,binomial)",
        "direct",  # receivers copy their own parts, beside each other
        "hierarchical(binomial,binomial)",
        "hierarchical(binomial,binomial)",  # what is too short to be read
    ]


FROM_ONE = """
import lanecast
comm = lanecast.init(transports="mpi,shm", topology="2x4")
if comm.rank == 0:
    print(*(comm.chosen(kind, 1 << 20)[0] for kind in ("broadcast", "scatter")))
"""


def test_seven_ranks_do_not_copy_all_from_one_at_the_speed_of_three() -> None:
    broadcast, scatter = mpich(8, [sys.executable, "-c", FROM_ONE]).split()
    assert broadcast != "direct"
    assert scatter == "direct"


def test_a_profile_stops_the_timing(tmp_path: Path) -> None:
    """Its links are taken as they are, on all ranks."""
    file = tmp_path / "profile.json"

    def main(rank: Rank) -> Any:
        comm = made(rank, "aabb")
        comm._core.adopt(_core.read_profile(file.read_bytes(), is_model=False))
        models = comm._core.models
        return models.sources, models.timing, models.links

    file.write_text(PROFILE)
    for sources, timing, links in on_hosts("aabb", main):
        assert (sources, timing) == (["from a profile"] * 2, "")
        assert links == [(2e-6, 1e-10), (5e-7, 1e-10)]


def test_links_are_equal_on_all_ranks() -> None:
    def main(rank: Rank) -> Any:
        with pytest.raises(lanecast.UsageError, match="rank 0 has links '', rank 1 links 'assume'"):
            made(rank, "ab", **({"links": "assume"} if rank.rank else {}))

    on_hosts("ab", main)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", ("measure", 0, 0)),
        ("measure", ("measure", 0, 0)),
        ("assume", ("assume", 0, 0)),
        ("12us,50GBps", ("given", 12e-6, 1 / 50e9)),
        ("0.03ms,10gbit", ("given", 30e-6, 1 / 1.25e9)),
    ],
)
def test_what_may_be_said_of_links(text: str, policy: tuple[str, float, float]) -> None:
    way, alpha_s, beta = _core.link_policy(text)
    assert way == policy[0]
    assert (alpha_s, beta) == pytest.approx(policy[1:])


@pytest.mark.parametrize(
    "text", ["off", "12us", "50GBps", "50GBps,12us", "12,50", "-1us,1GBps", "nanus,1GBps", "1us,0GBps", "1us,infGBps"]
)
def test_nonsense_is_refused_by_its_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lanecast.UsageError, match="is neither measure nor assume, nor a latency"):
        _core.link_policy(text)
    monkeypatch.setenv("LANECAST_LINKS", text)
    with pytest.raises(lanecast.UsageError, match=f"LANECAST_LINKS: links: '{text}' is neither"):
        lanecast.init()


def models(rate: float, alpha_s: float = 12e-6) -> _core.Models:
    overlaps = [(kind, 1.0, 0.1, 1.0) for kind in _core.KINDS]
    return _core.Models([(alpha_s, 1 / rate), INSIDE], overlaps=overlaps)


@pytest.mark.parametrize("directly", [True, False])
@pytest.mark.parametrize(
    ("collective", "shape", "algorithm"),
    [
        *((kind, "2x2", "hierarchical(ring,peers)") for kind in ("all_gather", "reduce_scatter", "all_reduce")),
        ("all_gather", "4x2", "hierarchical(direct,peers)"),
        ("all_reduce", "4x4", "hierarchical(recursive_doubling,peers)"),
        ("broadcast", "2x2", "hierarchical(binomial,peers)"),
        ("all_reduce", "2x1", "ring"),
        ("all_gather", "2x1", "ring"),
    ],
)
@pytest.mark.parametrize("rate", [1.25e9, 12.5e9, 50e9])
def test_no_number_of_chunks_would_be_much_better(
    rate: float, collective: str, shape: str, algorithm: str, directly: bool
) -> None:
    """On GPUs a call is at most 1.3 times as long as with any number."""
    nodes, each = map(int, shape.split("x"))
    topology, known = _core.Topology.parse(shape, nodes * each), models(rate)
    # No chunk has less than 1 MiB, since what one costs was measured above; a broadcast's messages are longest.
    least = 4 * MIB if collective == "broadcast" else 0
    for size in (size for size in SIZES if size >= least):
        chosen = _core.best_chunks(collective, size, topology, known, algorithm, True, directly)
        times = {
            chunks: _core.predict(collective, size, topology, known, algorithm, chunks, True, directly)
            for chunks in {*COUNTS, chosen}
        }
        assert times[chosen] <= 1.3 * min(times.values())


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_fast_networks_want_few_chunks_and_slow_ones_many(collective: str) -> None:
    topology = _core.Topology.parse("2x2", 4)

    def chunks(rate: float, mib: int, directly: bool) -> int:
        name = "hierarchical(ring,peers)"
        return _core.best_chunks(collective, mib * MIB, topology, models(rate), name, True, directly)

    for mib in (16, 64, 256):
        assert chunks(50e9, mib, True) <= chunks(1.25e9, mib, False)
    assert chunks(1.25e9, 6, False) <= chunks(1.25e9, 64, False) <= chunks(1.25e9, 256, False)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_a_short_call_gains_nothing_by_chunks(collective: str) -> None:
    topology = _core.Topology.parse("2x2", 4)
    times = [
        _core.predict(collective, 1 << 12, topology, models(50e9), "hierarchical(ring,peers)", chunks, True, True)
        for chunks in (1, 4, 16)
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("rate", [60e6, 1.25e9, 12.5e9])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_on_cpus_the_same_holds(collective: str, rate: float) -> None:
    topology, known = _core.Topology.parse("4x2", 8), models(rate, 30e-6)
    for size in SIZES:
        best = _core.candidates(collective, size, topology, known)[0]
        times = [
            _core.predict(collective, size, topology, known, best["algorithm"], chunks)
            for chunks in {*COUNTS, best["chunks"]}
            if best["algorithm"].startswith("hierarchical")
        ]
        assert all(best["seconds"] <= 1.3 * seconds for seconds in times)


@pytest.mark.parametrize(("collective", "times"), [("all_gather", 1), ("all_to_all", 1), ("all_reduce", 2)])
def test_messages_that_leave_together_wait_for_one_latency(collective: str, times: int) -> None:
    """Each further one costs the gap, which passes while the bytes of those before it do."""
    ranks, alpha_s, gap_s = 33, 20e-6, 2e-6
    topology = _core.Topology(ranks)
    link = _core.Models([(alpha_s, 1 / 10e9)], reduce_s_per_byte=0)
    known = link.with_gap(gap_s)
    name = "pairwise" if collective == "all_to_all" else "direct"

    def seconds(models: _core.Models, size: int) -> float:
        return _core.predict(collective, size, topology, models, name, 1)

    assert seconds(known, 1 << 10) == pytest.approx(times * (alpha_s + 31 * gap_s), rel=0.01)
    sent_s = times * (1 << 30) / 10e9 * 32 / 33
    assert seconds(known, 1 << 30) == pytest.approx(times * alpha_s + sent_s, rel=1e-9)
    assert seconds(link, 1 << 30) > seconds(known, 1 << 30)  # where no gap is known, each costs a share of the latency


@pytest.mark.parametrize(
    ("text", "ranks", "parts"), [("4x8", 32, (24, 7)), ("4x4x2", 32, (24, 6, 1)), ("3x1", 3, (2,))]
)
def test_what_a_pairwise_exchange_sends_within_hosts_takes_no_nic(
    text: str, ranks: int, parts: tuple[int, ...]
) -> None:
    """parts: of a rank's blocks, those that take each level's links."""
    rates_Bps = [10e9, 25e9, 100e9][: len(_core.Topology.parse(text, ranks).levels) + 1]
    known = _core.Models([(0, 1 / rate) for rate in rates_Bps], reduce_s_per_byte=0)
    block = 1 << 20
    expected_s = sum(part * block / rate for part, rate in zip(parts, rates_Bps, strict=False))
    taken_s = _core.predict("all_to_all", ranks * block, _core.Topology.parse(text, ranks), known, "pairwise", 1)
    assert taken_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("algorithm", ["recursive_doubling", "direct"])
def test_one_or_two_ranks_have_nothing_to_send_together(ranks: int, algorithm: str) -> None:
    known = _core.Models([(20e-6, 1 / 10e9)])

    def seconds(models: _core.Models) -> float:
        return _core.predict("all_gather", 1 << 20, _core.Topology(ranks), models, algorithm, 1)

    assert seconds(known.with_gap(2e-6)) == seconds(known)
