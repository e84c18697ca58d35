# SPDX-License-Identifier: Apache-2.0
"""reproducible=True: the plans are proven to reduce once in rank order, and every way of running gives those bits."""

import copy
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, UsageError
from lanecast._core import Plan, PlanError, Topology, algorithms_for, has_library, make_plans, verify
from launch import mpich
from pipe_jobs import PipeJob
from plan_interpreter import run_and_check
from plan_memory import Schedule
from plan_mutants import MUTATORS, Mutator
from rank_order import Sum, differing, every_type, outcome

SUMS = ("reduce_scatter", "all_reduce")
TOPOLOGIES = {"": 8, "1x8": 8, "2x4": 8, "4x2": 8, "4x2:cyclic": 8, "3+1+4": 8, "2x2x2": 8}


def topology(text: str, size: int) -> Topology:
    return Topology.parse(text, size) if text else Topology(size)


@pytest.mark.parametrize(("text", "size"), [*TOPOLOGIES.items(), ("", 1), ("", 2), ("", 3), ("2+1", 3), ("3+2+2", 7)])
@pytest.mark.parametrize("collective", [*SUMS, "reduce"])
def test_plans_are_proven(collective: str, text: str, size: int) -> None:
    where = topology(text, size)
    names = algorithms_for(collective, where, reproducible=True)
    for algorithm in names[:6] + names[6::7]:
        for in_place in (False, True):
            root = size - 1 if collective == "reduce" else 0
            plans = make_plans(collective, where, algorithm, in_place, root, reproducible=True)
            assert verify(plans)["min_window"] <= 2
    run_and_check([plan.to_dict() for plan in plans], Schedule([24] * size, chunks=3, average=True))


@pytest.mark.parametrize("algorithm", ["ring", "bruck", "direct", "folding", "mpi", "hierarchical(ring,direct)"])
def test_a_plan_that_adds_in_another_order_is_refused(algorithm: str) -> None:
    for collective in SUMS:
        if algorithm == "folding" and collective == "reduce_scatter":
            continue
        plans = [plan.to_dict() for plan in make_plans(collective, Topology.parse("2x2", 4), algorithm)]
        verify([Plan.from_dict(plan) for plan in plans])
        claims = [{**plan, "reproducible": True} for plan in plans]
        with pytest.raises(PlanError, match=r"rank \d+ step.*another expression than one reduction .* in rank order"):
            verify([Plan.from_dict(plan) for plan in claims])


@pytest.mark.parametrize("collective", SUMS)
def test_exchanged_sources_are_refused(collective: str) -> None:
    plans = [plan.to_dict() for plan in make_plans(collective, Topology(4), "direct", reproducible=True)]
    for i, j in [(0, 1), (1, 2), (0, 3)]:
        mutant = copy.deepcopy(plans)
        step = next(step for step in mutant[2]["steps"] if step["kind"] == "reduce")
        step["src"][i], step["src"][j] = step["src"][j], step["src"][i]
        with pytest.raises(PlanError, match=r"rank \d+ step \d+.*rank order"):
            verify([Plan.from_dict(plan) for plan in mutant])
        verify([Plan.from_dict({**plan, "reproducible": False}) for plan in mutant])  # it is a right sum


@pytest.mark.parametrize("mutator", MUTATORS)
def test_mutants_are_refused_or_right(mutator: Mutator) -> None:
    rng = random.Random(3)
    for _ in range(40):
        size = rng.choice([2, 3, 5])
        collective = rng.choice(SUMS)
        where = Topology(size)
        algorithm = rng.choice(algorithms_for(collective, where, reproducible=True))
        made = make_plans(collective, where, algorithm, rng.random() < 0.5, reproducible=True)
        plans = [plan.to_dict() for plan in made]
        mutant = mutator(rng, plans)
        if mutant is None or mutant == plans:
            continue
        try:
            verify([Plan.from_dict(plan) for plan in mutant])
        except PlanError:
            continue
        assert all(step["kind"] != "recv_reduce" for plan in mutant for step in plan["steps"])
        run_and_check(mutant, Schedule([rng.choice([1, 5, 24]) for _ in range(size)], seed=rng.getrandbits(32)))


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_the_same_bits_on_every_topology(text: str) -> None:
    size = TOPOLOGIES[text]
    names = algorithms_for("all_reduce", topology(text, size), reproducible=True)
    names = [name for name in names if not has_library(name)]
    cases = every_type("all_reduce", (997,)) + every_type("reduce_scatter", (131, 0, 3, 1, 997, 64, 7, 100), chunks=3)
    cases += [
        Sum("all_reduce", (count,), dtype, "sum", algorithm, chunks)
        for algorithm in names[:5] + names[5::9]
        for dtype, count, chunks in [("float32", 1501, 1), ("float16", 300, 4), ("bfloat16", 5, 2)]
    ]
    cases += [Sum("reduce_scatter", (9,) * size, "float8_e5m2", "avg", "direct", in_place=False)]
    wrong = lanecast.run_threads(size, lambda c: differing(c, cases), topology=text, reproducible=True, timeout_s=60)
    assert not any(wrong), wrong


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_same_bits_for_odd_numbers_of_ranks(size: int) -> None:
    cases = [case for count in (0, 1, 501) for case in every_type("all_reduce", (count,))]
    wrong = lanecast.run_threads(size, lambda c: differing(c, cases, reproducible=True), timeout_s=60)
    assert not any(wrong), wrong


def test_ordinary_sums_do_differ() -> None:
    """Else the tests above would show nothing."""
    case = Sum("all_reduce", (997,), "float16", algorithm="ring")
    assert all(lanecast.run_threads(8, lambda comm: differing(comm, [case])))


def over_pipes(comm: Communicator, _: Callable[[Any], None]) -> list[str]:
    assert comm.transports == "shm"
    return differing(comm, every_type("all_reduce", (997,)) + every_type("reduce_scatter", (300, 0, 501)))


def test_the_same_bits_over_shared_memory() -> None:
    job = PipeJob(3, over_pipes, reproducible=True)
    ends = [job.outcome(rank) for rank in range(3)]
    assert [(end.value, end.text) for end in ends] == [([], "")] * 3
    assert job.end() == [0] * 3


MPI_RANK = """
import lanecast
from rank_order import differing, every_type
comm = lanecast.init(transports="{transports}", topology="2x2")
for line in differing(comm, every_type("all_reduce", (997,)) + every_type("reduce_scatter", (300, 0, 501, 1))):
    print(line)
"""


@pytest.mark.parametrize("transports", ["mpi", "mpi,shm"])
def test_the_same_bits_over_mpi(transports: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_REPRODUCIBLE", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    assert not mpich(4, [sys.executable, "-c", MPI_RANK.format(transports=transports)]).strip()


def chosen(collective: str, count: int, **options: Any) -> tuple[str, int]:
    return lanecast.run_threads(4, lambda comm: comm.chosen(collective, count), **options)[0]


def test_scratch_is_bounded_by_chunks() -> None:
    for collective, elements in (("all_reduce", 1 << 26), ("reduce_scatter", 1 << 24)):
        assert chosen(collective, elements, reproducible=True)[1] == 32  # 256 MiB in chunks of 8 MiB
        assert chosen(collective, elements, reproducible=True, chunks=2)[1] == 2
    assert chosen("all_reduce", 1 << 26, reproducible=True, algorithm="one_shot")[1] == 96
    assert chosen("all_reduce", 1 << 26, algorithm="ring")[1] == 1


def test_what_is_pinned_is_kept_where_order_does_not_matter() -> None:
    assert chosen("all_reduce", 99, reproducible=True, algorithm="bruck")[0] == "bruck"
    assert chosen("all_gather", 99, reproducible=True, algorithm="bruck")[0] == "bruck"
    assert chosen("reduce_scatter", 99, reproducible=True, algorithm="bruck")[0] == "direct"


@pytest.mark.parametrize(
    ("collective", "algorithm", "said"),
    [
        ("all_reduce", "mpi", "adds in an order of its own"),
        ("all_reduce", "folding", "adds in an order of its own"),
        ("reduce_scatter", "ring", "always one direct exchange"),
        ("reduce_scatter", "mpi", "always one direct exchange"),
        ("all_reduce", "nonsense", "unknown name 'nonsense'"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_cannot_be_kept_is_refused(collective: str, algorithm: str, said: str, dtype: str) -> None:
    if dtype == "int32" and "mpi" not in algorithm:
        return

    def rank_main(comm: Communicator) -> None:
        whole = np.ones(8, dtype)
        buffers = [whole] if collective == "all_reduce" else [whole[:2].copy(), whole]
        call = comm.all_reduce if collective == "all_reduce" else comm.reduce_scatter_tensor
        with pytest.raises(UsageError, match=f"rank {comm.rank}.*{said}"):
            call(*buffers, algorithm=algorithm, reproducible=True)

    lanecast.run_threads(4, rank_main)


def test_integers_keep_their_fast_plans() -> None:
    def rank_main(comm: Communicator) -> None:
        total = np.full(64, comm.rank, np.int64)
        comm.all_reduce(total, algorithm="folding", reproducible=True)  # refused for floats
        assert (total == 6).all()

    lanecast.run_threads(4, rank_main)


def test_a_call_may_differ_from_its_communicator() -> None:
    case = Sum("all_reduce", (997,), "float16", algorithm="ring")

    def rank_main(comm: Communicator) -> tuple[bytes, bytes, bytes]:
        usual = outcome(comm, case), outcome(comm, case, reproducible=False), outcome(comm, case)
        return usual[0].tobytes(), usual[1].tobytes(), usual[2].tobytes()

    for ordered, fast, again in lanecast.run_threads(8, rank_main, reproducible=True):
        assert ordered == again != fast


def test_misspelt_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="reproducible: 'yes' is not True or False"):
        lanecast.init(reproducible="yes")
    monkeypatch.setenv("LANECAST_REPRODUCIBLE", "yes")
    with pytest.raises(UsageError, match="LANECAST_REPRODUCIBLE='yes': expected 1 or 0"):
        lanecast.init()
