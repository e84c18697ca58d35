# SPDX-License-Identifier: Apache-2.0
"""The order in which a GPU is handed a plan's steps: no wait holds up what would end it, even where all streams of the
device are one queue. verify() proves it for every plan that any other test proves; here are orders that must fail."""

import pytest

from handmade_plans import by_hand, copy, output, own, recv, send
from lanecast import _core
from lanecast._core import (
    Plan,
    PlanError,
    Topology,
    algorithms_for,
    check_device_queue,
    device_order,
    make_plans,
    verify,
)

SHAPES = {"2x1": 2, "3x1": 3, "2x2": 4, "1+2": 3, "2x3": 6, "3+1+2": 6, "2x2x2": 8, "5": 5}


def in_list_order(plans: list[Plan]) -> list[list[int]]:
    return [list(range(len(plan.to_dict()["steps"]))) for plan in plans]


def test_what_a_device_would_wait_for_behind_its_own_wait() -> None:
    """A ring lists its receive before its send, which is right for executors that look at two steps at a time."""
    plans = make_plans("all_gather", Topology(3), "ring")
    with pytest.raises(PlanError, match=r"as one queue of a device: rank 0 never gets past step 0 of .*: recv from"):
        check_device_queue(plans, in_list_order(plans))
    check_device_queue(plans, [device_order(plan) for plan in plans])


def test_a_plan_that_no_order_of_ours_saves() -> None:
    """Rank 0 waits for rank 1 first, as the list says, and rank 1 for what rank 0 sends behind its second receive."""
    plans = by_hand(
        "all_gather",
        [
            recv(1, output(1)),
            recv(2, output(2)),
            send(1, output(2), after=[1]),
            send(2, own(0)),
            copy(own(0), output(0)),
        ],
        [recv(0, output(2)), send(0, own(1), after=[0]), recv(2, output(0)), send(2, own(1)), copy(own(1), output(1))],
        [
            send(0, own(2)),
            recv(0, output(0)),
            send(1, output(0), after=[1]),
            recv(1, output(1)),
            copy(own(2), output(2)),
        ],
    )
    with pytest.raises(
        PlanError, match="as one queue of a device: rank 0 never gets past step 0 of 5: recv from rank 1"
    ):
        verify(plans)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_order_has_each_step_once_behind_what_it_needs(shape: str) -> None:
    topology = Topology.parse(shape, SHAPES[shape])
    for collective in _core.KINDS:
        # Plans by NCCL and by peers are those by MPI.
        for algorithm in (a for a in algorithms_for(collective, topology) if "nccl" not in a and "peers" not in a):
            for plan in make_plans(collective, topology, algorithm):
                order, steps = device_order(plan), plan.to_dict()["steps"]
                assert sorted(order) == list(range(len(steps)))
                place = {step: at for at, step in enumerate(order)}
                assert all(place[needed] < place[i] for i, step in enumerate(steps) for needed in step["deps"])
                groups = [i for i in order if steps[i]["kind"] == "group"]
                assert groups == sorted(groups)
