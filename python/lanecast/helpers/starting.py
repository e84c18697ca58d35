# SPDX-License-Identifier: Apache-2.0
"""Helpers that the library itself starts, beside each rank of a job that knows nothing of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lanecast import _core
from lanecast.helpers import on_gpu, placing
from lanecast.helpers.agreeing import gather, refuse_together
from lanecast.helpers.channel import Channel, Closed
from lanecast.helpers.crew import Crew
from lanecast.helpers.member import Member, StartedProcess
from lanecast.helpers.options import to_text

# Of the leaders' communicator alone: helpers open a GPU when a call needs it, choose nothing and write no traces.
_NOT_FOR_HELPERS = ("topology", "algorithm", "chunks", "trace_dir", "links", "device")
_LEADERS_VARIABLES = ("LANECAST_TRACE_DIR", "LANECAST_TRACE_STEPS", "LANECAST_PROCESSES_PER_GPU")


def start(core: Any, processes: int, options: dict[str, Any], *, shared_cores: bool) -> Crew:
    """A crew of so many processes for each rank of `core`, this one included. Collective.

    Raises UsageError on all ranks where one has too few cores, TransportError where a helper does not start.
    """
    seen = gather(core, [_core.host_identity(), placing.cores_here()])
    here = [rank for rank, place in enumerate(seen) if place == seen[core.rank]]  # leaders that share these cores
    cores, place = placing.cores_here(), here.index(core.rank)
    refuse_together(core, placing.crowding(core.rank, len(cores), len(here) * processes, allowed=shared_cores))
    cores_of_mine = placing.cores_of(cores, len(here), processes)[place]
    members = [_start_one((place, len(here), k, processes), cores_of_mine[k]) for k in range(1, processes)]
    made = {
        "do": "make",
        "rank": core.rank,
        "size": core.size,
        "leader": os.getpid(),
        "nics_at_once": core.nics_at_once,
        "options": to_text(
            {name: value for name, value in options.items() if name not in _NOT_FOR_HELPERS}
            | {"topology": core.topology, "links": "assume", "timeout_s": core.timeout_s}
            | {"max_ctas": on_gpu.ctas_of_helpers(options, processes)}
        ),
    }
    try:
        for member in members:
            _introduce(core, member, made)
        return Crew(core, members, shared_gpu=bool(options.get("allow_shared_gpu")))
    except BaseException:
        for member in members:
            member.end()
        raise


def _start_one(seat: tuple[int, int, int, int], cores: Sequence[int]) -> Member:
    """seat: as the helper's program takes it. cores: which it takes then."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    command = [sys.executable, "-P", "-m", "lanecast.helpers", str(theirs.fileno()), *map(str, seat)]
    with theirs:
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_inherited())
    return Member(seat[2], process.pid, tuple(cores), Channel(mine), StartedProcess(process))


def _inherited() -> dict[str, str]:
    """This process's environment, without what is the leaders' alone."""
    return {name: value for name, value in os.environ.items() if name not in _LEADERS_VARIABLES}


def _introduce(core: Any, member: Member, made: dict[str, Any]) -> None:
    """The k-th helpers of all ranks find each other by the ranks' own communicator. Collective."""
    with suppress(Closed):  # the next answer says so
        member.channel.send(**made)
    while True:
        try:
            answer = member.channel.receive().text
        except Closed:
            answer = {"error": "TransportError", "text": f"it (process {member.pid}) has ended while it started"}
        said = gather(core, answer)
        for rank, of_rank in enumerate(said):
            if "error" in of_rank:
                member.channel.close()
                kind = getattr(_core, of_rank["error"], _core.TransportError)
                raise kind(f"rank {rank}: helper {member.place}: {of_rank['text']}")
        if "ready" in answer:
            return
        member.channel.send(gathered="".join(of_rank["gather"] for of_rank in said))
