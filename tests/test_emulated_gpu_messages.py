# SPDX-License-Identifier: Apache-2.0
"""Messages over emulated NICs in a GPU's memory: receives call for them, sends announce them, puts bring them."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest

from emulated_gpu import HELLO, LONG, STAND_IN, drain, endpoint_main, fill, gpu_item, run, settle, tell, until_done
from emulated_network import network
from lanecast import _core
from ranks import in_processes
from transport_endpoint import Endpoint, Item


def _call_first(folder: Path, end: Endpoint) -> None:
    for serial in range(3):
        item = gpu_item(1, serial, LONG + serial, stamp=serial)
        if end.rank == 1:
            end.receive(0, item)
        tell(end, sender=1)
        if end.rank == 0:
            end.send(1, item)
        end.wait()
    last = Item(HELLO, 3, 12_000)  # of more bytes than all letters before it
    if end.rank == 0:
        end.send(1, last)
        end.wait()
        return
    end.receive(0, last)
    end.wait()
    calls, hellos, puts = 3, 3, 3

    def so_far(name: str) -> int:
        return sum(int(row[name]) for row in _core.emulated_traffic(str(folder)))

    end.progress_until(lambda: so_far("sent_bytes") > 3 * LONG + 12_000 and so_far("messages") > calls + hellos + puts)
    assert so_far("messages") == calls + hellos + puts + 1


def test_a_message_whose_call_has_come_is_a_put_alone() -> None:
    net = network("1GBps,11us", environment=STAND_IN)  # whose traffic is that of this test
    in_processes(2, functools.partial(endpoint_main, net.folder, functools.partial(_call_first, net.folder)))


def _announcement_first(end: Endpoint) -> None:
    for serial in range(3):
        item = gpu_item(1, serial, LONG + serial, stamp=serial)
        if end.rank == 0:
            end.send(1, item)
        tell(end, sender=0)
        if end.rank == 1:
            assert end.transport.arrived(0, 1)
            end.receive(0, item)
        end.wait()
        assert not end.transport.arrived(1 - end.rank, 1)
        end.barrier()


def test_a_receive_meets_an_announcement_that_has_come() -> None:
    run(_announcement_first)


def _crossing(end: Endpoint) -> None:
    for serial in range(3):
        item = gpu_item(1, serial, LONG + serial, stamp=serial)
        if end.rank == 0:
            end.send(1, item)
        else:
            end.receive(0, item)
        end.barrier()  # none has taken anything
        end.wait()
        assert not end.transport.arrived(1 - end.rank, 1)
        end.barrier()


def test_a_call_and_an_announcement_cross() -> None:
    run(_crossing)


def _overtaken(end: Endpoint) -> None:
    for serial in range(0, 4, 2):
        fill(end)
        first, second = (gpu_item(1, serial + k, LONG - 1000 * k, stamp=serial + k) for k in range(2))
        if end.rank == 0:
            sent = end.send(1, first)  # no call has been taken: announced
        else:
            received = end.receive(0, first)
        end.barrier()
        if end.rank == 0:
            until_done(end, [sent])
        end.barrier()
        if end.rank == 1:
            until_done(end, [received])  # rank 0 stands still, and the announcement waits at its side
            end.receive(0, second)
        end.barrier()
        if end.rank == 0:
            end.send(1, second)
        drain(end)
        end.barrier()


def test_an_announcement_that_its_message_overtakes_is_dropped() -> None:
    run(_overtaken)


def _mixed(end: Endpoint) -> None:
    """Puts overtake a host's message between them, and its receive waits for it all the same."""
    for serial in range(0, 9, 3):
        items = gpu_item(1, serial), Item(1, serial + 1, 1), gpu_item(1, serial + 2)
        if end.rank == 1:
            received = [end.receive(0, item) for item in items]
        tell(end, sender=1)
        fill(end)
        if end.rank == 0:
            sent = [end.send(1, item) for item in items]
            until_done(end, [sent[0], sent[2]])
        end.barrier()
        if end.rank == 1:
            until_done(end, [received[0], received[2]])
            assert end.is_open(received[1])
        end.barrier()
        drain(end)
        end.barrier()


def test_puts_overtake_a_message_of_their_tag_that_is_a_letter() -> None:
    run(_mixed)


def _letter_before_a_put(end: Endpoint) -> None:
    """The same where the first of them is the letter, and with a receive behind that has not called yet."""
    fill(end)
    items = Item(1, 0, 20_000), gpu_item(1, 1), Item(1, 2, 1)
    if end.rank == 1:
        received = [end.receive(0, item) for item in items[:2]]
    tell(end, sender=1)
    if end.rank == 0:
        sent = [end.send(1, item) for item in items]
        until_done(end, [sent[1]])
    end.barrier()
    if end.rank == 1:
        until_done(end, [received[1]])
        end.receive(0, items[2])
    drain(end)


def test_a_put_overtakes_the_letters_around_it() -> None:
    run(_letter_before_a_put)


def _alike(end: Endpoint) -> None:
    """Of two messages alike, the second one's announcement comes before the first one's put; letters follow."""
    items = gpu_item(1, 0), gpu_item(1, 1), Item(1, 2, 1), Item(1, 3, 2)
    if end.rank == 1:
        first = end.receive(0, items[0])
    tell(end, sender=1)
    if end.rank == 0:
        sent = [end.send(1, item) for item in items[:3]]
        until_done(end, [sent[0]])
    end.barrier()  # all of that has come, and rank 1 takes letters first
    if end.rank == 1:
        received = [end.receive(0, item) for item in items[1:]]
        until_done(end, [first])
    end.barrier()  # rank 0 has not seen the second call
    if end.rank == 0:
        end.send(1, items[3])
    end.barrier()
    if end.rank == 1:
        until_done(end, received[1:])
        assert end.is_open(received[0])
    end.barrier()
    end.wait()


def test_an_announcement_waits_for_a_put_of_an_equal_message() -> None:
    run(_alike)


def _put_of_another_tag(end: Endpoint) -> None:
    """A letter that may be behind a put is looked at again when the put has come, whatever its tag is."""
    items = gpu_item(1, 0), gpu_item(2, 1), gpu_item(2, 2, LONG // 2)
    if end.rank == 1:
        end.receive(0, items[0])
    tell(end, sender=1)
    if end.rank == 0:
        sent = [end.send(1, item) for item in items[:2]]
        until_done(end, sent[:1])
    else:
        end.receive(0, items[1])
    end.barrier()
    end.wait()
    end.barrier()
    if end.rank == 0:
        end.send(1, items[2])
    else:
        end.receive(0, items[2])
    end.wait()


def test_an_announcement_waits_for_a_put_of_another_tag() -> None:
    run(_put_of_another_tag)


WRONG = {  # what is sent, what is received, and the words
    "length": (gpu_item(1, 0), gpu_item(1, 0, LONG + 1), f"sends {LONG} bytes under step tag 1, rank 1 expects"),
    "stamp": (gpu_item(1, 0, stamp=3), gpu_item(1, 0, stamp=4), "in another call"),
    "sent from a host": (Item(1, 0, LONG), gpu_item(1, 0), "one end lies in a GPU's memory"),
    "short, from a host": (Item(1, 0, 9), gpu_item(1, 0, 9), "one end lies in a GPU's memory"),
    "received on a host": (gpu_item(1, 0), Item(1, 0, LONG), "one end lies in a GPU's memory"),
}
FIRST = ("call", "announcement", "none", "put")


def put_another(end: Endpoint) -> None:
    """Under another tag; rank 1 has not taken it, and of a letter behind it cannot know how far."""
    if end.rank == 1:
        end.receive(0, gpu_item(2, 1))
    tell(end, sender=1)
    if end.rank == 0:
        until_done(end, [end.send(1, gpu_item(2, 1))])


def _refused(wrong: str, first: str, end: Endpoint) -> None:
    sent, expected, words = WRONG[wrong]
    if first == "put":
        put_another(end)
    if first == "announcement":
        if end.rank == 0:
            end.send(1, sent)
        tell(end, sender=0)
    if end.rank == 1:
        end.receive(0, expected)
    if first == "call":
        tell(end, sender=1)
    if end.rank == 0 and first != "announcement":
        end.send(1, sent)
    end.barrier()
    if end.rank == 1:
        with pytest.raises(_core.TransportError, match=words):
            end.progress_until(lambda: False)
    else:
        for _ in range(100):
            end.progress()
    end.barrier()


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("wrong", WRONG)
def test_messages_that_differ_are_reported(wrong: str, first: str) -> None:
    run(functools.partial(_refused, wrong, first))


def _storm(seed: int, end: Endpoint) -> None:
    """Of both kinds, with few tags, posted in any order of tags and directions, taken at any time between."""
    posts: dict[tuple[str, int, int], list[Item]] = {}
    for source in range(end.size):
        for destination in range(end.size):
            rng = random.Random(f"{seed} {source} {destination}")
            if source == destination:
                continue
            for serial in range(120):
                on_gpu = rng.random() < 0.6
                # Some alike, and of few kinds.
                size = rng.choice((1, 4_096, 65_537)) if on_gpu else rng.choice((0, 1, 4_096, 20_000))
                item = Item(rng.randrange(3), serial, size, stamp=rng.randrange(2), on_gpu=on_gpu)
                if source == end.rank:
                    posts.setdefault(("send", destination, item.tag), []).append(item)
                elif destination == end.rank:
                    posts.setdefault(("receive", source, item.tag), []).append(item)
    rng = random.Random(f"{seed} {end.rank}")
    while posts:
        key = rng.choice(list(posts))
        for _ in range(min(len(posts[key]), rng.choice((1, 1, 2, 12)))):
            getattr(end, key[0])(key[1], posts[key].pop(0))
        if not posts[key]:
            del posts[key]
        for _ in range(rng.choice((0, 0, 1, 30))):
            end.progress()
    settle(end)
    assert not any(end.transport.arrived(peer, tag) for peer in end.peers for tag in range(3))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_any_schedule_of_both_kinds(seed: int, size: int) -> None:
    run(functools.partial(_storm, seed), size)
