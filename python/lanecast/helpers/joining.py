# SPDX-License-Identifier: Apache-2.0
"""Helpers that the launcher has started: of each run of k ranks of a host the first leads, and the others help it."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from lanecast import _core
from lanecast.helpers import placing, serving
from lanecast.helpers.agreeing import gather, refuse_together
from lanecast.helpers.channel import Channel, Closed
from lanecast.helpers.member import Member
from lanecast.helpers.options import from_text, to_text

_ENDS_WITHIN_S = 30.0  # what has deadlines of its own
_COMES_WITHIN_S = 60.0  # a helper that has been told where its leader listens
Open = Callable[[dict[str, Any]], Any]  # the communicator of all ranks, with these options


def groups_of(hosts: list[str], processes: int) -> list[list[int]]:
    """The ranks of each leader, the leader first, in the order of the leaders' ranks. Raises UsageError."""
    groups = []
    for host in dict.fromkeys(hosts):
        ranks = [rank for rank, of_rank in enumerate(hosts) if of_rank == host]
        if len(ranks) % processes:
            raise _core.UsageError(
                f"processes_per_gpu={processes}: the launcher has started {len(ranks)} ranks on the host of rank "
                f"{ranks[0]}, which are no whole number of leaders with {processes - 1} helpers each; start "
                f"{processes} ranks for each GPU"
            )
        groups += [ranks[first : first + processes] for first in range(0, len(ranks), processes)]
    return sorted(groups)


@dataclass(frozen=True)
class _Seat:
    """Where this rank sits among all of the job."""

    groups: list[list[int]]  # ranks of each leader
    mine: int  # which of them
    place: int  # in it; 0: this rank leads


class Team:
    """A leader with those ranks of the job that help it, for as long as the process runs."""

    def __init__(self, seat: _Seat, open_world: Open, members: list[Member]) -> None:
        """members: whose channels are this team's own, over which communicators are made."""
        self._seat, self._open_world = seat, open_world
        self._members, self._pid = members, os.getpid()
        atexit.register(self.end)

    @property
    def processes(self) -> int:
        return 1 + len(self._members)

    def make(self, options: dict[str, Any]) -> tuple[Any, list[Member]]:
        """One more communicator of the leaders, and the helpers of its calls. Collective."""
        members = []
        for member in self._members:
            mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                with theirs:
                    member.channel.send(theirs.fileno(), do="join", options=to_text(options), leader=os.getpid())
            except Closed:
                raise _core.TransportError(
                    f"processes_per_gpu: helper {member.place} of this rank (process {member.pid}) has ended; see why"
                ) from None
            members.append(Member(member.place, member.pid, member.cores, Channel(mine)))
        return _opened(self._seat, self._open_world, options), members

    def end(self) -> None:
        """The helpers end MPI, as this process then does."""
        if os.getpid() != self._pid:
            return  # forked
        for member in self._members:
            with suppress(Closed):
                member.channel.send(do="end")


def form(open_world: Open, size: int, processes: int, *, shared_cores: bool) -> Team:
    """The team of a leader; in a helper it serves until its leader ends, and then ends the process.

    size: of the job. Collective over all ranks. Raises UsageError on all of them where they are not so many for each
    leader, or share cores.
    """
    world = open_world({"topology": _core.Topology(size)})
    seen = gather(world, [_core.host_identity(), placing.cores_here(), os.getpid()])
    groups = groups_of([host for host, _, _ in seen], processes)
    at = next(k for k, group in enumerate(groups) if world.rank in group)
    seat = _Seat(groups, at, groups[at].index(world.rank))
    beside = [place for place in seen if place[:2] == seen[world.rank][:2]]  # with whom this rank shares its cores
    cores = seen[world.rank][1]
    refuse_together(world, placing.crowding(world.rank, len(cores), len(beside), allowed=shared_cores))
    if seat.place > 0:
        placing.take_cores(placing.cores_of(cores, 1, len(beside))[0][beside.index(seen[world.rank])])
    listening = _listen() if seat.place == 0 else None
    names = gather(world, "" if listening is None else listening.getsockname()[1:].decode())
    del world
    if listening is None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.connect(f"\0{names[groups[at][0]]}")
        _serve(Channel(connected), seat, open_world)
    with listening:
        pids = {seen[rank][2]: place for place, rank in enumerate(groups[at]) if place > 0}
        members = [_accept(listening, pids) for _ in pids]
    return Team(seat, open_world, sorted(members, key=lambda member: member.place))


def _opened(seat: _Seat, open_world: Open, options: dict[str, Any]) -> Any:
    """This rank's communicator: of the ranks with the same place beside their leaders. Collective over the job."""
    place = {rank: at for at, group in enumerate(seat.groups) for rank in group}
    topology = options.get("topology") or os.environ.get("LANECAST_TOPOLOGY")
    whole = {name: value for name, value in options.items() if name not in ("topology", "device", "algorithm")}
    if topology is not None:
        whole["topology"] = _with_helpers(topology, len(seat.groups), [place[rank] for rank in sorted(place)])
    return open_world(whole).split(seat.place, seat.mine)


def _with_helpers(topology: Any, leaders: int, leader_of: list[int]) -> _core.Topology:
    """All ranks, each where its leader sits: the processes of a leader are a level below, which a split takes away."""
    if not isinstance(topology, _core.Topology):
        topology = _core.Topology.parse(topology, leaders)
    levels = [(name, [domain[leader] for leader in leader_of]) for name, domain in topology.levels]
    return _core.Topology(len(leader_of), levels)


def _listen() -> socket.socket:
    """At a name that needs no file, so none stays behind."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"\0lanecast-{secrets.token_hex(16)}")
    listening.listen()
    listening.settimeout(_COMES_WITHIN_S)
    return listening


def _accept(listening: socket.socket, places: dict[int, int]) -> Member:
    """The next helper, known by its process; nobody else is let in."""
    while True:
        connected, _ = listening.accept()
        pid, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user == os.geteuid() and pid in places:
            return Member(places[pid], pid, tuple(sorted(os.sched_getaffinity(pid))), Channel(connected))
        connected.close()


def _serve(control: Channel, seat: _Seat, open_world: Open) -> NoReturn:
    """Take part in each communicator that the leader makes, and serve them all, until the leader ends."""
    serving.ignore_interrupts()
    threads: list[threading.Thread] = []
    while True:
        try:
            message, file = control.receive()
        except Closed:
            os._exit(1)  # a leader that has been killed: no MPI ends in order now
        if message["do"] == "end":
            # The leader has ended its communicators before. A thread that still ends one wants Python's lock, and would
            # be stopped within C++ if Python had ended.
            last = time.monotonic() + _ENDS_WITHIN_S
            for thread in threads:
                thread.join(max(0.0, last - time.monotonic()))
            sys.exit(0)
        channel = Channel(socket.socket(fileno=file))
        try:
            # One that has ended keeps its stack until nothing holds it. The new one alone holds the communicator.
            threads = [
                *filter(threading.Thread.is_alive, threads),
                _answering(channel, _opened(seat, open_world, from_text(message["options"])), message["leader"]),
            ]
        except _core.Error:  # which the leader hears, too, and its program may go on
            channel.close()


def _answering(channel: Channel, core: Any, leader: int) -> threading.Thread:
    """The thread that serves a communicator, and alone holds it."""
    serve = serving.Helper(channel, core).serve
    thread = threading.Thread(target=serve, args=(leader,), daemon=True, name="helper")
    thread.start()
    return thread
