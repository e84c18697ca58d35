# SPDX-License-Identifier: Apache-2.0
"""Shared memory: what the conformance suite cannot ask of every transport."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import re
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from forbidding import forbid
from lanecast import _core
from ranks import Rank, in_processes
from transport_endpoint import Endpoint, Item


def open_shm(me: Rank, **options: int) -> _core.Transport:
    return _core.open_shm(me.rank, me.size, me.all_gather, list(range(me.size)), options)


def shared_memory_of_this_process() -> list[str]:
    """What lanecast has mapped or holds open here."""
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:lanecast" in line]
    links = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return mapped + [link for link in links if "memfd:lanecast" in link]


def _killed_peer(options: dict[str, int], name: bytes, me: Rank) -> None:
    set_name = 15
    assert ctypes.CDLL(None).prctl(set_name, name) == 0
    transport = open_shm(me, **options)
    end = Endpoint(transport, me)
    last = me.size - 1
    if me.rank == last:
        end.send(0, Item(1, 0, 50_000_000))
        for _ in range(3):
            end.progress()
    elif me.rank == 0:
        end.receive(last, Item(1, 0, 50_000_000))
    else:
        end.receive(last, Item(1, 0, 8))
    me.barrier()
    if me.rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    why = end.wait_until_lost(last)
    assert "process" in why
    transport.close()
    assert not shared_memory_of_this_process()


@pytest.mark.parametrize(
    ("options", "name"),
    [({"single_copy": 0}, b"rank"), ({"single_copy": 1}, b"rank"), ({"single_copy": 0}, b"two) X\nlines (")],
    ids=["streams", "single-copy", "odd-name"],
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_killed_peer_is_noticed_and_leaves_nothing(options: dict[str, int], name: bytes, ranks: int) -> None:
    in_processes(ranks, functools.partial(_killed_peer, options, name), dying={ranks - 1})
    assert not list(Path("/dev/shm").glob("*lanecast*"))


def _last_words(me: Rank) -> None:
    transport = open_shm(me)
    end = Endpoint(transport, me)
    if me.rank == 1:
        end.send(0, Item(1, 0, 4_000))
        end.wait()
        me.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    me.barrier()
    time.sleep(0.1)
    end.receive(1, Item(1, 0, 4_000))
    assert not transport.lost(1), "there is a message to take yet"
    end.wait()
    end.receive(1, Item(2, 0, 8))
    assert "has ended" in end.wait_until_lost(1)
    transport.close()


def test_what_a_dead_peer_has_sent_arrives() -> None:
    in_processes(2, _last_words, dying={1})


def _gives_up_while_it_is_read(me: Rank) -> None:
    """And then writes to the memory that its notice has told of: nobody may take that for the message."""
    end, size = Endpoint(open_shm(me, single_copy=1), me), 64 << 20
    memory = np.full(size, 7, np.uint8)
    if me.rank == 0:
        end.watch(end.transport.send(1, 5, [memory]))
    me.barrier()
    if me.rank == 1:
        end.watch(end.transport.receive(0, 5, [np.empty(size, np.uint8)]))
        end.progress()
        end.progress()  # a part of it is here
    me.barrier()
    if me.rank == 0:
        end.transport.abort("the user has had enough")
        memory[:] = 9
    me.barrier()
    if me.rank == 1:
        with pytest.raises(_core.TransportError, match="rank 0 gave up while its memory was read"):
            end.wait()
        end.transport.abort()
    me.barrier()


def test_what_was_read_of_a_peer_that_has_given_up_is_no_message() -> None:
    in_processes(2, _gives_up_while_it_is_read)


def _gives_up_with_notes_unread(me: Rank) -> None:
    transport = open_shm(me, single_copy=1)
    end = Endpoint(transport, me)
    if me.rank == 1:
        end.send(0, Item(0, 0, 100_000))
        me.barrier()
        for _ in range(5):
            end.progress()  # reads the one note there is: its message may be read
        me.barrier()
        me.barrier()
        transport.abort()
        me.barrier()
        me.barrier()
        return
    end.receive(1, Item(0, 0, 100_000))
    me.barrier()
    me.barrier()
    for tag in range(1, 50):  # more notes than there are slots
        end.receive(1, Item(tag, tag, 100_000))
    for _ in range(5):
        end.progress()  # reads the message, and finds no room to say so
    me.barrier()
    me.barrier()
    assert "has given up" in end.wait_until_lost(1)
    me.barrier()


def test_a_peer_that_gives_up_is_noticed_though_it_reads_no_notes() -> None:
    in_processes(2, _gives_up_with_notes_unread)


def _little_memory(me: Rank) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if me.rank == 0:  # which makes the memory of all
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as in a program that is no Python: no signal may come
    with pytest.raises(
        _core.TransportError, match=r"rank 0: cannot reserve \d{7,} bytes .* raise the limit \(ulimit -f\)"
    ):
        open_shm(me)
    assert not shared_memory_of_this_process()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    open_shm(me).close()


def test_lack_of_memory_is_an_error_on_every_rank() -> None:
    in_processes(3, _little_memory)


PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}.get(platform.machine())


def _one_reads_nobody(me: Rank) -> str:
    if me.rank == 1:
        assert PROCESS_VM_READV is not None
        forbid(PROCESS_VM_READV)
    end = Endpoint(open_shm(me), me)
    for serial in range(40):  # enough for those that can to have tried it
        for peer in end.peers:
            for tag, size in enumerate((64, 300_001, 9_000_001 if serial < 3 else 0)):
                end.send(peer, Item(tag, serial, size))
                end.receive(peer, Item(tag, serial, size))
        end.wait()
    end.transport.close()
    try:
        open_shm(me, single_copy=1)
    except _core.TransportError as error:
        return str(error)
    return "opened"


@pytest.mark.skipif(PROCESS_VM_READV is None, reason="no number of the system call is known here")
@pytest.mark.parametrize("ranks", [2, 3])  # of two, the notices tell where to read
def test_who_may_not_read_its_peers_is_sent_streams(ranks: int) -> None:
    why = r"shared memory cannot be set up on rank 1: reading 1 bytes of process \d+ failed: Operation not permitted"
    assert all(re.match(why, forced) for forced in in_processes(ranks, _one_reads_nobody))


def _two_hosts(me: Rank) -> None:
    hosts = [[0, 2], [1]]
    transport = _core.open_shm(me.rank, me.size, me.all_gather, hosts[me.rank % 2])
    assert [transport.reaches(peer) for peer in range(3)] == [me.rank == 2, False, me.rank == 0]
    assert bool(shared_memory_of_this_process()) == (me.rank != 1)
    if me.rank != 1:
        end = Endpoint(transport, me)
        end.send(2 - me.rank, Item(1, 0, 100_000))
        end.receive(2 - me.rank, Item(1, 0, 100_000))
        end.wait()
    me.barrier()
    transport.close()


def _pieces_of_powers_of_two(me: Rank) -> list[list[int]]:
    transport = open_shm(me, single_copy=0)
    end = Endpoint(transport, me)
    found = []
    for serial, size in enumerate((128 << 10, 256 << 10, 1 << 20)):
        if me.rank == 0:
            end.send(1, Item(1, serial, size))
        if me.rank == 1:
            found.append(end.consume(0, Item(1, serial, size)).cuts)
        end.wait()
    me.barrier()
    return found


@pytest.mark.parametrize("ranks", [3, 4, 8, 9])
def test_a_message_of_a_power_of_two_has_no_short_piece(ranks: int) -> None:
    """Each piece costs a note, a place and a turn of both ranks."""
    for cuts in in_processes(ranks, _pieces_of_powers_of_two)[1]:
        assert {end - begin for begin, end in itertools.pairwise(cuts)} == {cuts[1]}, cuts


def _unasked(kind: str, most: int, me: Rank) -> None:
    end = Endpoint(open_shm(me), me)
    sizes = (most, most + 1)
    if me.rank == 0:
        requests = [end.send(1, Item(tag, tag, size, kind=kind)) for tag, size in enumerate(sizes)]
        end.progress()
        assert [end.is_open(request) for request in requests] == [False, True]
    me.barrier()  # nobody has posted a receive so far
    if me.rank == 1:
        for tag, size in enumerate(sizes):
            end.receive(0, Item(tag, tag, size, kind=kind))
    end.wait()
    me.barrier()


UNASKED_KIB = {
    "": {2: 64, 3: 32, 4: 32, 6: 32, 8: 16, 16: 32},  # its receiver may rather read it
    "all_to_all": {3: 32, 4: 32, 8: 16},
    "all_gather": {2: 64, 3: 32, 4: 16, 6: 8, 8: 8, 16: 8},  # may go to several
    "gather": {2: 64, 3: 64, 4: 64, 6: 32, 8: 16, 16: 64},
    "reduce": {2: 64, 4: 64, 8: 16},
}


@pytest.mark.parametrize(
    ("kind", "ranks", "most_kib"),
    [(kind, ranks, most_kib) for kind, by_ranks in UNASKED_KIB.items() for ranks, most_kib in by_ranks.items()],
)
def test_the_fewer_ranks_the_longer_messages_leave_unasked(kind: str, ranks: int, most_kib: int) -> None:
    in_processes(ranks, functools.partial(_unasked, kind, most_kib << 10))


def _calls_of_two_kinds(sent: str, expected: str, me: Rank) -> None:
    end = Endpoint(open_shm(me), me)
    if me.rank == 0:
        end.send(1, Item(0, 0, 40_000, kind=sent))
        end.progress()
    me.barrier()
    if me.rank == 1:
        into = np.zeros(40_000, np.uint8)
        with pytest.raises(_core.TransportError, match="rank 0 sends 40000 bytes under step tag 0"):
            end.refuse(0, 0, into, 0, expected)
        assert not into.any()
    me.barrier()


@pytest.mark.parametrize(("sent", "expected"), [("reduce", "all_gather"), ("all_gather", "reduce")])
def test_what_one_rank_alone_lets_leave_unasked_is_an_error(sent: str, expected: str) -> None:
    """Calls of two kinds that nobody compares."""
    in_processes(4, functools.partial(_calls_of_two_kinds, sent, expected))


def test_only_ranks_of_one_host_share_memory() -> None:
    in_processes(3, _two_hosts)


def _different_options(me: Rank) -> None:
    with pytest.raises(_core.TransportError, match="has other ShmOptions"):
        open_shm(me, eager_bytes=1024 * (me.rank + 1))


def test_options_have_to_agree() -> None:
    in_processes(2, _different_options)


@pytest.mark.parametrize("ring_bytes", [8192, 100_000])
def test_ring_sizes_that_cannot_be(ring_bytes: int) -> None:
    with pytest.raises(_core.UsageError, match="power of two"):
        _core.open_shm(0, 1, lambda mine: mine, [0], {"ring_bytes": ring_bytes})
