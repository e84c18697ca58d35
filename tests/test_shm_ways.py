# SPDX-License-Identifier: Apache-2.0
"""Which large messages are streamed through shared memory and which read from the sender's, with made-up times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from lanecast import _core

KIB, MIB = 1 << 10, 1 << 20
FIRST, LATER = 0, 1  # tags of the steps of a plan
OF_A_USER = 1 << 63  # and more: of messages between two ranks
TRIALS = 12  # of each way, for each sender, of messages below 4 MiB
TIMED_EVERY = 16
MEDIUM = 50_000  # bytes


class Rank:
    """Takes messages one after the other; a stream costs it `stream` ns a byte, a read `read`."""

    def __init__(self, stream: float, read: float, senders: int = 1, bytes: int = MIB) -> None:
        self.ways = _core.ShmWays(None)
        self.senders: Iterator[int] = itertools.cycle(range(senders))
        self.costs = {"stream": stream, "read": read}
        self.bytes = bytes

    def take(self, declined: bool = False) -> tuple[str, bool]:
        """The way that the next message is asked for, and whether its copies are timed. declined: streamed anyway."""
        sender = next(self.senders)
        way = self.ways.choose(self.bytes, FIRST, sender=sender)
        timed = self.ways.wants_time(self.bytes, FIRST, peer=sender)
        came = "stream" if declined else way
        ns = int(self.bytes * self.costs[came])
        declined = declined and way == "read"
        read = came == "read"
        copies_ns = ns if timed else None
        self.ways.received(self.bytes, FIRST, read, copies_ns, all_ns=ns, declined=declined, sender=sender)
        return way, timed

    def rows(self, messages: int) -> list[tuple[str, int]]:
        """The ways of so many, with how many in a row take each."""
        ways = [self.take()[0] for _ in range(messages)]
        return [(way, len(list(row))) for way, row in itertools.groupby(ways)]


@pytest.mark.parametrize(
    ("tag", "kind", "least"),
    [
        (FIRST, "", 24 * KIB),
        (FIRST, "all_reduce", 24 * KIB),
        (LATER, "", 24 * KIB),
        (LATER, "all_reduce", 8 * MIB),  # the sender has mostly just added it up, and pays for a read
        (OF_A_USER, "", 24 * KIB),
        (OF_A_USER + 1, "", 24 * KIB),
    ],
)
def test_what_is_worth_a_choice(tag: int, kind: str, least: int) -> None:
    assert [_core.shm_is_worth_a_choice(size, tag, kind) for size in (0, least - 1, least, 1 << 40)] == [
        *(False, False, True, True)
    ]
    ways = _core.ShmWays(None)
    assert not ways.wants_time(least - 1, tag, kind)
    assert ways.wants_time(least, tag, kind)  # nothing is known yet


@pytest.mark.parametrize("senders", [1, 3])
@pytest.mark.parametrize(("bytes", "trials"), [(MIB, TRIALS), (4 * MIB, 4)])
def test_both_ways_are_tried_then_the_cheaper_is_taken(bytes: int, trials: int, senders: int) -> None:
    for stream, read, better in ((1.0, 0.5, "read"), (0.5, 1.0, "stream")):
        rank = Rank(stream, read, senders, bytes)
        seen = [rank.take() for _ in range(2 * trials * senders)]
        assert [way for way, _ in seen] == ["stream"] * (trials * senders) + ["read"] * (trials * senders)
        assert all(timed for _, timed in seen)
        assert rank.take()[0] == better


@pytest.mark.parametrize(("bytes", "trials"), [(MIB // 2, TRIALS), (2 * MIB, 4)])
def test_an_exchange_that_fills_the_caches_is_tried_as_seldom_as_one_of_long_messages(bytes: int, trials: int) -> None:
    ways = _core.ShmWays(None)
    seen = []
    for _ in range(2 * TRIALS + 2):
        for sender in range(7):
            ways.written(bytes, FIRST, bytes, sender)
            seen.append(ways.choose(bytes, FIRST, sender=sender))
            copies_ns = bytes // 2 if seen[-1] == "read" else bytes
            ways.received(bytes, FIRST, seen[-1] == "read", copies_ns, sender=sender)
    first_read = seen.index("read")
    assert 7 * (trials - 1) <= first_read <= 7 * (trials + 1)
    assert seen[first_read:] == ["read"] * (len(seen) - first_read)


def _exchange(ways: _core.ShmWays, messages: int, read: float) -> list[str]:
    """The ways of so many that go and come in turns; one that comes costs 1 ns a byte as a stream, or `read`."""
    seen = []
    for _ in range(messages):
        seen.append(ways.choose_to_send(MEDIUM, FIRST))
        ways.sent(MEDIUM, FIRST, MEDIUM)
        copies_ns = int(MEDIUM * (read if seen[-1] == "read" else 0.5))
        ways.received(MEDIUM, FIRST, seen[-1] == "read", copies_ns)
    return seen


def _calls_with_all(
    ways: _core.ShmWays, stamps: Sequence[int], sends: bool, peers: int = 7, kind: str = ""
) -> list[set[str]]:
    """The ways of each call's messages, one from each peer. A stream costs 0.1 ns a byte at either end, a read 0.15."""
    seen = []
    for stamp in stamps:
        asked = [ways.choose(MIB, FIRST, sender=peer, stamp=stamp, kind=kind) for peer in range(peers)]
        for _ in range(peers if sends else 0):
            ways.sent(MIB, FIRST, MIB // 10, stamp)
        for peer, way in enumerate(asked):
            ns = int(MIB * (0.15 if way == "read" else 0.1))
            ways.received(MIB, FIRST, way == "read", ns, sender=peer, stamp=stamp, kind=kind)
        seen.append(set(asked))
    return seen


def test_a_call_of_many_messages_each_way_is_an_exchange_from_beginning_to_end() -> None:
    """All of them leave before the first one comes, so when the last one comes few have left of late."""
    seen = _calls_with_all(_core.ShmWays(None), range(1, 60), sends=True)
    assert seen[12:] == [{"read"}] * (len(seen) - 12)
    seen = _calls_with_all(_core.ShmWays(None), range(1, 60), sends=False)
    assert seen[2 * TRIALS :] == [{"stream"}] * (len(seen) - 2 * TRIALS)


def test_a_call_that_only_receives_is_no_exchange_from_the_second_on() -> None:
    ways = _core.ShmWays(None)
    assert _calls_with_all(ways, range(1, 60), sends=True)[-1] == {"read"}
    received = _calls_with_all(ways, range(60, 62), sends=False, peers=1)
    assert received == [{"read"}, {"stream"}]  # which nobody has tried in such calls yet
    assert _calls_with_all(ways, range(62, 64), sends=True)[1] == {"read"}


@pytest.mark.parametrize("peers", [1, 3, 7])
def test_calls_of_two_kinds_in_turns_each_keep_their_way(peers: int) -> None:
    """Who exchanges and receives in turns would else begin each call as if it were the one before."""
    ways = _core.ShmWays(None)
    exchanged, received = [], []
    for turn in range(60):
        exchanged += _calls_with_all(ways, [1 + 2 * turn], sends=True, peers=peers, kind="all_to_all")
        received += _calls_with_all(ways, [2 + 2 * turn], sends=False, peers=1, kind="scatter")
    known = 2 * TRIALS + 1
    assert exchanged[known:] == [{"read"}] * (60 - known)
    assert received[known:] == [{"stream"}] * (60 - known)


@pytest.mark.parametrize("under_way", [1, 8, 24])
def test_calls_that_are_under_way_together_are_told_apart(under_way: int) -> None:
    ways = _core.ShmWays(None)
    seen: list[str] = []
    for first in range(1, 144, under_way):  # before the slower way is tried again
        messages = [(stamp, peer) for stamp in range(first, first + under_way) for peer in range(7)]
        for stamp, _ in messages:
            ways.sent(MIB, FIRST, MIB // 10, stamp)
        asked = [ways.choose(MIB, FIRST, sender=peer, stamp=stamp, kind="all_to_all") for stamp, peer in messages]
        for (stamp, peer), way in zip(messages, asked, strict=True):
            ns = int(MIB * (0.15 if way == "read" else 0.1))
            ways.received(MIB, FIRST, way == "read", ns, sender=peer, stamp=stamp, kind="all_to_all")
        seen += asked
    half = len(seen) // 2
    assert seen[half:] == ["read"] * (len(seen) - half)


@pytest.mark.parametrize("read", [0.5, 2.0])
def test_what_may_leave_unasked_is_read_in_an_exchange_where_that_is_cheaper(read: float) -> None:
    seen = _exchange(_core.ShmWays(None), 100, read)
    assert "read" in seen[TRIALS : TRIALS + 3]  # the first ones show that it is an exchange
    better = "read" if read < 1 else "stream"
    assert seen[2 * TRIALS + 3 :] == [better] * (100 - 2 * TRIALS - 3)


def test_trials_end_where_the_other_rank_sends_all_at_once() -> None:
    """What was to be read and came at once counts, or its sender would be told to read for ever."""
    ways = _core.ShmWays(None)
    seen = []
    for _ in range(200):
        seen.append(ways.choose_to_send(MEDIUM, FIRST))
        ways.sent(MEDIUM, FIRST, MEDIUM)
        ways.received(MEDIUM, FIRST, False, MEDIUM // 2, declined=ways.was_to_be_read(MEDIUM, FIRST))
    assert seen.count("read") <= 3 * TRIALS
    assert seen[-50:] == ["stream"] * 50


def _calls(ways: _core.ShmWays, calls: int, senders: Sequence[int]) -> list[str]:
    """The ways of what comes from these ranks in each call, all of it awaited before any has come."""
    seen = []
    for _ in range(calls):
        asked = [(sender, ways.choose(MEDIUM, FIRST, sender=sender)) for sender in senders]
        for sender, way in asked:
            ways.received(MEDIUM, FIRST, way == "read", MEDIUM // (4 if way == "read" else 1), sender=sender)
        seen += [way for _, way in asked]
    return seen


def test_short_messages_of_several_senders_to_one_that_only_receives_are_streamed() -> None:
    ways = _core.ShmWays(None)
    assert "read" not in _calls(ways, 4 * TRIALS, (1, 2, 3))[1:]
    assert _calls(ways, 4 * TRIALS, (1,))[-TRIALS:] == ["read"] * TRIALS  # a scatter's, later
    assert _calls(ways, 2, (1, 2, 3))[4:] == ["stream"] * 2


def test_what_went_to_several_ranks_makes_no_crowd() -> None:
    """Two broadcasts of one root, which this rank was not alone in, are over when another one scatters."""
    ways = _core.ShmWays(None)
    for _ in range(2):
        ways.choose(MEDIUM, FIRST, sender=1)
        ways.shared(MEDIUM, FIRST, sender=1)
    assert _calls(ways, 4 * TRIALS, (2,))[-TRIALS:] == ["read"] * TRIALS


def test_who_has_one_sender_now_tries_as_often_as_that_one_needs() -> None:
    """After a call in which all sent to it a rank takes part in scatters, which have one root."""
    ways = _core.ShmWays(None)
    for sender in range(7):
        assert ways.choose(MIB, FIRST, sender=sender) == "stream"
        ways.received(MIB, FIRST, False, MIB, sender=sender)
    seen = []
    for _ in range(2 * TRIALS):
        seen.append(ways.choose(MIB, FIRST, sender=0))
        ways.received(MIB, FIRST, seen[-1] == "read", MIB // 4 if seen[-1] == "read" else MIB, sender=0)
    assert seen == ["stream"] * (TRIALS - 1) + ["read"] * (TRIALS + 1)


def test_a_row_of_retries_is_as_long_as_its_sender_needs() -> None:
    rank = Rank(3.0, 1.0, senders=7)
    rank.rows(7 * 2 * TRIALS)
    rank.senders = itertools.repeat(0)
    known = int(32 * 3 * TRIALS)
    assert rank.rows(known + TRIALS + 1) == [("read", known), ("stream", TRIALS), ("read", 1)]


def test_who_sends_and_receives_nothing_is_not_timed_and_others_are_as_seldom() -> None:
    ways = _core.ShmWays(None)
    ways.written(MIB, FIRST, MIB, 1)
    assert not ways.wants_time_to_send(MIB, FIRST, peer=5)
    for _ in range(2 * TRIALS + 8):
        ways.written(MIB, FIRST, MIB, 1)
        way = ways.choose(MIB, FIRST, sender=1)
        ways.received(MIB, FIRST, way == "read", MIB, sender=1)
    seen = []
    for _ in range(4 * TIMED_EVERY):
        seen.append(ways.wants_time_to_send(MIB, FIRST, peer=5))
        ways.written(MIB, FIRST, MIB, 1)
        ways.received(MIB, FIRST, False, None, all_ns=MIB, sender=1)
    assert sum(seen) == 4


def test_ranks_that_follow_one_with_fewer_senders_stop_timing() -> None:
    first = _core.ShmWays(None)
    other = _core.ShmWays(first)
    timed = []
    for _ in range(40 * TRIALS):
        for ways, senders in ((first, 1), (other, 7)):
            for sender in range(senders):
                ways.written(MIB, FIRST, MIB, 1)
                way = ways.choose(MIB, FIRST, sender=sender)
                timed.append(ways is other and ways.wants_time(MIB, FIRST, peer=sender))
                ways.received(MIB, FIRST, way == "read", MIB, sender=sender)
    assert sum(timed) < 7 * 2 * TRIALS + 7 * 40 * TRIALS / TIMED_EVERY * 1.1


@pytest.mark.parametrize(("stream", "read", "better"), [(1.0, 0.6, "read"), (0.6, 1.0, "stream")])
@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0])
def test_messages_beside_each_other_cost_what_all_of_them_take(
    stream: float, read: float, better: str, spread: float
) -> None:
    """Seven come at once to a root; streams end close together, reads one after the other, or the other way round."""
    ways = _core.ShmWays(None)
    for spreads in ({"stream": spread, "read": 1.0}, {"stream": 1.0, "read": spread}):
        for _ in range(3 * TRIALS):
            for sender in range(7):
                way = ways.choose(MIB, FIRST, sender=sender)
                whole = 7 * MIB * (stream if way == "stream" else read)
                share = spreads[way] / 7
                ns = int(whole * (share if sender else 1 - 6 * share))
                ways.received(MIB, FIRST, way == "read", 1, all_ns=ns, sender=sender, beside=sender > 0)
        assert ways.choose(MIB, FIRST, sender=0) == better


def test_a_near_peers_fast_copies_do_not_hide_a_far_ones() -> None:
    """Who exchanges goes by its own copies: here of streams from a near sender and from a far one."""
    ways = _core.ShmWays(None)
    for _ in range(8 * TRIALS):
        for sender, stream in enumerate((0.2, 2.0)):
            ways.written(MIB, FIRST, 0, 1)
            way = ways.choose(MIB, FIRST, sender=sender)
            ns = int(MIB * (stream if way == "stream" else 0.8))
            ways.received(MIB, FIRST, way == "read", ns, sender=sender)
    assert ways.choose(MIB, FIRST, sender=0) == "read"


def test_a_reader_that_is_declined_at_last_forgets_what_reading_cost() -> None:
    rank = Rank(1.0, 0.5)
    rank.rows(2 * TRIALS + 50)
    assert [rank.take(declined=True)[0] for _ in range(TRIALS + 20)] == ["read"] * TRIALS + ["stream"] * 20


def test_few_are_timed_once_the_ways_are_known() -> None:
    rank = Rank(1.0, 0.5)
    for _ in range(2 * TRIALS):
        rank.take()
    seen = [rank.take() for _ in range(10 * TIMED_EVERY)]
    assert {way for way, _ in seen} == {"read"}
    assert sum(timed for _, timed in seen) == 10


def test_the_worse_way_is_tried_again_the_later_the_worse_it_is() -> None:
    for ratio in (1.25, 4.0):
        rank = Rank(ratio, 1.0)
        rank.rows(2 * TRIALS)
        known = int(32 * ratio * TRIALS)
        assert rank.rows(known + TRIALS) == [("read", known), ("stream", TRIALS)]
        rank = Rank(ratio, 1.0)
        rank.rows(2 * TRIALS + known)
        assert all(rank.take() == ("stream", True) for _ in range(TRIALS)), "a trial that is not timed teaches nothing"


def test_what_has_become_faster_is_taken() -> None:
    rank = Rank(2.0, 1.0)
    rank.rows(2 * TRIALS)
    rank.costs["stream"] = 0.5  # the ranks have moved to cores that share a cache
    before, *_, after = rank.rows(1000)
    assert before == ("read", 32 * 2 * TRIALS)
    assert after >= ("stream", 1000 - before[1] - TRIALS)  # the rest of a row of trials is of what is worse now


def test_a_sender_that_declines_to_be_read_is_asked_again_later() -> None:
    rank = Rank(1.0, 0.5)
    ways = [rank.take(declined=True)[0] for _ in range(35 * TRIALS)]
    rows = [(way, len(list(row))) for way, row in itertools.groupby(ways)]
    assert rows == [*(("stream", TRIALS), ("read", TRIALS), ("stream", 32 * TRIALS), ("read", TRIALS))]
    assert rank.take()[0] == "stream"
    rank.rows(33 * TRIALS)  # and now it lets itself be read
    assert rank.take()[0] == "read"


def test_lengths_and_places_in_a_call_learn_each_for_itself() -> None:
    rank = Rank(1.0, 0.5)
    rank.rows(2 * TRIALS)
    assert rank.take()[0] == "read"
    for bytes, tag in ((2 * MIB, FIRST), (MIB // 2, FIRST), (16 * MIB, LATER)):
        assert rank.ways.choose(bytes, tag) == "stream"
        assert rank.ways.wants_time(bytes, tag)
    assert rank.ways.choose(MIB + 8, OF_A_USER) == "read"  # of about this length, and not written in this call either


def test_what_was_moved_and_what_may_be_sums_learn_each_for_itself() -> None:
    ways = _core.ShmWays(None)
    for _ in range(2 * TRIALS):
        read = ways.choose(16 * MIB, LATER) == "read"
        ways.received(16 * MIB, LATER, read, 8 * MIB if read else 16 * MIB)
    assert [ways.choose(16 * MIB, LATER, kind) for kind in ("", "all_reduce")] == ["read", "stream"]


def test_who_also_sends_goes_the_way_of_the_hosts_first_rank() -> None:
    first = Rank(1.0, 0.5)
    other = _core.ShmWays(first.ways)
    assert other.choose(MIB, FIRST) == "stream"  # the first has not chosen yet: its own trials
    for _ in range(2 * TRIALS + 1):
        first.ways.written(MIB, FIRST, MIB, 0)
        way, _ = first.take()
        assert other.choose(MIB, FIRST) == way
        other.written(MIB, FIRST, MIB, MIB)
        other.received(MIB, FIRST, way == "read", MIB // (4 if way == "stream" else 1))  # here streams are cheaper
    assert first.take()[0] == "read"
    assert other.choose(MIB, FIRST) == "read"


@pytest.mark.parametrize(("also_sends", "way"), [(False, "read"), (True, "stream")])
def test_a_read_costs_a_rank_what_it_copies_itself(also_sends: bool, way: str) -> None:
    """Half of each message is its sender's to write. Who also sends writes as much, and streams are faster then."""
    ways = _core.ShmWays(None)
    half = MIB // 2
    for _ in range(2 * TRIALS + 1):  # by the first of them it knows that it also sends
        came = ways.choose(MIB, FIRST)
        if also_sends:
            ways.written(MIB, FIRST, half, half)
        ways.received(MIB, FIRST, came == "read", half if came == "read" else int(0.7 * MIB), part=half)
    assert ways.choose(MIB, FIRST) == way


def test_who_only_receives_goes_by_how_long_all_takes() -> None:
    """Its own copies would be cheaper streamed, but the sender's into the ring take longer."""
    ways = _core.ShmWays(None)
    for _ in range(2 * TRIALS):
        read = ways.choose(MIB, FIRST) == "read"
        ways.received(MIB, FIRST, read, int((0.5 if read else 0.4) * MIB), all_ns=int((0.6 if read else 0.9) * MIB))
    assert ways.choose(MIB, FIRST) == "read"


def test_who_only_receives_goes_by_itself_and_leads_nobody() -> None:
    first = Rank(0.5, 1.0)
    first.rows(2 * TRIALS)
    assert first.take()[0] == "stream"
    other = Rank(1.0, 0.5)
    other.ways = _core.ShmWays(first.ways)
    assert other.rows(3 * TRIALS) == [("stream", TRIALS), ("read", 2 * TRIALS)]
    for _ in range(2 * TRIALS + 1):
        other.ways.written(MIB, FIRST, MIB, MIB // 8)
        other.take()
    assert other.take()[0] == "read"  # now it sends as well, and the first rank still does not


@pytest.mark.parametrize("messages", [1, 4, 7])
def test_batches_are_exchanges(messages: int) -> None:
    """All of a batch is sent when its first message comes."""
    first = Rank(1.0, 0.5)
    other = _core.ShmWays(first.ways)
    for _ in range(4):
        for _ in range(messages):
            first.ways.written(MIB, FIRST, MIB // 2, MIB)
            other.written(MIB, FIRST, MIB // 2, MIB)
        for _ in range(messages):
            way, _ = first.take()
            other.received(MIB, FIRST, way == "read", MIB)
    assert other.choose(MIB, FIRST) == first.ways.choose(MIB, FIRST)


def test_a_rank_that_sent_before_is_soon_one_that_only_receives() -> None:
    rank = Rank(0.5, 1.0)
    for _ in range(2 * TRIALS + 1):
        rank.ways.written(MIB, FIRST, MIB, MIB // 8)
        rank.take()
    assert rank.take()[0] == "stream"
    rank.costs = {"stream": 2.0, "read": 1.0}  # of calls in which it sends nothing
    assert rank.rows(6 * TRIALS)[-1][0] == "read"
