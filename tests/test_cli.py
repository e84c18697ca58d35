# SPDX-License-Identifier: Apache-2.0
"""The command line as users meet it: real runs of few ranks and small sizes, and what it says about mistakes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lanecast
from lanecast import _core, launch
from lanecast.cli import app

MAIN = "from lanecast.cli import main; main()"
needs_mpi = pytest.mark.skipif(launch.find_launcher() is None, reason="no mpiexec beside this Python or on PATH")


def run(
    *arguments: str, code: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`lanecast ARGUMENTS`, or `code` with these arguments, in a process of its own."""
    program = ["-c", code] if code else ["-m", "lanecast"]
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True, text=True, timeout=240, check=False, cwd=cwd, env={**os.environ, **environment},
    )  # fmt: skip


def rows_in(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(file.read_text())
    return rows


def test_without_arguments_it_shows_help() -> None:
    shown = CliRunner().invoke(app, [])
    assert all(command in shown.output for command in ("bench", "demo", "info", "plan"))


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"lanecast {lanecast.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (["bench", "--collectives", "foo"], ", ".join(_core.KINDS)),
        (["bench", "--backends", "foo"], "lanecast:ALGORITHM, reproducible, mpi"),
        (["bench", "--backends", "lanecast:foo"], "ring, recursive_doubling, bruck, direct"),
        (["bench", "--dtype", "foo"], ", ".join(_core.DTYPES)),
        (["bench", "--op", "foo"], ", ".join(_core.OPS)),
        (["bench", "--transports", "foo"], ", ".join(_core.TRANSPORTS)),
        (["bench", "--transports", "mpi,shm,shm", "--topology", "2x2"], "needs one name, or 2, outermost level first"),
        (["bench", "--baseline", "foo"], "lanecast, mpi"),
        (["bench", "--json", "/proc/nowhere/rows.json"], "/proc/nowhere does not exist"),
        (["bench", "--heatmap", "map.txt"], ".png, .pdf, .svg"),
        (["bench", "--graph"], "graph: needs --device cuda"),
        (["bench", "--ranks", "2", "train"], "ranks: is of `lanecast bench`; options of `bench train` stand behind it"),
        (["bench", "train", "--model", "gpt-3"], "gpt-2m, gpt-25m"),
        (["bench", "train", "--strategies", "ddp,foo"], "known: ddp, fsdp2, zero3"),
        (["bench", "train", "--backends", ","], "backends: none given"),
        (["bench", "--shared-gpus"], "shared-gpus: needs --device cuda"),
        (["bench", "--topology", "2y2"], "expected sizes such as 2x4"),
        (["bench", "--topology", "2x2", "--ranks", "3"], "describes 4 ranks, but there are 3"),
        (["bench", "--json", "/"], "/: cannot be written"),
        (["plan", "draw", "all_gather", "-o", "plan.txt"], ".png, .pdf, .svg"),
        (["plan", "draw", "all_gather", "-o", "/proc/nowhere/plan.png"], "/proc/nowhere does not exist"),
        (["compose", "draw", "broadcast", "-o", "plan.txt"], ".png, .pdf, .svg"),
        (["trace", "nowhere"], "LANECAST_TRACE_DIR=nowhere"),
        (["trace", ".", "--timeline", "timeline.txt"], ".png, .pdf, .svg"),
        (["trace", ".", "--perfetto", "/proc/nowhere/run.json"], "/proc/nowhere does not exist"),
        (["tune", "--output", "/proc/nowhere/profile.json"], "/proc/nowhere does not exist"),
        (["scale", "--ranks", ","], "ranks: none given"),
        (["scale", "--collectives", ""], "collectives: none given"),
        (["scale", "--message-overhead-us", "inf"], "message-overhead-us inf"),
        (["plan", "show", "foo"], ", ".join(_core.KINDS)),
        (["plan", "verify", "all_gather", "--algorithm", "foo"], "known: ring"),
        (["plan", "verify"], "give --all"),
        (["plan", "verify", "all_gather", "--ranks", "8"], "ranks '8': only --all takes a range"),
        (["plan", "nics", "--machine", "frontier", "--ranks", ""], "ranks: none given"),
        (["plan", "verify", "--all", "--ranks", "9-3"], "upwards"),
        (["plan", "verify", "--all", "--root", "1"], "root 1: --all proves them by itself"),
        (["plan", "verify", "all_to_all", "--root", "1"], "root 1: all_to_all has none"),
        (["plan", "show", "all_gather", "--root", "0"], "root 0: all_gather has none"),
        (["plan", "show", "all_gather", "--rank", "2", "--root", "1"], "root 1: all_gather has none"),
        (["plan", "draw", "all_reduce", "--root", "1"], "root 1: all_reduce has none"),
        (["cluster", "run", "--name", "nowhere", "true"], "'nowhere' is not up: start it with lanecast cluster up"),
    ],
)
def test_mistakes_end_in_one_line_that_says_what_is_known(arguments: list[str], known: str) -> None:
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, lanecast.UsageError)
    assert known in str(refused.exception)
    assert "\n" not in str(refused.exception)


@pytest.mark.parametrize("option", ["--rank", "--root"])
def test_rank_beyond_all_topologies(option: str) -> None:
    refused = CliRunner().invoke(app, ["plan", "show", "broadcast", option, "99999999999"])
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}'" in refused.output


def test_usage_errors_exit_with_2_and_no_traceback() -> None:
    refused = run("bench", "--op", "foo")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("lanecast: UsageError: op 'foo' is unknown; known: sum")
    assert len(refused.stderr.splitlines()) == 1


@needs_mpi
def test_a_cache_that_cannot_be_made_is_said_before_anything_is_measured() -> None:
    refused = run("tune", "--quick", "--ranks", "2", XDG_CACHE_HOME="/proc")
    assert refused.returncode == 2
    words = "/proc/lanecast/profiles cannot be used: /proc/lanecast: No such file or directory; name a file by --output"
    assert f"{words}, or set XDG_CACHE_HOME" in refused.stderr
    assert "measuring" not in refused.stderr


def test_an_output_that_takes_ascii_only_gets_what_it_can_take() -> None:
    shown = run("plan", "show", "all_gather", "--topology", "2x2", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "1 ? 2" in shown.stdout


def test_a_closed_output_is_no_traceback() -> None:
    program = [sys.executable, "-m", "lanecast", "plan", "show", "all_gather"]
    ended = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *program], capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr, ended.stderr


ROW_KEYS = {
    "collective", "backend", "algorithm", "nodes", "ranks", "bytes", "dtype", "time_us", "time_us_rounds", "algbw_GBps",
    "busbw_GBps", "bound_us", "wrong", "repeats", "topology", "count", "op", "in_place", "transports", "run",
}  # fmt: skip
RUN_KEYS = {
    "cpu",
    "cores",
    "kernel",
    "oversubscribed",
    "mpi",
    "lanecast",
    "commit",
    "command",
    "environment",
    "baseline",
}


@needs_mpi
def test_bench_starts_its_ranks_and_writes_rows(tmp_path: Path) -> None:
    done = run(
        "bench", "--topology", "2x1", "--sizes", "1000,64K", "--rounds", "3", "--json", "rows.json",
        "--heatmap", "map.png",
        "--backends", "lanecast,mpi,lanecast:mpi,lanecast:ring,lanecast:hierarchical(ring,direct)",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "starting 2 ranks" in done.stderr
    assert "out of place, 2 ranks as 2x1" in done.stdout
    rows = rows_in(tmp_path / "rows.json")
    assert len(rows) == 3 * 2 * 5
    for row in rows:
        assert row.keys() >= ROW_KEYS
        assert row["run"].keys() >= RUN_KEYS
        assert (row["wrong"], row["nodes"], row["ranks"], len(row["time_us_rounds"])) == (0, 2, 2, 3)
        assert row["bytes"] in {1000, 65536}
        assert row["algbw_GBps"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3)
        factor = 1.0 if row["collective"] == "all_reduce" else 0.5
        assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * factor)
    assert rows[0]["run"]["mpi"]["abi"]
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert done.stderr.endswith("wrote rows.json\nwrote map.png\n")


@needs_mpi
def test_bench_says_why_it_draws_nothing(tmp_path: Path) -> None:
    done = run(
        "bench", "--ranks", "2", "--sizes", "1000", "--rounds", "1", "--backends", "lanecast", "--heatmap", "map.png",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "map.png is not drawn: lanecast alone has nothing beside it\n" in done.stderr
    assert not (tmp_path / "map.png").exists()


@needs_mpi
@pytest.mark.parametrize("flags", [[], ["--in-place"]])
def test_bench_of_one_rank_to_all_and_back(flags: list[str], tmp_path: Path) -> None:
    # An all-to-all needs two buffers.
    collectives = ("broadcast", "reduce", "gather", "scatter", *([] if flags else ["all_to_all"]))
    done = run(
        "bench", "--collectives", ",".join(collectives), "--ranks", "3", "--sizes", "30000", "--rounds", "1",
        "--backends", "lanecast,mpi,lanecast:mpi", "--json", "rows.json", *flags, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = rows_in(tmp_path / "rows.json")
    assert [row["collective"] for row in rows[::3]] == list(collectives)
    assert all((row["wrong"], row["bytes"]) == (0, 30000) for row in rows)
    assert {row["op"] for row in rows} == {"sum", None}


@needs_mpi
@pytest.mark.parametrize(
    "dtype", ["bfloat16", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float8_e4m3", "float8_e5m2"))]
)
def test_bench_of_what_mpi_does_not_reduce(dtype: str, tmp_path: Path) -> None:
    done = run(
        "bench", "--collectives", "all_gather,all_reduce", "--topology", "2x2", "--sizes", "4K", "--rounds", "1",
        "--dtype", dtype, "--backends", "lanecast,mpi", "--json", "rows.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"MPI has no reduction {dtype}: all_reduce without mpi" in done.stdout
    rows = rows_in(tmp_path / "rows.json")
    ran = [("all_gather", "lanecast"), ("all_gather", "mpi"), ("all_reduce", "lanecast")]
    assert [(row["collective"], row["backend"]) for row in rows] == ran
    assert {(row["dtype"], row["bytes"], row["wrong"]) for row in rows} == {(dtype, 4096, 0)}


@needs_mpi
def test_bench_uses_the_ranks_of_a_launcher(tmp_path: Path) -> None:
    launcher = launch.find_launcher()
    assert launcher is not None
    program = [sys.executable, "-m", "lanecast", "bench", "--collectives", "reduce_scatter", "--sizes", "4K",
               "--rounds", "1", "--json", "rows.json", "--dtype", "int64", "--in-place"]  # fmt: skip
    done = subprocess.run(
        launcher.command(3, program), capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
        env={**os.environ, **launcher.environment(3)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("machine ") == 1, "only rank 0 speaks"
    rows = rows_in(tmp_path / "rows.json")
    assert [(row["ranks"], row["bytes"], row["wrong"]) for row in rows] == [(3, 4080, 0), (3, 4080, 0)]


@needs_mpi
def test_a_failing_rank_ends_the_job_with_its_message() -> None:
    broken = f"""
from lanecast import TransportError, launch
from lanecast.bench import measure
def fail(*_):
    raise TransportError("the cable of rank 1 was cut")
if launch.rank() == 1:
    measure.Bench.measure = fail
{MAIN}"""
    launcher = launch.find_launcher()
    assert launcher is not None
    program = [sys.executable, "-c", broken, "bench", "--sizes", "4K"]
    done = subprocess.run(
        launcher.command(3, program), capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, **launcher.environment(3)},
    )  # fmt: skip
    assert done.returncode != 0
    assert "TransportError: the cable of rank 1 was cut" in done.stderr
    assert "Traceback" not in done.stderr


NO_MPI = f"import sys; sys.executable = '/nowhere/python'; {MAIN}"


def test_without_mpi_ranks_are_threads(tmp_path: Path) -> None:
    done = run("bench", "--sizes", "4K", "--rounds", "2", "--topology", "2x2", "--json", "rows.json",
               code=NO_MPI, cwd=tmp_path, PATH=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "what needs MPI is left out" in done.stderr
    rows = rows_in(tmp_path / "rows.json")
    assert [(row["backend"], row["topology"], row["wrong"]) for row in rows] == [("lanecast", "2x2", 0)] * 3
    assert rows[0]["run"]["mpi"] is None


def test_a_failing_thread_ends_the_run_too(tmp_path: Path) -> None:
    broken = f"""
from lanecast.bench import measure
whole = measure.Bench.measure
def fail(bench, *rest):
    if bench.ranks.rank == 1:
        raise RuntimeError("rank 1 stumbled")
    return whole(bench, *rest)
measure.Bench.measure = fail
{NO_MPI}"""
    done = run("bench", "--sizes", "4K", code=broken, PATH=str(tmp_path))
    assert done.returncode == 1
    assert "rank 1 stumbled" in done.stderr


def test_demo_looks_first_whether_it_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo.json").mkdir()
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["demo"])
    assert str(refused.exception) == f"demo.json: cannot be written in {tmp_path}"


@needs_mpi
@pytest.mark.long
def test_demo_shows_and_says_what_it_saw(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"demo.png", "demo.json"}
    assert len(rows_in(tmp_path / "demo.json")) == 3 * 3 * 2
    assert "Next: lanecast" in done.stdout


def test_info_names_what_it_finds_and_what_is_missing(tmp_path: Path) -> None:
    found = run("info", LANECAST_HOST="here")
    assert found.returncode == 0, found.stderr
    for fact in (
        lanecast.__version__,
        "LANECAST_HOST=here",
        _core.kernel_variants()[0],
        "loopback",
        "not set: LANECAST_",
    ):
        assert fact in found.stdout
    missing = run("info", code=NO_MPI, LANECAST_MPI_LIBRARY=str(tmp_path / "libmpi.so"), LANECAST_FOO="1")
    assert missing.returncode == 0, missing.stderr
    assert "names no usable MPI library" in missing.stdout
    assert "LANECAST_FOO is unknown" in missing.stdout


def test_info_says_which_folder_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    found = run("info", XDG_CACHE_HOME=str(tmp_path), LANECAST_PROFILE="")
    assert f"not used: every user may write to {tmp_path}, so what lies there is not trusted" in found.stdout


def test_algorithms_are_those_of_the_registry() -> None:
    shown = CliRunner().invoke(app, ["plan", "algorithms", "--topology", "2x3"]).output
    for name in _core.algorithms_for("all_reduce", _core.Topology(4)):
        assert name in shown
    assert "hierarchical(A,B)" in shown


def test_show_prints_rounds_one_rank_or_json() -> None:
    options = ["--algorithm", "hierarchical(ring,direct)", "--topology", "2x2"]
    rounds = CliRunner().invoke(app, ["plan", "show", "all_reduce", *options]).output
    assert "round 1" in rounds
    steps = CliRunner().invoke(app, ["plan", "show", "all_reduce", *options, "--rank", "3"]).output
    assert "rank 3 of 4" in steps
    text = CliRunner().invoke(app, ["plan", "show", "all_reduce", *options, "--json"]).output
    assert len(json.loads(text)["plans"]) == 4


def test_draw_writes_a_picture(tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    drawn = CliRunner().invoke(app, ["plan", "draw", "all_gather", "--topology", "2x2", "-o", str(file)])
    assert drawn.exit_code == 0, drawn.output
    assert file.read_bytes().startswith(b"\x89PNG")


def test_verify_proves_one_and_all() -> None:
    one = CliRunner().invoke(
        app, ["plan", "verify", "all_gather", "--topology", "3+2", "--algorithm", "hierarchical(ring,ring)"]
    )
    assert one.output.count("proven: all_gather by hierarchical(ring,ring) on 3+2") == 2
    every = CliRunner().invoke(app, ["plan", "verify", "--all", "--ranks", "1-8"])
    assert every.exit_code == 0, every.output
    assert "cases of 1 to 8 ranks proven" in every.output
    assert "hierarchical, 3 levels" in every.output


def test_verify_says_how_far_it_is_where_it_cannot_draw_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lanecast.cli.verify._TELL_EVERY_S", 0.0)
    every = CliRunner().invoke(app, ["plan", "verify", "--all", "--ranks", "2-4"])
    told = re.findall(r"proven up to (\d) ranks: (\d+) cases …\n", every.stderr)
    assert [ranks for ranks, _ in told] == ["2", "3", "4"]
    assert f"{told[-1][1]} cases of 2 to 4 ranks proven" in every.stdout
