# SPDX-License-Identifier: Apache-2.0
"""A host of an emulated cluster: a process that holds namespaces which look like a machine of their own."""

from __future__ import annotations

import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import NoReturn

from lanecast.cluster import agent, links
from lanecast.cluster.namespaces import bind_text, mount, unshare
from lanecast.cluster.shape import Shape, address

SHARED = Path("/dev/shm")
COMMANDS = SHARED / ".lanecast"  # on PATH of jobs; hidden from what looks at shared memory


def become_host(host: int, shape: Shape, ready: int) -> NoReturn:
    """Set the host up, write "ready" or what went wrong to the file `ready`, and hold it until the cluster ends."""
    try:
        unshare("net", "uts", "ipc", "mnt")
        os.sched_setaffinity(0, _cores(host, shape.hosts))
        socket.sethostname(shape.host_names[host])
        _mount(shape)
        links.add_nics(host, shape)
        answer = "ready"
    except Exception as error:
        answer = str(error) or type(error).__name__
    os.write(ready, answer.encode())
    os.close(ready)
    release_streams()
    while True:
        signal.pause()


def release_streams() -> None:
    """Hold up nobody who waits for the end of what this process might still write."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _cores(host: int, hosts: int) -> list[int]:
    """A host's share of the machine's cores, so that its programs see how many ranks share one; at least one."""
    cores = sorted(os.sched_getaffinity(0))
    first, end = host * len(cores) // hosts, (host + 1) * len(cores) // hosts
    return cores[first : max(first + 1, end)]


def _mount(shape: Shape) -> None:
    """What programs look at to tell hosts apart, and to find them."""
    mount("sysfs", "/sys", "sysfs")  # shows the NICs of the namespace in which it was mounted
    mount("tmpfs", str(SHARED), "tmpfs")
    COMMANDS.mkdir()
    bind_text(f"{uuid.uuid4()}\n", "/proc/sys/kernel/random/boot_id", COMMANDS)
    lines = [f"{address(host, 0)} {name}" for host, name in enumerate(shape.host_names)]
    bind_text("\n".join(["127.0.0.1 localhost", *lines, ""]), "/etc/hosts", COMMANDS)
    ssh = COMMANDS / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{agent.__file__}" "$@"\n')
    ssh.chmod(0o755)
