# SPDX-License-Identifier: Apache-2.0
"""Whole jobs over emulated NICs: started by a launcher with one variable, and on an emulated cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import gpu_host_library
import lanecast
from lanecast import launch
from lanecast.cli.cluster import Program, run_job
from lanecast.cluster import gpu_nics
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.gpu_nics import parse
from lanecast.cluster.shape import Shape
from launch import MPICH, OPENMPI, mpich, openmpi

HERE = Path(__file__).parent
PROCESS_RANK = str(HERE / "process_rank.py")
NICS = "1GBps,20us"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where networks have their folders: what is left in it afterwards was not cleaned up."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("cases", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_a_variable_makes_hosts_of_a_launchers_ranks(cases: str, folders: Path) -> None:
    program = [sys.executable, PROCESS_RANK, cases, "-", "-", "2x2", "emulated"]
    output = mpich(4, program, LANECAST_GPU_NICS=f"{NICS},2")
    assert output.count(" calls") == 4
    assert len(list(folders.glob("lanecast-nics-*"))) <= 1  # its NIC processes leave it after some seconds


def test_the_same_under_open_mpi() -> None:
    output = openmpi(2, [str(OPENMPI / "python"), PROCESS_RANK, "some", "2x1", "emulated"], LANECAST_GPU_NICS=NICS)
    assert output.count(" calls") == 2


def test_ranks_that_a_script_starts_find_each_other() -> None:
    program = ["bash", "-c", '"$@"; exit $?', "-", sys.executable, PROCESS_RANK, "some", "-", "-", "2x1", "emulated"]
    assert mpich(2, program, LANECAST_GPU_NICS=NICS).count(" calls") == 2


APART = """
import os, subprocess, lanecast
comm = lanecast.init(timeout_s=60)
folder = os.environ["LANECAST_GPU_NICS"]
found = subprocess.run(["pgrep", "-f", f"{folder} host{comm.rank}"], capture_output=True, text=True).stdout.split()
for output in (1, 2):
    print(os.readlink(f"/proc/{found[0]}/fd/2") != os.readlink(f"/proc/self/fd/{output}"), flush=True)
"""


def test_a_nic_process_keeps_no_output_of_a_rank_open() -> None:
    """Else the launcher, and who reads its output, would wait for it."""
    assert mpich(2, [sys.executable, "-c", APART], LANECAST_GPU_NICS=NICS).split() == ["True"] * 4


SPLIT = """
import os, lanecast
comm = lanecast.init(timeout_s=60)
os.environ["LANECAST_GPU_NICS"] = "/nowhere"
part = comm.split(0)
print(comm.transports, part.transports, flush=True)
"""


def test_a_split_keeps_the_nics_of_its_communicator() -> None:
    """As every other option, whatever the environment says by then."""
    assert mpich(2, [sys.executable, "-c", SPLIT], LANECAST_GPU_NICS=NICS).split() == ["emulated"] * 4


AGAIN = """
import lanecast, time
lanecast.init(timeout_s=60)
time.sleep(12)  # NIC processes wait for 10
lanecast.init(timeout_s=60)
print("again", flush=True)
"""


@pytest.mark.long
def test_a_job_without_a_communicator_keeps_its_nics() -> None:
    assert mpich(2, [sys.executable, "-c", AGAIN], LANECAST_GPU_NICS=NICS).split() == ["again"] * 2


def test_ranks_on_several_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_GPU_NICS", NICS)
    for name, value in {"SIZE": 4, "RANK": 0, "LOCAL_SIZE": 2, "LOCAL_RANK": 0}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    with pytest.raises(lanecast.UsageError, match="of 4 ranks only 2 are on this one"):
        lanecast.init()


KILLS = """
import os, signal, subprocess, sys, lanecast, numpy as np
comm = lanecast.init(timeout_s=60)
assert comm.transports == "emulated", comm.transports
x = np.ones(1000)
comm.all_reduce(x)
if comm.rank == 0:
    folder = os.environ["LANECAST_GPU_NICS"]
    found = subprocess.run(["pgrep", "-f", f"{folder} host1"], capture_output=True, text=True).stdout.split()
    os.kill(int(found[0]), signal.SIGKILL)
try:
    while True:
        comm.all_reduce(x)
except lanecast.TransportError as error:
    print(f"rank {comm.rank}: {error}\\n", end="", flush=True)
"""


def test_a_nic_process_that_is_killed_ends_the_calls_with_its_name(folders: Path) -> None:
    del folders
    output = mpich(2, [sys.executable, "-c", KILLS], LANECAST_GPU_NICS=NICS)
    assert output.count("the NIC process of") >= 1, output
    assert output.count("rank ") >= 2, output


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1GBps", "expected a rate and a latency"),
        (f"{NICS},3", "expected 1 to 2 ranks on each host"),
        (f"{NICS},x", "expected 1 to 2 ranks on each host"),
        ("/nowhere", "LANECAST_GPU_NICS: /nowhere/fabric: No such file or directory"),
    ],
)
def test_what_the_variable_cannot_mean_is_refused(value: str, words: str) -> None:
    program = "import lanecast\ntry: lanecast.init()\nexcept lanecast.UsageError as error: print(error, flush=True)"
    output = mpich(2, [sys.executable, "-c", program], LANECAST_GPU_NICS=value)
    assert output.count(words) == 2, output


def test_without_a_launcher_the_variable_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_GPU_NICS", NICS)
    with pytest.raises(lanecast.UsageError, match=r"no launcher says which .* use lanecast cluster run --gpu-nics"):
        lanecast.init()


@pytest.fixture
def cluster() -> Cluster:
    try:
        return Cluster.start(Shape(hosts=2))
    except lanecast.TransportError as error:
        pytest.skip(str(error).splitlines()[0])


SUM = """
import lanecast, numpy as np
comm = lanecast.init(links="assume")  # their timing sends bytes as well
x = np.full(250_000, comm.rank + 1.0, np.float32)
comm.all_reduce(x)
assert (x == 10).all(), x
assert comm.transports == "shm+emulated", comm.transports
"""


def test_a_cluster_with_nics_of_gpus(
    cluster: Cluster, folders: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANECAST_ALLOW_SHARED_GPU", "1")  # where there are some, but not four
    launcher = launch.find_launcher(MPICH)
    assert launcher is not None
    file = folders / "bytes.json"
    with cluster:
        program = Program(launcher, 2, [sys.executable, "-c", SUM], parse(NICS))
        assert run_job(cluster, program, file) == 0, capfd.readouterr()
    facts = json.loads(file.read_text())
    assert facts["gpu_nics"] == "1GBps,20us"
    rows = {(row["host"], row["nic"]): row for row in facts["gpu_traffic"]}
    assert list(rows) == [(host, nic) for host in ("node0", "node1") for nic in ("gpu0", "gpu1")]
    sent = [row["sent_bytes"] for row in rows.values()]
    assert min(sent) > 400_000, "half of the megabyte crosses in each lane"
    assert max(sent) < 1.1 * min(sent), "the NICs carry equally much"
    assert sum(sent) == sum(row["received_bytes"] for row in rows.values())
    assert "emulated NIC of 1GBps,20us" in capfd.readouterr().err
    assert [path.name for path in folders.iterdir()] == ["bytes.json"]


def test_more_nics_than_gpus_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_CUDA_LIBRARY", str(gpu_host_library.library()))
    launcher = launch.find_launcher(MPICH)
    assert launcher is not None
    with cluster, pytest.raises(lanecast.UsageError, match=r"10 ranks want a NIC for a GPU each, .* has 8 GPUs"):
        run_job(cluster, Program(launcher, 5, ["true"], parse(NICS)), None)


def test_what_a_killed_job_leaves_goes_with_the_next(cluster: Cluster, folders: Path) -> None:
    cluster.stop()
    command = [str(Path(sys.executable).parent / "lanecast"), "cluster", "run", "--gpu-nics", NICS, "--", "sleep", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as job:
        while not any(folders.glob("lanecast-nics-*/fabric")):
            assert job.poll() is None, job.stderr and job.stderr.read()
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    end = time.monotonic() + 200
    while any(folders.glob("lanecast-nics-*")):  # its NIC processes end with its hosts
        gpu_nics.sweep(older_than_s=0)
        assert time.monotonic() < end, "a NIC process has outlived its cluster"


def test_a_network_in_use_is_not_swept_away(folders: Path) -> None:
    with gpu_nics.Network(parse(NICS), ["a"], 1) as network:
        network.start()
        gpu_nics.sweep(older_than_s=0)
        assert network.folder.exists()
    assert not any(folders.iterdir())
