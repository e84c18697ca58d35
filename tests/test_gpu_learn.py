# SPDX-License-Identifier: Apache-2.0
"""What is learned from times of calls on GPUs, and that communicators choose by it; no GPU is needed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

import lanecast
from gpu_stand_in import Tensor, between_hosts, outcomes
from lanecast import Communicator, UsageError, _core, marked_json
from lanecast.cli import app
from lanecast.learn import gpu_grid, training
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.profiles import finding
from lanecast.profiles.model import CALLS, FORMAT, Model, file_name, load, save
from lanecast.profiles.profile import Shape
from lanecast.profiles.scope import Scope
from learned_models import constant
from pipe_jobs import Tell

HERE = Path(__file__).parent
GPU = "GPU on the host"  # as the driver of the tests says
COUNT = 3000
SIZES = gpu_grid.usual_sizes()
WITHIN = Shape(lanecast.__version__, _core.cpu_model(), 2, 1, "2", ["shm"])
# Microseconds of a call, and GB/s: each is the fastest somewhere.
ENGINES = {"peer_kernel": (8, 200), "peer_two_shot": (20, 330), "copy_engine": (60, 390), "peer_direct": (12, 360),
           "nccl": (30, 350)}  # fmt: skip

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def seconds(engine: str, size: int, captured: bool) -> float:
    alpha_us, rate_gbps = ENGINES[engine]
    return (alpha_us / (4 if captured and engine == "nccl" else 1)) * 1e-6 + size / rate_gbps * 1e-9


def fill(path: Path, collectives: tuple[str, ...] = ("all_reduce", "all_gather")) -> Scope:
    """A database as GPUs of one host would leave it."""
    of = gpu_grid.scopes(WITHIN, GPU)
    with Database(path, create=True) as database:
        for (dtype, mode), scope in of.items():
            run = database.add_run(scope, {"commit": "of a test"})
            for size in SIZES:
                for collective in collectives:
                    if dtype == gpu_grid.HALF and collective == "all_gather":
                        continue
                    took = {engine: seconds(engine, size, mode == "graph") for engine in ENGINES}
                    if collective == "all_gather":
                        del took["peer_two_shot"]
                    times = [Timed(engine, 1, s, (s, 1.1 * s, 1.05 * s)) for engine, s in took.items()]
                    database.add(run, Configuration(collective, 2, size), times)
    return replace(of[gpu_grid.FULL, "eager"], calls="")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[dict[str, Any]]]:
    """A model's file, what training has printed, and its tables."""
    folder = tmp_path_factory.mktemp("learned")
    fill(folder / "t.sqlite")
    command = ["learn", "train", str(folder / "t.sqlite"), "-o", str(folder / "m.json"), "--json", str(folder / "j")]
    few = mock.patch.object(training, "_C", [2.0, 32.0]), mock.patch.object(training, "_GAMMA", [0.5, 4.0])
    with few[0], few[1]:
        done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    return folder / "m.json", done.stdout, json.loads((folder / "j").read_text())["rows"]


def test_times_are_kept_unless_they_are_not_wanted(
    trained: tuple[Path, str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    fill(tmp_path / "t.sqlite", ("all_gather",))
    command = ["learn", "train", str(tmp_path / "t.sqlite"), "-o", str(tmp_path / "m.json"), "--no-times"]
    with mock.patch.object(training, "_C", [2.0]), mock.patch.object(training, "_GAMMA", [0.5]):
        assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    assert all(each.times for each in load(trained[0]).collectives)
    assert not any(each.times for each in load(tmp_path / "m.json").collectives)


def _core_text(model: Model) -> bytes:
    return marked_json.text(FORMAT, model).encode()


def lines_of(path: Path, ranks: int = 2) -> _core.PeerLines:
    return _core.read_gpu_model(path.read_bytes(), ranks)


def test_each_way_of_calling_has_a_machine_of_its_own(trained: tuple[Path, str, list[dict[str, Any]]]) -> None:
    model = load(trained[0])
    found = {(each.collective, frozenset(each.calls)) for each in model.collectives}
    assert len(found) == len(model.collectives) == 16 + 8  # an all-gather adds nothing
    assert {word for _, calls in found for word in calls} == set(CALLS) - {"few_ctas"}
    assert all("peer_direct" not in each.algorithms for each in model.collectives if "symmetric" not in each.calls)
    assert (model.scope.gpu, model.scope.one_host, model.scope.calls) == (GPU, True, "")


def test_the_table_has_a_row_for_all_ways_of_calling(trained: tuple[Path, str, list[dict[str, Any]]]) -> None:
    _, printed, rows = trained
    by = {(row["collective"], row["cases"], row["chooser"]): row for row in rows}
    assert len(by) == len(rows)
    assert by["all_reduce", "unseen sizes", "learned"]["size"] == 16 * (len(SIZES) - 2)
    assert by["all", "unseen sizes", "learned"]["size"] == 24 * (len(SIZES) - 2)
    assert by["all", "each fifth in turn", "learned"]["mean_regret"] < 0.005
    assert by["all", "held-out fifth", "learned"]["accuracy"] > 0.9
    assert "unseen sizes" in printed
    assert GPU in printed


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_calls_take_what_the_machine_says(
    symmetric: bool, captured: bool, trained: tuple[Path, str, list[dict[str, Any]]]
) -> None:
    """At sizes that were timed and between them, but for a 256th of a doubling beside a border."""
    lines = lines_of(trained[0])
    words = {"copy_engine", *(["captured"] if captured else []), *(["symmetric"] if symmetric else [])}
    (machine,) = (each for each in load(trained[0]).collectives
                  if each.collective == "all_reduce" and set(each.calls) == words)  # fmt: skip
    svm = machine.learned().svm
    for k in range(0, 20 * 16):
        size = int(2 ** (10 + k / 16 + 0.03))
        near = {machine.algorithms[svm.vote(_core.features_of(int(size * d), 2, 2))] for d in (0.994, 1, 1.006)}
        found = _core.explain_on_peers("all_reduce", size, 2, symmetric, lines, captured=captured)
        assert found["algorithm"] in near
        assert found["decided_by"] == "learned"
        best = min(seconds(engine, size, captured) for engine in ENGINES if symmetric or engine != "peer_direct")
        assert seconds(found["algorithm"], size, captured) < 1.1 * best
        assert found["candidates"][0]["measured"]
    assert "learned from times of whole calls, by which this takes" in found["reason"]


def test_where_nobody_has_timed_such_calls_the_cost_model_decides(
    trained: tuple[Path, str, list[dict[str, Any]]],
) -> None:
    def by(collective: str, size: int, ranks: int = 2, **how: Any) -> str:
        found = _core.explain_on_peers(collective, size, ranks, False, lines_of(trained[0], ranks), **how)
        return str(found["decided_by"])

    assert by("all_reduce", 1 << 20) == by("all_gather", 1 << 20) == "learned"
    assert by("all_gather", 1 << 20, half=True) == "learned"  # nothing is added
    assert by("broadcast", 1 << 20) == by("all_reduce", 900) == by("all_reduce", 2 << 30) == "cost model"
    assert by("all_reduce", 1 << 20, ranks=3) == "cost model"
    gap = constant_model("peer_two_shot", "peer_kernel")  # no class was timed on three
    text = _core_text(replace(gap, collectives=[replace(each, timed_on=[[2, 2]] * 2) for each in gap.collectives]))
    assert (
        _core.explain_on_peers("all_reduce", 1 << 20, 3, False, _core.read_gpu_model(text, 3), captured=True)[
            "decided_by"
        ]
        == "cost model"
    )
    assert by("all_reduce", 1 << 20, captured=True) == "learned"
    assert by("all_reduce", 1 << 20, captured=True, nccl=False) == "cost model"  # a class of the machine is missing


def constant_model(*engines: str, gpu: str = GPU, collective: str = "all_reduce") -> Model:
    """Prefers the first everywhere."""
    each = replace(constant(collective, engines), ranks=[2, 8], timed_on=[[2, 8]] * len(engines))
    few = ["few_ctas"]  # as on the stand-in, which has few
    ways = [replace(each, calls=calls) for calls in (few, [*few, "copy_engine"], ["captured"])]
    return Model(replace(gpu_grid.scopes(WITHIN, gpu)[gpu_grid.FULL, "eager"], calls=""), ways, {"of": "a test"})


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"calls": ["captured"]', '"calls": ["replayed"]', r'calls\[0\]: "replayed"; known: half, captured, sym'),
        ('"calls": ["captured"]', '"calls": ["few_ctas"]', 'collective: "all_reduce" is there twice'),
        ('"peer_two_shot"', '"ring"', r'algorithms\[0\]: "ring" is no way of this Lanecast\'s among the GPUs of a'),
        ('"collective": "all_reduce"', '"collective": "gather"', r'"peer_two_shot" is no way of this'),
        ('"one_host": true', '"one_host": false', r'"peer_two_shot" is none of this Lanecast'),
        ('"machine": "', '"machine": "Old ', r"learned from other jobs \(machine: Old "),
        ('"gpu": "GPU', '"gpu": 3, "calls": "GPU', r"scope.gpu: 3 is no text"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_with_file_and_field(old: str, new: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save(constant_model("peer_two_shot", "peer_kernel"), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=f"model .*m.json: .*{named}"):
        lanecast.run_threads(2, lambda comm: comm.size, profile=str(path))


def test_it_stands_beside_models_of_the_cpu_and_twice_for_one_kind_is_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    save(constant_model("peer_two_shot"), one)
    save(constant_model("peer_two_shot", gpu="another"), other)
    cpu = tmp_path / "cpu.json"
    save(Model(Scope("a machine", "simulated", "", 0, "", "0"), [constant("all_reduce", ["ring"])]), cpu)

    def decided(comm: Communicator) -> str:
        return comm.explain("all_reduce", COUNT).decided_by

    assert lanecast.run_threads(2, decided, profile=f"{one},{other},{cpu}") == ["learned"] * 2
    assert lanecast.run_threads(2, decided, profile=f"{one},{other}") == ["cost model"] * 2
    save(constant_model("peer_kernel"), other)
    with pytest.raises(UsageError, match=f"other.json: is the second for {GPU} that is named"):
        lanecast.run_threads(2, decided, profile=f"{one},{other}")


def summed(comm: Communicator, algorithm: str = "") -> int:
    array = np.full(COUNT, comm.rank + 1, np.float32)
    comm.all_reduce(Tensor(array, "float32", comm.rank), algorithm=algorithm)
    comm.synchronize()
    return int(array[0])


def by_the_file_of_rank_0(path: str, opened_before: bool, comm: Communicator, tell: Tell) -> Any:
    """Rank 0 leaves the choice to its communicator, the other names what its own would choose: else they differ."""
    if opened_before:
        summed(comm, "peer_kernel")
    finding.adopt(comm._core, path if comm.rank == 0 else finding.NONE)
    total = summed(comm)
    why = comm.explain_on_gpu("all_reduce", COUNT)
    child = comm.split(0, comm.rank)
    assert child is not None
    summed(child)
    same = child.explain_on_gpu("all_reduce", COUNT).decided_by
    return why.algorithm, why.decided_by, same, total, summed(comm, "" if comm.rank == 0 else why.algorithm)


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(("fastest", "opened_before"), [("peer_two_shot", True), ("peer_kernel", False)])
def test_all_ranks_choose_by_the_model_of_rank_0(
    fastest: str, opened_before: bool, kernel_cache: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    save(constant_model(fastest, "peer_kernel" if fastest == "peer_two_shot" else "peer_two_shot"), path)
    for outcome in outcomes(2, partial(by_the_file_of_rank_0, str(path), opened_before), kernel_cache):
        assert outcome.text == ""
        assert outcome.value == (fastest, "learned", "learned", 3, 3)


def opened(comm: Communicator, tell: Tell) -> str:
    summed(comm)
    return comm.explain_on_gpu("all_reduce", COUNT).decided_by


@pytest.mark.timeout(400)
def test_a_model_of_another_gpu(kernel_cache: str, tmp_path: Path) -> None:
    folder = tmp_path / "lanecast" / "profiles"
    model = constant_model("peer_two_shot", gpu="another")
    path = folder / file_name(model.scope)
    save(model, path)
    for outcome in outcomes(2, opened, kernel_cache, profile=str(path)):
        assert outcome.error == "UsageError"
        assert f"model {path}: was measured elsewhere (gpu: another, not {GPU})" in outcome.text
    in_cache = {"variables": {"XDG_CACHE_HOME": str(tmp_path), "LANECAST_PROFILE": ""}}
    for outcome in outcomes(2, opened, kernel_cache, **in_cache):
        assert outcome.value == "cost model"
    model = constant_model("peer_two_shot")
    save(model, folder / file_name(model.scope))
    for outcome in outcomes(2, opened, kernel_cache, **in_cache):
        assert outcome.value == "learned"


def between(path: str, comm: Communicator, tell: Tell) -> tuple[Any, ...]:
    finding.adopt(comm._core, path)
    total = summed(comm)
    why = comm.explain_on_gpu("all_reduce", COUNT)
    ways = gpu_grid.ways_between_hosts(comm, "all_reduce", COUNT * 4)
    return total, why.algorithm, why.decided_by, comm.explain("all_reduce", COUNT).decided_by, sorted(ways)


def transports_of(comm: Communicator, tell: Tell) -> Any:
    return _core.shape_of(comm._core)["transports"]


@pytest.mark.timeout(400)
def test_between_hosts_it_chooses_among_the_algorithms(kernel_cache: str, tmp_path: Path) -> None:
    path, options = tmp_path / "m.json", between_hosts("2x1")

    found = outcomes(2, partial(between, "none"), kernel_cache, **options)[0]
    assert found.text == ""
    total, usual, decided_by, _, ways = found.value
    assert (total, decided_by) == (3, "cost model")
    assert usual in ways
    assert len(ways) > 1
    other = next(name for name in ways if name != usual)
    transports = outcomes(2, transports_of, kernel_cache, **options)[0].value
    shape = replace(WITHIN, hosts=2, topology="2x1", transports=transports)
    (known,) = gpu_grid.scopes(shape, GPU).values()
    save(Model(replace(known, calls=""), [constant("all_reduce", [other, usual])]), path)
    for outcome in outcomes(2, partial(between, str(path)), kernel_cache, **options):
        assert outcome.text == ""
        assert outcome.value == (3, other, "learned", "cost model", ways)


@needs_torch
@pytest.mark.timeout(900)
def test_measuring_on_a_stand_in_goes_on_where_it_was(tmp_path: Path) -> None:
    from lanecast.bench.gpu_processes import run_ranks

    path = tmp_path / "t.sqlite"

    def measured(sizes: str, seconds: str, hosts: str = "1") -> dict[str, int]:
        """By how calls were made, how many configurations there are."""
        command = [sys.executable, str(HERE / "gpu_learn_rank.py"), str(path), sizes, seconds, hosts]
        assert run_ranks(command, 2) == 0
        with Database(path) as database:
            return {f"{scope.one_host} {scope.calls}": len(database.read(scope)) for scope in database.scopes()}

    first = {f"True {dtype} {mode}": n for dtype, n in (("float32", 1), ("bfloat16", 0)) for mode in ("eager", "graph")}
    assert measured("4096,1024", "0.001") == first  # there is time for one alone
    whole = {name: (8 if "float32" in name else 3) for name in first}
    assert measured("4096", "100") == whole
    assert measured("4096", "100", hosts="2") == {**whole, "False float32 eager": 8}
    with Database(path) as database:
        scope = next(scope for scope in database.scopes() if scope.calls == "float32 graph")
        (times,) = (timed for known, timed in database.read(scope).items() if known.collective == "all_reduce")
    assert {each.algorithm for each in times} == set(ENGINES)
    assert all(len(each.seconds) == 2 and (each.predicted_s or each.algorithm == "nccl") for each in times)


def test_the_command_line_refuses_what_is_not_of_gpus(tmp_path: Path) -> None:
    command = ["learn", "measure", str(tmp_path / "t.sqlite")]
    for options, named in (
        (["--device", "cuda", "--transports", "shm"], "transports: is of CPUs"),
        (["--device", "cuda", "--topologies", "2x2"], "topology 2x2: on cuda a number of GPUs; LANECAST_GPU_NICS"),
        (["--seconds", "3"], "seconds: needs --device cuda"),
        (["--max-ctas", "3"], "max-ctas: needs --device cuda"),
    ):
        assert named in str(CliRunner().invoke(app, [*command, *options]).exception)
    assert not (tmp_path / "t.sqlite").exists()
    shown = subprocess.run([sys.executable, "-m", "lanecast", "learn", "measure", "--help"], capture_output=True,
                           text=True, check=True).stdout  # fmt: skip
    assert "cuda" in shown
