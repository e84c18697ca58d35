# SPDX-License-Identifier: Apache-2.0
"""Starts a program on a host of an emulated cluster: what launchers run as `ssh HOST COMMAND`, and the way in.

A script of its own that imports nothing but Python's library: launchers run it once for each host.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _set_namespace(pid: int, *kinds: str) -> None:
    """Move into namespaces of process `pid`."""
    files = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for file, kind in zip(files, kinds, strict=True):
        if _libc.setns(file, 0) != 0:
            raise OSError(ctypes.get_errno(), f"entering the {kind} namespace of process {pid}")
        os.close(file)


def _execute(host: str, command: list[str]) -> NoReturn:
    """Become `command` on a host; called within the cluster, where host h is held by process h + 2."""
    match = re.fullmatch(r"node(\d+)", host)
    if match is None:
        raise ValueError(f"host {host!r} is none of this cluster: they are node0, node1, …")
    folder = os.getcwd()  # noqa: PTH109  pathlib costs a third of this script's start
    holder = int(match[1]) + 2
    os.sched_setaffinity(0, os.sched_getaffinity(holder))
    _set_namespace(holder, "net", "uts", "ipc", "mnt")
    os.chdir(folder)
    os.execvp(command[0], command)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user namespace would take this back


def as_ssh(arguments: list[str]) -> NoReturn:
    """`ssh [-options] HOST WORD…`: a shell gets the words, as a real one would hand them over."""
    while arguments and arguments[0].startswith("-"):
        arguments.pop(0)
    host, *words = arguments
    _execute(host.rpartition("@")[2], ["/bin/sh", "-c", " ".join(words)])


def join(init: int, host: str, command: list[str]) -> int:
    """Run `command` on a host from outside the cluster with init process `init`; its exit status.

    The command dies when this process does, and this process when its parent does, however they end.
    """
    kinds = ["pid", "mnt"]
    if os.stat(f"/proc/{init}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:  # noqa: PTH116
        kinds.insert(0, "user")
    folder = os.getcwd()  # noqa: PTH109
    _set_namespace(init, *kinds)
    os.chdir(folder)
    _die_with_parent()
    child = os.fork()  # only a child is in the pid namespace
    if child == 0:
        _die_with_parent()
        _execute(host, command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    try:
        if sys.argv[1] != "--join":
            as_ssh(sys.argv[1:])
        status = join(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
        sys.exit(status if status >= 0 else 128 - status)
    except (OSError, ValueError) as error:
        sys.exit(f"lanecast cluster: {error}")
