# SPDX-License-Identifier: Apache-2.0
"""Tuning from end to end: profiles that communicators choose by, files that are refused, explanations."""

from __future__ import annotations

import os
import pwd
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lanecast
from lanecast import Communicator, UsageError, _core, cache
from lanecast.profiles import finding, load, save
from lanecast.profiles.profile import AlgorithmFit, LevelLink, Profile, Shape, file_name
from lanecast.profiles.shape import shape_of
from lanecast.tune.gain import Gain, gains
from lanecast.tune.measure import QUICK, Effort
from lanecast.tune.tuner import tune
from launch import mpich

TINY = Effort((1 << 10, 1 << 13, 1 << 16, 1 << 18), 2, 60.0)  # no call is too slow on a machine that is busy


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, timeout_s=60.0, **options)


def shape_here(topology: str, size: int) -> Shape:
    shape: Shape = on_threads(size, lambda comm: shape_of(comm._core), topology=topology)[0]
    return shape


def profile_for(shape: Shape, fastest: str = "bruck") -> Profile:
    """One that makes a flat algorithm win everywhere."""
    fits = [
        AlgorithmFit(collective, name, -1, 4, 0, 1e-6, 1e-12 if name == fastest else 1e-6, 0.1)
        for collective in ("all_gather", "reduce_scatter", "all_reduce")
        for name in _core.algorithms_for(collective, _core.Topology(4))
        if not _core.has_library(name)
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


def test_files_of_an_older_format_in_a_folder_are_no_concern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """They would be told of for ever, beside the one that has taken their place."""
    monkeypatch.delenv(finding.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder, shape = tmp_path / "lanecast" / "profiles", shape_here("4", 4)
    save(profile_for(shape), folder / file_name(shape))
    (folder / re.sub(r"[0-9a-f]{8}(?=\.json)", "01234567", file_name(shape))).write_text('{"lanecast_profile": 0}')
    assert on_threads(4, chosen) == ["bruck"] * 4
    assert not recwarn.list


def test_the_home_that_only_the_system_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache.folder("profiles") == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache/lanecast/profiles"
    monkeypatch.setattr(_core, "user_cache", lambda _: None)
    with pytest.raises(UsageError, match=r"no home folder.*XDG_CACHE_HOME"):
        cache.folder("profiles")


@pytest.mark.parametrize(("name", "shown"), [("a\0b", r"a\\u0000b"), ("\udcff.json", "\N{REPLACEMENT CHARACTER}.json")])
def test_names_that_no_text_can_hold(name: str, shown: str) -> None:
    with pytest.raises(UsageError, match=f"profile {shown}: No such file"):
        on_threads(2, chosen, profile=name)


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
        ('"alpha_s": 1e-06', '"alpha_s": "fast"', r"fits\[0\].alpha_s: \"fast\" is no number"),
        ('"alpha_s": 1e-06', '"alpha_s": NaN', "is no JSON: .*at line"),
        ('"alpha_s": 1e-06', '"alpha_s": -1', r"fits\[0\].alpha_s: -1 is no number of at least 0"),
        ('"level": -1', '"level": 7', r"fits\[0\].level: 7, of 1 levels"),
        ('"collective": "all_gather"', '"collective": "all_scatter"', r"fits\[0\].collective: \"all_scatter\"; known"),
        ('"reduce_s_per_byte": 1e-10,', "", "reduce_s_per_byte: missing"),
        ('"overlaps": []', '"overlaps": {}', "overlaps: {} is no list"),
        ('"overlaps": []', '"overlap": []', "overlap: unknown; known: .*shape, links"),
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
        explained = [comm.explain(kind, 1 << 14) for kind in _core.KINDS]
        return profile, explained, str(explained[0])

    results = on_threads(size, body, topology=topology)
    assert all(result[1] == results[0][1] for result in results)  # the same candidates and times on every rank
    profile, explained, text = results[0]
    assert len(profile.links) == (1 if topology == "3" else 2)
    for each in explained:
        # Inside a node a broadcast's stripes are gathered, for which the links stand.
        by_links = each.collective in {"broadcast", "reduce"}
        assert all(c.measured or (by_links and "(" in c.algorithm) for c in each.candidates), each
        assert (each.algorithm, each.chunks) == (each.candidates[0].algorithm, each.candidates[0].chunks)
    assert "the shortest prediction" in text
    assert "measured on this machine" in text


def test_time_is_kept_where_calls_are_slow() -> None:
    """Eight ranks share whatever cores there are; all sizes and rounds would take a minute on two."""
    effort = replace(QUICK, seconds=0.5)
    kinds = ["all_gather", "all_reduce", "broadcast"]

    def body(comm: Communicator) -> tuple[Profile, list[Gain], list[str], float]:
        begin = time.process_time()  # of all ranks; the clock's would be others' as well
        told: list[str] = []
        profile = tune(comm, effort, kinds, told.append)
        found = gains(comm, profile, effort, kinds)
        return profile, found, told, time.process_time() - begin

    results = on_threads(8, body, topology="2x4")
    profile, found, told, took_s = results[0]
    assert took_s < 30  # some 4, and 120 without a limit
    assert all(replace(one, measured={}) == replace(profile, measured={}) for one, *_ in results)
    assert all(gain == found for _, gain, *_ in results)
    assert {fit.collective for fit in profile.fits} == set(kinds)
    assert {gain.collective for gain in found} == set(kinds)
    assert {gain.size for gain in found} <= set(effort.sizes)  # fewer where calls are slower than they should be
    assert told[0] == "links (1 of 12)"
    assert told[-1].endswith("in chunks (12 of 12)")


def test_a_gain_compares_the_choices_with_the_best() -> None:
    def body(comm: Communicator) -> list[Gain]:
        profile = profile_for(shape_of(comm._core), "bruck")
        return gains(comm, profile, TINY, ["all_gather", "scatter"])

    results = on_threads(4, body)
    assert results == [results[0]] * 4
    assert [(gain.collective, gain.size) for gain in results[0]] == [
        (collective, size) for collective in ("all_gather", "scatter") for size in TINY.sizes
    ]
    for gain in results[0]:
        assert gain.collective != "all_gather" or gain.tuned.algorithm == "bruck"
        assert gain.best.seconds <= min(gain.default.seconds, gain.tuned.seconds)
        assert 0 < gain.of_best <= 1


def test_explanations_without_a_profile_and_with_a_pinned_algorithm() -> None:
    text, pinned = on_threads(
        2, lambda comm: (str(comm.explain("all_reduce", 1 << 20)), comm.explain("all_gather", 100))
    )[0]
    assert "from assumed links; `lanecast tune --quick` measures" in text
    assert pinned.full_bytes == 800
    pinned = on_threads(2, lambda comm: comm.explain("all_gather", 100), algorithm="ring", chunks=3)[0]
    assert (pinned.algorithm, pinned.chunks) == ("ring", 3)
    assert "set by the caller, the environment or a file" in pinned.reason


def test_tuning_by_command_line_writes_what_show_prints(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    command = [sys.executable, "-m", "lanecast", "tune"]
    shown = mpich(2, [*command, "--quick", "--collectives", "all_reduce", "--gain", "--output", str(path)])
    assert "calls take" in shown
    assert "geometric mean" in shown
    assert load(path).shape.transports == ["shm"]
    code = "import lanecast; c = lanecast.init(); print(c.explain('all_reduce', 1 << 20).reason)"
    assert "measured on this machine" in mpich(2, [sys.executable, "-c", code], LANECAST_PROFILE=str(path))


def test_busy_cores_of_one_host_have_nothing_to_overlap_with() -> None:
    def hierarchical_chunks(comm: Communicator) -> set[int]:
        return {c.chunks for c in comm.explain("all_reduce", 1 << 22).candidates if "(" in c.algorithm}

    usable = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(usable)})  # threads inherit it
        assert on_threads(4, hierarchical_chunks, topology="2x2") == [{1}] * 4
    finally:
        os.sched_setaffinity(0, usable)
