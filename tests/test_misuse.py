# SPDX-License-Identifier: Apache-2.0
"""Bad input is refused before data moves, in words that name rank and argument; the communicator lives on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from lanecast import Communicator, UsageError, _core
from lanecast.startup import progress_thread

SIZE = 3
F = np.float32


def readonly(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


def overlapping(comm: Communicator) -> None:
    memory = np.zeros(SIZE * 4 + 1, F)
    comm.all_gather_into_tensor(memory[1:], memory[comm.rank * 4 : comm.rank * 4 + 4])


# What is wrong → the call, and a word that its refusal has to contain.
MISUSES: dict[str, tuple[Callable[[Communicator], Any], str]] = {
    "a list": (lambda c: c.all_reduce([1.0, 2.0]), "tensor is a list"),
    "nothing": (lambda c: c.all_reduce(None), "tensor is a NoneType"),
    "a scalar": (lambda c: c.all_reduce(3.0), "tensor is a float"),
    "read-only": (lambda c: c.all_reduce(readonly(np.ones(3))), "tensor is read-only"),
    "read-only bytes": (lambda c: c.all_reduce(b"abc"), "tensor is read-only"),
    "strided": (lambda c: c.all_reduce(np.ones(8)[::2]), "tensor is not contiguous"),
    "transposed": (lambda c: c.all_gather_into_tensor(np.ones((3, 6)).T, np.ones(6)), "output is not contiguous"),
    "complex": (lambda c: c.all_reduce(np.ones(3, complex)), "complex128"),
    "bool": (lambda c: c.all_reduce(np.ones(3, bool)), "bool"),
    "other byte order": (lambda c: c.all_reduce(np.ones(3, ">i4")), "dtype"),
    "8-bit floats with infinities": (lambda c: c.all_reduce(np.ones(3, ml_dtypes.float8_e4m3)), "is float8_e4m3fn"),
    "objects": (lambda c: c.all_reduce(np.array([None, 1])), "dtype"),
    "two dtypes": (lambda c: c.all_gather_into_tensor(np.ones(6, F), np.ones(2)), "output has dtype float32"),
    "unknown op": (lambda c: c.all_reduce(np.ones(3), "plus"), "op 'plus'"),
    "average of integers": (lambda c: c.all_reduce(np.ones(3, int), "avg"), "avg"),
    "bits of floats": (lambda c: c.all_reduce(np.ones(3), "bxor"), "bxor"),
    "short output": (lambda c: c.all_gather_into_tensor(np.ones(5, F), np.ones(2, F)), "output needs 6"),
    "long input": (lambda c: c.reduce_scatter_tensor(np.ones(2, F), np.ones(7, F)), "input needs 6"),
    "counts for two": (lambda c: c.all_gather_into_tensor(np.ones(4), np.ones(2), counts=[2, 2]), "counts needs 3"),
    "negative counts": (lambda c: c.all_gather_into_tensor(np.ones(4), np.ones(2), counts=[2, 3, -1]), "counts"),
    "counts of other buffers": (lambda c: c.reduce_scatter_tensor(np.ones(9), np.ones(9), counts=[2, 3, 4]), "needs"),
    "fractions as counts": (
        lambda c: c.all_gather_into_tensor(np.ones(6), np.ones(2), counts=[2.0, 2.0, 2.0]),  # type: ignore[list-item]
        "counts",
    ),
    "counts that are no list": (lambda c: c.all_gather_into_tensor(np.ones(6), np.ones(2), counts=2), "counts=2"),  # type: ignore[arg-type]
    "words as split sizes": (
        lambda c: c.all_to_all_single(np.ones(3), np.ones(3), list("abc")),
        "output_split_sizes=",
    ),
    "a list as op": (lambda c: c.all_reduce(np.ones(3), ["sum"]), "op ['sum']"),  # type: ignore[arg-type]
    "a tag beyond all numbers": (lambda c: c.isend(np.ones(3), 1, 1 << 70), "tag 1180591620717411303424"),
    "a batch of something else": (lambda c: c.batch_isend_irecv([3]), "p2p_op_list"),  # type: ignore[list-item]
    "a batch that is no list": (lambda c: c.batch_send_recv(3), "p2p_op_list"),  # type: ignore[arg-type]
    "chunks beyond 32 bits": (lambda c: c.all_reduce(np.ones(3), chunks=10**12), "a number of 32 bits"),
    "overlap": (overlapping, "overlap"),
    "unknown algorithm": (lambda c: c.all_reduce(np.ones(3), algorithm="rings"), "rings"),
    "a number as algorithm": (lambda c: c.all_reduce(np.ones(3), algorithm=3), "algorithm"),  # type: ignore[arg-type]
    "algorithm of another collective": (
        lambda c: c.all_gather_into_tensor(np.ones(3), np.ones(1), algorithm="folding"),
        "all_reduce only",
    ),
    "algorithm for powers of two": (
        lambda c: c.all_reduce(np.ones(3), algorithm="recursive_doubling"),
        "does not take 3 ranks",
    ),
    "hierarchy without levels": (lambda c: c.all_reduce(np.ones(3), algorithm="hierarchical(ring,ring)"), "one level"),
    "mpi without one": (lambda c: c.all_reduce(np.ones(3), algorithm="mpi"), "no transport here"),
    "root outside": (lambda c: c.broadcast(np.ones(3), 3), "src: rank 3 is outside 0 to 2"),
    "root that is no rank": (lambda c: c.reduce(np.ones(3), "0"), "dst='0'"),  # type: ignore[arg-type]
    "counts of a gather for two": (lambda c: c.gather(np.ones(9), np.ones(2), 0, counts=[2, 2]), "counts needs 3"),
    "shares that do not fit": (lambda c: c.all_to_all_single(np.ones(4), np.ones(4)), "input has 4 rows"),
    "two sizes": (lambda c: c.all_to_all_single(np.ones(3), np.ones(6)), "they must be equal"),
    "split sizes": (
        lambda c: c.all_to_all_single(np.ones(3), np.ones(3), [1, 1, 1], [2, 2, 2]),
        "input_split_sizes needs 3 numbers that add up to 3",
    ),
    "negative chunks": (lambda c: c.all_reduce(np.ones(3), chunks=-2), "chunks"),
    "unknown collective": (lambda c: c.chosen("all_scatter", 3), "all_scatter"),
    "own counts of a sum": (lambda c: c.chosen("all_reduce", 3, own_counts=True), "own_counts: only gather"),
    "a negative count": (lambda c: c.explain("all_reduce", -1), "count=-1"),
    "dtype that is none": (lambda c: c.chosen("all_reduce", 3, "float31"), "float31"),
}


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("what", MISUSES)
def test_misuse_is_refused_and_harmless(what: str, async_op: bool) -> None:
    call, word = MISUSES[what]

    def body(comm: Communicator) -> list[str]:
        if async_op:  # while another call is under way
            tensor = np.ones(10_000)
            work = comm.all_reduce(tensor, async_op=True)
        with pytest.raises(UsageError) as caught:
            call(comm)
        if async_op:
            assert work is not None
            work.wait()
        text = str(caught.value)
        assert re.search(re.escape(word), text), text
        assert f"rank {comm.rank}" in text or what in (
            "unknown collective",
            "dtype that is none",
            "a negative count",
            "own counts of a sum",
        ), text
        return run_cases(comm, [Case("all_reduce", (31,)), Case("all_gather", (3, 0, 8), in_place=True)])

    assert lanecast.run_threads(SIZE, body, timeout_s=60.0) == [[]] * SIZE


# Options that do not fit → a word that the refusal has to contain.
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"algoritm": "ring"}, "algoritm"),
    ({"topology": "2x2"}, "2x2"),
    ({"topology": "0x3"}, "topology"),
    ({"topology": "threes"}, "threes"),
    ({"topology": 3}, "topology"),
    ({"transports": "pigeon"}, "pigeon"),
    ({"transports": "shm"}, "shm"),
    ({"transports": "mpi"}, "mpi"),
    ({"transports": "loopback,loopback"}, "one name"),
    ({"transports": ","}, "transports"),
    ({"timeout_s": 0.0}, "timeout_s"),
    ({"timeout_s": float("nan")}, "timeout_s"),
    ({"timeout_s": "soon"}, "timeout_s"),
    ({"chunks": -1}, "chunks"),
    ({"chunks": 2**31 - 1}, "chunks"),
    ({"chunks": 2**40}, "chunks"),
    ({"topology": "x".join(["1"] * 9)}, "levels"),
    ({"algorithm": None}, "algorithm"),
]


@pytest.mark.parametrize(("options", "word"), OPTIONS, ids=lambda value: str(value)[:40])
def test_options_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=re.escape(word)):
        lanecast.run_threads(SIZE, lambda comm: None, **options)


@pytest.mark.parametrize(
    ("place", "all_gather", "named"),
    [
        ((0, 2), lambda mine: mine, "all_gather: returned 4 bytes, expected 8"),
        ((0, 2), lambda mine: "x" * 2 * len(mine), "all_gather: returned <class 'str'>, expected bytes"),
        ((0, 2), lambda _: None, "all_gather: returned <class 'NoneType'>, expected bytes"),
        (
            (1, 2),
            lambda mine: mine + mine,
            "rank 1: all_gather: in the place of rank 0 lies not what it has given but 1",
        ),
        ((0, 2), lambda mine: mine + b"\xff" * len(mine), "in the place of rank 1 lies not what it has given but -1"),
        ((2, 2), lambda mine: mine + mine, "rank 2 of 2: ranks go from 0"),
        ((-1, 2), lambda mine: mine + mine, "rank -1 of 2: ranks go from 0"),
        ((0, 0), lambda mine: mine, "rank 0 of 0: ranks go from 0"),
    ],
)
def test_an_all_gather_that_is_none(place: tuple[int, int], all_gather: Callable[[bytes], Any], named: str) -> None:
    with pytest.raises(UsageError, match=re.escape(named)):
        lanecast.from_all_gather(*place, all_gather)


def test_topology_of_other_size_is_refused() -> None:
    with pytest.raises(UsageError, match="4 ranks"):
        lanecast.run_threads(SIZE, lambda comm: None, topology=lanecast.Topology.parse("2x2", 4))


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("LANECAST_FOO", "1", "LANECAST_FOO"),
        ("LANECAST_CHUNKS", "many", "LANECAST_CHUNKS"),
        ("LANECAST_CHUNKS", "0", "at least 1"),
        ("LANECAST_CHUNKS", "99999999999", "LANECAST_CHUNKS"),
        ("LANECAST_TIMEOUT", "nan", "LANECAST_TIMEOUT"),
        ("LANECAST_TIMEOUT", "5 s", "LANECAST_TIMEOUT"),
        ("LANECAST_TIMEOUT", "-1", "LANECAST_TIMEOUT"),
        ("LANECAST_CHUNKS", "65537", "LANECAST_CHUNKS='65537': expected a number of at least 1 and at most 65536"),
        ("LANECAST_REPRODUCIBLE", "maybe", "LANECAST_REPRODUCIBLE='maybe': expected 1 or 0"),
        ("LANECAST_CHECK_CALLS", "2", "LANECAST_CHECK_CALLS='2': expected 1 or 0"),
        ("LANECAST_TRACE_STEPS", "yes", "LANECAST_TRACE_STEPS='yes': expected 1 or 0"),
        ("LANECAST_MAX_CTAS", "0", "LANECAST_MAX_CTAS='0': expected a number of at least 1"),
        ("LANECAST_ALLOW_SHARED_GPU", "all", "LANECAST_ALLOW_SHARED_GPU='all': expected 1 or 0"),
        ("LANECAST_TOPOLOGY", "9x9", "LANECAST_TOPOLOGY: topology '9x9' describes 81 ranks"),
        ("LANECAST_TOPOLOGY", "2x", "LANECAST_TOPOLOGY: topology '2x': expected"),
        ("LANECAST_TOPOLOGY", "machine:nowhere", "LANECAST_TOPOLOGY: machine 'nowhere' is unknown"),
        ("LANECAST_TRANSPORTS", "smoke", "LANECAST_TRANSPORTS: transports: unknown name 'smoke'"),
        ("LANECAST_TRANSPORTS", "loopback,shm", "LANECAST_TRANSPORTS: transports 'loopback,shm': topology"),
        ("LANECAST_ALGORITHM", "magic", "rank 0: all_reduce: LANECAST_ALGORITHM: algorithm 'magic'"),
        ("LANECAST_PROFILE", "/nowhere/p.json", "LANECAST_PROFILE: profile /nowhere/p.json"),
        ("LANECAST_PROFILE", "machine:nowhere", "LANECAST_PROFILE: profile machine:nowhere"),
    ],
)
def test_environment_is_refused(name: str, value: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=re.escape(word)):
        lanecast.run_threads(SIZE, lambda comm: comm.all_reduce(np.ones(4)))


def test_variable_is_not_blamed_for_what_the_code_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_TOPOLOGY", str(SIZE))
    monkeypatch.setenv("LANECAST_ALGORITHM", "ring")
    with pytest.raises(UsageError, match=r"^(rank \d refuses: )?topology '9x9'"):
        lanecast.run_threads(SIZE, lambda comm: None, topology="9x9")
    with pytest.raises(UsageError, match="all_reduce: algorithm 'magic'"):
        lanecast.run_threads(SIZE, lambda comm: comm.all_reduce(np.ones(4), algorithm="magic"))


def test_environment_sets_what_the_code_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_TOPOLOGY", "3x2")
    monkeypatch.setenv("LANECAST_ALGORITHM", "hierarchical(ring,direct)")
    monkeypatch.setenv("LANECAST_CHUNKS", "5")
    chosen = lanecast.run_threads(6, lambda comm: comm.chosen("all_reduce", 100))
    assert chosen == [("hierarchical(ring,direct)", 5)] * 6
    pinned = lanecast.run_threads(6, lambda comm: comm.chosen("all_reduce", 100), algorithm="ring", chunks=2)
    assert pinned == [("ring", 2)] * 6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lanecast.run_threads("2", lambda _: None), "size='2', expected a whole number of 32 bits"),  # type: ignore[arg-type]
        (lambda: lanecast.run_threads(0, lambda _: None), "at least one rank"),
        (lambda: lanecast.run_threads(10**6, lambda _: None), "at most 2048 ranks, not 1000000"),
        (
            lambda: lanecast.run_threads(10**12, lambda _: None),
            "size=1000000000000, expected a whole number",
        ),
        (lambda: lanecast.from_all_gather(0, 1.0, lambda mine: mine), "size=1.0"),  # type: ignore[arg-type]
        (lambda: lanecast.from_all_gather(0, 1, None), "all_gather is a NoneType"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # a function's text differs from process to process
)
def test_communicators_that_nobody_can_make(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        make()


def test_errors_say_the_name_that_users_catch() -> None:
    assert f"{UsageError.__module__}.{UsageError.__name__}" == "lanecast.UsageError"


def test_option_that_one_rank_refuses_is_refused_by_all() -> None:
    """Not all ranks need to be on the host where the variable is misspelt."""
    world = lanecast._core.make_world(2)
    progress = lanecast._core.make_progress_thread()
    errors: dict[int, str] = {}

    def rank_main(rank: int) -> None:
        options = {"topology": "pigeon"} if rank == 1 else {}
        try:
            lanecast._core.Communicator.from_threads(world, rank, progress, options)
        except UsageError as error:
            errors[rank] = str(error)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert "pigeon" in errors[1]
    assert "rank 1 refuses" in errors[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"topology": "2x2"}, {"topology": "2x2:cyclic"}),
        ({"check_calls": True}, {"check_calls": False}),
        ({"chunks": 1}, {"chunks": 12}),
        ({"reproducible": True}, {}),
        ({"algorithm": "ring"}, {"algorithm": "direct"}),
        ({"allow_shared_gpu": True}, {}),
        ({"device": 0}, {}),
    ],
    ids=str,
)
def test_options_that_differ_between_ranks_are_refused_on_all(one: dict[str, Any], other: dict[str, Any]) -> None:
    world = _core.make_world(4)

    def begin(rank: int) -> str:
        try:
            _core.Communicator.from_threads(world, rank, progress_thread(), other if rank == 2 else one)
        except UsageError as error:
            return str(error)
        return "made"

    with ThreadPoolExecutor(4) as ranks:
        (said,) = set(ranks.map(begin, range(4)))
    assert "have to be equal on all ranks: rank 0 has" in said
    assert "rank 2" in said
