# SPDX-License-Identifier: Apache-2.0
"""Which NICs a rank of a host takes."""

import sys

import pytest

import lanecast
from lanecast import nics
from lanecast.nics import own_of

FOUR = ("eth0", "eth1", "eth2", "eth3")


@pytest.mark.parametrize(
    ("how", "ranks", "expected"),
    [
        ("packed", 1, [FOUR]),
        ("packed", 2, [FOUR[:2], FOUR[2:]]),
        ("round_robin", 2, [FOUR[::2], FOUR[1::2]]),
        ("packed", 3, [FOUR[:2], FOUR[2:3], FOUR[3:]]),
        ("one_to_one", 4, [(nic,) for nic in FOUR]),
        ("packed", 8, [(nic,) for nic in FOUR for _ in range(2)]),
        ("round_robin", 8, [(nic,) for nic in FOUR * 2]),
    ],
)
def test_own(how: str, ranks: int, expected: list[tuple[str, ...]]) -> None:
    assert [own_of(FOUR, how, place, ranks) for place in range(ranks)] == expected


def test_one_to_one_with_too_few_ranks() -> None:
    with pytest.raises(lanecast.UsageError, match="one-to-one needs as many NICs as ranks"):
        own_of(FOUR, "one_to_one", 0, 2)


def test_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANECAST_NICS", "lo:one_to_one")
    monkeypatch.setenv("MPI_LOCALRANKID", "0")
    monkeypatch.setenv("MPI_LOCALNRANKS", "2")
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    with pytest.raises(lanecast.UsageError, match="LANECAST_NICS: nics: one-to-one needs as many NICs as ranks"):
        nics.pin.__wrapped__()
