# SPDX-License-Identifier: Apache-2.0
"""Learning from times of whole calls: the database, training, and what the core makes of a trained machine."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from typer.testing import CliRunner

from lanecast import Topology, UsageError, _core, machines, run_threads
from lanecast.cli import app
from lanecast.learn import judging, measuring, simulating, training
from lanecast.learn.cases import Case, cases_of
from lanecast.learn.contenders import class_of, contenders
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.learn.measuring import Grid
from lanecast.learn.samples import samples_of
from lanecast.learn.scopes import one_of
from lanecast.profiles import model as models
from lanecast.profiles.scope import scope_of
from lanecast.profiles.shape import shape_of
from lanecast.scale import build
from learned_models import FLAT, cases, fitted

NAMES = ("ring", "bruck", "direct", "recursive_doubling", "folding")
CONFIGURATION = Configuration("all_gather", 4, 1 << 20)
TIMED = [Timed("ring", 1, 2e-3, (1e-3, 3e-3, 2e-3)), Timed("mpi", 1, None, (5e-3,))]


def trained_and_reference(classes: int) -> tuple[_core.Svm, SVC, list[str]]:
    """What the core evaluates, and scikit-learn's own pipeline of the same parameters on the same cases."""
    known = fitted(NAMES[:classes])
    kept = [case for case in cases(NAMES[:classes]) if case not in known.held_out]
    reference = make_pipeline(StandardScaler(), SVC()).set_params(
        **{f"svc__{name}": value for name, value in known.parameters.items()}
    )
    samples = samples_of(kept)
    reference.fit(samples.features, samples.names, svc__sample_weight=samples.weights)
    return known.trained.learned().svm, reference, known.trained.algorithms


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_core_predicts_what_scikit_learn_predicts(classes: int) -> None:
    svm, reference, names = trained_and_reference(classes)
    random = np.random.default_rng(7)
    points = np.column_stack(
        [random.uniform(0, 40, 10_000), random.uniform(0, 14, 10_000), random.integers(0, 2, 10_000)]
    )
    grid = np.array(
        [(size, ranks, p) for size in np.arange(0, 40, 0.5) for ranks in np.arange(0, 14, 0.5) for p in (0, 1)]
    )
    for some in (points, grid):
        assert [names[svm.vote(tuple(point))] for point in some] == reference.predict(some).tolist()


def test_a_vote_is_among_the_classes_that_are_allowed() -> None:
    svm, reference, names = trained_and_reference(5)
    reference.set_params(svc__decision_function_shape="ovo")
    points = np.random.default_rng(8).uniform((8, 0, 0), (28, 5, 1), (300, 3))
    duels = reference.decision_function(points)
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    for point, of_pairs in zip(points, duels, strict=True):
        for (a, b), value in zip(pairs, of_pairs, strict=True):
            allowed = [k in {a, b} for k in range(5)]
            assert svm.vote(tuple(point), allowed) == (a if value > 0 else b)
        assert svm.vote(tuple(point), [False] * 5) == -1
    assert len(names) == 5


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"support": []}, "classes: none"),
        ({"support": [1, -1]}, "a class has -1 vectors"),
        ({"support": [1, 2]}, "vectors: 2 numbers, expected 3"),
        ({"weights": [1.0]}, "weights: 1 numbers, expected 2"),
        ({"intercepts": []}, "intercepts: 0 numbers, expected 1"),
        ({"gamma": float("nan")}, "gamma: holds what is no finite number"),
        ({"vectors": [(0.0, 0.0, 0.0), (0.0, 0.0, float("inf"))]}, "vectors: holds what is no finite number"),
        ({"standard": ((0.0, 0.0, 0.0), (1.0, 1.0, 0.0))}, "scale: must be more than 0"),
    ],
)
def test_a_machine_that_does_not_fit_together_is_refused(wrong: dict[str, Any], reason: str) -> None:
    good: dict[str, Any] = {"standard": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), "gamma": 1.0, "support": [1, 1],
            "vectors": [(0.0, 0.0, 1.0), (1.0, 1.0, 1.0)], "weights": [1.0, -1.0], "intercepts": [0.0]}  # fmt: skip
    _core.Svm(**good)
    with pytest.raises(UsageError, match=reason):
        _core.Svm(**{**good, **wrong})


@pytest.mark.parametrize("machine", sorted(models.shipped()))
def test_what_comes_with_lanecast_is_asked_with_little_work(machine: str) -> None:
    """Counted, since time is the processor's: an exponential of each vector, and a duel of any two classes."""
    for each in models.load(models.shipped()[machine]).collectives:
        assert len(each.vectors) <= 256
        assert len(each.support) <= 5


def test_what_calls_took_is_known_between_those_that_were_timed() -> None:
    calls = [(2, 1024, 1e-3), (2, 4096, 4e-3), (8, 1024, 2e-3), (8, 4096, 32e-3)]
    trained = fitted(("ring",)).trained
    known = replace(trained, times=[[list(call) for call in calls]]).learned()
    for ranks, size, seconds in calls:
        assert known.timed_s(0, size, ranks) == pytest.approx(seconds)
    assert known.timed_s(0, 2048, 2) == pytest.approx(2e-3)
    assert known.timed_s(0, 4096, 4) == pytest.approx((4e-3 * 32e-3) ** 0.5)
    assert [known.timed_s(0, size, ranks) for size, ranks in ((512, 2), (8192, 2), (1024, 1), (1024, 9))] == [0] * 4
    with pytest.raises(UsageError, match="times: not by ranks and bytes"):
        replace(trained, times=[[[8, 1024, 1e-3], [2, 1024, 1e-3]]]).learned()
    some = cases(NAMES[:2])
    times = training.with_times(fitted(NAMES[:2]).trained, some).learned()
    for case in some:
        at = times.algorithms.index("ring")
        assert times.timed_s(at, case.bytes, case.ranks) == pytest.approx(case.seconds["ring"])


def test_training_holds_a_fifth_of_each_class_out() -> None:
    some, known = cases(NAMES[:3]), fitted(NAMES[:3])
    assert len(known.held_out) == pytest.approx(len(some) / 5, abs=1)
    for name in NAMES[:3]:
        mine = [case for case in some if case.best == name]
        assert len([case for case in mine if case in known.held_out]) == pytest.approx(len(mine) / 5, abs=1)


def test_what_is_learned_is_judged_by_the_time_that_it_loses() -> None:
    some, known = cases(NAMES[:3]), fitted(NAMES[:3])
    rows = {(row.cases, row.chooser): row for row in judging.judge(known, some)}
    learned = rows[judging.HELD_OUT, judging.LEARNED]
    assert learned.accuracy >= 0.85
    assert learned.mean_regret < 0.02
    always = rows[judging.HELD_OUT, "always ring"]
    assert always.correct == sum(case.best == "ring" for case in known.held_out)
    assert always.mean_regret > 5 * learned.mean_regret
    assert always.mean_between_rounds is None  # of times taken once
    unseen = rows[judging.UNSEEN_RANKS, judging.LEARNED]
    assert unseen.size == len(some) * 4 // 6  # all but the ends
    assert unseen.mean_regret < 0.05


def test_times_that_do_not_repeat_show_what_nobody_can_choose_better() -> None:
    """Half of the cases have another fastest in every second round, which loses a half there; the others repeat.

    What was timed once, since it is far behind, counts for nothing.
    """
    steady: dict[str, tuple[float, ...]] = {"ring": (1.0,) * 5, "bruck": (3.0,) * 5, "direct": (3.0,) * 5}
    changing: dict[str, tuple[float, ...]] = {"ring": (1.0, 1.5) * 2, "bruck": (1.5, 1.0) * 2, "direct": (3.0,)}
    some = [replace(case, rounds=(steady, changing)[k % 2]) for k, case in enumerate(cases(NAMES[:3]))]
    again = next(row for row in judging.judge(fitted(NAMES[:3]), some) if row.cases == judging.AGAIN)
    assert (again.chooser, again.size, again.accuracy) == (judging.MEASURED, 2 * len(some), 0.5)
    assert again.mean_regret == pytest.approx(0.25)
    assert again.worst_regret == pytest.approx(0.5)
    assert again.mean_between_rounds == 0


def test_the_best_of_noisy_times_is_named_by_other_rounds_than_judge_it() -> None:
    """Three that are equal, as noise of a tenth shows them: no choice loses anything, but each seems to."""
    random = np.random.default_rng(5)
    noisy, steady = [], []
    for case in cases(NAMES[:3]):
        rounds = {name: tuple((1 + 0.1 * random.random(10)).tolist()) for name in NAMES[:3]}
        noisy.append(replace(case, rounds=rounds, seconds={name: float(np.median(r)) for name, r in rounds.items()}))
        rounds = {name: (seconds,) * 10 for name, seconds in case.seconds.items()}
        steady.append(replace(case, rounds=rounds))
    rows = {(row.cases, row.chooser): row for row in judging.judge(fitted(NAMES[:3]), noisy)}
    turned = rows[judging.IN_TURN, judging.COST_MODEL]  # takes the same one everywhere
    assert turned.mean_regret > 0.01
    assert turned.mean_between_rounds is not None
    assert abs(turned.mean_between_rounds) < turned.mean_regret / 3
    for case in steady:
        assert case.lost_between_rounds("ring") == pytest.approx(case.lost("ring"))


def test_one_class_needs_no_border() -> None:
    known = fitted(("ring",))
    assert known.trained.algorithms == ["ring"]
    assert known.trained.learned().svm.vote((20.0, 2.0, 1.0)) == 0


def test_equals_are_no_border_and_what_is_at_stake_weighs() -> None:
    """Two that are equal share a case, of three those that are so most often; who wins nowhere is no class."""
    seconds = [{"ring": 1.0, "direct": 1.005, "bruck": 1.2, "mpi": 1.1}, {"direct": 1.0, "ring": 9.0}, {"ring": 1.0},
               {"folding": 1.0, "direct": 1.0, "ring": 1.001, "mpi": 1.3}]  # fmt: skip
    samples = samples_of([Case(4, 4, 1 << k, each, {}) for k, each in enumerate(seconds, 10)])
    assert [features[0] for features in samples.features] == [10, 10, 11, 12, 13, 13]
    assert samples.names == ["direct", "ring", "direct", "ring", "direct", "ring"]
    mean = (0.1 + 1.0 + 0.02 + 0.3) / 6
    assert samples.weights == pytest.approx([w / mean for w in (0.05, 0.05, 1.0, 0.02, 0.15, 0.15)])


def test_what_others_do_is_no_class() -> None:
    (case,) = cases_of("all_gather", FLAT, {CONFIGURATION: [*TIMED, Timed("ring-per-nic", 1, None, (1e-4,))]})
    assert (case.best, case.beside) == ("ring", {"ring-per-nic": 1e-4})
    assert set(case.rounds) == set(case.seconds) == {"ring", "mpi"}


def test_too_few_cases_are_refused() -> None:
    with pytest.raises(UsageError, match="all_gather: 19 configurations, too few to learn from"):
        training.train("all_gather", cases(NAMES)[:19])


def test_repetitions_are_one_case_and_their_median_counts() -> None:
    (case,) = cases_of("all_gather", FLAT, {CONFIGURATION: TIMED, Configuration("reduce", 4, 8): TIMED})
    rounds = {"ring": (1e-3, 3e-3, 2e-3), "mpi": (5e-3,)}
    assert case == Case(4, 4, 1 << 20, {"ring": 2e-3, "mpi": 5e-3}, {"ring": 2e-3}, rounds)
    assert case.lost("mpi") == pytest.approx(1.5)


@pytest.mark.parametrize(("topology", "size"), [("4", 4), ("6", 6), ("2x4", 8), ("3x2x2", 12)])
@pytest.mark.parametrize("collective", _core.KINDS)
def test_contenders_are_valid_and_of_one_class_each(collective: str, topology: str, size: int) -> None:
    shape = Topology.parse(topology, size)
    names = contenders(collective, shape, mpi=True)
    assert set(names) <= set(_core.algorithms_for(collective, shape))
    assert len({class_of(collective, name) for name in names}) == len(names)
    assert "mpi" in names
    assert "mpi" not in contenders(collective, shape, mpi=False)
    assert ("x" in topology) == any(name.startswith("hierarchical(") for name in names)


def test_what_is_added_is_read(tmp_path: Path) -> None:
    with Database(tmp_path / "folder" / "t.sqlite", create=True) as database:
        database.add(database.add_run(FLAT, {"commit": "c"}), CONFIGURATION, TIMED)
    with Database(tmp_path / "folder" / "t.sqlite") as database:
        assert database.scopes() == [FLAT]
        assert database.software(FLAT) == [{"commit": "c"}]
        assert {k: sorted(v, key=str) for k, v in database.read(FLAT).items()} == {
            CONFIGURATION: sorted(TIMED, key=str)
        }
        database.add(database.add_run(FLAT, {}), CONFIGURATION, [Timed("ring", 2, None, (9.0,))])
        later = {timed.algorithm: timed for timed in database.read(FLAT)[CONFIGURATION]}
        assert later["ring"] == Timed("ring", 2, None, (9.0,))
        assert later["mpi"] == TIMED[1]


def test_times_of_other_code_are_left_aside(tmp_path: Path) -> None:
    old, new = replace(FLAT, digest="before"), replace(FLAT, digest="now")
    with Database(tmp_path / "t.sqlite", create=True) as database:
        for scope in (FLAT, old, new):
            database.add(database.add_run(scope, {"of": scope.digest}), CONFIGURATION, TIMED)
        assert one_of(database.scopes(), "", "", database.path) == new
        assert database.software(new) == [{"of": "now"}]
        with pytest.raises(UsageError, match="has several that fit"):
            one_of([*database.scopes(), replace(new, node="4")], "", "", database.path)


def test_what_is_simulated_hangs_on_the_core_and_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    frontier = machines.load("frontier")
    scopes = [simulating.scope_of_machine("frontier", frontier, "simulated")]
    slower = replace(frontier, network=replace(frontier.network, taper=0.25))
    scopes.append(simulating.scope_of_machine("frontier", slower, "simulated"))
    scopes.append(simulating.scope_of_machine("frontier", frontier, "simulated", with_software=True))
    monkeypatch.setattr(build, "core_digest", lambda: "another")
    scopes.append(simulating.scope_of_machine("frontier", frontier, "simulated"))
    assert len(set(scopes)) == 4
    assert len({replace(scope, digest="") for scope in scopes}) == 1


def test_backends_that_are_asked_for_later_are_added(tmp_path: Path) -> None:
    words = ["learn", "simulate", str(tmp_path / "t.sqlite"), "--machine", "perlmutter", "--closed-forms"]
    words += ["--ranks", "8", "--sizes", "1M", "--collectives", "all_gather", "--backends"]
    for backends in ("flat,ring-across", "flat,direct-across", "flat,ring-across"):
        assert CliRunner().invoke(app, [*words, backends]).exit_code == 0
    (names,) = times_in(tmp_path / "t.sqlite").values()
    assert names == ["hierarchical(direct,direct)", "hierarchical(ring,direct)", "ring"]
    assert "backend 'nccl' is unknown" in str(CliRunner().invoke(app, [*words, "nccl"]).exception)


def broken(path: Path, statement: str) -> Callable[[], object]:
    with Database(path, create=True) as database:
        database.add(database.add_run(FLAT, {}), CONFIGURATION, TIMED)
    connection = sqlite3.connect(path)
    connection.executescript(statement)
    connection.close()

    def read() -> object:
        with Database(path) as database:
            return [(database.read(scope), database.software(scope)) for scope in database.scopes()]

    return read


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("PRAGMA application_id = 7", "application_id: is another program's"),
        ("PRAGMA user_version = 7", "user_version: 7, this Lanecast reads 1"),
        ("DROP TABLE times", "is damaged: no such table: times"),
        ("UPDATE runs SET scope = '{'", "runs.scope of run 1"),
        ("UPDATE runs SET scope = replace(scope, 'simulated', 'dreamt')", "scope.origin: 'dreamt'"),
        ("UPDATE runs SET software = 'null'", "runs.software: 'null' is no JSON"),
        ("UPDATE times SET collective = 'all_scatter'", "times.collective of run 1: 'all_scatter'; known"),
        ("UPDATE times SET seconds = -1", "times.seconds of run 1: -1.0 is no time"),
        ("UPDATE times SET seconds = 'fast'", "times.seconds of run 1: 'fast' is no time"),
        ("UPDATE times SET ranks = 0", "times.ranks of run 1: 0 is no whole number"),
    ],
)
def test_a_wrong_database_is_refused_with_file_and_column(statement: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"database .*t.sqlite: .*{named}"):
        broken(tmp_path / "t.sqlite", statement)()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.sqlite").write_text("no database at all, but long enough for a header" * 10)
    (tmp_path / "empty.sqlite").touch()
    for path, reason in (("t.sqlite", "is no database of times"), ("none.sqlite", "No such file"), (".", "unable to"),
                         ("empty.sqlite", "application_id: is another")):  # fmt: skip
        with pytest.raises(UsageError, match=reason):
            Database(tmp_path / path)


def times_in(path: Path) -> dict[Configuration, list[str]]:
    with Database(path) as database:
        return {
            configuration: sorted(timed.algorithm for timed in times)
            for scope in database.scopes()
            for configuration, times in database.read(scope).items()
        }


def test_a_killed_run_leaves_whole_configurations_and_goes_on(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    simulate = ["learn", "simulate", "--closed-forms", "--machine", "perlmutter", "--ranks", "8,16,32,64"]
    command = [sys.executable, "-m", "lanecast", *simulate, str(killed)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and not (killed.exists() and killed.stat().st_size and times_in(killed)):
            time.sleep(0.01)
        process.kill()
    some = times_in(killed)
    assert some
    for path in (killed, whole):
        assert CliRunner().invoke(app, [*simulate, str(path)]).exit_code == 0
    everything = times_in(whole)
    assert times_in(killed) == everything
    assert all(everything[configuration] == names for configuration, names in some.items())
    assert "0 configurations more" in CliRunner().invoke(app, [*simulate, str(whole)]).stderr


def test_measuring_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"

    def body(comm: Any) -> list[int]:
        done = []
        for sizes in ((1024,), (1024, 4096), (1024, 4096)):
            grid = Grid(["all_gather", "broadcast"], sizes, 2, 10.0, mpi=False)
            done.append(measuring.measure(comm, grid, path, {}))
        return done

    assert run_threads(3, body, timeout_s=60.0, profile="none") == [[2, 2, 0]] * 3
    (scope,) = set(run_threads(3, lambda comm: scope_of(shape_of(comm._core)), profile="none"))
    with Database(path) as database:
        times = database.read(scope)
    assert {(c.collective, c.ranks, c.bytes) for c in times} == {
        (name, 3, size) for name in ("all_gather", "broadcast") for size in (1024, 4096)
    }
    for configuration, timed in times.items():
        names = contenders(configuration.collective, Topology(3), mpi=False)
        assert sorted(each.algorithm for each in timed) == sorted(names)
        assert all(len(each.seconds) == 2 and each.predicted_s for each in timed)


def test_nodes_that_differ_have_no_scope(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="topology 2\\+1: its nodes differ"):
        run_threads(3, lambda comm: scope_of(shape_of(comm._core)), topology="2+1", profile="none")
    uneven = Topology(5, [("node", [0, 0, 0, 1, 1]), ("socket", [0, 1, 1, 2, 2])])
    with pytest.raises(UsageError, match=r"topology 2xuneven.*: its nodes differ"):
        run_threads(5, lambda comm: scope_of(shape_of(comm._core)), topology=uneven, profile="none")
    for topology in ("2x2:cyclic", "layout.toml"):
        refused = CliRunner().invoke(app, ["learn", "measure", str(tmp_path / "t.sqlite"), "--topologies", topology])
        assert "equal nodes that are filled one after the other" in str(refused.exception)
