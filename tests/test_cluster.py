# SPDX-License-Identifier: Apache-2.0
"""Emulated clusters: hosts that look separate, ranks pinned to NICs that carry equally much, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lanecast
from lanecast import launch, nics
from lanecast.bench.network import Network
from lanecast.cli.cluster import Program, run_job
from lanecast.cluster import job, registry
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape, parse_rate, rate_text
from launch import MPICH, OPENMPI

RANK = str(Path(__file__).with_name("cluster_rank.py"))
SHAPE = Shape(hosts=2, nics=2, rate_bps=400 * 10**6)
MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        running = Cluster.start(SHAPE)
    except lanecast.TransportError as error:
        pytest.skip(str(error).splitlines()[0])
    with running:
        yield running


def launched(cluster: Cluster, mpiexec: Path, ranks: int, program: list[str], **variables: str) -> int:
    """The exit status of so many ranks on each host."""
    launcher = launch.find_launcher(mpiexec)
    assert launcher is not None
    return cluster.run(
        job.command(launcher, SHAPE, ranks, program), job.environment(launcher, SHAPE, ranks) | variables
    )


def traffic_since(before: list[dict[str, Any]], cluster: Cluster) -> dict[tuple[str, str], tuple[int, int]]:
    """Bytes received and sent through each NIC, by host and NIC."""
    return {
        (new["host"], new["nic"]): (
            new["received_bytes"] - old["received_bytes"], new["sent_bytes"] - old["sent_bytes"]
        )
        for old, new in zip(before, cluster.traffic(), strict=True)
    }  # fmt: skip


def run(cluster: Cluster, capfd: pytest.CaptureFixture[str], mpiexec: Path, *program: str) -> list[dict[str, Any]]:
    """What each of two ranks on each host says; also how much went through each NIC, as `traffic` of the first."""
    before = cluster.traffic()
    status = launched(cluster, mpiexec, 2, list(program))
    output, errors = capfd.readouterr()
    assert status == 0, output + errors
    said = sorted((json.loads(text) for text in re.findall(r"\{.*?\}", output)), key=lambda facts: int(facts["rank"]))
    said[0]["traffic"] = traffic_since(before, cluster)
    return said


@pytest.mark.parametrize(("mpiexec", "name"), [(MPICH, "MPICH"), (OPENMPI / "mpiexec", "Open MPI")])
def test_hosts_are_separate_and_ranks_pinned(
    cluster: Cluster, capfd: pytest.CaptureFixture[str], mpiexec: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANECAST_UCX_LANES", "0")  # or UCX goes before MPI where cores are to spare
    python = str(mpiexec.with_name("python"))
    said = run(cluster, capfd, mpiexec, python, RANK, "hierarchical(ring,direct)", "16")
    assert [facts["host"] for facts in said] == ["node0", "node0", "node1", "node1"]
    assert [facts["nic"] for facts in said] == ["eth0", "eth1"] * 2
    assert [facts["shared"] for facts in said] == [["of-node0"]] * 2 + [["of-node1"]] * 2
    for facts in said:
        assert facts["right"]
        assert (facts["topology"], facts["transports"]) == ("2x2", "shm+mpi")
        assert name in facts["mpi"]
    numbers = [number for pair in said[0]["traffic"].values() for number in pair]
    assert min(numbers) > 5 * MIB  # half of a host's 8 MiB, and of what the all-reduce moves
    assert max(numbers) < 1.1 * min(numbers)


def test_a_flat_ring_uses_one_nic_in_each_direction(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    said = run(cluster, capfd, MPICH, sys.executable, RANK, "ring", "32")
    carried = said[0]["traffic"]
    for host in SHAPE.host_names:
        (in_first, out_first), (in_second, out_second) = carried[host, "eth0"], carried[host, "eth1"]
        # Rank 1 of a host sends to the next host's rank 0; all but one of the four shares pass there.
        assert min(in_first, out_second) > 24 * MIB
        assert max(in_second, out_first) < 8 * MIB


LINKS = """
import json, lanecast
comm = lanecast.init()
models = comm._core.models
print(json.dumps({"rank": comm.rank, "links": models.links, "sources": models.sources, "timing": models.timing}))
"""


@pytest.mark.long
def test_links_are_timed_beyond_the_burst_of_a_slow_nic(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    """NICs of 50 MB/s that let 64 KiB through at once: all ranks know the same rate, and it is none of a memory's."""
    said = run(cluster, capfd, MPICH, sys.executable, "-c", LINKS)
    (_, beta), _ = said[0]["links"]
    assert all(facts["links"] == said[0]["links"] for facts in said)
    assert all(facts["sources"] == ["timed", "assumed"] and facts["timing"] for facts in said)
    # A rank has a NIC of its own. A busy machine takes longer, and never makes a NIC faster.
    assert 1 / beta < 1.3 * SHAPE.rate_bps / 8
    assert 1 / beta > 0.05 * SHAPE.rate_bps / 8


def test_bench_prints_the_bound_that_it_has_measured(
    cluster: Cluster, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rows.json"
    program = [
        sys.executable, "-m", "lanecast", "bench", "--collectives", "all_gather", "--sizes", "4M", "--rounds", "2",
        "--warmup", "0", "--json", str(file),
    ]  # fmt: skip
    assert launched(cluster, MPICH, 2, program) == 0
    shown = capfd.readouterr().out
    assert "of bound" in shown
    assert "each rank pinned" in shown
    for row in json.loads(file.read_text()):
        assert row["wrong"] == 0
        assert row["run"]["hosts"] == 2
        # Of 2 NICs × 50 MB/s headers take a little, and a busy machine may take any part; a receiver that it holds up
        # finds more than they carry in the time it sees. Bytes that counted twice would make some 0.19.
        assert 0 < row["goodput_GBps"] < 0.15
        assert row["bound_us"] == pytest.approx(row["bytes"] / 2 / row["goodput_GBps"] / 1e3)
        assert sum(nic["received"] for nic in row["nic_bytes"].values()) > row["bytes"] / 2


def test_one_rank_fills_both_nics_evenly(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    program = [
        sys.executable, "-m", "lanecast", "bench", "--collectives", "all_gather", "--sizes", "8M", "--rounds", "2",
        "--warmup", "0", "--backends", "lanecast", "--json", str(file),
    ]  # fmt: skip
    assert launched(cluster, MPICH, 1, program, LANECAST_UCX_LANES="2", LANECAST_CHUNKS="4") == 0
    [row] = json.loads(file.read_text())
    assert (row["transports"], row["wrong"]) == ("ucx", 0)
    first, second = (row["nic_bytes"][nic]["sent"] for nic in ("eth0", "eth1"))
    # Of chunks of 1 MiB 64 KiB go ahead through the first: with equal shares of the rest it would have 53 %.
    assert first == pytest.approx(second, rel=0.03)


@pytest.mark.parametrize("lanes", [0, 2])
def test_helpers_and_their_leader_fill_both_nics_evenly(cluster: Cluster, lanes: int) -> None:
    """With threads for both NICs each process uses both, without them each has one."""
    program = [sys.executable, str(Path(__file__).with_name("cluster_helpers_rank.py"))]
    before = cluster.traffic()
    assert launched(cluster, MPICH, 1, program, LANECAST_UCX_LANES=str(lanes)) == 0
    sent = [sent for _, sent in traffic_since(before, cluster).values()]
    assert min(sent) == pytest.approx(max(sent), rel=0.2)  # were it one NIC for the helper alone, 3 to 1


def gone(pid: int) -> bool:
    """Zombies count: who should reap them may be a busy init."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


RUNNER = """
import sys
from lanecast.cluster.cluster import Cluster
from lanecast.cluster.shape import Shape
cluster = Cluster.start(Shape(2, 1))
print(cluster.init, flush=True)
cluster.run(["sleep", "1000"])
"""


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.usefixtures("cluster")
def test_nothing_survives_a_killed_runner() -> None:
    with subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        init = int(runner.stdout.readline())
        hosts = children(init)
        assert len(hosts) == 2
        runner.send_signal(signal.SIGKILL)
    assert gone(init)
    assert all(gone(host) for host in hosts)


@pytest.mark.usefixtures("cluster")
def test_up_survives_its_command_and_down_a_crash(tmp_path: Path) -> None:
    def lanecast_cluster(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lanecast", "cluster", arguments[0], "--name", "tested", *arguments[1:]],
            capture_output=True, text=True, timeout=240, check=False,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        )  # fmt: skip

    assert "2 hosts with 1 NIC of 1gbit" in lanecast_cluster("up").stdout
    assert "is up already" in lanecast_cluster("up").stderr
    state = next(tmp_path.rglob("*.json"))
    os.kill(json.loads(state.read_text())["init"], signal.SIGKILL)
    assert gone(json.loads(state.read_text())["init"])
    assert "was not up" in lanecast_cluster("down").stdout
    assert not state.exists()
    assert lanecast_cluster("up", "--hosts", "3").returncode == 0
    init = json.loads(state.read_text())["init"]
    kills_holders = "import os; os.kill(-1, 9)"
    assert lanecast_cluster("run", sys.executable, "-c", kills_holders).returncode == 128 + signal.SIGKILL
    damaged = lanecast_cluster("run", "true")
    assert damaged.returncode == 1
    assert "no longer as it was made: the process that holds node0 has been killed" in damaged.stderr
    assert "end it with lanecast cluster down --name tested" in damaged.stderr
    refused = lanecast_cluster("run", "--hosts", "4", "true")
    assert refused.returncode == 2
    assert "is up with 3 hosts" in refused.stderr
    assert "is down" in lanecast_cluster("down").stdout
    assert gone(init)


NETLINK = "from pyroute2 import IPRoute; ip = IPRoute(); eth1 = ip.link_lookup(ifname='eth1')[0]; "


@dataclass(frozen=True)
class Deed:
    """What a job does to its host; its exit status, the NICs whose bytes nobody knows then, and what is damaged."""

    code: str
    status: int = 7
    gone: tuple[str, ...] = ()
    damage: str = ""


DEEDS = {
    "adds an interface": Deed(NETLINK + "ip.link('add', ifname='docker0', kind='bridge')"),
    "removes one": Deed(NETLINK + "ip.link('del', index=eth1)", gone=("eth1",), damage="node0 has no eth1 any more"),
    "renames one": Deed(
        NETLINK + "ip.link('set', index=eth1, state='down'); ip.link('set', index=eth1, ifname='lan1')",
        damage="node0 has no eth1 any more",
    ),
    "changes an address": Deed(
        NETLINK + "ip.flush_addr(index=eth1); ip.addr('add', index=eth1, address='10.77.9.9', prefixlen=16)",
        damage="eth1 of node0 is down, or has lost its address 10.77.1.1",
    ),
    "takes one down": Deed(NETLINK + "ip.link('set', index=eth1, state='down')", damage="eth1 of node0 is down"),
    "mounts over shared memory": Deed(
        "from lanecast.cluster.namespaces import mount; mount('tmpfs', '/dev/shm', 'tmpfs')",
        damage="/dev/shm/.lanecast of node0 has been removed or mounted over",
    ),
    "leaves a process": Deed("import subprocess; subprocess.Popen(['sleep', '1000'], stdout=-3, stderr=-3)"),
    "kills all that it can": Deed(
        "import os; os.kill(-1, 9)", 128 + signal.SIGKILL, ("eth0", "eth1"),
        "the process that holds node0 has been killed",
    ),
}  # fmt: skip


def wait_until(is_so: Callable[[], bool]) -> bool:
    """Was there anything to wait for? Fails after a minute."""
    end = time.monotonic() + 60
    late = not is_so()
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)
    return late


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_a_job_keeps_its_status_whatever_it_does_to_its_host(
    deed: Deed, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launcher = launch.find_launcher(MPICH)
    assert launcher is not None
    file = tmp_path / "bytes.json"
    program = [sys.executable, "-c", f"{deed.code}; import sys; sys.exit(7)"]
    with Cluster.start(Shape(hosts=1, nics=2)) as own:
        assert own.damage() == []
        assert run_job(own, Program(launcher, 1, program), file) == deed.status
        late = wait_until(lambda: bool(deed.damage) == bool(own.damage()))  # a killed process may end after the job
        assert deed.damage in "; ".join(own.damage())
    rows = {row["nic"]: row["sent_bytes"] for row in json.loads(file.read_text())["traffic"]}
    assert list(rows) == ["eth0", "eth1"]
    unknown = tuple(nic for nic, sent in rows.items() if sent is None)
    assert unknown == deed.gone or (late and not unknown)
    assert capfd.readouterr().err.count("gone") == 2 * len(unknown)


@pytest.mark.usefixtures("cluster")
def test_a_file_that_cannot_be_written_after_all_costs_no_status(tmp_path: Path) -> None:
    launcher = launch.find_launcher(MPICH)
    assert launcher is not None
    file = tmp_path / "folder" / "bytes.json"
    with Cluster.start(Shape(hosts=1)) as own:
        assert run_job(own, Program(launcher, 1, ["sh", "-c", "exit 7"]), file) == 7
        assert run_job(own, Program(launcher, 1, ["true"]), file) == 1


def test_names_of_clusters_are_no_paths() -> None:
    with pytest.raises(lanecast.UsageError, match="letters, digits"):
        registry.find("../x")


def test_damaged_file_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    registry.save("c", Cluster(SHAPE, os.getpid()))
    (file,) = (tmp_path / "lanecast").iterdir()
    found = registry.find("c")
    assert found is not None
    assert (found.shape, found.init) == (SHAPE, os.getpid())
    whole = file.read_text()
    for wrong in (whole[:-9], "{}", whole.replace('"hosts": 2', '"hosts": 0')):
        file.write_text(wrong)
        for use in (registry.find, registry.remove):
            with pytest.raises(lanecast.UsageError, match=rf"cluster file .*{file.name}: "):
                use("c")


def test_rates() -> None:
    assert [parse_rate(text) for text in ("500mbit", "1.5Gbit", "10gbit/s")] == [500 * 10**6, 1500 * 10**6, 10**10]
    assert [rate_text(bps) for bps in (500 * 10**6, 15 * 10**8, 10**10)] == ["500mbit", "1.5gbit", "10gbit"]
    for wrong in ("fast", "500", "5mb", "-1mbit"):
        with pytest.raises(lanecast.UsageError, match="500mbit or 10gbit"):
            parse_rate(wrong)


@pytest.mark.parametrize("wrong", [{"hosts": 0}, {"hosts": 251}, {"nics": 0}, {"nics": 17}, {"rate_bps": 1000}])
def test_impossible_shapes(wrong: dict[str, int]) -> None:
    with pytest.raises(lanecast.UsageError, match="is not between"):
        Shape(**wrong)


def test_launchers_fill_host_by_host() -> None:
    hydra = launch.Launcher(Path("/x/mpiexec"), is_open_mpi=False)
    prte = launch.Launcher(Path("/x/mpiexec"), is_open_mpi=True)
    assert " ".join(job.command(hydra, SHAPE, 3, ["a"])) == "/x/mpiexec -hosts node0:3,node1:3 -n 6 a"
    assert " ".join(job.command(prte, SHAPE, 3, ["a"])) == "/x/mpiexec --host node0:3,node1:3 --bind-to none -n 6 a"


def test_nics_are_named_with_a_map() -> None:
    assert nics.parse("eth0, eth1") == (("eth0", "eth1"), "packed")
    assert nics.parse("mlx5_0:1,mlx5_1:1") == (("mlx5_0:1", "mlx5_1:1"), "packed")
    assert nics.parse("mlx5_0:1,mlx5_1:1:round_robin") == (("mlx5_0:1", "mlx5_1:1"), "round_robin")
    assert nics.parse("") == ((), "packed")
    with pytest.raises(lanecast.UsageError, match="this host has no 'eth99'; it has"):
        nics.check(("eth99",))


def test_what_must_enter_a_host() -> None:
    even = Network((0, 0, 1, 1, 2, 2, 3, 3), ("eth0",), pinned=True)
    assert even.bound_bytes("all_gather", 800) == 600
    assert even.bound_bytes("reduce_scatter", 800) == 600
    assert even.bound_bytes("all_reduce", 800) == 1200
    assert even.bound_bytes("broadcast", 800) is None
    uneven = Network((0, 1, 1, 1), ("eth0",), pinned=True)
    assert uneven.bound_bytes("all_gather", 800) == 600  # three of four shares are new to host 0
    assert uneven.neighbours(2) == [1, 2, 3]
