# SPDX-License-Identifier: Apache-2.0
"""What every transport has to do, as functions that each rank runs: scenario(endpoint).

They stand at module level because they travel to other processes by name.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import numpy as np
import pytest

from lanecast import _core
from transport_endpoint import Endpoint, Item, payload

# Empty, smallest, around the limit of what is sent unasked, several fragments with a rest.
SIZES = (0, 8, 8_192, 8_193, 100_001)
KINDS = ("", "all_gather", "broadcast", "reduce", "reduce_scatter", "gather", "scatter", "all_to_all")


def any_order_of_tags(end: Endpoint) -> None:
    """Four messages, empty to large, sent in every order and received in one."""
    for order in itertools.permutations(range(4)):
        for peer in end.peers:
            for tag in order:
                end.send(peer, Item(tag, tag, SIZES[tag + 1]))
            for tag in range(4):
                end.receive(peer, Item(tag, tag, SIZES[tag + 1]))
        end.wait()


def equal_tags(end: Endpoint) -> None:
    """Equal tags match in the order of posting, whatever the sizes and whoever posts first."""
    rng = random.Random(1)
    for early in (True, False):
        sizes = [rng.choice(SIZES) for _ in range(60)]
        if early == (end.rank % 2 == 0):
            end.barrier()
        for peer in end.peers:
            for serial, size in enumerate(sizes):
                end.send(peer, Item(5, serial, size))
        if early != (end.rank % 2 == 0):
            end.barrier()
        for peer in end.peers:
            for serial, size in enumerate(sizes):
                end.receive(peer, Item(5, serial, size))
        end.wait()


def some_pairs_only(end: Endpoint) -> None:
    """Every rank sends to the next two and to nobody else."""
    steps = [step for step in (1, 2) if step < end.size]
    for serial, size in enumerate(SIZES * 3):
        for step in steps:
            end.send((end.rank + step) % end.size, Item(step, serial, size))
            end.receive((end.rank - step) % end.size, Item(step, serial, size))
    end.wait()


def arrived(end: Endpoint) -> None:
    """What has come is told by peer and tag until it is received, whatever its size."""
    for serial, size in enumerate(SIZES):
        assert not any(end.transport.arrived(peer, 6) for peer in end.peers)
        end.barrier()
        for peer in end.peers:
            end.send(peer, Item(6, serial, size))
        for peer in end.peers:
            end.progress_until(lambda peer=peer: end.transport.arrived(peer, 6))  # type: ignore[misc]
            assert not end.transport.arrived(peer, 7)
            end.receive(peer, Item(6, serial, size))
        end.wait()


def storm(end: Endpoint) -> None:
    """All to all: random sizes, tags and orders, some of it before the peer has posted anything."""
    queues: dict[tuple[str, int, int], list[Item]] = defaultdict(list)
    for peer in end.peers:
        for direction, source, destination in (("send", end.rank, peer), ("receive", peer, end.rank)):
            rng = random.Random(source * 64 + destination)
            for serial in range(40):
                tag = rng.choice([0, 1, 2, rng.randrange(2**20)])
                size = rng.choice(
                    [rng.randrange(100), rng.randrange(20_000), rng.randrange(2**20) // rng.randint(1, 9)]
                )
                queues[direction, peer, tag].append(Item(tag, serial, size))
    rng = random.Random(end.rank)
    waiting = list(queues)
    while waiting:
        place = rng.randrange(len(waiting))
        direction, peer, tag = key = waiting[place]
        item = queues[key].pop(0)
        if direction == "send":
            end.send(peer, item)
        else:
            end.receive(peer, item)
        if not queues[key]:
            waiting[place] = waiting[-1]
            waiting.pop()
        if rng.random() < 0.3:
            end.progress()
    end.wait()


def done_is_out_of_the_senders_hands(end: Endpoint) -> None:
    """A send that is done arrives, though its rank makes no call of the transport any more."""
    for size, times in ((64, 300), (20_000, 20), (1_000_000, 2)):
        for item in (Item(0, serial, size) for serial in range(times)):
            if end.rank < end.size - 1:
                end.receive(end.size - 1, item)
            else:
                for peer in end.peers:
                    end.send(peer, item)
        end.wait()
        end.barrier()


def large_again_and_again(end: Endpoint) -> None:
    """Large messages of two lengths: a transport may take each another way, and the same one another time."""
    for serial in range(40 if end.size == 2 else 8):
        for peer in end.peers:
            for tag, size in enumerate((1_048_576, 300_001)):
                end.send(peer, Item(tag, serial, size))
                end.receive(peer, Item(tag, serial, size))
        end.wait()


def medium_again_and_again(end: Endpoint) -> None:
    """Of lengths that two ranks send at once or let each other read, among shorter and longer ones of their tags.

    They may be read only where their receives are posted first, and are once both ways have been tried.
    """
    rng = random.Random(7)  # the same on all ranks
    for _ in range(90 if end.size == 2 else 6):
        sizes = [rng.choice((32_768, 50_000, 50_000, 50_000, 65_536, 65_537, 300, 200_000)) for _ in range(4)]
        items = [Item(rng.choice((0, 0, 1)), serial, size) for serial, size in enumerate(sizes)]
        late = rng.random() < 0.3
        one_way = rng.random() < 0.3
        receives_first = rng.random() < 0.7
        for peer in end.peers:
            mine = [] if one_way and end.rank > peer else items
            theirs = [] if one_way and end.rank < peer else items
            posts = [(end.send, mine), (end.receive, theirs)]
            for post, posted in reversed(posts) if receives_first else posts:
                for item in posted:
                    post(peer, item)
                if late:
                    end.progress()
        end.wait()


def of_every_kind(end: Endpoint) -> None:
    """Messages of calls of all kinds under two tags, of lengths about those from which they go another way."""
    sizes = (0, 8, 8_193, 16_385, 24_576, 32_768, 32_769, 40_000, 65_536, 65_537, 131_073, 300_001)
    rng = random.Random(11)  # the same on all ranks
    for _ in range(12):
        items = [Item(rng.choice((0, 1)), serial, rng.choice(sizes), kind=rng.choice(KINDS)) for serial in range(12)]
        receives_first = rng.random() < 0.5
        late = rng.random() < 0.3

        def receive(peer: int, item: Item) -> None:
            consumes = end.transport.consumes and item.kind in ("reduce", "reduce_scatter")
            end.consume(peer, item) if consumes else end.receive(peer, item)

        posts = [end.send, receive]
        for post in reversed(posts) if receives_first else posts:
            for peer in end.peers:
                for item in items:
                    post(peer, item)
            if late:
                end.progress()
        end.wait()


def one_memory_to_all(end: Endpoint) -> None:
    """What a rank sends to everybody lies in one memory, goes to each twice, and is another the next time."""
    memory = np.empty(3_000_001, np.uint8)
    rng = random.Random(end.rank)
    for serial, size in enumerate((8, 8_193, 100_001, 3_000_001, 3_000_001, 20_000)):
        cuts = (size // 3, size // 2) if serial % 2 and end.transport.scatters else ()
        receives = [(peer, Item(tag, serial, size, to_all=True)) for peer in end.peers for tag in (3, 4)]
        sends = [(peer, Item(item.tag, serial, size, cuts)) for peer, item in receives]
        rng.shuffle(receives)
        rng.shuffle(sends)
        if late := rng.random() < 0.5:
            end.send_one_memory(sends, memory)
        for peer, item in receives:
            if end.transport.consumes and rng.random() < 0.2:
                end.consume(peer, item)
            else:
                end.receive(peer, item)
            if rng.random() < 0.2:
                end.progress()
        if not late:
            end.send_one_memory(sends, memory)
        end.wait()


def a_receiver_that_stands_still(end: Endpoint) -> None:
    """It has asked for what the others are sent as well, and they do not wait until it takes it."""
    items = [Item(tag, tag, size, to_all=True) for tag, size in enumerate((20_000_000, 9_000_000, 8))]
    requests = []
    for item in items:
        if end.rank != 0:
            requests.append(end.receive(0, item))
        else:
            memory = np.empty(item.size, np.uint8)
            requests.append(end.send_one_memory([(peer, item) for peer in end.peers], memory)[1])
    if end.rank < 2:  # the others stand still
        end.progress_until(lambda: not any(end.is_open(request) for request in requests))
    end.barrier()
    end.wait()


def late_receiver(end: Endpoint) -> None:
    """A flood of small messages and a few large ones arrive before any receive is posted, and are wanted backwards."""
    flood = [Item(tag, tag, 200_000 if tag % 100 == 0 else tag) for tag in range(600)]
    for item in flood:
        for peer in end.peers:
            end.send(peer, item)
    for _ in range(10):
        end.progress()
    end.barrier()
    for item in reversed(flood):
        for peer in end.peers:
            end.receive(peer, item)
    end.wait()


def gather_and_scatter(end: Endpoint) -> None:
    """Both sides cut their memory in places of their own, some spans empty."""
    if not end.transport.scatters:
        return
    for serial, size in enumerate((0, 64, 5_000, 300_000)):
        for peer in end.peers:
            cuts = [
                sorted(random.Random(serial * 2 + side).choices(range(size + 1), k=50) + [size // 2] * 2)
                for side in range(2)
            ]
            end.send(peer, Item(serial, serial, size, cuts[0]))
            end.receive(peer, Item(serial, serial, size, cuts[1]))
    end.wait()


def consumer(end: Endpoint) -> None:
    """Pieces come in order, cut only at multiples of 8 bytes or where the sender's spans end."""
    if not end.transport.consumes:
        return
    for serial, size in enumerate((0, 24, 8_192, 500_001)):
        borders = sorted(random.Random(serial).choices(range(size + 1), k=5)) if size > 24 else []
        recorders = [end.consume(peer, Item(1, serial, size)) for peer in end.peers]
        for peer in end.peers:
            end.send(peer, Item(1, serial, size, borders))
        end.wait()
        for recorder in recorders:
            assert recorder.cuts[-1] == size
            assert all(cut % 8 == 0 or cut in borders for cut in recorder.cuts[:-1]), recorder.cuts


def _mismatch(end: Endpoint, sent: int, expected: int) -> None:
    if end.rank == 1:
        end.receive(0, Item(42, 0, expected))
        with pytest.raises(_core.TransportError) as caught:
            end.wait()
        known = ["rank 0", str(expected), "42"]
        if end.transport.name != "mpi" or sent < expected:  # MPI keeps the size of what does not fit to itself
            known.append(str(sent))
        assert all(part in str(caught.value) for part in known), f"one of {known} is missing in: {caught.value}"
        end.transport.abort(str(caught.value))
    elif end.rank == 0:
        end.send(1, Item(42, 0, sent))
        if end.transport.name != "mpi":  # which tells only the receiver
            why = end.wait_until_lost(1)
            assert str(sent) in why, f"the sender should know as well: {why}"
    end.barrier()


def small_for_smaller(end: Endpoint) -> None:
    _mismatch(end, 64, 32)


def small_for_large(end: Endpoint) -> None:
    _mismatch(end, 64, 100_000)


def large_for_small(end: Endpoint) -> None:
    _mismatch(end, 100_000, 64)


def large_for_larger(end: Endpoint) -> None:
    _mismatch(end, 100_000, 200_000)


def _another_call(end: Endpoint, size: int) -> None:
    """A message of another call is none that its receiver takes for its own; where stamps are not compared, the
    executor makes them part of the tag."""
    if not end.transport.compares_stamps:
        return
    if end.rank == 0:
        end.watch(end.transport.send(1, 42, [payload(0, 1, 0, size)], stamp=3))
        assert "in another call" in end.wait_until_lost(1)
    else:
        with pytest.raises(_core.TransportError, match=f"step tag 42, rank 1 expects {size} in another call") as caught:
            end.refuse(0, 42, np.zeros(size, np.uint8), stamp=4)
        end.transport.abort(str(caught.value))
    end.barrier()


def empty_of_another_call(end: Endpoint) -> None:
    _another_call(end, 0)


def small_of_another_call(end: Endpoint) -> None:
    _another_call(end, 64)


def large_of_another_call(end: Endpoint) -> None:
    _another_call(end, 100_000)


def calls_are_told(end: Endpoint) -> None:
    """What each rank calls, whom it waits for and what it wants of each peer is known to all, sooner or later."""
    transport, after = end.transport, [(rank + 1) % end.size for rank in range(end.size)]
    for sequence in (1, 2):
        transport.publish(sequence, 100 + end.rank, f"call {sequence} of rank {end.rank}")
    for peer in end.peers:
        transport.want(peer, 1000 + end.rank, peer)

    def all_is_known() -> bool:
        return all(
            transport.published(peer, 2) == (100 + peer, f"call 2 of rank {peer}")
            and transport.published(peer, 1) == (100 + peer, f"call 1 of rank {peer}")
            and (transport.waiting(peer, 1.0) or ([], 0.0))[0] == [after[peer]]
            and transport.wanted(peer) == (1000 + peer, end.rank)
            for peer in end.peers
        )

    end.wait_and_tell([after[end.rank]] if end.size > 1 else [], all_is_known)


def the_cause_is_told(end: Endpoint) -> None:
    """Whoever gives up says why, also to those that wait for others."""
    last = end.size - 1
    end.barrier()
    if end.rank == last:
        end.transport.abort("the user has had enough")
        end.progress_until(lambda: not end.transport.tell())
    else:
        end.progress_until(lambda: end.transport.given_up() == last)
        end.progress_until(lambda: "the user has had enough" in end.transport.lost(last))
    end.barrier()


def abort_is_seen(end: Endpoint) -> None:
    """Whoever waits for a rank that has given up hears of it; the memory that rank had posted may go."""
    last = end.size - 1
    end.barrier()
    if end.rank == last:
        for peer in end.peers:
            end.send(peer, Item(1, 0, 1_000_000))
            end.receive(peer, Item(2, 0, 1_000_000))
        end.transport.abort()
    else:
        end.receive(last, Item(3, 0, 8))
        assert end.wait_until_lost(last)
    end.barrier()


def closing_loses_nothing(end: Endpoint) -> None:
    """What a rank has sent before it closes still arrives; after that its peers know that it is gone."""
    last = end.size - 1
    if end.rank == last:
        for peer in end.peers:
            end.send(peer, Item(1, 0, 4_000))
            end.send(peer, Item(2, 1, 400_000))
        end.wait()
        end.transport.close()
    else:
        end.receive(last, Item(2, 1, 400_000))
        end.receive(last, Item(1, 0, 4_000))
        end.wait()
        end.receive(last, Item(3, 0, 8))
        assert end.wait_until_lost(last)
    end.barrier()


def a_million_messages(end: Endpoint) -> None:
    """Memory stays flat, on the heap and in the transport."""
    import resource

    peer = 1 - end.rank
    data, into = [memoryview(bytes(64))], [bytearray(64)]

    def exchange(messages: int) -> None:
        window = 64
        for first in range(0, messages, window):
            for tag in range(first, first + window):
                end.watch(end.transport.receive(peer, tag, into))
                end.watch(end.transport.send(peer, tag, data))
            end.wait()
            if first % (256 * window) == 0:
                end.barrier()  # whose word says that there is progress

    exchange(64_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exchange(1_000_000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 1024, f"{grown_kib} KiB more after a million messages"


def more_than_two_gib(end: Endpoint) -> None:
    """One contiguous message beyond what fits an int."""
    words, step = 2**28 + 513, 2**21
    if end.rank == 0:
        end.watch(end.transport.send(1, 1, [np.arange(words)]))
        end.wait()
    else:
        into = np.zeros(words, np.int64)
        end.watch(end.transport.receive(0, 1, [into]))
        end.wait()
        for first in range(0, words, step):
            part = into[first : first + step]
            assert np.array_equal(part, np.arange(first, first + part.size)), f"wrong data from word {first} on"


def more_than_four_gib(end: Endpoint) -> None:
    """One message beyond what fits 32 bits, out of many spans over the same memory and into a consumer."""
    if not (end.transport.scatters and end.transport.consumes):
        return
    tile = payload(0, 1, 0, 2**24 + 8)
    repeats = 257
    received = 0

    def consumer(offset: int, data: bytes) -> None:
        nonlocal received
        assert offset == received
        start = offset % tile.size
        due = np.concatenate([tile[start : start + len(data)], tile[: max(0, start + len(data) - tile.size)]])
        assert np.array_equal(due, np.frombuffer(data, np.uint8)), f"wrong data from byte {offset} on"
        received += len(data)

    if end.rank == 0:
        end.watch(end.transport.send(1, 1, [tile] * repeats))
    else:
        end.watch(end.transport.consume(0, 1, tile.size * repeats, consumer))
    end.wait()
    assert received == (tile.size * repeats if end.rank == 1 else 0)


EVERY_TRANSPORT = (
    arrived,
    any_order_of_tags,
    equal_tags,
    some_pairs_only,
    storm,
    done_is_out_of_the_senders_hands,
    large_again_and_again,
    medium_again_and_again,
    of_every_kind,
    one_memory_to_all,
    late_receiver,
    gather_and_scatter,
    consumer,
    calls_are_told,
)
MISMATCHES = (
    small_for_smaller,
    small_for_large,
    large_for_small,
    large_for_larger,
    empty_of_another_call,
    small_of_another_call,
    large_of_another_call,
)
OF_THREE = (a_receiver_that_stands_still, the_cause_is_told)
DEPARTURES = (abort_is_seen, closing_loses_nothing)
EXTREMES = (a_million_messages, more_than_two_gib, more_than_four_gib)
