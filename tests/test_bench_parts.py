# SPDX-License-Identifier: Apache-2.0
"""What `lanecast bench` is made of: parsing, checks, payloads and the arithmetic of its columns."""

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core
from lanecast.bench import checks, cores, figures, options, tables
from lanecast.bench.cases import Case, exact_limit, is_exact
from lanecast.bench.device import Host
from lanecast.bench.measure import Bench, Contender, case_for, row_of
from lanecast.bench.memory import HostMemory
from lanecast.bench.payload import Payload
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import Backend, Settings, parse_backend
from lanecast.dtypes import numpy_dtype

MIB = 1 << 20
NOT_NUMPYS = ("bfloat16", "float8_e4m3", "float8_e5m2")


def settings(**changes: object) -> Settings:
    given: dict[str, object] = {"collectives": _core.KINDS, "sizes": (4096,), "backends": (Backend("lanecast"),)}
    return Settings(**(given | changes))  # type: ignore[arg-type]


def test_lists_split_outside_parentheses_only() -> None:
    text = "lanecast, mpi,lanecast:hierarchical(ring,direct),lanecast:mpi"
    assert options.split_list(text) == ("lanecast", "mpi", "lanecast:hierarchical(ring,direct)", "lanecast:mpi")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("512", (512,)),
        ("64k,4M,1GiB", (64 << 10, 4 * MIB, 1 << 30)),
        ("4MB,2b", (4 * MIB, 2)),
        ("1M..8M", (MIB, 2 * MIB, 4 * MIB, 8 * MIB)),
        ("1M..3M,1M", (MIB, 2 * MIB)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert options.parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "0", "4Q", "-1", "8M..4M", "1.5M"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(lanecast.UsageError, match="size"):
        options.parse_sizes(text)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("lanecast", Backend("lanecast")),
        ("lanecast:ring", Backend("lanecast:ring", "ring")),
        ("lanecast:mpi", Backend("lanecast:mpi", "mpi")),
        ("mpi", Backend("mpi", library="mpi")),
    ],
)
def test_backends(name: str, backend: Backend) -> None:
    assert parse_backend(name) == backend


@pytest.mark.parametrize("name", ["nccl", "lanecast:", "mpi:ring", ""])
def test_unknown_backends_say_what_is_known(name: str) -> None:
    with pytest.raises(lanecast.UsageError, match="lanecast:ALGORITHM, reproducible, mpi"):
        parse_backend(name)


@pytest.mark.parametrize(("text", "ranks"), [("8", 8), ("2x4", 8), ("2x2x2:cyclic", 8), ("3+2+4", 9), ("nonsense", 1)])
def test_ranks_of_a_topology(text: str, ranks: int) -> None:
    assert options.ranks_of(text) == ranks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backends": (Backend("lanecast:foo", "foo"),)}, "known: ring, recursive_doubling, bruck"),
        ({"topologies": ("2x3",)}, "describes 6 ranks, but there are 4"),
        ({"sizes": (8,)}, "less than one float32 of each of 4 ranks"),
        ({"sizes": (64, 1 << 50)}, "size 1125899906842624: one for each of 4 ranks is more than this host's"),
        ({"collectives": ("all_gather", "all_to_all"), "in_place": True}, "in-place: all_to_all needs two buffers"),
        ({"op": "band"}, "it takes int8"),
        ({"op": "avg", "backends": (Backend("mpi", library="mpi"),)}, "MPI has no op avg"),
        ({"dtype": "float16", "backends": (Backend("lanecast:mpi", "mpi"),)}, "MPI reduces no float16"),
        (
            {"dtype": "bfloat16", "backends": (Backend("mpi", library="mpi"),)},
            "MPI reduces no bfloat16; it takes float64",
        ),
        ({"dtype": "float8_e5m2", "op": "bxor"}, "it takes int8"),
    ],
)
def test_what_cannot_run_is_refused_beforehand(changes: dict[str, object], message: str) -> None:
    with pytest.raises(lanecast.UsageError, match=message):
        checks.check(settings(**changes), ranks=4)


def test_an_algorithm_of_one_collective_is_left_out_of_the_others() -> None:
    asked = settings(backends=(Backend("lanecast"), Backend("lanecast:one_shot", "one_shot")))
    checks.check(asked, ranks=4)
    flat = _core.Topology(4)
    assert [len(checks.takers(asked, kind, flat)) for kind in ("all_gather", "all_reduce")] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "left", "sentence"),
    [
        ({"dtype": "float8_e4m3"}, ["lanecast"], "no reduction float8_e4m3: all_reduce without mpi, lanecast:mpi"),
        ({"op": "avg"}, ["lanecast", "lanecast:mpi"], "no reduction avg: all_reduce without mpi"),
        ({"dtype": "int8"}, ["lanecast", "mpi", "lanecast:mpi"], ""),
    ],
)
def test_what_mpi_cannot_reduce_is_measured_without_it(
    changes: dict[str, object], left: list[str], sentence: str
) -> None:
    backends = (Backend("lanecast"), Backend("mpi", library="mpi"), Backend("lanecast:mpi", "mpi"))
    asked = settings(collectives=("all_gather", "all_reduce"), backends=backends, **changes)
    checks.check(asked, ranks=4)
    flat = _core.Topology(4)
    assert [backend.name for backend in checks.takers(asked, "all_reduce", flat)] == left
    assert len(checks.takers(asked, "all_gather", flat)) == 3
    assert checks.left_out(asked).endswith(sentence)
    assert bool(checks.left_out(asked)) == bool(sentence)


def test_of_nccl_it_is_said_of_none() -> None:
    names = ("nccl", "lanecast:nccl")
    asked = settings(dtype="bfloat16", backends=tuple(parse_backend(name, "cuda") for name in names))
    checks.check_reduction(asked)
    assert checks.left_out(asked) == ""


@pytest.mark.parametrize("dtype", [*NOT_NUMPYS, "float16"])
@pytest.mark.parametrize("op", ["sum", "avg"])
def test_reductions_that_would_be_rounded_are_refused(dtype: str, op: str) -> None:
    for ranks in range(1, 40):
        totals = np.arange(ranks + 1) * (1 if op == "sum" else ranks)  # of which a payload makes all
        exact = bool(np.all(totals.astype(numpy_dtype(dtype)).astype(np.int64) == totals))
        assert is_exact(dtype, op, ranks) == exact, ranks
    asked = settings(dtype=dtype, op=op, collectives=("all_reduce",))
    if not is_exact(dtype, op, 17):
        with pytest.raises(lanecast.UsageError, match=f"too narrow to check op {op} of 17 ranks"):
            checks.check(asked, ranks=17)
    checks.check(settings(dtype=dtype, op=op, collectives=("all_gather",)), ranks=17)


def test_types_that_numpy_lacks_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numpy_dtype("float8_e4m3").name == "float8_e4m3fn"
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert options.parse_dtype("float16") == "float16"
    with pytest.raises(lanecast.UsageError, match=r"'bfloat16': numpy has no such type.*pip install ml_dtypes"):
        options.parse_dtype("bfloat16")


def test_without_mpi_another_baseline_serves() -> None:
    asked = settings(backends=(Backend("mpi", library="mpi"), Backend("lanecast:mpi", "mpi"), Backend("lanecast")))
    left = checks.without_mpi(asked)
    assert ([backend.name for backend in left.backends], left.baseline) == (["lanecast"], "lanecast")
    with pytest.raises(lanecast.UsageError, match="pip install mpich"):
        checks.without_mpi(settings(backends=(Backend("mpi", library="mpi"),)))


def test_the_kernels_accounts_of_cores() -> None:
    stat = "cpu  10 1 20 300 4 5 6 7 8 9\ncpu0 1 2 3 4\n"
    assert cores.parse_stat(stat) == (10 + 1 + 20 + 5 + 6 + 7, 6, 10 + 1 + 20 + 300 + 4 + 5 + 6 + 7)
    assert cores.parse_schedstat("1000 250 3\n") == (1000, 250)


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert figures.busbw_factor("all_reduce", 4) == pytest.approx(1.5)
    assert figures.busbw_factor("all_gather", 4) == figures.busbw_factor("reduce_scatter", 4) == pytest.approx(0.75)
    assert figures.busbw_factor("all_gather", 1) == 0
    for share in ("gather", "scatter", "all_to_all"):
        assert figures.busbw_factor(share, 4) == pytest.approx(0.75)
    assert figures.busbw_factor("broadcast", 4) == figures.busbw_factor("reduce", 4) == 1


@pytest.mark.parametrize(
    ("collective", "in_place", "buffers"),
    [("all_gather", False, 5), ("all_gather", True, 4), ("reduce_scatter", False, 5), ("all_reduce", False, 8),
     ("broadcast", False, 4), ("reduce", False, 5), ("gather", False, 2), ("gather", True, 1.5), ("scatter", False, 2),
     ("all_to_all", False, 8)],
)  # fmt: skip
def test_least_traffic_in_full_buffers_on_4_ranks(collective: str, in_place: bool, buffers: float) -> None:
    count = 100 if collective in ("all_reduce", "broadcast", "reduce") else 25
    case = Case(collective, count, "float32", "sum", in_place, 0, 4)
    assert figures.least_traffic_bytes(case) == buffers * 400


def plain_result(case: Case) -> Any:
    """What the collective has to leave on this rank, in Python's own numbers."""
    brought = [HostMemory().values(case, rank, 0, case.full_count) for rank in range(case.ranks)]
    own = slice(case.rank * case.count, (case.rank + 1) * case.count)
    match case.collective:
        case "all_gather" | "gather":
            return np.concatenate([part[: case.count] for part in brought])
        case "all_to_all":
            return np.concatenate([part[own] for part in brought])
        case "broadcast" | "scatter":
            return brought[0][own if case.collective == "scatter" else slice(None)]
    combined = {
        "sum": lambda: np.sum([part.astype(object) for part in brought], axis=0),
        "avg": lambda: np.sum([part.astype(object) for part in brought], axis=0) / case.ranks,
        "prod": lambda: np.prod([part.astype(np.float64) for part in brought], axis=0),
        "max": lambda: np.max(brought, axis=0),
    }[case.op]()
    return combined[own if case.collective == "reduce_scatter" else slice(None)]


@pytest.mark.parametrize("collective", _core.KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "int32", "uint64"])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_payloads_expect_exact_results(collective: str, dtype: str, op: str) -> None:
    case = Case(collective, 37, dtype, op, False, 0 if collective in ("reduce", "gather") else 2, 3)
    payload = Payload(case)
    payload.reset()
    assert payload.wrong(payload.output) == payload.output.size, "nothing has run yet"
    exact = plain_result(case)
    assert max(int(value) for value in exact) <= exact_limit(dtype)
    payload.output[:] = exact.astype(dtype)
    assert payload.wrong(payload.output) == 0


@pytest.mark.parametrize("op", ["prod", "avg"])
def test_payloads_of_other_operators(op: str) -> None:
    case = Case("all_reduce", 1000, "float32", op, False, 0, 6)
    payload = Payload(case)
    payload.output[:] = plain_result(case).astype(np.float32)
    assert payload.wrong(payload.output) == 0


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("dtype", NOT_NUMPYS)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "avg"])
def test_payloads_of_types_that_numpy_lacks(collective: str, dtype: str, op: str) -> None:
    case = Case(collective, 37, dtype, op, False, 1, 2)
    payload = Payload(case)
    payload.reset()
    assert payload.wrong(payload.output) == payload.output.size, "nothing has run yet"
    brought = [HostMemory().values(case, rank, 0, case.brought_count).astype(np.float64) for rank in range(2)]
    if collective == "all_gather":
        exact = np.concatenate(brought)
    else:
        combine: dict[str, Any] = {"sum": np.sum, "avg": np.mean, "prod": np.prod, "max": np.max}
        exact = combine[op](brought, axis=0)[37 if collective == "reduce_scatter" else 0 :]
    assert len(np.unique(exact)) > 1
    payload.output[:] = exact.astype(payload.output.dtype)
    assert np.array_equal(payload.output.astype(np.float64), exact)
    assert payload.wrong(payload.output) == 0
    payload.output[5] = exact[5] + 1
    assert payload.wrong(payload.output) == 1


@pytest.mark.parametrize("collective", _core.KINDS)
def test_payloads_differ_per_rank_and_element(collective: str) -> None:
    case = Case(collective, 5000, "float32", "sum", False, 0, 4)
    brought = [HostMemory().values(case, rank, 0, 5000) for rank in range(4)]
    assert all(len(np.unique(part)) == 5000 for part in brought)
    swapped = [(a, b) for a in range(4) for b in range(a) if np.any(brought[a] == brought[b])]
    assert swapped == []


@pytest.mark.parametrize("collective", ["reduce", "gather"])
def test_payloads_without_a_result(collective: str) -> None:
    payload = Payload(Case(collective, 37, "float32", "sum", True, 2, 3))
    payload.reset()
    assert payload.output.size == 0
    assert payload.wrong(payload.output) == 0


def test_payloads_in_place_share_memory() -> None:
    gather = Payload(Case("all_gather", 10, "float32", "sum", True, 1, 3))
    assert gather.input.ctypes.data == gather.output[10:].ctypes.data
    scatter = Payload(Case("reduce_scatter", 10, "float32", "sum", True, 1, 3))
    assert scatter.output.ctypes.data == scatter.input[10:].ctypes.data
    scatter.reset()
    assert scatter.input[10] == HostMemory().values(scatter.case, 1, 10, 11)[0]


def test_between_hosts_no_column_says_a_share_of_copies() -> None:
    case = Case("broadcast", 256, "float32", "sum", False, 0, 2)
    run = {"baseline": "mpi", "hosts": 2, "copy_GBps": 10.0}
    row = row_of(case, "lanecast", "auto", [20.0]) | {"topology": "2x1", "wrong": 0, "run": run}
    table = tables.results([row])
    assert [str(column.header) for column in table.columns][-1] == "quartiles\n(us)"
    there = tables.results([row | {"run": run | {"hosts": 1}}])
    assert [str(column.header) for column in there.columns][-1] == "of copy"
    assert all(len(list(column.cells)) == 1 for column in (*table.columns, *there.columns))


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    tables.console().print("x lanecast:ring: is the name of an emoji")
    assert "x lanecast:ring: is" in capsys.readouterr().out


class Counting(Host):
    """A device whose clock goes on by what calls take, and by nothing else."""

    def __init__(self, queues: bool) -> None:
        self.queues, self.now_us = queues, 0.0

    def mark(self) -> float:
        return self.now_us

    def elapsed_us(self, first: float, last: float) -> float:
        return last - first


@pytest.mark.parametrize("queues", [False, True])
def test_a_bench_looks_at_no_clock_but_its_devices(queues: bool) -> None:
    device, calls = Counting(queues), [0, 0]

    def body(comm: Communicator) -> list[dict[str, Any]]:
        ranks = Ranks(comm)
        ranks.device = device
        bench = Bench(ranks, settings(rounds=3, warmup=2, round_s=1e-3))
        payload = Payload(case_for(bench.settings, "all_gather", 4096, ranks))

        def call(which: int, takes_us: float) -> None:
            calls[which] += 1
            device.now_us += takes_us
            payload.output[:] = payload.input  # of one rank

        contenders = [
            Contender(Backend(f"of {takes_us}"), payload, partial(call, k, takes_us), payload.output, "made up")
            for k, takes_us in enumerate((10.0, 300.0))
        ]
        bench.compete(contenders)
        return [bench.row(each) for each in contenders]

    rows = lanecast.run_threads(1, body)[0]
    assert [row["time_us_rounds"] for row in rows] == [[10.0] * 3, [300.0] * 3]
    assert [(row["repeats"], row["wrong"]) for row in rows] == [(100, 0), (4, 0)]
    # Two checks; two calls to warm up, one and then 100 to find how many fill a round, and three rounds. Where calls
    # queue, each of these six begins with a call in which the ranks meet.
    assert calls[0] == 2 + 2 + 1 + 100 + 3 * 100 + (6 if queues else 0)
