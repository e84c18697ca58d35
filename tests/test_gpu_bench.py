# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench --device cuda` without a GPU: its numbers, its words, and all of it on a stand-in."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import _core
from lanecast.bench import gpu_processes, settings, summary
from lanecast.bench.cases import Case
from lanecast.bench.device import Cuda
from lanecast.bench.measure import row_of
from lanecast.bench.payload import Payload
from lanecast.bench.tables import ratio, results
from lanecast.launch import find_launcher, job

HERE = Path(__file__).parent
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.mark.parametrize(
    ("name", "algorithm", "library", "memory"),
    [
        ("lanecast", "", "lanecast", settings.PLAIN),
        ("lanecast:peer_kernel", "peer_kernel", "lanecast", settings.PLAIN),
        ("lanecast+symm:copy_engine", "copy_engine", "lanecast", settings.SYMMETRIC),
        ("lanecast+host:ring", "ring", "host", settings.PLAIN),
        ("lanecast+composed", "", "composed", settings.PLAIN),
        ("nccl", "", "nccl", settings.PLAIN),
        ("nccl+windows", "", "nccl", settings.WINDOWS),
        ("mpi", "", "mpi", settings.PLAIN),
        ("torch_two_shot", "", "two_shot", settings.TORCH_SYMMETRIC),
    ],
)
def test_backends(name: str, algorithm: str, library: str, memory: str) -> None:
    backend = settings.parse_backend(name, "cuda")
    assert (backend.name, backend.algorithm, backend.library, backend.memory) == (name, algorithm, library, memory)


@pytest.mark.parametrize(
    "name", ["mpi:ring", "lanecast:", "nccl:ring", "lanecast+composed:ring", "lanecast+symmetric", ""]
)
def test_unknown_backends_say_what_is_known(name: str) -> None:
    with pytest.raises(lanecast.UsageError, match=r"known: lanecast, .*torch_two_shot"):
        settings.parse_backend(name, "cuda")


def test_kernels_of_torch_are_sums_of_floats() -> None:
    backend = settings.parse_backend("torch_one_shot", "cuda")
    assert backend.takes("all_reduce", "bfloat16", "sum")
    assert not backend.takes("all_gather", "bfloat16", "sum")
    assert not backend.takes("all_reduce", "float64", "sum")
    assert not backend.takes("all_reduce", "float32", "max")


def test_geometric_means_over_the_baseline() -> None:
    mib = 1 << 20
    rows: list[dict[str, Any]] = [
        {"collective": "all_gather", "topology": "2", "bytes": size, "backend": backend, "mode": mode, "time_us": time,
         "run": {"baseline": "nccl"}}
        for mode in ("eager", "graph")
        for size, ours in ((1 << 16, 1.0), (mib, 2.0), (64 * mib, 8.0))
        for backend, time in (("lanecast", ours), ("nccl", 16.0))
    ]  # fmt: skip
    assert ratio(rows[0], rows) == 16
    assert list(summary.lines(rows)) == [
        "all_gather, eager, 1 MiB to 64 MiB: lanecast is 4.00x nccl, at least 2.00x (64 MiB)",
        "all_gather, graph, 64 MiB to 64 MiB: lanecast is 2.00x nccl, at least 2.00x (64 MiB)",
    ]


def test_times_of_two_types_are_not_compared() -> None:
    rows: list[dict[str, Any]] = [
        {"collective": "all_gather", "bytes": 64, "backend": backend, "dtype": dtype, "time_us": time,
         "run": {"baseline": "nccl"}}
        for dtype, backend, time in (("float32", "nccl", 9.0), ("bfloat16", "nccl", 6.0), ("bfloat16", "lanecast", 3.0))
    ]  # fmt: skip
    assert ratio(rows[2], rows) == 2


def test_between_hosts_a_table_has_the_bound() -> None:
    case = Case("all_gather", 256, "bfloat16", "sum", False, 0, 2)
    row = row_of(case, "lanecast", "auto", [20.0]) | {
        "mode": "eager", "host_us": 7.0, "topology": "2x1", "wrong": 0, "run": {"baseline": "lanecast", "hosts": 2}
    }  # fmt: skip
    assert [column.header for column in results([row]).columns][-1] == "host\n(us)"
    half = {"received": 4.0, "sent": 4.0}
    table = results([row | {"bound_us": 10.0, "nic_bytes": {"eth0": half, "eth1": half}}])
    cells = {str(column.header): list(column.cells) for column in table.columns}
    assert (cells["host\n(us)"], cells["of bound"], cells["in/NIC\n(%)"]) == (["7.00"], ["50%"], ["50+50"])


@needs_torch
def test_more_ranks_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    started: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda ordinal: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(gpu_processes, "run_ranks", lambda command, ranks: started.append(ranks))
    with pytest.raises(lanecast.UsageError, match="ranks: 3, and this host has 2 GPUs"):
        gpu_processes.start_ranks(3)
    with pytest.raises(SystemExit):
        gpu_processes.start_ranks(3, shared_gpus=True)
    assert started == [3]
    with pytest.raises(lanecast.UsageError, match="local rank 2: there are 2 GPUs here"):
        Cuda(2)
    assert [Cuda(rank, shared=True).device.index for rank in range(3)] == [0, 1, 0]


@needs_torch
@pytest.mark.parametrize("collective", _core.KINDS)
@pytest.mark.parametrize(("dtype", "op"), [("float32", "sum"), ("float16", "avg"), ("int8", "prod"), ("uint64", "max"),
                                           ("int32", "bxor")])  # fmt: skip
def test_payloads_are_those_of_the_cpu(collective: str, dtype: str, op: str) -> None:
    import torch

    from lanecast.bench.memory import TorchMemory

    case = Case(collective, 1001, dtype, op, False, 0, 3)
    ours, theirs = Payload(case), Payload(case, TorchMemory(torch.empty(100_000, dtype=torch.uint8)))
    for payload in (ours, theirs):
        payload.reset()
        assert payload.wrong(payload.output) == (0 if collective == "broadcast" else len(payload.output))
    np.testing.assert_array_equal(ours.input, np.asarray(theirs.input))
    np.testing.assert_array_equal(ours._expected, np.asarray(theirs._expected))


@needs_torch
@pytest.mark.parametrize("dtype", _core.DTYPES)
def test_payloads_of_every_type(dtype: str) -> None:
    import torch

    from lanecast.bench.memory import TorchMemory

    case = Case("all_reduce", 500, dtype, "sum", True, 1, 2)
    payload = Payload(case, TorchMemory(torch.empty(100_000, dtype=torch.uint8)))
    payload.reset()
    other = Payload(
        Case("all_reduce", 500, dtype, "sum", True, 0, 2), TorchMemory(torch.empty(9000, dtype=torch.uint8))
    )
    other.reset()
    total = payload.output.to(torch.float64) + other.output.to(torch.float64)
    assert payload.wrong(payload.output) > 0
    payload.output.copy_(total.to(torch.float32).to(payload.output.dtype) if "8" in dtype else total)
    assert payload.wrong(payload.output) == 0


@needs_torch
@pytest.mark.parametrize(("ranks", "dtype", "place"), [(3, "bfloat16", "in-place"), (2, "int32", "")])
def test_all_of_it_on_a_stand_in(ranks: int, dtype: str, place: str, tmp_path: Path) -> None:
    from lanecast.bench.gpu_processes import run_ranks

    file = tmp_path / "rows.json"
    program = [sys.executable, str(HERE / "gpu_bench_rank.py"), str(file), ",".join(_core.KINDS), dtype, place]
    assert run_ranks(program, ranks) == 0
    rows = json.loads(file.read_text())
    assert len(rows) == len(_core.KINDS) * 2 * (4 + 3)
    assert {row["wrong"] for row in rows} == {0}
    assert {(row["backend"], row["mode"]) for row in rows} == {
        (backend, mode) for backend in ("lanecast", "lanecast+composed", "nccl") for mode in ("eager", "graph")
    } | {("lanecast+host", "eager")}
    assert all(row["device_us"] > 0 and row["host_us"] > 0 and row["calls"] >= 1 for row in rows)


@needs_torch
@pytest.mark.parametrize(
    ("sweep", "ranks", "topology", "collectives"),
    [("bars", 4, "2x2", "reduce,all_to_all"), ("ring", 2, "", "broadcast"), ("depth", 3, "", "gather")],
)
def test_compositions_beside_their_bounds_on_a_stand_in(
    sweep: str, ranks: int, topology: str, collectives: str, tmp_path: Path
) -> None:
    place = ["--topology", topology] if topology else ["--ranks", str(ranks)]
    depths = "1..4" if sweep == "depth" else "3"
    done = subprocess.run(
        [sys.executable, str(HERE / "gpu_stand_in_cli.py"), "bench", "--device", "cuda", "--protocol", "hiccl",
         "--sweep", sweep, *place, "--collectives", collectives, "--sizes", "5000", "--depths", depths, "--rounds", "1",
         "--warmup", "0", "--graph", "--json", "rows.json", "--plot", "curves.svg"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    per_mode = {"bars": 9 + 6, "ring": 2 + 2, "depth": 3 + 2}[sweep]
    assert [row["mode"] for row in rows].count("eager") == [row["mode"] for row in rows].count("graph") == per_mode
    assert {row["wrong"] for row in rows} == {0}
    assert {row["sweep"] for row in rows} == {sweep}
    assert {row["run"]["baseline"] for row in rows} == {"nccl"}
    for row in rows:
        carried = row["limits_GBps"]
        assert carried["within"] > 0
        assert (row["between_GBps"] is None) == (topology == "")
        assert carried["between_by"] == ("messages of GPUs" if topology else "")
        lower = min(bound for bound in (row["between_GBps"], row["within_GBps"]) if bound)
        assert row["bound_us"] == pytest.approx(row["bytes"] / lower / 1e3)
        assert row["host_us"] > 0
    depths_of = {row["depth"] for row in rows}
    assert depths_of == {"bars": {1, 3, None}, "ring": {3, None}, "depth": {1, 2, 4, None}}[sweep]
    assert "NCCL" in done.stdout
    assert "<svg" in (tmp_path / "curves.svg").read_text()


@needs_torch
def test_a_rank_that_fails_ends_the_others() -> None:
    from lanecast.bench.gpu_processes import run_ranks

    program = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(7)\ntime.sleep(60)"
    assert run_ranks([sys.executable, "-c", program], 2) == 7


@needs_torch
def test_protocol_pccl_on_gpus_has_a_row_for_each_mode(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "gpu_stand_in_cli.py"), "bench", "--device", "cuda", "--protocol", "pccl",
         "--ranks", "2", "--sizes", "5000", "--rounds", "3", "--graph", "--json", "rows.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["collective"], row["backend"], row["mode"]) for row in rows} == {
        (collective, backend, mode)
        for collective in ("all_gather", "reduce_scatter", "all_reduce")
        for backend in ("lanecast", "nccl")
        for mode in ("eager", "graph")
    }
    assert len(rows) == 12
    for row in rows:
        assert row["wrong"] == 0
        assert len(row["time_us_rounds"]) == len(row["host_us_rounds"]) == 3
        assert row["time_us"] == pytest.approx(sum(row["time_us_rounds"]) / 3)
    assert "mean and standard deviation of 3 runs" in done.stdout


@needs_torch
@pytest.mark.skipif(find_launcher() is None, reason="needs an MPI")
def test_mpi_is_called_on_the_memory_of_gpus(tmp_path: Path) -> None:
    """Where it takes that; here the CPU stands for one."""
    launcher = find_launcher()
    assert launcher is not None
    command, environment = job(
        launcher, 2, [sys.executable, str(HERE / "gpu_stand_in_cli.py"), "bench", "--device", "cuda", "--graph",
                      "--collectives", ",".join(_core.KINDS), "--sizes", "5000", "--rounds", "2", "--backends",
                      "lanecast,mpi", "--json", "rows.json"])  # fmt: skip
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {(row["collective"], row["mode"]) for row in rows if row["backend"] == "mpi"} == {
        (collective, "eager") for collective in _core.KINDS
    }
    assert {row["wrong"] for row in rows} == {0}
    assert "x mpi" in done.stdout


@needs_torch
def test_mpi_on_gpus_needs_ranks_of_mpi(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "gpu_stand_in_cli.py"), "bench", "--device", "cuda", "--ranks", "2", "--sizes",
         "5000", "--backends", "lanecast,mpi", "--collectives", "all_gather"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert "backend mpi: with --device cuda it needs ranks that mpirun has started" in done.stderr
