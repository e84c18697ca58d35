# SPDX-License-Identifier: Apache-2.0
"""A cluster as the programs outside see it: it is started, runs jobs, tells its traffic, and is stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from lanecast import _core
from lanecast.cluster import agent
from lanecast.cluster.host import COMMANDS
from lanecast.cluster.shape import Shape, address, host_pid, port_name
from lanecast.nics import traffic

_START_S = 60

_NEEDS = """
An emulated cluster needs Linux namespaces and a kernel with veth, bridge and the tbf queue (sch_tbf): real root or
CAP_SYS_ADMIN, or an ordinary user who may make user namespaces (kernel.unprivileged_userns_clone=1,
user.max_user_namespaces > 0, kernel.apparmor_restrict_unprivileged_userns=0). Most containers forbid it unless they are
privileged."""


class Cluster:
    """Hosts that live until stop(), or until the process that started them ends."""

    def __init__(self, shape: Shape, init: int, lifeline: subprocess.Popen[str] | None = None) -> None:
        self.shape = shape
        self.init = init  # pid, as this process sees it
        self._lifeline = lifeline

    @classmethod
    def start(cls, shape: Shape) -> Cluster:
        """Make the hosts and their network. Raises TransportError with what is missing where that is not possible."""
        if sys.platform != "linux":
            raise _core.TransportError(f"a cluster cannot be emulated on {sys.platform}.{_NEEDS}")
        if importlib.util.find_spec("pyroute2") is None:
            raise _core.TransportError(
                "a cluster needs pyroute2, and it is not installed: pip install 'lanecast[cluster]'"
            )
        lifeline = subprocess.Popen(
            [sys.executable, "-m", "lanecast.cluster.init", json.dumps(asdict(shape))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            # Threads of a linear algebra library would forbid the new user namespace.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )  # fmt: skip
        assert lifeline.stdout is not None
        facts: dict[str, Any] = {}
        with lifeline.stdout as answers:
            for _ in ("its pid", "it is ready"):
                if select.select([answers], [], [], _START_S)[0]:
                    facts |= json.loads(answers.readline() or '{"error": "its init process ended"}')
                else:
                    facts["error"] = f"it was not ready after {_START_S} s"
                if "error" in facts:
                    break
        if "error" in facts:
            if "pid" in facts:
                _kill(facts["pid"])
            raise _core.TransportError(f"the cluster could not be started: {facts['error']}{_NEEDS}")
        return cls(shape, facts["pid"], lifeline)

    def keep(self) -> None:
        """From now on the cluster outlives this process."""
        assert self._lifeline is not None
        assert self._lifeline.stdin is not None
        self._lifeline.stdin.write("stay")
        self._lifeline.stdin.close()

    def stop(self) -> None:
        """End every process of the cluster; its hosts and devices go with them."""
        _kill(self.init)
        if self._lifeline is not None:
            assert self._lifeline.stdin is not None
            self._lifeline.stdin.close()
            self._lifeline.wait()

    def run(self, command: list[str], environment: dict[str, str] | None = None, host: int = 0) -> int:
        """Run `command` on a host with the caller's files and streams; its exit status. `ssh` leads to other hosts."""
        settings = dict(os.environ if environment is None else environment)
        settings["PATH"] = os.pathsep.join([str(COMMANDS), settings.get("PATH", os.defpath)])
        with subprocess.Popen([*self.way_in(host), *command], env=settings) as job:
            while True:
                try:
                    return job.wait()
                except KeyboardInterrupt:
                    continue  # the terminal has told the job as well; how it ends is its own affair

    def way_in(self, host: int) -> list[str]:
        """Words before a command that make it run on a host, until it or the process that starts it ends."""
        return [sys.executable, "-S", "-E", agent.__file__, "--join", str(self.init), self.shape.host_names[host]]

    def traffic(self) -> list[dict[str, Any]]:
        """Bytes that each NIC has received and sent since the cluster was started; None of one that is no more.

        As the switch has counted them: a job may rename the NICs of its host and add others, or end the host.
        """
        ports = self._interfaces(f"/proc/{self.init}/net")
        rows = []
        for host, name in enumerate(self.shape.host_names):
            # The kernel takes the devices of a host that has ended away by and by.
            there = ports if Path(self._proc(host), "net").exists() else {}
            for number, nic in enumerate(self.shape.nic_names):
                sent, received = there.get(port_name(host, number), (None, None))
                rows.append({"host": name, "nic": nic, "received_bytes": received, "sent_bytes": sent})
        return rows

    def damage(self) -> list[str]:
        """What earlier jobs have left of the hosts unlike it was made, as far as the next job needs it."""
        found = []
        for host, name in enumerate(self.shape.host_names):
            proc = self._proc(host)
            if not Path(proc, "net").exists():
                found.append(f"the process that holds {name} has been killed")
                continue
            there = self._interfaces(f"{proc}/net")
            addresses = Path(f"{proc}/net/fib_trie").read_text()
            routed = {line.split()[0] for line in Path(f"{proc}/net/route").read_text().splitlines()}
            for number, nic in enumerate(self.shape.nic_names):
                if nic not in there:
                    found.append(f"{name} has no {nic} any more")
                elif nic not in routed or f"-- {address(host, number)}\n" not in addresses:
                    found.append(
                        f"{nic} of {name} is down, or has lost its address {address(host, number)} or its routes"
                    )
            if not Path(f"{proc}/root{COMMANDS}/ssh").exists():
                found.append(f"{COMMANDS} of {name} has been removed or mounted over")
        return found

    def _proc(self, host: int) -> str:
        """What the kernel says of the process that holds a host."""
        return f"/proc/{self.init}/root/proc/{host_pid(host)}"

    @staticmethod
    def _interfaces(folder: str) -> dict[str, tuple[int, int]]:
        try:
            return traffic(Path(folder, "dev").read_text())
        except OSError:  # the process has ended
            return {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def _kill(pid: int) -> None:
    """Kill a process and wait until it is gone, and with it, as it is an init, its whole namespace."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 10)
    except ProcessLookupError:
        pass
    finally:
        os.close(process)
