# SPDX-License-Identifier: Apache-2.0
"""Traces: what ranks write down, what is read out of it, and what it proves about who sends over which transport."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, traces
from lanecast.traces.perfetto import write_perfetto
from launch import mpich
from pipe_jobs import PipeJob
from traced_rank import CALLS

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> traces.CommunicatorTrace:
    """What 2 emulated nodes of 2 ranks have done: MPI between the nodes, shared memory within."""
    for late_s in ("0.5", "5", "20"):  # on a busy machine rank 0 may be as late, and then it does not wait
        folder = tmp_path_factory.mktemp("traces")
        program = [sys.executable, str(HERE / "traced_rank.py"), late_s]
        mpich(4, program, LANECAST_TRACE_DIR=str(folder), LANECAST_TRACE_STEPS="1")
        (found,) = traces.read(folder)
        if waits_for_the_late(found):
            break
    return found


def waits_for_the_late(job: traces.CommunicatorTrace) -> list[dict[str, Any]]:
    """Those of rank 0, which is of rank 1's node, before the last call, which is a library's, begins."""
    trace, number = job.ranks[0], len(CALLS)
    first_ns = min(message["begin_ns"] for message in trace.messages if message["sequence"] == number)
    return [wait for wait in trace.waits if wait["sequence"] == number and wait["begin_ns"] < first_ns]


def test_between_nodes_goes_mpi_point_to_point_and_within_them_shared_memory(job: traces.CommunicatorTrace) -> None:
    assert list(job.ranks) == [0, 1, 2, 3]
    for rank, trace in job.ranks.items():
        assert [call["state"] for call in trace.calls] == ["done"] * len(CALLS)
        own = [call["sequence"] for call in trace.calls if "mpi" not in call["algorithm"]]
        messages = [message for message in trace.messages if message["sequence"] in own]
        assert {(m["level"], m["transport"]) for m in messages} == {(0, "mpi"), (1, "shm")}
        assert {m["step"] for m in messages if m["level"] == 0} <= {"send", "recv", "recv_reduce"}
        # The rank's node is the level where they part: ranks 0 and 1, ranks 2 and 3.
        assert all((m["level"] == 0) == (m["peer"] // 2 != rank // 2) for m in messages)


def receives(part: Communicator) -> None:
    if part.rank == 1:
        part.send(np.ones(2), 0, tag=7)
    else:
        part.recv(np.empty(2), 1, tag=7)


def receives_by_and_by(part: Communicator) -> None:
    works = [part.irecv(np.empty(2), 1, tag=7), part.irecv(np.empty(2), 1, tag=8)] if part.rank == 0 else []
    for tag in (7, 8) if part.rank == 1 else ():
        part.send(np.ones(2), 0, tag=tag)
    for work in works:
        work.wait()


def splits(part: Communicator) -> None:
    part.split(0)


@pytest.mark.parametrize("calls_before", [0, 1])
@pytest.mark.parametrize(
    ("late", "waits"),
    [
        (receives, "recv of 16 bytes from rank 1, tag 7 over loopback"),
        (receives_by_and_by, "recv of 16 bytes from rank 1, tag 7 over loopback"),
        (splits, "split"),
    ],
)
def test_waits_outside_of_collectives(
    late: Callable[[Communicator], None], waits: str, calls_before: int, tmp_path: Path
) -> None:
    seen = threading.Event()

    def says(part: Communicator, name: str, waiting: bool) -> None:
        """Writes until the trace says so: ranks look around now and then, and may be late."""
        for _ in range(500):
            part.write_trace(tmp_path / name)
            texts = [file.read_text() for file in (tmp_path / name).glob(f"*rank{part.rank}.jsonl")]
            what = waits if waiting else waits.partition(",")[0]  # the message after that one is waited for, too
            if any(what in text for text in texts) == waiting:
                return
            time.sleep(0.02)

    def write(part: Communicator) -> None:
        says(part, "before", waiting=True)
        seen.set()

    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        for _ in range(calls_before):
            part.barrier()
        if comm.rank == 0:
            threading.Thread(target=write, args=[part]).start()
        else:
            assert seen.wait(60)
        late(part)
        says(
            part, "after", waiting=False
        )  # who moves messages ends a work first, and then looks what is left to wait for

    lanecast.run_threads(2, body)
    number = calls_before + (waits == "split")
    for_whom = f"{waits} (call {number})" + (" for rank 1" if waits == "split" else "")
    stands = "done: call 1, .*" if calls_before else "no calls"
    for folder, ending in ("before", f"; waits in {re.escape(for_whom)}"), ("after", ""):
        (job,) = traces.read(tmp_path / folder)
        (line,) = (line for line in traces.report(job).splitlines() if line.startswith("  rank 0: "))
        assert re.fullmatch(f"  rank 0: {stands}{ending}", line), line
        assert ending or "waits" not in line, line


def test_within_nodes_a_library_may_do_it(job: traces.CommunicatorTrace) -> None:
    for trace in job.ranks.values():
        (by_library,) = (call for call in trace.calls if "mpi" in call["algorithm"])
        messages = [message for message in trace.messages if message["sequence"] == by_library["sequence"]]
        groups = [message for message in messages if message["step"] == "group"]
        assert {message["transport"] for message in groups} == {"mpi"}
        assert {message["level"] for message in messages if message["step"] != "group"} == {0}


def test_waiting_for_a_late_member_of_a_library_call_is_recorded(job: traces.CommunicatorTrace) -> None:
    assert waits_for_the_late(job), job.ranks[0].waits


def test_every_rank_is_a_lane_between_the_nodes(job: traces.CommunicatorTrace) -> None:
    for call in job.ranks[0].calls:
        bytes_sent = {
            rank: sum(
                message["bytes"]
                for message in trace.messages
                if message["sequence"] == call["sequence"] and message.get("level") == 0 and message["step"] == "send"
            )
            for rank, trace in job.ranks.items()
        }
        assert len(set(bytes_sent.values())) == 1, bytes_sent  # each carries its share
        assert bytes_sent[0] > 0
    # On a machine with fewer cores than ranks, seldom all four at the same moment.
    assert "ranks at once" in traces.report(job)


def test_perfetto_shows_what_each_rank_did(job: traces.CommunicatorTrace, tmp_path: Path) -> None:
    write_perfetto(job, tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    for slices in rows.values():  # beside each other, as the format wants it
        in_time = sorted(slices, key=lambda each: (each["ts"], each["ts"] + each["dur"]))
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in itertools.pairwise(in_time))
    names = {event["args"]["name"].split(" (")[0] for event in events if event["name"] == "thread_name"}
    assert names >= {"calls", "waits", "reduces and copies", "sends between nodes", "receives within"}
    sent = [m for trace in job.ranks.values() for m in trace.messages if m["step"] == "send"]
    assert len([event for event in events if event["ph"] == "s"]) == len(sent) > 0
    assert all(event["ts"] >= 0 for event in events if event["ph"] != "M")


def test_arrows_end_at_the_message_that_was_sent(tmp_path: Path) -> None:
    def body(comm: Communicator) -> None:
        comm.all_gather_into_tensor(np.zeros(comm.size * 5), np.zeros(5), algorithm="ring", chunks=2)

    lanecast.run_threads(3, body, trace_dir=str(tmp_path), trace_steps=True)
    (job,) = traces.read(tmp_path)
    write_perfetto(job, tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    ends: dict[int, dict[str, int]] = {}
    for event in events:
        if event["ph"] in "sf":
            ends.setdefault(event["id"], {})[event["ph"]] = event["pid"]
    assert sorted((end["s"], end["f"]) for end in ends.values()) == sorted([(0, 1), (1, 2), (2, 0)] * 4)


def test_calls_that_are_kept(tmp_path: Path) -> None:
    def body(comm: Communicator) -> None:
        for turn in range(1200):
            comm.all_reduce(np.ones(2), "max" if turn % 2 else "sum", algorithm="direct", chunks=1)
        comm.write_trace(tmp_path)

    lanecast.run_threads(2, body)
    (job,) = traces.read(tmp_path)
    for trace in job.ranks.values():
        assert [call["sequence"] for call in trace.calls] == list(range(201, 1201))
        assert all(call["begin_ns"] <= call["end_ns"] for call in trace.calls)
        assert {call["op"] for call in trace.calls} == {"sum", "max"}
        assert trace.messages == []


def test_failure_leaves_a_trace_that_names_who_is_behind(tmp_path: Path) -> None:
    ended = threading.Barrier(3, timeout=200)

    def body(comm: Communicator) -> None:
        comm.all_reduce(np.ones(10), algorithm="ring")
        if comm.rank != 2:
            with pytest.raises(lanecast.TimeoutError):
                comm.all_reduce(np.ones(20), algorithm="ring")
        ended.wait()

    lanecast.run_threads(3, body, timeout_s=3.0, trace_dir=str(tmp_path))
    (job,) = traces.read(tmp_path)
    text = traces.report(job)
    assert "behind: rank 2, through with call 1, while others are in call 2, all_reduce sum of float64" in text, text
    assert "failed: rank 0 " in text, text


def test_who_failed_in_a_call_is_not_through_with_it(tmp_path: Path) -> None:
    """Rank 2 does not come to a broadcast, of which rank 0 gets its part; as if killed, it leaves no trace."""

    ended = threading.Barrier(3, timeout=200)

    def body(comm: Communicator) -> None:
        with contextlib.suppress(lanecast.Error):
            while comm.rank != 2:
                comm.broadcast(np.ones(10), 1, algorithm="direct")
        ended.wait()

    lanecast.run_threads(3, body, timeout_s=3.0, trace_dir=str(tmp_path))
    (lost,) = tmp_path.glob("*.rank2.jsonl")
    lost.unlink()
    report = traces.report(traces.read(tmp_path)[0])
    assert "behind: rank 1, failed in call 1, while others are in call 2, broadcast of float64" in report, report
    assert report.endswith("; or whoever has left no trace\n"), report


def test_report_names_calls_that_differ(tmp_path: Path) -> None:
    def body(comm: Communicator) -> None:
        comm.all_reduce(np.ones(10), algorithm="ring")
        with pytest.raises(lanecast.TransportError):
            comm.all_reduce(np.ones(20), "max" if comm.rank == 1 else "sum", algorithm="ring")

    lanecast.run_threads(3, body, trace_dir=str(tmp_path))
    text = traces.report(traces.read(tmp_path)[0])
    assert "differs:\n  rank 0, 2: call 2, all_reduce sum" in text, text
    assert "\n  rank 1: call 2, all_reduce max" in text, text


def hangs(comm: Communicator, tell: Callable[[Any], None], folder: Path) -> None:
    traces.write_on_signal(folder)
    comm.all_reduce(np.ones(10))
    tell("ready")
    while comm.rank == 1 and not (folder / "go").exists():
        time.sleep(0.02)
    comm.all_reduce(np.ones(10))


def test_signal_writes_traces_of_a_call_that_hangs(tmp_path: Path) -> None:
    job = PipeJob(2, functools.partial(hangs, folder=tmp_path), timeout_s=60.0)
    assert [job.told(rank) for rank in range(2)] == ["ready"] * 2
    report, turns = "", 0
    while "behind: rank 1, through with call 1" not in report:  # rank 0 may not be in its call yet
        turns += 1
        assert turns < 200, report
        for process in job.processes:
            os.kill(process.pid or 0, signal.SIGUSR1)
        time.sleep(0.1)
        if len(list(tmp_path.glob("*.jsonl"))) == 2:
            report = traces.report(traces.read(tmp_path)[0])
    (tmp_path / "go").touch()
    assert [job.outcome(rank).error for rank in range(2)] == [""] * 2  # both go on
    job.end()


def test_command(tmp_path: Path, job: traces.CommunicatorTrace) -> None:
    def body(comm: Communicator) -> None:
        comm.all_reduce(np.ones(10))

    lanecast.run_threads(2, body, trace_dir=str(tmp_path), trace_steps=True)
    command = [str(Path(sys.executable).parent / "lanecast"), "trace", str(tmp_path)]
    command += ["--timeline", str(tmp_path / "picture.png"), "--perfetto", str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "loopback, point-to-point: " in done.stdout
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert (tmp_path / "run.json").stat().st_size > 1000
    done = subprocess.run([*command[:2], str(tmp_path / "nowhere")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is no directory" in done.stderr


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(lanecast.UsageError, match="holds no traces"):
        traces.read(tmp_path)
    (tmp_path / "x.jsonl").write_text('{"type": "communicator", "id": "1", "size": 1, "rank"')
    with pytest.raises(lanecast.UsageError, match="line 1"):
        traces.read(tmp_path)


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(lanecast.TransportError, match="cannot be written"):
        lanecast.run_threads(1, lambda comm: comm.write_trace(tmp_path / "file"))


def test_trace_that_cannot_be_written_leaves_no_part_of_it(tmp_path: Path) -> None:
    def body(comm: Communicator) -> None:
        comm.write_trace(tmp_path)
        (trace,) = tmp_path.iterdir()
        trace.unlink()
        trace.mkdir()
        with pytest.raises(lanecast.TransportError, match="cannot be written: Is a directory"):
            comm.write_trace(tmp_path)
        assert list(tmp_path.iterdir()) == [trace]

    lanecast.run_threads(1, body)
