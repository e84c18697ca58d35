# SPDX-License-Identifier: Apache-2.0
"""Collectives among the GPUs of several hosts, as programs with proxies, without a GPU: plans pinned and chosen."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even
from gpu_stand_in import (
    THREE,
    between_hosts,
    in_place_is_offered,
    judge,
    outcomes,
    shape_cases,
    tensor,
    type_cases,
)
from lanecast import Communicator, _core
from lanecast.profiles.model import save
from launch import mpich
from learned_models import constant, model
from pipe_jobs import Tell, stays_until

# More chunks than are in flight at a time, so that their memory changes hands.
MANY = 5
SHAPES = [
    (2, "2x1", "ring", (0, 1, 5, 2003)),
    (3, "3x1", "direct", (1, 700)),
    (4, "2x2", "hierarchical(ring,peers)", (331,)),
    (3, "2+1", "hierarchical(direct,peers)", (83,)),
]


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(("size", "topology", "algorithm", "counts"), SHAPES)
def test_each_shape(size: int, topology: str, algorithm: str, counts: tuple[int, ...], kernel_cache: str) -> None:
    judge(size, shape_cases(size, algorithm, counts, (1, MANY)), kernel_cache, **between_hosts(topology))


@pytest.mark.timeout(400)
def test_each_type_and_operator(kernel_cache: str) -> None:
    judge(2, type_cases(), kernel_cache, **between_hosts("2x1"))


@pytest.mark.timeout(400)
def test_averages_and_uneven_counts_by_peers_and_messages(kernel_cache: str) -> None:
    """Blocks of hierarchical plans lie apart here, where no access of 16 bytes begins, so they are packed for the
    group, and unpacked."""
    algorithm = "hierarchical(ring,peers)"
    cases = [
        Case("reduce_scatter", (7, 0, 20, 1), algorithm, "float64", "avg", async_op=True),
        Case("all_gather", (7, 0, 20, 1), algorithm, "int16", chunks=2),
    ]
    judge(4, cases, kernel_cache, **between_hosts("2x2"))


@pytest.mark.timeout(400)
def test_parts_that_a_group_takes_from_where_they_are(kernel_cache: str) -> None:
    """Each lies together, at a multiple of 16 bytes, and the group's kernels get its place."""
    whole = partial(Case, algorithm="hierarchical(ring,peers)", dtype="float32")
    cases = [
        whole(kind, counts, chunks=chunks, in_place=in_place)
        for kind in THREE
        for counts in (even(kind, 320, 4), (320, 0, 160, 80))
        for chunks in (1, 4, MANY)
        for in_place in in_place_is_offered(kind)
        if kind != "all_reduce" or len(set(counts)) == 1
    ]
    judge(4, cases, kernel_cache, 16, **between_hosts("2x2"))


@pytest.mark.timeout(400)
def test_parts_in_pieces_of_16_bytes(kernel_cache: str) -> None:
    """What a member gets by a group step comes from or goes to several places, each of which an access can begin at."""
    cases = [
        Case("all_to_all", even("all_to_all", count, 4), f"hierarchical({across},peers)", "int16", chunks=chunks)
        for across in ("pairwise", "bruck")
        for count, chunks in ((8, 1), (16, 2))
    ]
    judge(4, cases, kernel_cache, 8, **between_hosts("2x2"))


@pytest.mark.timeout(400)
def test_rooted_ones_and_all_to_all(kernel_cache: str) -> None:
    algorithms = {
        "broadcast": "chain", "reduce": "binomial", "gather": "binomial", "scatter": "direct", "all_to_all": "pairwise",
    }  # fmt: skip
    cases = [
        Case(kind, even(kind, 50, 3), algorithm, in_place=in_place_is_offered(kind)[0], root=1, chunks=2)
        for kind, algorithm in algorithms.items()
    ]
    judge(3, cases, kernel_cache, **between_hosts("3x1"))


@pytest.mark.timeout(400)
def test_a_group_whose_members_know_only_their_own_messages(kernel_cache: str) -> None:
    """Of the three lanes of the larger host one sends nothing beyond the two of the other."""
    case = Case("all_to_all", even("all_to_all", 20_000, 5), "hierarchical(pairwise,peers)")
    judge(5, [case], kernel_cache, **between_hosts("3+2"), timeout_s=100)


@pytest.mark.timeout(400)
def test_messages_larger_than_the_memory_they_pass_through(kernel_cache: str) -> None:
    judge(
        2,
        [Case("all_gather", even("all_gather", 9 << 20, 2), "ring", "uint8")],
        kernel_cache,
        16,
        **between_hosts("2x1"),
    )


# As Lanecast cuts messages of own counts.
PIECE = 1 << 20


@pytest.mark.timeout(400)
@pytest.mark.parametrize("queues", ["8", "1"])
def test_counts_that_each_rank_knows_for_itself(queues: str, kernel_cache: str) -> None:
    """Also of so many pieces on some ranks, and fewer on others, that the memory they pass through changes hands."""
    few = (0, 7, 20, 1, 0, 33, 5, 0, 2)
    many = (1, 6 * PIECE + 5, 3, 2 * PIECE, 0, 1, 0, PIECE, 2 * PIECE + 1)
    cases = [
        Case("all_to_all", few, "pairwise", "float64", async_op=True, own_counts=True),
        Case("all_to_all", many, "pairwise", "uint8", own_counts=True),
        Case("all_to_all", (0,) * 9, "pairwise", own_counts=True),
    ]
    judge(3, cases, kernel_cache, **between_hosts("3x1"), variables={"CUDA_DEVICE_MAX_CONNECTIONS": queues})


def gather_and_scatter(comm: Communicator, _: Tell) -> list[float]:
    """As C has them: only the root, rank 1, knows all counts."""
    counts = [5, 0, 3]
    mine, back = tensor(comm, counts[comm.rank]), tensor(comm, counts[comm.rank])
    mine.array[:] = comm.rank + 1
    root = comm.rank == 1
    whole = tensor(comm, sum(counts) if root else 0)
    for kind, source, target in (("gather", mine, whole), ("scatter", whole, back)):
        own, all_of_them = [counts[comm.rank]], counts if root else []
        given = (own, all_of_them) if kind == "gather" else (all_of_them, own)
        where: list[Any] = [_core.device_buffer(each, "buffer", comm.rank) for each in (source, target)]
        dtype = _core.DTYPES.index("float32")
        core: Any = comm._core
        core.enqueue(_core.KINDS.index(kind), *where, dtype, 0, 0, [], "direct", 0, 1, *given, None)
    comm.synchronize()
    return [*whole.array.tolist(), *back.array.tolist()]


def test_counts_that_only_the_root_knows_all_of(kernel_cache: str) -> None:
    ended = outcomes(3, gather_and_scatter, kernel_cache, **between_hosts("3x1"))
    assert [outcome.text or outcome.value for outcome in ended] == [[1.0] * 5, [1.0] * 5 + [3.0] * 3, [3.0] * 3]


LONGER_THAN_THE_CALL: list[object] = []  # what streams still copy when an error has been raised


def counts_differ(pieces: dict[int, int], comm: Communicator, _: Tell) -> None:
    """Each rank thinks that so many pieces go from rank 0 to rank 1."""
    rows = [0, pieces[comm.rank] * PIECE]
    mine, other, x = tensor(comm, 0), tensor(comm, rows[1] // 4), tensor(comm, 8)
    LONGER_THAN_THE_CALL.extend((mine, other, x))
    if comm.rank == 0:
        comm.all_to_all_single(mine, other, [0, 0], [0, rows[1] // 4], algorithm="pairwise")
    else:
        comm.all_to_all_single(other, mine, [rows[1] // 4, 0], [0, 0], algorithm="pairwise")
    comm.all_reduce(x, algorithm="ring")
    comm.synchronize()


@pytest.mark.parametrize("pieces", [{0: 2, 1: 1}, {0: 1, 1: 2}])
def test_counts_that_do_not_agree(pieces: dict[int, int], kernel_cache: str) -> None:
    """Whole pieces more or less are no other message's."""
    ended = outcomes(2, partial(counts_differ, pieces), kernel_cache, **between_hosts("2x1"), timeout_s=60.0)
    said = " ".join(outcome.text for outcome in ended)
    assert f"sends {pieces[0] * PIECE // 4} elements to rank 1" in said, said
    assert f"expects {pieces[1] * PIECE // 4} elements from rank 0" in said, said
    assert all(outcome.error == "TransportError" for outcome in ended)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("size", "topology", "algorithm", "kinds"),
    [(3, "3x1", "ring", THREE), (4, "2x2", "hierarchical(ring,peers)", THREE[:1])],
)
def test_a_device_with_one_queue(
    size: int, topology: str, algorithm: str, kinds: tuple[str, ...], kernel_cache: str
) -> None:
    cases = [Case(kind, even(kind, 100, size), algorithm, chunks=MANY, async_op=True) for kind in kinds]
    judge(size, cases, kernel_cache, **between_hosts(topology), variables={"CUDA_DEVICE_MAX_CONNECTIONS": "1"})


def far_ahead(comm: Communicator, _: Tell) -> list[float]:
    x = tensor(comm, 1000)
    for turn in range(6):
        if turn % 2:
            comm.all_reduce(x, algorithm="ring", chunks=MANY)
        else:
            comm.all_reduce(x, algorithm="ring", chunks=MANY, async_op=True)
    comm.synchronize()
    return [float(each) for each in np.unique(x.array)]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("queues", ["1", "8"])
def test_calls_for_which_the_driver_has_no_room(queues: str, kernel_cache: str) -> None:
    """The host is ahead of the device by more than fits, which waits for messages: those have to move meanwhile."""
    variables = {"CUDA_DEVICE_MAX_CONNECTIONS": queues, "GPU_HOST_ROOM": "12"}
    for outcome in outcomes(2, far_ahead, kernel_cache, **between_hosts("2x1"), timeout_s=60.0, variables=variables):
        assert (outcome.text, outcome.value) == ("", [2.0**6])


def opposite_orders(comm: Communicator, _: Tell) -> list[float]:
    other = comm.split(0, comm.rank)
    assert other is not None
    both = [comm, other]
    tensors = [tensor(comm, 1000), tensor(comm, 77)]
    for each in both:  # in one order, since ranks open their GPUs together
        each.broadcast(tensors[0], 0, algorithm="chain")
        each.synchronize()
    order = [0, 1] if comm.rank == 0 else [1, 0]
    works = [both[k].all_reduce(tensors[k], algorithm="ring", chunks=3, async_op=True) for k in order]
    for work in works:
        work.synchronize()  # type: ignore[union-attr]
    return [float(each.array.sum()) for each in tensors]


def test_two_communicators_in_opposite_orders(kernel_cache: str) -> None:
    for outcome in outcomes(2, opposite_orders, kernel_cache, **between_hosts("2x1")):
        assert (outcome.text, outcome.value) == ("", [2000.0, 154.0])


def ranks_differ(comm: Communicator, _: Tell) -> None:
    equal, other = tensor(comm, 8), tensor(comm, 8 + comm.rank)
    comm.all_reduce(equal, algorithm="ring")
    comm.all_reduce(other, algorithm="ring")
    comm.synchronize()


def test_different_calls(kernel_cache: str) -> None:
    for outcome in outcomes(2, ranks_differ, kernel_cache, **between_hosts("2x1"), timeout_s=60.0):
        assert outcome.error == "TransportError"
        assert "call 2 of this communicator differs between ranks: rank 0 calls all_reduce of 8 float32" in outcome.text


def second_rank_comes_late(ended: Path, comm: Communicator, _: Tell) -> str:
    x = tensor(comm, 8)
    comm.all_reduce(x, algorithm="ring")
    comm.synchronize()
    if comm.rank == 1:
        stays_until(ended)
    comm.all_reduce(x, algorithm="ring")
    try:
        comm.synchronize()
    except lanecast.TimeoutError:
        with pytest.raises(lanecast.TransportError, match="has failed and takes no more calls"):
            comm.all_reduce(x, algorithm="ring")
        raise
    finally:
        ended.touch()
    return ""


def test_a_peer_that_does_not_call(kernel_cache: str, tmp_path: Path) -> None:
    body = partial(second_rank_comes_late, tmp_path / "ended")
    waited, late = outcomes(2, body, kernel_cache, **between_hosts("2x1"), timeout_s=6)
    assert waited.error == "TimeoutError"
    assert "rank 0 waited " in waited.text
    assert "s for rank 1 in step" in waited.text
    assert "recv_reduce from rank 1" in waited.text
    assert "of all_reduce by ring on a GPU over ucx (call 2)" in waited.text
    assert late.error
    assert "rank 0" in late.text


def behind_long_work(comm: Communicator, _: Tell) -> str:
    x = tensor(comm, 8)
    with gpu_host_library.held_up(comm.rank):
        comm.all_reduce(x, algorithm="ring")
        comm.all_reduce(x, algorithm="ring")
        time.sleep(6)
        untouched = str(x.array.sum())
    comm.synchronize()
    return f"{untouched} {x.array.sum()}"


def test_what_a_stream_has_to_do_before_counts_for_no_deadline(kernel_cache: str) -> None:
    for outcome in outcomes(2, behind_long_work, kernel_cache, **between_hosts("2x1"), timeout_s=4):
        assert (outcome.text, outcome.value) == ("", "8.0 32.0")


def third_rank_leaves(comm: Communicator, _: Tell) -> None:
    whole, own = tensor(comm, 24), tensor(comm, 8)
    comm.all_gather_into_tensor(whole, own, algorithm="ring")
    comm.synchronize()
    if comm.rank < 2:
        comm.all_gather_into_tensor(whole, own, algorithm="ring")
        comm.synchronize()


def test_a_peer_that_has_gone(kernel_cache: str) -> None:
    first, second, _ = outcomes(3, third_rank_leaves, kernel_cache, **between_hosts("3x1"), timeout_s=60)
    for outcome in (first, second):
        assert outcome.error == "TransportError"
        assert "rank 2" in outcome.text


def unheard_of(comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    for algorithm, chunks, words in (
        ("rings", 0, "algorithm 'rings' is unknown on GPUs; known: nccl, and peers peer_kernel"),
        ("ring", -1, "chunks: -1 is not from 0 to"),
        ("peer_kernel", 0, "algorithm 'peer_kernel' moves memory among the GPUs of one host, and these ranks are on 2"),
    ):
        with pytest.raises(lanecast.UsageError) as caught:
            comm.all_reduce(x, algorithm=algorithm, chunks=chunks)
        assert words in str(caught.value)
    for algorithm, chunks, words in (
        ("bruck", 0, "algorithm 'bruck': forwards what other ranks are to get"),
        ("pairwise", 3, "chunks=3: messages of send_counts and recv_counts are cut pair by pair on GPUs; give 0"),
    ):
        with pytest.raises(lanecast.UsageError) as caught:
            comm.all_to_all_single(tensor(comm, 8), x, [4, 4], [4, 4], algorithm=algorithm, chunks=chunks)
        assert words in str(caught.value)


def test_what_cannot_be_run_is_refused(kernel_cache: str) -> None:
    assert [outcome.text for outcome in outcomes(2, unheard_of, kernel_cache, **between_hosts("2x1"))] == [""] * 2


def run_hosts(hosts: str, kernel_cache: str, **variables: str) -> list[str]:
    """A line of each rank, at least."""
    program = [sys.executable, str(Path(__file__).parent / "gpu_across_rank.py"), hosts, kernel_cache]
    output = mpich(hosts.count(",") + 1, program, timeout_s=900, **gpu_host_library.environment(), **variables)
    return output.splitlines()


# Four ranks whose kernels spin on two cores, beside an MPI that polls: a minute or more.
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("hosts", "lanes"), [("a,b", "0"), ("a,b", "1"), pytest.param("a,a,b,b", "0", marks=pytest.mark.long)]
)
def test_hosts_of_an_mpi_job(hosts: str, lanes: str, kernel_cache: str) -> None:
    found = run_hosts(hosts, kernel_cache, LANECAST_UCX_LANES=lanes)  # with any, messages go over UCX
    assert found == ["right"] * (hosts.count(",") + 1)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("hosts", ["a,b", "a,a,b"])  # of three ranks two exchange messages by their host's memory
def test_an_mpi_that_is_handed_the_memory_of_gpus(hosts: str, kernel_cache: str) -> None:
    found = run_hosts(hosts, kernel_cache, LANECAST_GPU_MESSAGES="direct")
    assert found == ["right"] * (hosts.count(",") + 1)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("ranks", "nics"), [(2, "2GBps,20us"), pytest.param(4, "2GBps,20us,2", marks=pytest.mark.long)]
)
def test_emulated_nics_move_the_memory_of_gpus(ranks: int, nics: str, kernel_cache: str) -> None:
    hosts = ",".join([""] * ranks)  # the variable names them
    found = run_hosts(hosts, kernel_cache, LANECAST_GPU_NICS=nics, LANECAST_GPU_MESSAGES="direct")
    assert found == ["right"] * ranks


@pytest.mark.timeout(1000)
def test_messages_that_no_transport_takes_from_a_gpu(kernel_cache: str) -> None:
    for line in run_hosts("a,b", kernel_cache, LANECAST_TRANSPORTS="ucx", LANECAST_GPU_MESSAGES="direct"):
        assert "LANECAST_GPU_MESSAGES: gpu_messages: 'direct', and messages from rank" in line
        assert "go over ucx, which takes no GPU's memory here; UCX takes it with " in line
        assert "a UCX that has a module for it, named in LANECAST_UCX_LIBRARY; " in line  # MPICH's has none


@pytest.mark.parametrize("make", ["argument", "variable"])
def test_a_place_for_messages_that_there_is_not(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if make == "variable":
        monkeypatch.setenv("LANECAST_GPU_MESSAGES", "gpu")
    with pytest.raises(lanecast.UsageError, match="gpu_messages: 'gpu' is neither staged nor direct") as caught:
        lanecast.init(**({"gpu_messages": "gpu"} if make == "argument" else {}))
    assert str(caught.value).startswith("LANECAST_GPU_MESSAGES: ") == (make == "variable")


@pytest.mark.timeout(2000)  # two jobs
@pytest.mark.parametrize(
    ("hosts", "node", "named"),
    [
        ("a,b", "1", ("bruck", "bruck")),
        pytest.param(
            "a,a,b,b", "2", ("hierarchical(bruck,direct)", "hierarchical(bruck,peers)"), marks=pytest.mark.long
        ),
    ],
)
def test_what_was_learned_decides_between_hosts(
    hosts: str, node: str, named: tuple[str, str], kernel_cache: str, tmp_path: Path
) -> None:
    """Within a host by peer memory, whatever was timed there. named: what was learned, and what is taken."""
    learned, taken = named
    for names in ([learned], ["ring"]):  # of one of them the cost model would think as well
        path, traces = tmp_path / "m.json", tmp_path / names[0]
        save(model(constant("all_gather", names), node=node), path)
        traces.mkdir()
        chosen = {"LANECAST_PROFILE": str(path), "LANECAST_TRACE_DIR": str(traces)}
        assert run_hosts(hosts, kernel_cache, **chosen) == ["right"] * (hosts.count(",") + 1)
        calls = [json.loads(line) for file in traces.glob("*.jsonl") for line in file.read_text().splitlines()]
        by = {call["algorithm"] for call in calls if call.get("collective") == "all_gather"}
        assert by == {taken if names == [learned] else "ring"}
