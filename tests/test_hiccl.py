# SPDX-License-Identifier: Apache-2.0
"""The protocol of HiCCL's paper: its formulas, its shapes, and whole runs whose every element is checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import _core, launch
from lanecast.bench import options
from lanecast.bench.composed import FORMS
from lanecast.bench.device import Host
from lanecast.bench.hiccl import limits, protocol
from lanecast.bench.hiccl.bounds import Limits, best, between_nodes, within_nodes
from lanecast.bench.hiccl.protocol import SWEEPS, Hiccl
from lanecast.bench.hiccl.variants import PRESETS, Factorings, Variant, factorings_for, ranks_per_node
from lanecast.bench.measure import Bench
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import PLAIN, Settings
from lanecast.cli import app
from lanecast.cluster import job
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape
from launch import MPICH

MAIN = "from lanecast.cli import main; main()"
NO_MPI = f"import sys; sys.executable = '/nowhere/python'; {MAIN}"
LIMITS = Limits(unidirectional=12.0, bidirectional=8.0, within=20.0)

needs_mpi = pytest.mark.skipif(launch.find_launcher() is None, reason="no mpiexec beside this Python or on PATH")


# 8 ranks, 2 on each node: kf, kf p/(p-g) = 4/3 kf, kf p/(2(p-g)) = 2/3 kf, kf p/(g(p-g)) = 2/3 kf.
@pytest.mark.parametrize(
    ("collective", "between", "within"),
    [
        ("broadcast", 8, 40),
        ("reduce", 8, 40),
        ("all_gather", 8 * 4 / 3, 40),
        ("reduce_scatter", 8 * 4 / 3, 40),
        ("gather", 12 * 4 / 3, 40),
        ("scatter", 12 * 4 / 3, 40),
        ("all_reduce", 8 * 2 / 3, 20),
        ("all_to_all", 8 * 2 / 3, 160),
    ],
)
def test_bounds_are_those_of_table_iii(collective: str, between: float, within: float) -> None:
    assert between_nodes(collective, LIMITS, p=8, g=2) == pytest.approx(between)
    assert within_nodes(collective, LIMITS, p=8, g=2) == pytest.approx(within)
    assert between_nodes(collective, LIMITS, p=8, g=8) is None
    one_node = {"broadcast": 20, "reduce": 20, "all_reduce": 20 * 8 / 14}.get(collective, 20 * 8 / 7)
    assert within_nodes(collective, LIMITS, p=8, g=8) == pytest.approx(one_node)
    assert within_nodes(collective, LIMITS, p=8, g=1) is None


def test_of_two_measurements_the_better_counts() -> None:
    slower = Limits(unidirectional=3.0, bidirectional=9.0, within=None)
    assert best(slower, LIMITS) == Limits(12.0, 9.0, 20.0)
    assert best(Limits(None, None, None), LIMITS) == LIMITS


class OnHosts:
    """A communicator whose nodes pass for hosts, and whose memory passes for GPUs'."""

    def __init__(self, comm: lanecast.Communicator, hosts: int) -> None:
        self._comm, self._core = comm, SimpleNamespace(hosts=hosts)
        self.splits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)

    def split(self, color: int) -> lanecast.Communicator | None:
        self.splits += 1
        return self._comm.split(color)


class QueueingHost(Host):
    queues = True


@pytest.mark.parametrize(("hosts", "by", "splits"), [(1, "messages of GPUs", 0), (2, "messages of loopback", 1)])
def test_links_between_gpus(hosts: int, by: str, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(limits.MESSAGE_BYTES, True, 1000)

    def rank_main(comm: lanecast.Communicator) -> tuple[Limits, int]:
        ranks = Ranks(comm)
        ranks.device = QueueingHost()
        bench = Bench(ranks, Settings((), (), ()))
        ours: Any = OnHosts(comm, hosts)
        ranks.comm = ours
        links = limits.Links(bench)
        links.measure()
        return links.measure(), ours.splits

    for measured, split in lanecast.run_threads(4, rank_main, topology="2x2"):
        assert all(rate and rate > 0 for rate in (measured.unidirectional, measured.bidirectional, measured.within))
        assert (measured.between_by, split) == (by, splits)


@pytest.mark.parametrize(("chunks", "text"), [(4, "{2} m=4"), (9, "{2} m=4 in 9")])
def test_a_program_says_how_deep_it_is(chunks: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = SimpleNamespace(chunks=chunks)
    call = SimpleNamespace(program=program, run=lambda: None)
    monkeypatch.setattr(protocol, "compiled", lambda *_, **__: call)
    bench: Any = SimpleNamespace(ranks=SimpleNamespace(comm=None), mode="eager")
    payload: Any = SimpleNamespace(output=None)
    made = protocol.contender(bench, Variant("+ pipeline", "tree", (2,), depth=4), payload, PLAIN)
    assert (made.algorithm, made.chunks, made.columns["depth"]) == (text, chunks, 4)


def test_presets_are_those_of_table_v() -> None:
    shapes = {name: (preset.tree, preset.ring) for name, preset in PRESETS.items()}
    assert shapes == {
        "delta": ((2, 2, 4), (4, 4)),
        "perlmutter": ((2, 2, 4), (4, 4)),
        "frontier": ((2, 2, 4, 2), (4, 4, 2)),
        "aurora": ((2, 2, 6, 2), (4, 6, 2)),
        "figure6": ((2, 2, 3), (4, 3)),
    }
    assert factorings_for("aurora", _core.Topology(48)) is PRESETS["aurora"]
    with pytest.raises(lanecast.UsageError, match="for 48 ranks, but there are 12"):
        factorings_for("aurora", _core.Topology(12))


@pytest.mark.parametrize(
    ("text", "ranks", "tree", "ring", "per_node"),
    [
        ("4x2", 8, (2, 2, 2), (4, 2), 2),
        ("6x1", 6, (2, 3, 1), (6, 1), 1),
        ("4x2x3", 24, (2, 2, 2, 3), (4, 2, 3), 6),
        ("4x2:cyclic", 8, (2, 2, 2), (4, 2), 2),
        ("", 6, (2, 3), (6,), 6),
        ("", 1, (1,), (1,), 1),
    ],
)
def test_factorings_follow_the_topology(
    text: str, ranks: int, tree: tuple[int, ...], ring: tuple[int, ...], per_node: int
) -> None:
    topology = options.topology_for(text, ranks)
    found = factorings_for("", topology)
    assert (found.tree, found.ring, ranks_per_node(topology)) == (tree, ring, per_node)


@pytest.mark.parametrize(("preset", "text"), [("", "3+2+4"), ("figure6", "5+7")])
def test_uneven_nodes_have_no_factors(preset: str, text: str) -> None:
    with pytest.raises(lanecast.UsageError, match="domains of equal size"):
        factorings_for(preset, _core.Topology.parse(text, options.ranks_of(text)))


def test_bars_add_one_optimisation_each() -> None:
    bars = Hiccl.parse("", "figure6", "16").variants(PRESETS["figure6"], "reduce")
    assert {variant.name: str(variant) for variant in bars} == {
        "direct": "{12}",
        "tree": "{2,2,3}",
        "tree + stripe": "{2,2,3} stripe(3)",
        "tree + pipeline": "{2,2,3} stripe(3) m=16",
        "ring": "{4,3} ring(4)",
        "ring + stripe": "{4,3} ring(4) stripe(3)",
        "ring + pipeline": "{4,3} ring(4) stripe(3) m=16",
    }
    gathering = Hiccl.parse("bars", "", "").variants(PRESETS["figure6"], "all_gather")
    assert [variant.name for variant in gathering] == ["direct", "tree", "tree + stripe", "tree + pipeline"]


def test_what_sweeps_vary() -> None:
    four = Factorings((2, 2), (4,), (2,))
    depth = Hiccl.parse("depth", "", "")
    assert [variant.depth for variant in depth.variants(four, "gather")] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert {variant.way for variant in depth.variants(four, "gather")} == {"tree"}
    assert {variant.way for variant in depth.variants(four, "broadcast")} == {"ring"}
    ways = Hiccl.parse("ring", "", "8").variants(four, "broadcast")
    assert ways == [
        Variant("+ pipeline", "tree", (2, 2, 2), stripe=2, depth=8),
        Variant("+ pipeline", "ring", (4, 2), stripe=2, ring=4, depth=8),
    ]
    on_gpus = Hiccl.parse("depth", "", "", on_gpus=True)
    assert [variant.depth for variant in on_gpus.variants(four, "gather")] == [1, 2, 4, 8, 16, 32, 64]
    assert set(SWEEPS) == {"bars", "ring", "depth"}
    assert set(FORMS) == set(_core.KINDS)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--protocol", "foo"], "known: backends, hiccl"),
        (["--protocol", "hiccl", "--sweep", "foo"], "known: bars, ring, depth"),
        (["--protocol", "hiccl", "--preset", "foo"], "delta, perlmutter, frontier, aurora, figure6"),
        (["--protocol", "hiccl", "--preset", "delta"], "for 16 ranks, but there are 4"),
        (["--protocol", "hiccl", "--topology", "3+1"], "domains of equal size"),
        (["--protocol", "hiccl", "--depths", "4,8"], "of bars and ring there is one"),
        (["--protocol", "hiccl", "--depths", "4q"], "expected a number of chunks"),
        (["--protocol", "hiccl", "--depths", "8..4"], "ranges run upwards"),
        (["--protocol", "hiccl", "--heatmap", "map.png"], "hiccl draws by --plot"),
        (["--sweep", "bars"], "sweep: needs --protocol hiccl"),
        (["--plot", "bars.png"], "plot: needs --protocol hiccl"),
        (["--device", "cuda", "--topology", "2x2"], "topology: on GPUs it shapes compositions, and needs --protocol"),
        (["--device", "cuda", "--protocol", "hiccl", "--topology", "2x2,4"], "topology '2x2,4': one, with"),
        (["--device", "cuda", "--protocol", "hiccl", "--topology", "3+1"], "domains of equal size"),
        (["--device", "cuda", "--protocol", "hiccl", "--transports", "shm"], "transports: is of CPUs"),
    ],
)
def test_wrong_options_are_refused_with_what_there_is(flags: list[str], message: str) -> None:
    refused = CliRunner().invoke(app, ["bench", *flags]).exception
    assert isinstance(refused, lanecast.UsageError)
    assert message in str(refused)


def bench(*flags: str, code: str = MAIN, cwd: Path | None = None, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-c", code, "bench", *flags], capture_output=True, text=True, timeout=240, check=False,
        cwd=cwd, env={**os.environ, **environment},
    )  # fmt: skip


def rows_in(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(file.read_text())
    return rows


@pytest.mark.parametrize(
    ("in_place", "dtype"), [([], "float32"), pytest.param(["--in-place"], "int64", marks=pytest.mark.long)]
)
def test_all_bars_of_all_collectives_are_right(in_place: list[str], dtype: str, tmp_path: Path) -> None:
    kinds = [name for name in FORMS if not in_place or _core.may_be_in_place(name)]
    done = bench(
        "--protocol", "hiccl", "--topology", "2x2", "--sizes", "5000", "--depths", "3", "--rounds", "2", "--warmup",
        "0", "--dtype", dtype, "--json", "rows.json", "--plot", "bars.png", *in_place,
        "--collectives", ",".join(kinds), code=NO_MPI, cwd=tmp_path, PATH=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = rows_in(tmp_path / "rows.json")
    assert {row["collective"] for row in rows} == set(kinds)
    assert len(rows) == 2 * 8 + (len(kinds) - 2) * 5
    for row in rows:
        assert (row["wrong"], row["repeats"], len(row["time_us_rounds"])) == (0, 1, 2)
        assert row["algbw_GBps"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3)
        carried = row["limits_GBps"]
        one_way = row["collective"] in {"gather", "scatter"}
        kf = carried["unidirectional" if one_way else "bidirectional"]
        factor = {"broadcast": 1, "reduce": 1, "all_reduce": 1, "all_to_all": 1}.get(row["collective"], 2)
        assert row["between_GBps"] == pytest.approx(kf * factor)
        lower = min(row["between_GBps"], row["within_GBps"])
        assert row["bound_us"] == pytest.approx(row["bytes"] / lower / 1e3)
    assert "peak algbw" in done.stdout
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("sweep", [pytest.param("ring", marks=pytest.mark.long), "depth"])
def test_other_sweeps_draw_curves(sweep: str, tmp_path: Path) -> None:
    depths = "1..4" if sweep == "depth" else "4"
    done = bench(
        "--protocol", "hiccl", "--sweep", sweep, "--ranks", "3", "--sizes", "600,1K", "--depths", depths, "--rounds",
        "1", "--warmup", "0", "--json", "rows.json", "--plot", "curves.svg",
        code=NO_MPI, cwd=tmp_path, PATH=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = rows_in(tmp_path / "rows.json")
    assert {row["wrong"] for row in rows} == {0}
    assert {row["between_GBps"] for row in rows} == {None}, "one node, so no NIC is in the way"
    assert {row["depth"] for row in rows} == ({1, 2, 4, None} if sweep == "depth" else {4, None})
    assert "<svg" in (tmp_path / "curves.svg").read_text()


@needs_mpi
def test_mpi_runs_beside_in_processes(tmp_path: Path) -> None:
    done = bench(
        "--protocol", "hiccl", "--sweep", "ring", "--topology", "2x2", "--sizes", "64K", "--depths", "4", "--rounds",
        "3", "--json", "rows.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = rows_in(tmp_path / "rows.json")
    assert [row["backend"] for row in rows] == ["tree + pipeline", "ring + pipeline", "lanecast", "mpi"] * 2
    assert {row["wrong"] for row in rows} == {0}
    assert {row["run"]["warmup"] for row in rows} == {5}
    assert rows[0]["limits_GBps"]["between_by"] == "messages of shm+mpi"


def test_between_hosts_plain_streams_are_the_limit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    launcher = launch.find_launcher(MPICH)
    assert launcher is not None
    shape = Shape(hosts=2, nics=2, rate_bps=400 * 10**6)
    try:
        cluster = Cluster.start(shape)
    except lanecast.TransportError as error:
        pytest.skip(str(error).splitlines()[0])
    program = [
        sys.executable, "-m", "lanecast", "bench", "--protocol", "hiccl", "--sweep", "ring", "--collectives",
        "broadcast,scatter", "--sizes", "1M", "--rounds", "1", "--json", str(tmp_path / "rows.json"),
    ]  # fmt: skip
    with cluster:
        for _ in range(5):  # a rank that gets no core for a while reads faster after it than NICs carry
            assert cluster.run(job.command(launcher, shape, 2, program), job.environment(launcher, shape, 2)) == 0
            rows = rows_in(tmp_path / "rows.json")
            ways = [row["limits_GBps"][way] for row in rows for way in ("unidirectional", "bidirectional")]
            if min(ways) > 0.01 and max(ways) < 0.11:
                break
    assert "in/NIC" in capfd.readouterr().out
    assert [row["collective"] for row in rows] == ["broadcast"] * 4 + ["scatter"] * 3
    for row in rows:
        assert row["wrong"] == 0
        carried = row["limits_GBps"]
        assert carried["between_by"] == "TCP streams through eth0+eth1"
        # Of 2 NICs × 50 MB/s headers take a little, and a busy machine may take more.
        assert 0.01 < carried["unidirectional"] < 0.11
        assert 0.01 < carried["bidirectional"] < 0.11


def test_a_wrong_result_is_counted(tmp_path: Path) -> None:
    broken = f"""
from lanecast.bench import composed
from lanecast.compose import forms
composed.FORMS["reduce"] = lambda p, op: forms.reduce(p, op="max")
{NO_MPI}"""
    done = bench(
        "--protocol", "hiccl", "--sweep", "ring", "--collectives", "reduce", "--sizes", "4K", "--depths", "2",
        "--rounds", "1", "--warmup", "0", "--json", "rows.json", code=broken, cwd=tmp_path, PATH=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "wrong results" in done.stderr
    wrong = {row["backend"]: row["wrong"] for row in rows_in(tmp_path / "rows.json")}
    assert wrong["ring + pipeline"] > 500
    assert wrong["lanecast"] == 0
