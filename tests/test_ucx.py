# SPDX-License-Identifier: Apache-2.0
"""Processes on what are hosts of their own, without MPI: collectives over UCX. test_faults.py ends ranks there, too."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from gpu_stand_in import another
from lanecast import Communicator, _core
from lanecast.cli import info
from open_files import open_files
from pipe_jobs import PipeJob

Tell = Callable[[Any], None]


def collectives(comm: Communicator, _: Tell) -> list[str]:
    size = comm.size
    counts = (1000, 0, 2001)[:size] + (7,) * (size - 3)
    cases = [
        Case(kind, (3001,) if kind == "all_reduce" else counts, algorithm, chunks=chunks, async_op=chunks > 1)
        for kind in ("all_reduce", "all_gather", "reduce_scatter")
        for algorithm in ("", "ring", "bruck", "direct")
        for chunks in (1, 4)
    ]
    wrong = run_cases(comm, [*cases, Case("all_reduce", (700_001,), "ring", chunks=3)])
    child = comm.split(0, key=-comm.rank)
    assert child is not None
    return [comm.transports, *wrong, *run_cases(child, cases)]


@pytest.mark.parametrize(("hosts", "transports"), [("abc", "ucx"), ("aabb", "shm+ucx"), ("aab", "shm+ucx")])
def test_collectives(hosts: str, transports: str) -> None:
    job = PipeJob(len(hosts), collectives, hosts=hosts, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(len(hosts))]
    assert [outcome.text for outcome in outcomes] == [""] * len(hosts)
    assert outcomes[0].value == [transports]
    assert all(len(outcome.value) == 1 for outcome in outcomes), outcomes
    assert job.end() == [0] * len(hosts)


def ends_in_the_middle(comm: Communicator, _: Tell) -> int:
    """Peers send notes to a rank whose communicator is going."""
    failed = 0
    for _round in range(12):
        child = comm.split(0, -comm.rank)
        assert child is not None
        try:
            child.all_reduce(np.ones(5))  # the end may overtake it
            work = child.all_reduce(np.ones(50_000), async_op=True)
            if comm.rank == 1:
                del child
            assert work is not None
            work.wait()
        except lanecast.TransportError:
            failed += 1
    comm.all_reduce(np.ones(7))
    return failed


def test_communicators_destroyed_during_a_call_leave_the_memory_whole() -> None:
    job = PipeJob(2, ends_in_the_middle, hosts="ab", timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.text for outcome in outcomes] == ["", ""]
    assert outcomes[1].value > 0
    assert job.end() == [0, 0]


def test_without_ucx_every_rank_is_told_what_to_do() -> None:
    job = PipeJob(2, collectives, hosts="ab", environment={"LANECAST_UCX_LIBRARY": "/none"}, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.error for outcome in outcomes] == ["UsageError"] * 2, outcomes
    for outcome in outcomes:
        assert re.search(r"rank 0: LANECAST_UCX_LIBRARY names no usable library", outcome.text), outcome
    assert job.end() == [0] * 2


@pytest.mark.parametrize("lanes", ["0", "2"])
def test_nics_that_reach_nobody_are_named_with_their_variable(lanes: str) -> None:
    environment = {"UCX_NET_DEVICES": "none0", "LANECAST_UCX_LANES": lanes}
    job = PipeJob(2, collectives, hosts="ab", environment=environment, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.error for outcome in outcomes] == ["TransportError"] * 2, outcomes
    for rank, outcome in enumerate(outcomes):
        assert re.search(
            rf"rank {rank} lost rank {1 - rank} \(its UCX connection has failed: Destination is unreachable; "
            r"UCX was told UCX_NET_DEVICES=none0, and this host has [^:]*\blo\b.*: name NICs .* in LANECAST_NICS or ",
            outcome.text,
        ), outcome
    job.end()


def in_a_network_of_its_own(comm: Communicator, _: Tell) -> str:
    """Each rank in a network namespace without a NIC, while /sys shows those of the host."""
    clone_newnet = 0x40000000
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        return os.strerror(ctypes.get_errno())
    os.environ["LANECAST_HOST"] = "ab"[comm.rank]
    try:
        another(comm, transports="ucx", timeout_s=60.0).all_reduce(np.ones(3))
    except lanecast.TransportError as error:
        return str(error)
    return ""


def test_nics_are_those_of_the_network_namespace() -> None:
    job = PipeJob(2, in_a_network_of_its_own, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    job.end()
    if os.strerror(errno.EPERM) in [outcome.value for outcome in outcomes]:
        pytest.skip("this user may not make network namespaces")
    for outcome in outcomes:
        assert re.search(r"this host has (\w+, )*lo \(down\)[^()]*: name NICs by which all hosts", outcome.value), (
            outcome
        )


def test_info_says_which_ucx_knows_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the modules beside it: without a driver UCX itself says that it knows no GPU."""
    for file in Path(sys.prefix, "lib/mpich").glob("*.so*"):
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.setenv("LANECAST_UCX_LIBRARY", str(tmp_path / "libucp.so.0"))
    asks = [sys.executable, "-c", "from lanecast.cli import info; print(info._ucx())"]
    assert "GPUs: none" in subprocess.run(asks, check=True, capture_output=True, text=True).stdout
    (tmp_path / "ucx").mkdir()
    (tmp_path / "ucx" / "libuct_cuda.so").touch()
    assert "GPUs: CUDA\n" in subprocess.run(asks, check=True, capture_output=True, text=True).stdout


def test_info_names_a_ucx_that_knows_more_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "ucx", lambda: ("1.20.1", "/a/libucp.so.0"))
    found = [("/a/libucp.so.0", False, False), ("/b/libucp.so.0", True, False), ("/c/libucp.so.0", False, False)]
    monkeypatch.setattr(_core, "ucx_libraries", lambda: found)
    named = "LANECAST_UCX_LIBRARY=/b/libucp.so.0 takes the one that has them for CUDA"
    assert info._ucx().splitlines()[2:] == ["modules for the memory of GPUs: none", named]
    found[0] = ("/a/libucp.so.0", True, False)
    assert info._ucx().splitlines()[2:] == ["modules for the memory of GPUs: CUDA"]


def opens_where_the_other_rank_cannot(comm: Communicator, _: Tell) -> tuple[str, int]:
    def all_gather(mine: bytes) -> bytes:
        own = np.frombuffer(mine, np.uint8)
        everyone = np.empty(comm.size * own.size, np.uint8)
        comm.all_gather_into_tensor(everyone, own)
        return everyone.tobytes()

    def refusal() -> str:
        with pytest.raises(lanecast.UsageError) as caught:
            lanecast.from_all_gather(comm.rank, comm.size, all_gather, transports="ucx")
        return str(caught.value)

    if comm.rank == 1:
        os.environ["UCX_TLS"] = "none_of_that_name"
    text, before = refusal(), open_files()
    for _again in range(3):
        refusal()
    return text, open_files() - before


def test_what_was_opened_is_closed_where_another_rank_has_no_ucx() -> None:
    job = PipeJob(2, opens_where_the_other_rank_cannot, hosts="ab", timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.error for outcome in outcomes] == [""] * 2, outcomes
    for outcome in outcomes:
        text, more_files = outcome.value
        assert "rank 1: UCX has no NIC or transport that it may use: UCX was told UCX_TLS=none_of_that_name" in text
        assert more_files <= 0
    assert job.end() == [0] * 2


@pytest.mark.parametrize(
    ("set_by_the_user", "becomes"),
    [
        ("all", "^cuda,gdr_copy,rocm,ze,gaudi"),
        ("", "^cuda,gdr_copy,rocm,ze,gaudi"),
        ("^ib", "^ib,cuda,gdr_copy,rocm,ze,gaudi"),
        ("^cuda_ipc,tcp", "^tcp,cuda,gdr_copy,rocm,ze,gaudi"),
        ("rc,cuda_copy,cuda_ipc,self", "rc,self"),
        ("self,gdr_copy:aux,rocm,sm", "self,sm"),
    ],
)
def test_transports_that_call_a_driver_are_left_out(set_by_the_user: str, becomes: str) -> None:
    assert _core.ucx_without_drivers(set_by_the_user) == becomes


TOO_OLD = """
void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release) { *major = 1, *minor = 13, *release = 1; }
const char *ucp_get_version_string(void) { return "1.13.1"; }
"""


def test_a_ucx_that_is_too_old_is_refused(tmp_path: Path) -> None:
    source, library = tmp_path / "ucp.c", tmp_path / "libucp.so.0"
    source.write_text(TOO_OLD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    environment = {**os.environ, "LANECAST_UCX_LIBRARY": str(library)}
    asks = [sys.executable, "-c", "from lanecast import _core; _core.ucx()"]
    done = subprocess.run(asks, env=environment, capture_output=True, text=True, check=False)
    words = (
        f"UCX 1.13.1 ({library}) is older than 1.14, and would wait for ever where a peer has gone: name a newer one"
    )
    assert words in done.stderr
    assert re.search(r"in LANECAST_UCX_LIBRARY, (/.*/libucp\.so\.0 perhaps|that of libucx-cu12, say)", done.stderr)


def hears_nothing_from_ucx(comm: Communicator, _: Tell) -> str:
    comm.all_reduce(np.ones(100_000))
    return comm.transports


@pytest.mark.parametrize("transports", ["all", "tcp,self,cuda_copy", "^ib"])
def test_ucx_does_not_complain_of_what_is_left_out(transports: str) -> None:
    job = PipeJob(2, hears_nothing_from_ucx, hosts="ab", environment={"UCX_TLS": transports})
    assert [job.outcome(rank).value for rank in range(2)] == ["ucx"] * 2
    assert job.end() == [0, 0]
    assert [job.words(rank) for rank in range(2)] == ["", ""]


def test_declarations_are_those_of_the_header() -> None:
    """UCX's header is no part of a build: this compares where one is installed, as libucx of PyPI does."""
    places = [Path("/usr/include"), *(Path(folder) / "libucx/include" for folder in sys.path)]
    found = [place for place in places if (place / "ucp/api/ucp.h").is_file()]
    if not found:
        pytest.skip("no ucp/api/ucp.h here; pip install libucx-cu12 brings one")
    root = Path(__file__).parent
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{root.parent / 'src'}", str(root / "ucx/declarations.cpp")]
    for place in found:
        subprocess.run([*command, f"-I{place}"], check=True, timeout=240)
