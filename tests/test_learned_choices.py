# SPDX-License-Identifier: Apache-2.0
"""What was learned decides: on all ranks alike, where it was trained, among what is valid, unless one is pinned."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import Communicator, UsageError, _core
from lanecast.cli import app
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.profiles import finding
from lanecast.profiles import model as models
from lanecast.profiles.model import FEATURES, Model, Trained, file_name, load, save
from lanecast.profiles.profile import save as save_profile
from lanecast.profiles.scope import SIMULATED, Scope, scope_of
from lanecast.profiles.shape import shape_of
from launch import mpich
from learned_models import FLAT, cases, constant, model
from test_tune import profile_for, shape_here

COUNT = 1 << 18
# Whose models come with Lanecast, and a few of their nodes.
SIMULATED_MACHINES = {"aurora": "2x6x2", "frontier": "2x4x2"} | dict.fromkeys(
    ["delta", "deltaai", "perlmutter", "tuolumne"], "4x4"
)


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, timeout_s=60.0, **options)


def decided(comm: Communicator) -> tuple[str, str]:
    why = comm.explain("all_gather", COUNT)
    return why.algorithm, why.decided_by


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.json"
    save(model(constant("all_gather", ["bruck", "direct", "ring"], fastest=2)), path)
    return path


def test_pinned_goes_before_learned_before_the_cost_model(file: Path) -> None:
    modelled = on_threads(4, decided, profile="none")
    assert {by for _, by in modelled} == {"cost model"}
    assert on_threads(4, decided, profile=file) == [("ring", "learned")] * 4
    assert on_threads(4, decided, profile=file, algorithm="direct") == [("direct", "pinned")] * 4
    assert on_threads(4, lambda comm: comm.chosen("all_gather", COUNT), profile=file, chunks=3) == [("ring", 3)] * 4


def test_only_where_it_was_trained(tmp_path: Path) -> None:
    one = replace(constant("all_gather", ["ring"]), bytes=[1000, 2000], ranks=[2, 3])
    save(model(one), tmp_path / "m.json")

    def by(comm: Communicator) -> list[str]:
        explained = [comm.explain("all_gather", n, "uint8") for n in (332, 334, 666, 668)]
        return [why.decided_by for why in (*explained, comm.explain("all_reduce", 375))]

    assert on_threads(3, by, profile=tmp_path / "m.json")[0] == [
        "cost model",
        "learned",
        "learned",
        "cost model",
        "cost model",
    ]
    assert set(on_threads(4, by, profile=tmp_path / "m.json")[0]) == {"cost model"}


def test_rank_0s_model_counts_on_every_rank(tmp_path: Path) -> None:
    """Files differ from host to host, or are missing."""

    def body(comm: Communicator) -> tuple[str, str]:
        learned = constant("all_gather", ["bruck", "direct", "ring"], fastest=comm.rank % 3).learned()
        mine = comm._core.models if comm.rank % 2 == 0 else _core.Models([(1.0, 1.0)])
        comm._core.adopt(mine.with_learned([learned]) if comm.rank < 3 else _core.Models(links=[]))
        return decided(comm)

    assert on_threads(4, body, profile="none") == [("bruck", "learned")] * 4


def test_all_ranks_hold_what_rank_0_has_read(tmp_path: Path) -> None:
    """With support vectors, names longer than any, and several collectives; a vote on each rank tells."""
    long_name = "hierarchical(recursive_doubling,recursive_doubling,recursive_doubling)"
    flat = Trained("all_reduce", list(FEATURES), [1, 1 << 30], [2, 64], ["folding", "ring", long_name],
                   [[2, 8], [2, 64], [4, 64]], [2, 1, 1], [15, 2, 0.5], [3.5, 1.25, 0.5], 0.7,
                   [[-1, 0, 1], [-0.5, 1, 1], [1, 0, -1], [0.2, 0.3, 1]],
                   [[1, 0.5, -1.5, -1], [0.3, 0.2, 0.25, -0.5]], [0.01, -0.02, 0.03])  # fmt: skip

    def body(comm: Communicator) -> list[Any]:
        first = [flat.learned(), constant("all_gather", ["ring"]).learned()] if comm.rank == 0 else []
        comm._core.adopt(comm._core.models.with_learned(first))
        got = comm._core.models.learned
        votes = [got[0].svm.vote((x / 4, y / 4, y % 2)) for x in range(120) for y in range(24)]
        return [[(each.collective, each.algorithms) for each in got], votes]

    results = on_threads(3, body, profile="none")
    assert results == [results[0]] * 3
    own = [flat.learned().svm.vote((x / 4, y / 4, y % 2)) for x in range(120) for y in range(24)]
    assert results[0] == [[("all_reduce", flat.algorithms), ("all_gather", ["ring"])], own]
    assert set(own) == {0, 1, 2}


@pytest.mark.parametrize("size", [3, 4, 6])
def test_bruck_stands_for_recursive_doubling_where_that_takes_no_such_ranks(size: int, tmp_path: Path) -> None:
    save(model(constant("all_gather", ["direct", "recursive_doubling"], fastest=1)), tmp_path / "m.json")
    expected = "recursive_doubling" if size == 4 else "bruck"
    assert on_threads(size, decided, profile=tmp_path / "m.json") == [(expected, "learned")] * size


def test_only_valid_algorithms_are_taken(tmp_path: Path) -> None:
    classes = ["hierarchical(ring,direct)", "mpi", "ring"]
    save(model(constant("all_gather", classes), node="2"), tmp_path / "m.json")
    options = {"profile": tmp_path / "m.json"}
    assert on_threads(4, decided, topology="2x2", **options) == [("hierarchical(ring,direct)", "learned")] * 4
    # On one node there are no levels, and threads have no collectives of their own.
    save(model(constant("all_gather", classes), node="2"), tmp_path / "m.json")
    assert on_threads(2, decided, topology="2", **options) == [("ring", "learned")] * 2


def test_a_class_is_taken_only_on_as_many_ranks_as_it_was_timed_on(tmp_path: Path) -> None:
    known = replace(constant("all_gather", ["direct", "ring"]), timed_on=[[2, 3], [2, 8]])
    save(model(known), tmp_path / "m.json")
    options = {"profile": tmp_path / "m.json"}
    assert on_threads(3, decided, **options) == [("direct", "learned")] * 3
    assert on_threads(4, decided, **options) == [("ring", "learned")] * 4


@pytest.mark.parametrize(("topology", "nodes"), [("4x2", 4), ("3x2", 3)])
def test_nodes_that_are_no_power_of_two_are_seen(topology: str, nodes: int, tmp_path: Path) -> None:
    """A machine that looks at nothing else: ranks, 6 and 8, are none or one as the nodes are."""
    by_nodes = replace(
        constant("all_gather", ["hierarchical(direct,direct)", "ring"]),
        support=[1, 1], vectors=[[0, 0, 0], [0, 0, 1]], weights=[[1, -1]], intercepts=[0], mean=[0, 0, 0],
        scale=[1e9, 1e9, 1],
    )  # fmt: skip
    save(model(by_nodes, node="2"), tmp_path / "m.json")
    expected = "ring" if nodes == 4 else "hierarchical(direct,direct)"
    assert on_threads(2 * nodes, decided, topology=topology, profile=tmp_path / "m.json")[0] == (expected, "learned")


@pytest.mark.parametrize(
    ("node", "ranks", "nodes"), [("", 6, 6), ("4", 4, 4), ("4", 12, 3), ("4x2", 8, 4), ("4x2", 24, 3)]
)
def test_training_counts_nodes_as_the_core_does(node: str, ranks: int, nodes: int) -> None:
    assert replace(FLAT, node=node).nodes_of(ranks) == nodes
    assert _core.features_of(1 << 20, ranks, nodes) == [20, np.log2(ranks), nodes.bit_count() == 1]


def test_calls_of_other_kinds_are_left_to_the_cost_model(tmp_path: Path) -> None:
    own = model(constant("all_to_all", ["bruck"]), constant("all_reduce", ["ring"]))
    save(own, tmp_path / "m.json")

    def by(comm: Communicator) -> list[str]:
        return [comm.explain("all_to_all", 100).decided_by, comm.explain("all_to_all", 0, own_counts=True).decided_by]

    assert on_threads(3, by, profile=tmp_path / "m.json")[0] == ["learned", "cost model"]
    why = on_threads(3, lambda comm: comm.explain("all_reduce", 100), profile=tmp_path / "m.json", reproducible=True)[0]
    assert why.decided_by == "cost model"


def test_results_are_right_by_whatever_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save(model(constant("all_reduce", ["hierarchical(recursive_doubling,direct)"]), node="2"), path)

    def body(comm: Communicator) -> list[float]:
        values = np.arange(1000.0) + comm.rank
        comm.all_reduce(values)
        return values.tolist()

    expected = [6 * k + 15.0 for k in range(1000)]
    assert on_threads(6, body, topology="3x2", profile=path) == [expected] * 6


def test_children_on_whole_nodes_keep_it_and_others_do_not(tmp_path: Path) -> None:
    save(model(constant("all_gather", ["hierarchical(ring,direct)", "ring"]), node="2"), tmp_path / "m.json")

    def body(comm: Communicator) -> list[str]:
        nodes, lane = comm.split(comm.rank // 4), comm.split(comm.rank % 2)
        assert nodes is not None
        assert lane is not None
        return [each.explain("all_gather", COUNT).decided_by for each in (comm, nodes, lane)]

    assert (
        on_threads(8, body, topology="4x2", profile=tmp_path / "m.json") == [["learned", "learned", "cost model"]] * 8
    )


def test_mpis_own_collectives_are_taken_where_they_won(tmp_path: Path) -> None:
    save(model(constant("all_reduce", ["mpi", "ring"])), tmp_path / "m.json")
    code = (
        "import lanecast, numpy as np; c = lanecast.init(); x = np.full(1000, c.rank + 1.0); c.all_reduce(x);"
        "assert (x == 3).all(); w = c.explain('all_reduce', 1000); assert 'would take' in w.reason, w.reason;"
        "c.rank or print(w.algorithm, w.decided_by)"
    )
    printed = mpich(2, [sys.executable, "-c", code], LANECAST_PROFILE=str(tmp_path / "m.json"))
    assert printed == "mpi learned\n"


def test_profile_and_model_go_together(file: Path, tmp_path: Path) -> None:
    save_profile(profile_for(shape_here("4", 4), "bruck"), tmp_path / "p.json")
    both = f"{tmp_path / 'p.json'},{file}"

    def body(comm: Communicator) -> list[tuple[str, str]]:
        why = comm.explain("all_reduce", COUNT)
        return [decided(comm), (why.algorithm, why.decided_by)]

    assert on_threads(4, body, profile=both) == [[("ring", "learned"), ("bruck", "cost model")]] * 4
    with pytest.raises(UsageError, match="is the second of its kind"):
        on_threads(4, decided, profile=f"{file},{file}")


def test_the_users_cache_is_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(finding.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scope = scope_of(on_threads(4, lambda comm: shape_of(comm._core), profile="none")[0])
    path = tmp_path / "lanecast" / "profiles" / file_name(scope)
    save(Model(scope, [constant("all_gather", ["direct"])]), path)
    assert on_threads(4, decided) == [("direct", "learned")] * 4
    save(Model(scope, [constant("all_gather", ["ring"])]), path.with_name("-old-".join(path.name.rsplit("-", 1))))
    assert on_threads(4, decided) == [("direct", "learned")] * 4
    path.write_text('{"lanecast_model": 2}')
    with pytest.warns(RuntimeWarning, match="left aside: model .*scope: missing"):
        on_threads(4, decided)


def test_models_of_other_jobs_are_refused(file: Path) -> None:
    with pytest.raises(UsageError, match=r"m.json: learned from other jobs \(topology: nodes of one level, not 2x2"):
        on_threads(4, decided, profile=file, topology="2x2")
    scope = scope_of(on_threads(4, lambda comm: shape_of(comm._core), profile="none")[0])
    assert scope.one_host
    for change, named in (({"cores": 999}, "cores: 999, not"), ({"one_host": False}, "one_host: false, not true")):
        save(Model(replace(scope, **change), [constant("all_gather", ["ring"])]), file)
        with pytest.raises(UsageError, match=rf"m.json: learned from other jobs \({named}"):
            on_threads(4, decided, profile=file)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"lanecast_model": 1}, "lanecast_model: 1, this Lanecast reads 2; train it again"),
        ({"scope.origin": "dreamt"}, 'scope.origin: "dreamt"; known: measured'),
        ({"scope.node": "4 x 2"}, 'scope.node: "4 x 2"; expected sizes'),
        ({"collectives": []}, "collectives: none"),
        ({"collectives.0.collective": "all_scatter"}, r"collectives\[0\].collective: \"all_scatter\"; known"),
        ({"collectives.0.features": ["log2_bytes", "bytes"]}, r"collectives\[0\].features: .*this Lanecast has"),
        ({"collectives.0.algorithms.1": "magic"}, r"collectives\[0\].algorithms\[1\]: \"magic\" is none of"),
        ({"collectives.0.algorithms.1": "hierarchical(ring,ring)"}, r"\[1\]: \"hierarchical\(ring,ring\)\" is none of"),
        ({"collectives.0.intercepts.0": float("nan")}, "is no JSON: .*at line"),
        ({"collectives.0.gamma": -1}, r"collectives\[0\].gamma: -1 is no number of at least 0"),
        ({"collectives.0.scale.0": 0}, r"collectives\[0\]: .*scale: must be more than 0"),
        ({"collectives.0.support": [0, 0]}, r"collectives\[0\].support: 2 entries, expected 3"),
        ({"collectives.0.support.0": 1}, r"collectives\[0\]: .*vectors: 0 numbers, expected 1"),
        ({"collectives.0.ranks": [4, 2]}, r"collectives\[0\].ranks: from 4 to 2"),
        ({"collectives.0.timed_on": [[1, 2]]}, r"collectives\[0\].timed_on: 1 entries, expected 3"),
        ({"collectives.0.timed_on.1": [4, 2]}, r"collectives\[0\].timed_on\[1\]: from 4 to 2, expected within 1 to"),
        ({"collectives.0.vote": 1}, r"collectives\[0\].vote: unknown; known: collective"),
    ],
)
def test_wrong_files_are_refused_with_file_and_field(change: dict[str, Any], named: str, file: Path) -> None:
    data = json.loads(file.read_text())
    for place, value in change.items():
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        inside = data
        for key in path:
            inside = inside[key]
        inside[last] = value
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=f"m.json: .*{named}"):
        on_threads(3, decided, profile=file)


def test_training_by_command_line_writes_what_communicators_choose_by(tmp_path: Path) -> None:
    """And tables and a picture that say where the times come from."""
    frontier = Scope("frontier", SIMULATED, "4x2", 0, "", lanecast.__version__)
    path, out = tmp_path / "t.sqlite", tmp_path / "m.json"
    with Database(path, create=True) as database:
        for scope in (FLAT, frontier):
            run = database.add_run(scope, {"commit": "c"})
            for case in cases(("ring", "direct")):
                times = [Timed(name, 1, 1.0, (seconds,)) for name, seconds in case.seconds.items()]
                database.add(run, Configuration("all_gather", case.ranks, case.bytes), times)
    assert "several that fit: choose by --machine" in str(
        CliRunner().invoke(app, ["learn", "train", str(path)]).exception
    )
    files = ["--json", str(tmp_path / "r.json"), "--plot", str(tmp_path / "r.png"), "-o", str(out)]
    done = CliRunner().invoke(app, ["learn", "train", str(path), "--machine", "a machine", *files])
    assert done.exit_code == 0, done.output
    assert "no figure here was measured" in done.output
    assert "always ring" in done.output
    assert json.loads((tmp_path / "r.json").read_text())["rows"][0]["scope"]["origin"] == "simulated"
    assert (tmp_path / "r.png").stat().st_size > 10_000
    assert "mean regret" in load(out).about["all_gather"]

    def body(comm: Communicator) -> list[str]:
        return [comm.explain("all_gather", n // 3 // 4).algorithm for n in (1 << 11, 1 << 24)]

    assert on_threads(3, body, profile=out) == [["ring", "direct"]] * 3


def test_explaining_by_command_line(tmp_path: Path) -> None:
    words = ["explain", "all_reduce", "--bytes", "64M", "--ranks", "512", "--machine", "frontier"]
    plain = CliRunner().invoke(app, [*words, "--model", "none"])
    assert "the shortest prediction" in plain.output
    assert "from the machine's figures" in plain.output
    assert "no model" not in plain.output  # as was asked
    scope = Scope("frontier", SIMULATED, "4x2", 0, "", lanecast.__version__)
    save(Model(scope, [constant("all_reduce", ["mpi", "ring"])]), tmp_path / "m.json")
    learned = CliRunner().invoke(app, [*words, "--model", str(tmp_path / "m.json")])
    assert "67108864 bytes: mpi\n  learned from times of whole calls; the cost model would take" in learned.output
    wrong = CliRunner().invoke(app, [*words[:-1], "perlmutter", "--model", str(tmp_path / "m.json")])
    assert "learned for frontier, simulated" in str(wrong.exception)


def test_explaining_a_machine_without_a_model_says_so() -> None:
    """Or a cost model's choice passes for a learned one."""
    without = CliRunner().invoke(
        app, ["explain", "all_reduce", "--bytes", "64M", "--ranks", "512", "--machine", "h200"]
    )
    assert without.output.startswith("no model of h200 comes with Lanecast, there are those of aurora, ")
    assert "the shortest prediction" in without.output


def test_measuring_by_command_line(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    command = [sys.executable, "-m", "lanecast", "learn", "measure", str(path), "--sizes", "1K", "--rounds", "2"]
    mpich(2, [*command, "--collectives", "all_reduce"])
    with Database(path) as database:
        (scope,) = database.scopes()
        (times,) = database.read(scope).values()
    assert (scope.origin, scope.transports) == ("measured", "shm")
    assert {"mpi", "ring"} <= {timed.algorithm for timed in times}


@pytest.mark.parametrize(("machine", "topology"), SIMULATED_MACHINES.items())
def test_what_comes_with_lanecast_was_simulated_and_says_so(machine: str, topology: str) -> None:
    shipped = load(models.shipped()[machine])
    assert (shipped.scope.machine, shipped.scope.origin) == (machine, "simulated")
    assert " ranks, 1 MiB to " in shipped.about["times"]
    ranks = math.prod(int(size) for size in topology.split("x"))
    assert on_threads(ranks, decided, topology=topology, profile=f"machine:{machine}")[0][1] == "learned"


def test_every_machine_of_the_papers_has_a_model_and_others_are_told() -> None:
    assert set(models.shipped()) == set(SIMULATED_MACHINES)
    with pytest.raises(UsageError, match="no model of it comes with Lanecast; known: aurora, delta, deltaai, front"):
        on_threads(2, decided, profile="machine:x86")


@pytest.mark.parametrize("machine", sorted(models.shipped()))
def test_a_file_has_a_line_for_each_support_vector_and_is_read_alike(machine: str, tmp_path: Path) -> None:
    """As the core reads what was never laid out."""
    path = models.shipped()[machine]
    save(load(path), tmp_path / "m.json")
    data = json.loads(path.read_text())
    assert (tmp_path / "m.json").read_text() == path.read_text()
    lines = {line.strip(" ,") for line in path.read_text().splitlines()}
    assert all(json.dumps(vector) in lines for each in data["collectives"] for vector in each["vectors"])

    def votes(text: str) -> list[list[int]]:
        learned = _core.read_profile(text.encode(), is_model=True).learned
        return [[each.svm.vote((x / 2, y / 2, y % 2)) for x in range(40, 60) for y in range(16)] for each in learned]

    assert votes(path.read_text()) == votes(json.dumps(data))


def pins_file(folder: Path, *pins: dict[str, Any]) -> Path:
    path = folder / "pins.json"
    path.write_text(json.dumps({"lanecast_pins": 1, "pins": pins}))
    return path


def test_a_file_pins_what_it_names_and_code_goes_before(file: Path, tmp_path: Path) -> None:
    pins = pins_file(tmp_path, {"collective": "all_gather", "bytes": [1, 4096], "algorithm": "bruck", "chunks": 2},
                     {"collective": "all_gather", "bytes": [1 << 20, 1 << 30], "algorithm": "direct"},
                     {"collective": "all_reduce", "algorithm": "hierarchical(ring,direct)"})  # fmt: skip

    def body(comm: Communicator) -> list[Any]:
        found = [comm.explain("all_gather", n, "uint8") for n in (1024, 2048, 1 << 18)]
        found.append(comm.explain("all_reduce", COUNT))
        return [(why.algorithm, why.decided_by) for why in found] + [found[0].chunks, "a file" in found[0].reason]

    expected = [("bruck", "pinned"), ("ring", "learned"), ("direct", "pinned")]
    one_level = on_threads(4, body, profile=f"{pins},{file}")
    assert one_level[0][:3] == expected
    assert one_level[0][3][1] == "cost model"  # there are no levels for what is pinned
    assert one_level[0][4:] == [2, True]
    assert one_level == [one_level[0]] * 4
    nodes = on_threads(4, body, topology="2x2", profile=pins)
    assert nodes[0][3] == ("hierarchical(ring,direct)", "pinned")
    assert on_threads(4, decided, profile=pins, algorithm="ring") == [("ring", "pinned")] * 4
    assert on_threads(4, lambda comm: comm.chosen("all_gather", COUNT), profile=pins, chunks=3) == [("direct", 3)] * 4


def test_children_keep_what_is_pinned(tmp_path: Path) -> None:
    pins = pins_file(tmp_path, {"collective": "all_gather", "algorithm": "bruck"})

    def body(comm: Communicator) -> tuple[str, str]:
        child = comm.split(comm.rank % 2)
        assert child is not None
        return decided(child)

    assert on_threads(6, body, profile=pins) == [("bruck", "pinned")] * 6


@pytest.mark.parametrize(
    ("pins", "named"),
    [
        ([], "pins: none"),
        ([{"collective": "all_gather"}], r"pins\[0\].algorithm: missing"),
        ([{"collective": "all_gather", "algorithm": "magic"}], r"pins\[0\].algorithm: \"magic\" is none of"),
        ([{"collective": "all_gather", "algorithm": "hierarchical(ring,ring"}], r"pins\[0\].algorithm: .* is none of"),
        ([{"collective": "all_gather", "algorithm": "x" + "," * 99}], r"pins\[0\].algorithm: .* is none of"),
        ([{"collective": "all_gather", "algorithm": "ring", "bytes": [9, 8]}], r"pins\[0\].bytes: from 9 to 8"),
        ([{"collective": "all_gather", "algorithm": "ring", "chunks": -1}], r"pins\[0\].chunks: -1, expected 0 to"),
        ([{"collective": "all_gather", "algorithm": "ring", "ranks": 8}], r"pins\[0\].ranks: unknown; known: coll"),
    ],
)
def test_wrong_pins_are_refused(pins: list[dict[str, Any]], named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"pins .*pins.json: {named}"):
        on_threads(2, decided, profile=pins_file(tmp_path, *pins))


def test_sizes_that_were_rounded_up_share_a_row(tmp_path: Path) -> None:
    """To whole elements for each of 20 ranks: half a doubling stood in a row of its own for them."""
    path, folder = tmp_path / "t.sqlite", tmp_path / "figures"
    words = ["--machine", "perlmutter", "--closed-forms", "--ranks", "16,20", "--sizes", "1M,1536K,3M"]
    assert CliRunner().invoke(app, ["learn", "simulate", str(path), *words]).exit_code == 0
    assert CliRunner().invoke(app, ["learn", "figures", str(path), "--output", str(folder)]).exit_code == 0
    cells = json.loads((folder / "figures.json").read_text())["over_flat"]
    assert {cell["bytes"] for cell in cells} == {1 << 20, 3 << 19, 3 << 20}


@pytest.mark.slow  # draws all of them
def test_figures_are_drawn_from_times(tmp_path: Path) -> None:
    path, folder = tmp_path / "t.sqlite", tmp_path / "figures"
    words = ["--machine", "perlmutter", "--closed-forms", "--ranks", "8,16", "--sizes", "1M,64M"]
    assert CliRunner().invoke(app, ["learn", "simulate", str(path), *words]).exit_code == 0
    done = CliRunner().invoke(app, ["learn", "figures", str(path), "--output", str(folder), "--sizes", "64M"])
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in folder.iterdir()) == [
        "figures.json", "over_flat.png", "recursive_over_ring.png", "scaling.png",
    ]  # fmt: skip
    written = json.loads((folder / "figures.json").read_text())
    assert written["scope"]["origin"] == "modelled"
    assert len(written["over_flat"]) == len(written["recursive_over_ring"]) == 3 * 2 * 2
    assert all(cell["faster"] > 0 for cell in written["over_flat"])
    assert {cell["name"] for cell in written["recursive_over_ring"]} <= {cell["name"] for cell in written["over_flat"]}
    assert written["platform"]["node.nics"]["value"] == "4"
    assert written["over_vendor"] == []  # of which the cost model knows nothing
    assert [ranks for ranks, _ in written["scaling"][str(64 << 20)]["all_gather"]["ring"]] == [8, 16]
    with Database(path) as database:
        (scope,) = database.scopes()
        (run,) = database.software(scope)
        assert run["platform"]["network.taper"]["source"].startswith("assumed")
        beside = [Timed("ring-per-nic", 1, None, (1.0,))]
        for configuration in database.read(scope):
            database.add(database.add_run(scope, run), configuration, beside)
    done = CliRunner().invoke(app, ["learn", "figures", str(path), "--output", str(folder), "--sizes", "64M"])
    again = json.loads((folder / "figures.json").read_text())
    assert (folder / "over_vendor.png").stat().st_size > 10_000
    gains = {(cell["collective"], cell["ranks"], cell["bytes"]): cell["faster"] for cell in again["over_vendor"]}
    assert gains.keys() == {(cell["collective"], cell["ranks"], cell["bytes"]) for cell in again["over_flat"]}
    chosen = dict(again["chosen"][str(64 << 20)]["all_gather"])
    assert gains["all_gather", 8, 64 << 20] == pytest.approx(1 / chosen[8])
    assert again["scaling"][str(64 << 20)]["all_gather"]["ring-per-nic"] == [[8, 1.0], [16, 1.0]]
    fastest = min(seconds for line in written["scaling"][str(64 << 20)]["all_gather"].values() for _, seconds in line)
    assert fastest in dict(written["chosen"][str(64 << 20)]["all_gather"]).values()
    save(model(constant("all_gather", ["ring"])), tmp_path / "m.json")
    wrong = CliRunner().invoke(
        app, ["learn", "figures", str(path), "-o", str(folder), "--model", str(tmp_path / "m.json")]
    )
    assert "scope: learned for a machine, simulated" in str(wrong.exception)
