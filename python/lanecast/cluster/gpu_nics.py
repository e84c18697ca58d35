# SPDX-License-Identifier: Apache-2.0
"""Emulated NICs of GPUs: networks as fast as clusters have, on one machine, played by a process for each host.

python -m lanecast.cluster.gpu_nics FOLDER HOST HOST-INDEX STARTER

Plays the NICs of a host of the network in FOLDER, until its standard input ends, or, where a process is named as
STARTER, some seconds after that and all ranks have. Writes "ready" or what went wrong to its standard output.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from lanecast import _core, job
from lanecast.cluster.cluster import Cluster
from lanecast.wording import counted

VARIABLE = "LANECAST_GPU_NICS"
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])Bps", re.IGNORECASE)
_LATENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", re.IGNORECASE)
_UNIT = {"k": 1e3, "m": 1e6, "g": 1e9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_PREFIX = "lanecast-nics-"  # of folders
_READY_S = 60
_LOG = "log"  # what NIC processes write that outlive who has started them


@dataclass(frozen=True)
class Nics:
    """What each NIC gives."""

    bytes_per_s: float
    latency_s: float

    def __str__(self) -> str:
        return f"{self.bytes_per_s / 1e9:g}GBps,{self.latency_s * 1e6:g}us"


def parse(text: str, named: str = "gpu-nics") -> Nics:
    """NICs as in "50GBps,12us": bytes per second in each direction, and until a byte may be read at the other end."""
    rate, _, latency = text.partition(",")
    rates, latencies = _RATE.fullmatch(rate.strip()), _LATENCY.fullmatch(latency.strip())
    if rates is None or latencies is None:
        raise _core.UsageError(
            f"{named} {text!r}: expected a rate and a latency such as 50GBps,12us (bytes, not bits, per second)"
        )
    found = Nics(float(rates[1]) * _UNIT[rates[2].lower()], float(latencies[1]) * _UNIT[latencies[2].lower()])
    if not 1e6 <= found.bytes_per_s <= 1e12:
        raise _core.UsageError(f"{named} {text!r}: the rate is not between 1MBps and 1000GBps")
    if not 0 <= found.latency_s <= 1:
        raise _core.UsageError(f"{named} {text!r}: the latency is not between 0us and 1s")
    return found


def command(folder: Path, host: str, index: int, starter: int = 0) -> list[str]:
    """The NIC process of a host."""
    return [sys.executable, "-m", __name__, str(folder), host, str(index), str(starter)]


def await_ready(process: subprocess.Popen[str], host: str) -> None:
    """Raises TransportError with what the NIC process says went wrong."""
    assert process.stdout is not None
    told = select.select([process.stdout], [], [], _READY_S)[0]
    answer = process.stdout.readline().strip() if told else f"it was not ready after {_READY_S} s"
    if answer != "ready":
        raise _core.TransportError(f"the NIC process of host {host} could not be started: {answer or 'it has ended'}")


class Network:
    """A network with its NIC processes; both go at the end of the block, or with this process."""

    def __init__(self, nics: Nics, hosts: Sequence[str], nics_of_host: int) -> None:
        self.nics, self.hosts, self.nics_of_host = nics, list(hosts), nics_of_host
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.processes: list[subprocess.Popen[str]] = []
        _core.make_emulated_network(str(self.folder), len(self.hosts), nics_of_host, nics.bytes_per_s, nics.latency_s)

    def start(self, enter: Iterable[list[str]] = ()) -> None:
        """Start the NIC processes, each behind words that enter its host, where there are such."""
        ways = list(enter) or [[] for _ in self.hosts]
        for index, (host, way) in enumerate(zip(self.hosts, ways, strict=True)):
            self.processes.append(
                subprocess.Popen(
                    [*way, *command(self.folder, host, index)],
                    # Its standard input ends with this process, however that ends, and so does the NIC process.
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
                )
            )  # fmt: skip
        for host, process in zip(self.hosts, self.processes, strict=True):
            await_ready(process, host)

    def environment(self) -> dict[str, str]:
        """Of the ranks."""
        return {VARIABLE: str(self.folder)}

    def traffic(self) -> list[dict[str, Any]]:
        """Bytes that went through each NIC, and how many messages each has sent."""
        return _core.emulated_traffic(str(self.folder))

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def sweep(older_than_s: float = 60) -> None:
    """Remove what networks have left of which a crash has ended all processes at once."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # others may do the same
            facts = folder.stat()
            old = facts.st_uid == os.getuid() and time.time() - facts.st_mtime > older_than_s
            if old and not _core.emulated_network_may_answer(str(folder)):
                shutil.rmtree(folder)


def on_cluster(cluster: Cluster, nics: Nics, ranks_per_host: int) -> Network:
    """A network among the hosts of a cluster, with a NIC for each rank; started.

    Raises UsageError where this machine has GPUs, and fewer than ranks.
    """
    ranks = cluster.shape.hosts * ranks_per_host
    if 0 < (gpus := _gpus_here()) < ranks and os.environ.get("LANECAST_ALLOW_SHARED_GPU") not in {"1", "true"}:
        raise _core.UsageError(
            f"--gpu-nics: {ranks} ranks want a NIC for a GPU each, and this machine has {counted(gpus, 'GPU')}; take "
            "fewer hosts or ranks, or set LANECAST_ALLOW_SHARED_GPU=1 to try things out"
        )
    network = Network(nics, cluster.shape.host_names, ranks_per_host)
    try:
        network.start(cluster.way_in(host) for host in range(cluster.shape.hosts))
    except BaseException:
        network.stop()
        raise
    return network


def _gpus_here() -> int:
    try:
        return len(_core.gpus())
    except _core.UsageError:
        return 0


def take_part() -> None:
    """Where LANECAST_GPU_NICS says what NICs are wanted, as 50GBps,12us or, with 2 ranks on each host, 50GBps,12us,2:
    make this launcher's ranks hosts with such NICs. From then on the variable names the network's folder.

    Raises UsageError where no launcher says which rank this is, or the ranks cannot be shared out.
    """
    text = os.environ.get(VARIABLE, "")
    if Path(text).is_absolute():
        _core.emulated_network(text)  # refuses a folder without one
    if not text or Path(text).is_absolute():
        return
    found = job.detect()
    if found is None or found.local_rank is None or found.local_size is None:
        raise _core.UsageError(
            f"{VARIABLE}={text!r}: no launcher says which of this machine's ranks this is; start with torchrun or "
            "mpirun, or use lanecast cluster run --gpu-nics"
        )
    if found.size is not None and found.size != found.local_size:
        raise _core.UsageError(
            f"{VARIABLE}={text!r} makes a network within one machine, and of {found.size} ranks only "
            f"{found.local_size} are on this one: start all of them here"
        )
    if os.environ.get("LANECAST_HOST"):
        raise _core.UsageError(f"{VARIABLE}={text!r} makes hosts of the ranks itself: leave LANECAST_HOST out")
    *nics_text, ranks_text = text.split(",") if text.count(",") > 1 else (text, "1")
    nics = parse(",".join(nics_text), VARIABLE)
    if not ranks_text.isdecimal() or not 1 <= int(ranks_text) <= found.local_size:
        raise _core.UsageError(f"{VARIABLE}={text!r}: expected 1 to {found.local_size} ranks on each host")
    ranks = int(ranks_text)
    index = found.local_rank // ranks
    folder = _folder_of_job(_launcher_process(found), nics, -(-found.local_size // ranks), ranks)
    host = f"host{index}"
    if found.local_rank % ranks == 0:
        _serve(folder, host, index)
    _await_socket(folder, host)
    os.environ |= {VARIABLE: str(folder), "LANECAST_HOST": host}


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _launcher_process(found: job.Job) -> int:
    """The nearest parent that is no rank: a rank may be started by a script, which has the rank's environment."""
    pid = os.getppid()
    with contextlib.suppress(OSError):  # the environment of another user's process
        while {name.encode() for name in found.believed} <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
            pid = int(_stat(pid)[1])
    return pid


def _folder_of_job(launcher: int, nics: Nics, hosts: int, nics_of_host: int) -> Path:
    """The same for all ranks that one launcher has started on this machine: made by the first that comes."""
    started = _stat(launcher)[19]
    job_facts = (os.getuid(), launcher, started, os.environ.get("MASTER_PORT"), str(nics), hosts, nics_of_host)
    name = hashlib.sha256(repr(job_facts).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise _core.UsageError(f"{folder} belongs to another user; set TMPDIR to a folder of yours")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "fabric").exists():
            _core.make_emulated_network(str(folder), hosts, nics_of_host, nics.bytes_per_s, nics.latency_s)
    return folder


def _serve(folder: Path, host: str, index: int) -> None:
    """Start the NIC process of this host, unless one serves already, as after an elastic restart."""
    if _core.emulated_host_answers(str(folder), host):
        return
    with (folder / _LOG).open("a") as log:
        process = subprocess.Popen(
            command(folder, host, index, os.getpid()),
            # A launcher and a pipeline wait until everybody has closed the ranks' outputs.
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment(),
            start_new_session=True,  # it outlives this rank, which may be the first to end
        )  # fmt: skip
    await_ready(process, host)


def _await_socket(folder: Path, host: str) -> None:
    end = time.monotonic() + _READY_S
    while not _core.emulated_host_answers(str(folder), host):
        if time.monotonic() > end:
            raise _core.TransportError(
                f"{VARIABLE}: the NIC process of {host} has not answered for {_READY_S} s; has the first rank of that "
                "host come, and has it the same value of the variable?"
            )
        time.sleep(0.02)


def _environment() -> dict[str, str]:
    """Of a NIC process, which sees all GPUs and asks for no rank's settings."""
    hidden = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", VARIABLE}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def main() -> None:
    folder, host, index, starter = sys.argv[1:]
    # A launcher may have bound the rank that started this to one core, which a NIC does not share.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

    def ready() -> None:
        print("ready", flush=True)
        if starter == "0":
            _end_with_input(folder)

    try:
        _core.run_nic_process(folder, host, int(index), int(starter), ready)
    except (_core.UsageError, _core.TransportError) as error:
        print(str(error).replace("\n", " "), flush=True)
        sys.exit(1)
    except KeyboardInterrupt:
        pass  # the job was told as well
    if starter != "0":
        _leave(Path(folder))


def _leave(folder: Path) -> None:
    """Remove the folder, if this was the last host's."""
    if {entry.name for entry in folder.iterdir()} <= {"fabric", "lock", _LOG}:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_input(folder: str) -> None:
    """End this process, and the network, when its standard input does: who has started it holds the other end."""
    import threading

    def wait() -> None:
        while os.read(0, 1):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
