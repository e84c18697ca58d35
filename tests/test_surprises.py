# SPDX-License-Identifier: Apache-2.0
"""Choices slower than predicted: found after eight calls in a row, said once, kept, and looked at first."""

from __future__ import annotations

import gc
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import Communicator, _core
from lanecast.cli import app
from lanecast.learn import measuring
from lanecast.learn.database import Database
from lanecast.learn.measuring import Grid
from lanecast.profiles import save, surprises
from lanecast.profiles.model import save as save_model
from lanecast.profiles.profile import AlgorithmFit, LevelLink, Profile, Shape
from lanecast.profiles.shape import shape_of
from lanecast.profiles.surprises import Surprise, Surprises
from lanecast.tune.measure import surprises_of
from learned_models import constant, model

MS = 1_000_000  # ns
NO_TIME, AGES = 1e-15, 1e3  # seconds: what no call and every call keeps to


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lanecast" / "surprises"


def shape_here(size: int = 2) -> Shape:
    shape: Shape = lanecast.run_threads(size, lambda comm: shape_of(comm._core), profile="none")[0]
    return shape


def profile_file(folder: Path, alpha_s: float) -> Path:
    """Predicts a round of everything to take so long, whatever the bytes."""
    fits = [
        AlgorithmFit(collective, name, -1, 2, 0, alpha_s, 0.0, 0.1)
        for collective in ("all_gather", "all_reduce")
        for name in _core.algorithms_for(collective, _core.Topology(2))
        if not _core.has_library(name)
    ]
    shape = shape_here()
    links = [LevelLink("rank", shape.transports[0], alpha_s, 0.0, 0.1)]
    path = folder / "p.json"
    save(Profile(shape, links, 0.0, fits, []), path)
    return path


def calls(number: int, sizes: tuple[int, ...] = (1000,), **how: Any) -> Any:
    def body(comm: Communicator) -> list[dict[str, Any]]:
        for size in sizes:
            for _ in range(number):
                comm.all_reduce(np.ones(size, np.float32), **how)
        found: list[dict[str, Any]] = comm._core.surprises.found()
        return found

    return body


def found_by(profile: Any, body: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[dict[str, Any]] = lanecast.run_threads(2, body, profile=profile)[0]
        gc.collect()
    return found


def test_eight_slow_calls_in_a_row_are_a_surprise_and_their_fastest_is_told() -> None:
    slow = [20 * MS, 16 * MS, 18 * MS, 40 * MS] * 2
    (found,) = _core.judge_calls(0.01, slow)
    assert found["predicted_s"] == pytest.approx(0.01)
    assert found["measured_s"] == pytest.approx(0.016)
    assert _core.judge_calls(0.01, slow[1:]) == []
    assert len(_core.judge_calls(0.01, slow * 3)) == 1  # once


@pytest.mark.parametrize("took", [[15 * MS] * 100, ([100 * MS] * 7 + [9 * MS]) * 5, [-1] * 20])
def test_what_is_up_to_half_slower_or_slow_now_and_then_is_none(took: list[int]) -> None:
    assert _core.judge_calls(0.01, took) == []


def test_predictions_of_any_size_are_taken() -> None:
    assert len(_core.judge_calls(0.0, [2] * 8)) == 1
    assert _core.judge_calls(1e300, [10**18] * 8) != []  # clamped to eleven days


def test_a_profile_that_predicts_no_time_surprises_once_for_each_size_class(tmp_path: Path) -> None:
    path = profile_file(tmp_path, NO_TIME)
    found = found_by(path, calls(20, (1000, 1010, 4000)))
    assert [each["bytes"] for each in found] == [4000, 16000]
    assert all(each["collective"] == "all_reduce" and each["measured_s"] > each["predicted_s"] for each in found)


def test_started_and_persistent_calls_count_too(tmp_path: Path) -> None:
    def body(comm: Communicator) -> list[dict[str, Any]]:
        data = np.ones(100, np.float32)
        for _ in range(8):
            work = comm.all_reduce(data, async_op=True)
            assert work is not None
            work.wait()
        persistent = comm.persistent("all_gather_into_tensor", np.ones(200, np.float32), np.ones(100, np.float32))
        for _ in range(8):
            persistent.run()
        found: list[dict[str, Any]] = comm._core.surprises.found()
        return found

    assert [each["collective"] for each in found_by(profile_file(tmp_path, NO_TIME), body)] == [
        "all_reduce", "all_gather",
    ]  # fmt: skip


@pytest.mark.parametrize("how", [{"algorithm": "ring"}, {"chunks": 2}])
def test_what_the_user_has_named_is_no_choice(tmp_path: Path, how: dict[str, Any]) -> None:
    assert found_by(profile_file(tmp_path, NO_TIME), calls(20, **how)) == []


def test_what_was_learned_says_how_long_calls_take(tmp_path: Path) -> None:
    """Of a choice by a model alone, whose times are those of the calls that it was trained on."""
    path = tmp_path / "m.json"
    for seconds, expected in ((NO_TIME, [4000]), (AGES, []), (None, [])):
        known = constant("all_reduce", ["folding", "ring"], fastest=1)
        if seconds is not None:
            known = replace(known, times=[[[2, size, seconds] for size in (1024, 1 << 20)]] * 2)
        save_model(model(known), path)
        assert [each["bytes"] for each in found_by(path, calls(20))] == expected
        why = lanecast.run_threads(2, lambda comm: comm.explain("all_reduce", 1000), profile=path)[0]
        assert ("by which this takes" in why.reason) == (seconds is not None)


def test_without_a_profile_nothing_is_predicted() -> None:
    assert found_by("none", calls(20)) == []


def test_a_profile_that_is_right_surprises_nobody(tmp_path: Path, cache: Path) -> None:
    assert found_by(profile_file(tmp_path, AGES), calls(20)) == []
    assert not cache.exists()


def test_barriers_wait_for_late_ranks_and_count_for_nothing(tmp_path: Path) -> None:
    def body(comm: Communicator) -> list[dict[str, Any]]:
        for _ in range(20):
            comm.barrier()
        found: list[dict[str, Any]] = comm._core.surprises.found()
        return found

    assert found_by(profile_file(tmp_path, NO_TIME), body) == []


def test_rank_0_says_it_once_and_keeps_it(tmp_path: Path, cache: Path) -> None:
    path = profile_file(tmp_path, NO_TIME)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lanecast.run_threads(2, calls(20), profile=path)
        gc.collect()
    (one,) = [str(each.message) for each in said if each.category is RuntimeWarning]
    assert "all_reduce of 4000 bytes by" in one
    assert "were predicted" in one
    assert "lanecast tune" in one
    (file,) = cache.iterdir()
    (kept,) = surprises.load(file).found
    assert kept.bytes == 4000
    assert surprises.known(shape_here()) == [kept]
    found_by(path, calls(20, (1010, 9000)))  # the same class is replaced
    assert [each.bytes for each in surprises.known(shape_here())] == [4040, 36000]


def test_children_are_watched_as_well(tmp_path: Path, cache: Path) -> None:
    def body(comm: Communicator) -> None:
        child = comm.split(0)
        assert child is not None
        calls(8)(child)

    found_by(profile_file(tmp_path, NO_TIME), body)
    assert len(list(cache.iterdir())) == 1


def keep(size: int = 6000) -> None:
    found = [Surprise("all_gather", size, "ring", 2, 1e-5, 1e-4), Surprise("broadcast", 64, "chain", 1, 1e-6, 1e-3)]
    surprises._keep(shape_here(), found)


def test_all_ranks_learn_what_rank_0_keeps() -> None:
    keep()
    expected = [("all_gather", 6000), ("broadcast", 64)]
    assert lanecast.run_threads(2, surprises_of, profile="none") == [expected] * 2
    surprises.forget(shape_here(), [("all_gather", 5000)])  # of the same class
    assert lanecast.run_threads(2, surprises_of, profile="none") == [expected[1:]] * 2
    surprises.forget(shape_here(), [("broadcast", 64)])
    assert not list(surprises.folder().iterdir())


def test_learning_measures_them_first_and_again(tmp_path: Path) -> None:
    file = tmp_path / "times.sqlite"
    grid = Grid(["all_reduce"], [64], 1, 1.0, mpi=False)
    said: list[str] = []

    def body(comm: Communicator) -> int:
        say = said.append if comm.rank == 0 else lambda _: None
        measuring.measure(comm, grid, file, {})
        return measuring.measure(comm, replace(grid, first=[("all_gather", 800), ("all_reduce", 64)]), file, {}, say)

    assert lanecast.run_threads(2, body, profile="none") == [2, 2]
    assert [line.partition(" on")[0] for line in said] == ["all_gather of 800 B", "all_reduce of 64 B"]
    with Database(file) as opened:
        assert {one.collective for one in opened.read(opened.scopes()[0])} == {"all_gather", "all_reduce"}


def test_info_shows_them_and_what_is_damaged(cache: Path) -> None:
    assert "no choice was much slower" in CliRunner().invoke(app, ["info"]).output
    keep()
    (cache / "other.json").write_text('{"lanecast_surprises": 1}')
    output = CliRunner().invoke(app, ["info"]).output
    assert "2 ranks: all_gather of 6000 bytes by ring in 2 chunks takes 100 us where 10 us were predicted" in output
    assert "shape: missing" in output


def test_a_damaged_file_is_left_aside(cache: Path) -> None:
    keep()
    (file,) = cache.iterdir()
    content = json.loads(file.read_text())
    content["found"][0]["collective"] = "nonsense"
    file.write_text(json.dumps(content))
    assert surprises.known(shape_here()) == []
    with pytest.raises(lanecast.UsageError, match=r"found\[0\].collective: 'nonsense'"):
        surprises.load(file)


def test_only_so_many_are_kept() -> None:
    many = [Surprise("all_reduce", k, "ring", 1, 1e-6, 1e-3) for k in range(1, 200)]
    surprises._keep(shape_here(), many)
    assert surprises.known(shape_here()) == many[-64:]
    assert Surprises(shape_here(), many).found == many
