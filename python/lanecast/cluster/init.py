# SPDX-License-Identifier: Apache-2.0
"""Process 1 of an emulated cluster: everything of the cluster lives in its namespaces and ends with it.

    python -m lanecast.cluster.init SHAPE-AS-JSON

Writes {"pid": …}, then {} or {"error": …}, one a line. Ends when its standard input does, unless it reads "stay"
there first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn

from lanecast.cluster import links
from lanecast.cluster.host import become_host, release_streams
from lanecast.cluster.namespaces import PRIVATE, RECURSIVE, become_root_of_own, mount, unshare
from lanecast.cluster.shape import Shape, host_pid


def _report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def _start_host(host: int, shape: Shape) -> None:
    """Fork the process that holds a host, and wait until it is set up."""
    ready, its_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        become_host(host, shape, its_end)
    os.close(its_end)
    with os.fdopen(ready) as pipe:
        answer = pipe.read()
    if answer != "ready":
        raise OSError(f"node{host}: {answer or 'ended while it was set up'}")
    if pid != host_pid(host):
        raise OSError(f"node{host} is process {pid} of the cluster, where {host_pid(host)} was expected")


def _build(shape: Shape) -> None:
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    mount("proc", "/proc", "proc")
    links.build_switch()
    for host in range(shape.hosts):
        _start_host(host, shape)
    links.plug_in(shape)


def _as_init(shape: Shape) -> NoReturn:
    os.setsid()  # Ctrl-C at the terminal is for the job
    try:
        _build(shape)
    except Exception as error:
        _report(error=str(error) or type(error).__name__)
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans come here when they end
    _report()
    if sys.stdin.read(4) != "stay":
        os._exit(0)  # the kernel ends all processes of the namespace with its init, and devices with their namespaces
    release_streams()
    while True:
        signal.pause()


def main() -> None:
    shape = Shape(**json.loads(sys.argv[1]))
    kinds = ("mnt", "net", "pid", "uts", "ipc")
    try:
        try:
            unshare(*kinds)
        except PermissionError:
            become_root_of_own()
            unshare(*kinds)
        pid = os.fork()
    except OSError as error:
        return _report(error=str(error))
    if pid == 0:
        _as_init(shape)
    return _report(pid=pid)


if __name__ == "__main__":
    main()
