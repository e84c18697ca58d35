# SPDX-License-Identifier: Apache-2.0
"""Files that others may have written or laid in the way: read as data and no more, and never written through."""

import contextlib
import json
import os
import sqlite3
import stat
from pathlib import Path

import pytest

import file_formats
import lanecast
from lanecast import UsageError, traces
from lanecast.cluster import registry
from lanecast.learn.database import Database
from lanecast.profiles.scope import Scope


def test_clusters_are_not_taken_from_a_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files name processes to stop."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "lanecast").mkdir()
    (tmp_path / "lanecast" / "cluster-c.json").write_text(file_formats.CLUSTER)
    (tmp_path / "lanecast").chmod(0o777)
    with pytest.raises(UsageError, match=f"every user may write to {tmp_path}/lanecast.*; set XDG_RUNTIME_DIR"):
        registry.find("c")
    (tmp_path / "lanecast").chmod(0o755)
    (tmp_path / "lanecast" / "cluster-c.json").chmod(0o666)
    with pytest.raises(UsageError, match=r"cluster file .*: every user may write to .*cluster-c.json"):
        registry.find("c")


def test_traces_go_through_no_link_and_their_folder_is_private(tmp_path: Path) -> None:
    def body(comm: lanecast.Communicator) -> None:
        comm.write_trace(tmp_path / "a" / "traces")
        (trace,) = (tmp_path / "a" / "traces").iterdir()
        assert stat.S_IMODE(trace.parent.stat().st_mode) == stat.S_IMODE(trace.parent.parent.stat().st_mode) == 0o700
        trace.unlink()
        (tmp_path / "target").write_text("before")
        trace.symlink_to(tmp_path / "target")
        comm.write_trace(tmp_path / "a" / "traces")
        assert (tmp_path / "target").read_text() == "before"
        assert not trace.is_symlink()
        with pytest.raises(lanecast.TransportError, match="cannot be written: the name of the folder is empty"):
            comm.write_trace("")
        with pytest.raises(lanecast.TransportError, match=r"cannot be written: /proc/x: No such .*LANECAST_TRACE_DIR"):
            comm.write_trace("/proc/x/y")

    lanecast.run_threads(1, body)


def test_text_of_a_strangers_trace_moves_no_cursor(tmp_path: Path) -> None:
    def body(comm: lanecast.Communicator) -> None:
        comm.write_trace(tmp_path)
        (trace,) = tmp_path.iterdir()
        trace.write_text(
            trace.read_text().replace('"failure": ""', '"failure": "\\u001b[2J\\u009b2J\\u0007 lost\\nrank 1"')
        )
        os.mkfifo(tmp_path / "pipe.jsonl")
        (tmp_path / "device.jsonl").symlink_to("/dev/zero")
        (job,) = traces.read(tmp_path)
        assert "failed: ?[2J?2J? lost\nrank 1" in traces.report(job)

    lanecast.run_threads(1, body)


def test_a_database_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"database /proc/x/t.sqlite: /proc/x: No such file or directory"):
        Database(Path("/proc/x/t.sqlite"), create=True)
    with Database(tmp_path / "a" / "t.sqlite", create=True) as database:
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
        database._connection.execute("PRAGMA query_only = ON")  # as a file that may only be read
        with pytest.raises(UsageError, match="cannot be written: attempt to write a readonly database; is the file"):
            database.add_run(Scope(**json.loads(file_formats.SCOPE)), {})


@pytest.mark.parametrize("acts", ["VIEW v AS SELECT 1", "TRIGGER t AFTER INSERT ON times BEGIN SELECT 1; END"])
def test_a_database_with_code_in_it_is_refused(acts: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    Database(path, create=True).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE {acts}")
    with pytest.raises(UsageError, match=f"holds a {acts.split(maxsplit=1)[0].lower()}, as no database of times does"):
        Database(path)
