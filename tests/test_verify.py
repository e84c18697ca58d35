# SPDX-License-Identifier: Apache-2.0
"""verify() on plans written by hand: what is right passes, each kind of fault is refused and named."""

import pytest

from handmade_plans import HALF, add, block, by_hand, copy, gather_group, group, output, own, recv, scratch, send, step
from lanecast._core import Plan, PlanError, Topology, make_plans, verify
from plan_memory import IN, OUT, SCRATCH

REGION = (0, (0, 1), (1, 1))


def refused(plans: list[Plan], *said: str) -> None:
    with pytest.raises(PlanError) as caught:
        verify(plans)
    for words in said:
        assert words in str(caught.value)


def exchange(rank: int, *, dependency: bool = True) -> list[dict[str, object]]:
    """Right half of an all-reduce of two: send the input, add the other's to it, into the output."""
    return [send(1 - rank, own(0)), add(1 - rank, own(0), output(0), after=[0] if dependency else [])]


def test_an_exchange_needs_two_steps_under_way() -> None:
    assert verify(by_hand("all_reduce", exchange(0, dependency=False), exchange(1, dependency=False))) == {
        "messages": 2,
        "min_window": 2,
    }


def test_taking_turns_needs_one() -> None:
    first, second = exchange(0, dependency=False), exchange(1, dependency=False)[::-1]
    assert verify(by_hand("all_reduce", first, second))["min_window"] == 1


def test_a_ring_that_sends_first_needs_two() -> None:
    def steps(me: int) -> list[dict[str, object]]:
        ahead, behind, far = (me + 1) % 3, (me + 2) % 3, (me + 1) % 3
        return [
            send(ahead, own(me)),
            recv(behind, output(behind)),
            send(ahead, output(behind), after=[1]),
            recv(behind, output(far)),
            copy(own(me), output(me)),
        ]

    assert verify(by_hand("all_gather", *map(steps, range(3))))["min_window"] == 2


def test_sends_that_wait_for_each_other() -> None:
    refused(by_hand("all_reduce", exchange(0), exchange(1)), "deadlock: rank 0 step 0 of 2: send to rank 1", "rank 1")


def test_missing_receive() -> None:
    deaf = by_hand("all_reduce", exchange(0, dependency=False), exchange(1, dependency=False)[:1])
    refused(deaf, "rank 0 step 0 of 2: send to rank 1 in/part 0: message 0 has no counterpart on rank 1")


def test_missing_send() -> None:
    mute = by_hand("all_reduce", exchange(0, dependency=False), exchange(1, dependency=False)[1:])
    refused(mute, "rank 0 step 1 of 2: recv_reduce from rank 1", "no counterpart on rank 1")


def test_pieces_differ_between_the_two_sides() -> None:
    other = [send(0, block(IN, 0, hi=HALF)), exchange(1, dependency=False)[1]]
    refused(
        by_hand("all_reduce", exchange(0, dependency=False), other), "rank 1 step 0", "expects other pieces", "rank 0"
    )


def test_contribution_counted_twice() -> None:
    greedy = [
        send(1, own(0)),
        add(1, own(0), output(0), completes=False),
        send(1, own(0)),
        add(1, output(0), output(0), after=[1]),
    ]
    modest = [send(0, own(0)), add(0, own(0), output(0)), send(0, own(0)), recv(0, scratch(0))]
    plans = by_hand("all_reduce", greedy, modest, regions=[(*REGION, 0)], slots=1)
    refused(plans, "rank 0 step 3 of 4", "contributions of ranks {0, 1 \N{MULTIPLICATION SIGN}2}, expected {0, 1}")


def test_output_with_the_wrong_part() -> None:
    plans = by_hand(
        "reduce_scatter",
        [send(1, own(0)), recv(1, output(0))],
        [send(0, own(0)), recv(0, scratch(0))],
        regions=[(*REGION, 0)],
        slots=1,
    )
    refused(plans, "rank 0 step 1 of 2: recv from rank 1", "contributions of ranks {1}, expected {0, 1}")


def test_output_never_written() -> None:
    plans = by_hand("all_gather", [send(1, own(0))], [recv(0, output(0)), copy(own(1), output(1))])
    refused(plans, "rank 0: no step writes output part 0 of all_gather by handmade")


def test_read_before_written() -> None:
    plans = by_hand("all_gather", [send(1, output(0)), copy(own(0), output(0))], [recv(0, output(0))])
    refused(plans, "rank 0 step 1 of 2", "races with step 0")
    plans = by_hand("all_gather", [send(1, output(1)), copy(own(0), output(0))], [recv(0, output(1))])
    refused(plans, "rank 0 step 0 of 2: send to rank 1 out/part 1: reads out/part 1 before anything is there")


def test_input_is_the_callers() -> None:
    plans = by_hand("all_reduce", [send(1, own(0)), add(1, own(0), own(0))], exchange(1))
    refused(plans, "rank 0 step 1 of 2", "writes the caller's input")


def relay(*, ordered: bool) -> list[Plan]:
    """Rank 0 sums in the output and passes the sum on."""
    first = [add(1, own(0), output(0)), send(1, output(0), after=[0] if ordered else [])]
    return by_hand("all_reduce", first, [send(0, own(0)), recv(0, output(0))])


def test_race_of_a_read_with_a_write() -> None:
    verify(relay(ordered=True))
    refused(relay(ordered=False), "rank 0 step 1 of 2: send to rank 1 out/part 0: races with step 0 for out/part 0")


def test_hazard_in_place_only() -> None:
    """The output overwrites an input that is still being sent, where both are the same memory."""
    steps = exchange(0, dependency=False), exchange(1, dependency=False)
    verify(by_hand("all_reduce", *steps))
    refused(by_hand("all_reduce", *steps, in_place=True), "rank 0 step 1 of 2", "races with step 0 for out/part 0")


def two_values(*, slots: int, after: list[int]) -> list[Plan]:
    """Rank 1 keeps the two halves of rank 0's vector, one after the other, before it adds them to its own."""
    halves = [block(IN, 0, hi=HALF), block(IN, 0, lo=HALF)]
    outs = [block(OUT, 0, hi=HALF), block(OUT, 0, lo=HALF)]
    kept = [block(SCRATCH, 0, hi=HALF), block(SCRATCH + 1, 0, lo=HALF)]
    keeps = [
        recv(0, kept[0]),
        step("reduce", [halves[0], kept[0]], [outs[0]], sources=2, after=[0], completes=True),
        recv(0, kept[1], after=after),
        step("reduce", [halves[1], kept[1]], [outs[1]], sources=2, after=[2], completes=True),
        send(0, output(0), after=[1, 3]),
    ]
    brings = [send(1, halves[0]), send(1, halves[1]), recv(1, output(0))]
    return by_hand(
        "all_reduce", brings, keeps, regions=[(0, (0, 1), HALF, 0), (0, HALF, (1, 1), slots - 1)], slots=slots
    )


def test_scratch_slot_given_to_another_value() -> None:
    verify(two_values(slots=2, after=[]))
    verify(two_values(slots=1, after=[1]))
    refused(two_values(slots=1, after=[]), "rank 1 step 2 of 5: recv from rank 0", "races with step 0 for scratch1")
    refused(two_values(slots=1, after=[0]), "rank 1 step 2 of 5: recv from rank 0", "races with step 1 for scratch1")


def test_return_to_a_value_that_lost_its_slot() -> None:
    keeps = [recv(0, scratch(0)), recv(0, scratch(1), after=[0]), copy(scratch(0), output(0), after=[0, 1])]
    plans = by_hand(
        "all_gather", [send(1, own(0)), send(1, own(0))], keeps, regions=[(*REGION, 0), (*REGION, 0)], slots=1
    )
    refused(plans, "rank 1 step 2 of 3", "returns to a scratch region that another one has replaced")


def test_two_values_in_one_slot_at_once() -> None:
    keeps = [recv(0, scratch(0)), copy(scratch(0), scratch(1), after=[0]), copy(scratch(1), output(0), after=[1])]
    brings = [send(1, own(0)), copy(own(0), output(0)), recv(1, output(1))]
    rest = [copy(own(1), output(1)), send(0, own(1))]
    regions = [(*REGION, 0), (*REGION, 1)]
    verify(by_hand("all_gather", brings, keeps + rest, regions=regions, slots=2))
    regions = [(*REGION, 0), (*REGION, 0)]
    plans = by_hand("all_gather", brings, keeps + rest, regions=regions, slots=1)
    refused(plans, "rank 1 step 1 of 5: copy", "uses two regions of one scratch slot")


def test_average_divides_once() -> None:
    def plans(first: bool, second: bool) -> list[Plan]:
        sums = [send(1, own(0)), add(1, own(0), output(0), completes=first)]
        return by_hand("all_reduce", sums, [send(0, own(0)), add(0, own(0), output(0), completes=second)])

    verify(plans(True, True))
    refused(plans(True, False), "rank 1 step 1 of 2", "without saying that the sum is complete")
    moved = step("copy", [own(0)], [output(0)], completes=True)
    refused(by_hand("all_gather", [moved]), "rank 0 step 0 of 1: copy", "completes a sum, but adds nothing")


def test_adding_to_a_complete_sum() -> None:
    chain = [send(1, own(0)), recv(1, output(0))], [add(0, own(0), output(0)), send(0, output(0), after=[0])]
    verify(by_hand("all_reduce", *chain))
    longer = (
        [send(1, own(0)), recv(2, output(0))],
        [add(0, own(0), output(0)), send(2, output(0), after=[0]), recv(2, output(0), after=[0, 1])],
        [add(1, own(0), output(0)), send(0, output(0), after=[0]), send(1, output(0), after=[0])],
    )
    refused(by_hand("all_reduce", *longer), "rank 2 step 0 of 3: recv_reduce from rank 1", "adds to a complete sum")


def gathers(*orders: list[tuple[int, int]]) -> list[Plan]:
    """Group all-gathers of three pairs of ranks; each rank enters them in the order given."""
    pairs = [(0, 1), (1, 2), (0, 2)]
    steps = [
        [group(pairs.index(p), [own(me)], [output(p[0]), output(p[1])], after=range(k)) for k, p in enumerate(order)]
        for me, order in enumerate(orders)
    ]
    return by_hand("all_gather", *steps, groups=[gather_group(p) for p in pairs])


def test_group_orders() -> None:
    verify(gathers([(0, 1), (0, 2)], [(0, 1), (1, 2)], [(1, 2), (0, 2)]))
    refused(gathers([(0, 1), (0, 2)], [(1, 2), (0, 1)], [(0, 2), (1, 2)]), "step 0 of 2: group", "form a circle")
    refused(
        gathers([(0, 1), (0, 2)], [(0, 1), (1, 2)], [(1, 2)]), "rank 0 step 1 of 2", "rank 2 never enters this call"
    )


def test_group_members_disagree() -> None:
    plans = [plan.to_dict() for plan in make_plans("all_gather", Topology(3), "mpi")]
    for plan, own_lists in zip(plans, [[0, 1, 2], [0, 1, 2], [1, 0, 2]], strict=True):
        plan["groups"][0]["own"] = [[(part, (0, 1), (1, 1))] for part in own_lists]
        plan["steps"][0]["dst"] = [output(part) for part in own_lists]
    refused([Plan.from_dict(plan) for plan in plans], "rank 2 step 0 of 1: group", "disagrees with rank 0 step 0 of 1")


def test_plans_of_everyone_and_of_one_collective() -> None:
    plans = make_plans("all_reduce", Topology(3), "ring")
    refused([], "no plans")
    refused(plans[:2], "needs the plans of all ranks, in rank order")
    refused(plans[::-1], "needs the plans of all ranks, in rank order")
    refused(
        [plans[0], plans[1], make_plans("all_reduce", Topology(3), "ring", True)[2]], "rank 2", "another collective"
    )
    refused([plans[0], plans[1], make_plans("all_gather", Topology(3), "ring")[2]], "rank 2", "another collective")
