# SPDX-License-Identifier: Apache-2.0
"""What no composition and no machine can be: refused at once, with the reason, and without a trace."""

from fractions import Fraction

import pytest

from composed_cases import form
from lanecast._core import Topology, UsageError
from lanecast.compose import Block, Composition, Knobs, lower, verify

REFUSED_PRIMITIVES = [
    (lambda c: c.multicast(4, [0], 0), r"multicast from rank 4 .*: root: rank 4 does not exist among 4"),
    (lambda c: c.multicast(0, [], 0), "leaves: at least one"),
    (lambda c: c.multicast(0, [1, 7], 0), "leaves: rank 7 does not exist"),
    (lambda c: c.reduce([1, 1], 0, 0), "leaves: rank 1 is named twice"),
    (lambda c: c.multicast(0, [1], 9), "block: there is no part 9 among 4 parts"),
    (lambda c: c.multicast(0, [1], []), "block: at least one piece"),
    (lambda c: c.multicast(0, [1], [0, Block(0).cut(0, 2)]), "names elements of part 0.* twice"),
    (lambda c: c.multicast(0, [1], Block(0, hi=Fraction(2))), "there is no part 0"),
    (lambda c: c.multicast(1, [0], 0), "rank 1 has no value of part 0: it neither brings it nor gets it"),
    (lambda c: c.reduce([0, 1], 0, 0), "rank 1 has no value of part 0"),
    (lambda c: c.reduce([0], 0, 0, "mean"), "op 'mean' is unknown"),
]


@pytest.mark.parametrize(("act", "message"), REFUSED_PRIMITIVES)
def test_wrong_primitives_are_refused(act, message: str) -> None:  # type: ignore[no-untyped-def]
    composition = Composition.of("all_gather", 4)
    with pytest.raises(UsageError, match=message):
        act(composition)
    assert len(composition) == 0


def test_two_writers_of_one_step_are_refused_by_name() -> None:
    composition = Composition([[0], [0], []], [[0], [0], [0]])
    composition.multicast(0, [2], Block(0).cut(0, 2))
    composition.multicast(1, [2], Block(0).cut(1, 2))
    both = (
        r"multicast from rank 0 to ranks 1, 2 of part 0\[1/3,2/3\).*multicast from rank . to ranks 2 of part 0\[.*fence"
    )
    with pytest.raises(UsageError, match=both):
        composition.multicast(0, [1, 2], Block(0).cut(1, 3))
    with pytest.raises(UsageError, match=r"reduce \(sum\) from ranks 0, 1 to rank 2 of part 0: writes .* multicast"):
        composition.reduce([0, 1], 2, 0)
    composition.reduce([0, 1], 1, 0)  # the same elements elsewhere
    composition.fence()
    composition.reduce([0, 1], 2, 0)
    verify(composition)


def test_outputs_need_values() -> None:
    composition = Composition.of("broadcast", 3)
    composition.multicast(0, [1], 0)
    composition.multicast(0, [2], Block(0).cut(0, 2))
    with pytest.raises(UsageError, match="rank 2 is to end with part 0, but no primitive gives it all"):
        lower(composition)
    with pytest.raises(UsageError, match="inputs of rank 1: part 3 is named twice"):
        Composition([[0], [3, 3]], [[], []])
    with pytest.raises(UsageError, match="inputs and the outputs of each rank, got 1 and 2"):
        Composition([[0]], [[], []])


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        (Knobs([2, 2]), r"hierarchy \{2,2\}: the product is 4, but there are 12 ranks"),
        (Knobs([12, 0]), "a factor is at least 1"),
        (Knobs([]), "no factors"),
        (Knobs("3+4"), "12"),
        (Knobs(Topology(4)), "describes 4 ranks, but there are 12"),
        (Knobs([4, 3], ring=2), r"ring: 2 domains, but the levels of hierarchy 4x3 have 4, 12; 1 is no ring"),
        (Knobs([4, 3], ring=-1), "ring: -1 domains"),
        (Knobs([4, 3], stripe=4), "stripe: 4 ranks, but the largest domain of hierarchy 4x3 has 3"),
        (Knobs([12], stripe=2), "stripe: 2 ranks, but the largest domain of hierarchy 12 has 1"),
        (Knobs([4, 3], stripe=-1), "stripe: -1"),
        (Knobs([4, 3], stripe="2"), "a knob is of the wrong type"),  # type: ignore[arg-type]
    ],
)
def test_wrong_knobs_are_refused_with_the_reason(knobs: Knobs, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lower(form("broadcast", 12), knobs)
