# SPDX-License-Identifier: Apache-2.0
"""Tuning from end to end: profiles that communicators choose by, files that are refused, crossovers where fits say."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lanecast
from lanecast import Communicator, UsageError, _core
from lanecast.startup import progress_thread
from lanecast.tune import finding, load, save
from lanecast.tune.fit import Curve, crossover, fit_curve
from lanecast.tune.measure import Effort, Stopwatch, call_for
from lanecast.tune.profile import AlgorithmFit, LevelLink, Profile, Shape, file_name
from lanecast.tune.shape import shape_of
from lanecast.tune.tuner import tune
from launch import mpich

TINY = Effort((1 << 10, 1 << 13, 1 << 16, 1 << 18), 2, 0.05)
FAST, SLOW = (2e-6, 1 / 2e9), (75e-6, 1 / 60e6)


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, timeout_s=60.0, **options)


def shape_here(topology: str, size: int) -> Shape:
    shape: Shape = on_threads(size, shape_of, topology=topology)[0]
    return shape


def profile_for(shape: Shape, fastest: str = "bruck") -> Profile:
    """One that makes a flat algorithm win everywhere."""
    fits = [
        AlgorithmFit(collective, name, -1, 4, 0, 1e-6, 1e-12 if name == fastest else 1e-6, 0.1)
        for collective in ("all_gather", "reduce_scatter", "all_reduce")
        for name in _core.algorithms_for(collective, _core.Topology(4))
        if name != "native"
    ]
    links = [LevelLink("rank", transport, 1.0, 1.0, 0.1) for transport in shape.transports]
    return Profile(shape, links, 1e-10, fits, [], {"when": "now"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.json"
    save(profile_for(shape_here("4", 4)), path)
    return path


def chosen(comm: Communicator) -> str:
    return comm.chosen("all_gather", 1 << 18)[0]


def test_what_is_saved_is_loaded(file: Path) -> None:
    assert load(file) == profile_for(shape_here("4", 4))
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # no draft is left


@pytest.mark.parametrize("fastest", ["ring", "bruck", "direct"])
def test_communicators_choose_by_their_profile(fastest: str, tmp_path: Path) -> None:
    save(profile_for(shape_here("4", 4), fastest), tmp_path / "p.json")
    assert on_threads(4, chosen, profile=tmp_path / "p.json") == [fastest] * 4


def test_the_environment_names_a_file_or_a_folder_or_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = on_threads(4, chosen, profile="none")
    monkeypatch.setenv(finding.VARIABLE, str(file))
    assert on_threads(4, chosen) == ["bruck"] * 4
    assert on_threads(4, chosen, profile="none") == default
    monkeypatch.setenv(finding.VARIABLE, str(file.parent))
    assert on_threads(4, chosen) == default  # none of this shape's name
    file.rename(file.with_name(file_name(shape_here("4", 4))))
    assert on_threads(4, chosen) == ["bruck"] * 4
    assert on_threads(3, lambda comm: comm.size) == [3] * 3


def test_the_users_cache_is_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(finding.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shape = shape_here("4", 4)
    path = tmp_path / "lanecast" / "profiles" / file_name(shape)
    save(profile_for(shape), path)
    assert on_threads(4, chosen) == ["bruck"] * 4
    path.write_text("{}")
    with pytest.warns(RuntimeWarning, match="left aside: profile .*lanecast_profile: missing"):
        on_threads(4, chosen)


def test_children_keep_what_was_measured(file: Path) -> None:
    def body(comm: Communicator) -> tuple[bool, str]:
        child = comm.split(0, -comm.rank)
        assert child is not None
        return child._core.models.measured, chosen(child)

    assert on_threads(4, body, profile=file) == [(True, "bruck")] * 4


def test_rank_0s_models_count_on_every_rank() -> None:
    """Other ranks may hold none, or others: files differ from host to host."""

    def body(comm: Communicator) -> tuple[str, int]:
        fastest = ("direct", "ring", "bruck")[comm.rank]
        fits = [
            ("all_gather", name, -1, 0, 0.0, 1e-12 if name == fastest else 1e-6) for name in ("direct", "ring", "bruck")
        ]
        comm._core.adopt(_core.Models([(1.0, 1.0)], fits=fits) if comm.rank < 2 else _core.Models(links=[]))
        return comm.chosen("all_gather", 1 << 18)

    assert on_threads(3, body) == [("direct", 1)] * 3


def test_what_rank_0_refuses_is_refused_by_all() -> None:
    def body(comm: Communicator) -> str:
        with pytest.raises(UsageError) as refused:
            comm._core.adopt(_core.Models(links=[]), "profile p.json: fits[0]: missing" if comm.rank == 0 else "")
        return str(refused.value)

    first, *others = on_threads(3, body)
    assert first == "profile p.json: fits[0]: missing"
    assert others == ["rank 0 refuses: " + first] * 2


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"lanecast_profile": 1', '"lanecast_profile": 0', "is stale: lanecast_profile: 0, this Lanecast reads 1"),
        ('"lanecast_profile": 1,', "", "lanecast_profile: missing"),
        ('"cores": ', '"cores": "', "is no JSON"),
        ('"topology": "4"', '"topology": 4', "shape.topology: 4 is no text"),
        ('"alpha_s": 1e-06', '"alpha_s": "fast"', r"fits\[0\].alpha_s: 'fast' is no number"),
        ('"alpha_s": 1e-06', '"alpha_s": NaN', r"fits\[0\].alpha_s: nan is no number"),
        ('"alpha_s": 1e-06', '"alpha_s": -1', r"fits\[0\].alpha_s: -1 is no number of at least 0"),
        ('"level": -1', '"level": 7', r"fits\[0\].level: 7, of 1 levels"),
        ('"collective": "all_gather"', '"collective": "all_scatter"', r"fits\[0\].collective: 'all_scatter'; known"),
        ('"reduce_s_per_byte": 1e-10,', "", "reduce_s_per_byte: missing"),
        ('"overlaps": []', '"overlaps": {}', "overlaps: {} is no list"),
        ('"overlaps": []', '"overlap": []', "overlap: unknown; known: shape, links"),
        ('"transports": [', '"transports": ["mpi",', "links: 1 levels, but shape.transports has 2"),
    ],
)
def test_wrong_files_are_refused_with_file_and_field(old: str, new: str, named: str, file: Path) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=f"p.json: .*{named}"):
        on_threads(4, chosen, profile=file)


def test_files_of_another_machine_or_shape_are_refused(file: Path) -> None:
    with pytest.raises(
        UsageError, match=r"p.json: was measured elsewhere \(topology: 4, not 2x2.*lanecast tune --quick"
    ):
        on_threads(4, chosen, profile=file, topology="2x2")
    file.write_text(file.read_text().replace('"cpu": "', '"cpu": "Old '))
    with pytest.raises(UsageError, match=r"\(cpu: Old "):
        on_threads(4, chosen, profile=file)
    with pytest.raises(UsageError, match=r"nowhere.json: No such file"):
        on_threads(4, chosen, profile="/nowhere.json")


@pytest.mark.parametrize(("topology", "size"), [("3", 3), ("2x2", 4), ("2+1", 3)])
def test_tuning_measures_everything_that_can_be_chosen(topology: str, size: int) -> None:
    def body(comm: Communicator) -> tuple[Profile, list[Any], str]:
        profile = tune(comm, TINY)
        comm._core.adopt(profile.models())
        explained = [comm.explain(kind, 1 << 14) for kind in ("all_gather", "reduce_scatter", "all_reduce")]
        return profile, explained, str(explained[0])

    results = on_threads(size, body, topology=topology)
    assert all(result[1] == results[0][1] for result in results)  # the same candidates and times on every rank
    profile, explained, text = results[0]
    assert len(profile.links) == (1 if topology == "3" else 2)
    for each in explained:
        assert all(candidate.measured for candidate in each.candidates), each
        assert (each.algorithm, each.chunks) == (each.candidates[0].algorithm, each.candidates[0].chunks)
    assert "the shortest prediction" in text
    assert "measured on this machine" in text


def test_explanations_without_a_profile_and_with_a_pinned_algorithm() -> None:
    text, pinned = on_threads(
        2, lambda comm: (str(comm.explain("all_reduce", 1 << 20)), comm.explain("all_gather", 100))
    )[0]
    assert "from assumed links; `lanecast tune --quick` measures" in text
    assert pinned.full_bytes == 800
    pinned = on_threads(2, lambda comm: comm.explain("all_gather", 100), algorithm="ring", chunks=3)[0]
    assert (pinned.algorithm, pinned.chunks) == ("ring", 3)
    assert "set by the caller or the environment" in pinned.reason


def on_slow_links(size: int, links: list[tuple[float, float]], link_of: Callable[[int, int], int],
                  function: Callable[[Communicator], Any], topology: str) -> list[Any]:  # fmt: skip
    """Threads whose messages take links of known speed: link_of(rank, peer) says which."""
    world, progress, results = _core.make_world(size), progress_thread(), [None] * size

    def main(rank: int) -> None:
        core = _core.Communicator.from_slow_threads(
            world, rank, progress, {"timeout_s": 60.0, "topology": topology}, links,
            [link_of(rank, peer) for peer in range(size)],
        )  # fmt: skip
        results[rank] = function(Communicator(core))

    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def times_of(comm: Communicator, names: list[str], sizes: list[int]) -> dict[str, list[float]]:
    watch = Stopwatch(comm, Effort((), 4, 1.0))
    found: dict[str, list[float]] = {name: [] for name in names}
    for size in sizes:
        for name, t in zip(names, watch.fastest([call_for(comm, "all_gather", size, n) for n in names]), strict=True):
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
    assert predicted.low_bytes / 1.5 < true < predicted.high_bytes * 1.5
    below, above = ({name: checked[name][k] for name in names} for k in range(2))
    assert below["recursive_doubling"] < below["ring"]
    assert above["ring"] < above["recursive_doubling"]
    assert between[0] < predicted.at_bytes < between[1]


def test_slow_nics_are_tuned_to_a_hierarchy_in_chunks() -> None:
    """2 x 4 ranks with a slow NIC each: the choice has to be about as fast as the best of many that are tried."""
    domain = [0] * 4 + [1] * 4
    size = 4 << 20
    tried = [(f"hierarchical({a},direct)", n) for a in ("ring", "bruck") for n in (1, 4, 8)] + [("ring", 1)]

    def body(comm: Communicator) -> tuple[tuple[str, int], list[float]]:
        effort = Effort((1 << 14, 1 << 18, 1 << 22), 2, 0.15)
        comm._core.adopt(tune(comm, effort, ["all_gather"]).models())
        chosen = comm.chosen("all_gather", size // 4 // comm.size)
        calls = [call_for(comm, "all_gather", size, *case) for case in [chosen, *tried]]
        return chosen, Stopwatch(comm, Effort((), 3, 1.0)).fastest(calls)

    (algorithm, _), times = on_slow_links(
        8, [FAST, SLOW], lambda rank, peer: int(domain[rank] != domain[peer]), body, "2x4"
    )[0]
    assert algorithm.startswith("hierarchical(")
    assert times[0] < 1.6 * min(times)
    assert times[0] < times[-1]


CROSSING = """
import json, lanecast
from lanecast.tune.measure import Effort, Stopwatch, call_for
comm = lanecast.init()
watch = Stopwatch(comm, Effort((), 7, 1.0))
sizes = [1 << k for k in range(12, 23)]
times = [watch.fastest([call_for(comm, "all_reduce", s, n) for n in ("folding", "bruck")]) for s in sizes]
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


def test_tuning_by_command_line_writes_what_show_prints(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    command = [sys.executable, "-m", "lanecast", "tune"]
    shown = mpich(2, [*command, "--quick", "--collectives", "all_reduce", "--output", str(path)])
    assert "calls take" in shown
    assert load(path).shape.transports == ["shm"]
    code = "import lanecast; c = lanecast.init(); print(c.explain('all_reduce', 1 << 20).reason)"
    assert "measured on this machine" in mpich(2, [sys.executable, "-c", code], LANECAST_PROFILE=str(path))
