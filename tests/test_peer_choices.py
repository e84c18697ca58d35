# SPDX-License-Identifier: Apache-2.0
"""What is chosen among the GPUs of a host: the same on the cards that were measured, whoever moves the numbers."""

from itertools import product
from pathlib import Path

import pytest

from lanecast import _core

MEASURED = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
CTAS = (64, 32, 24, 16, 1)
BYTES = (1, 4096, 100_000, 128 << 10, 512 << 10, 1 << 20, 16 << 20, (64 << 20) - 1, 64 << 20, 1 << 30)
ENGINE_BYTES = (0, 1, 4096, 100_000, 128 << 10, 512 << 10, 1_000_000, 1 << 20, 8 << 20, 16 << 20, *BYTES[7:9])
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
# As they were when the figures in two-gpus.md and four-gpus.md of docs/measurements/history were taken. An engine is
# its letter, a capital one where an offer of windows is worth its launch.
EXPECTED = Path(__file__).with_name("peer_choices.txt").read_text().splitlines()
LETTERS = dict(zip(_core.PEER_ENGINES, "kthcdn", strict=True))


def cut_row(gpu: str, ctas: int, size: int) -> str:
    """How calls are cut whose largest message has so many bytes, of kernels that take so many multiprocessors."""
    two, eight = (_core.peer_cuts(gpu, ctas, ranks, size) for ranks in (2, 8))
    (blocks, _), (_, reduce), (_, broadcast) = two["exchange"], two["reduce"], two["broadcast"]
    (_, two_shot), (pumped_blocks, of_one), (_, of_seven) = (
        two["two_shot"],
        two["pumped_two_shot"],
        eight["pumped_two_shot"],
    )
    whole, half = two["pieces"]
    engines = "".join(str(int(each)) for each in two["by_engines"])
    return (
        f"cut {ctas} {size}: blocks {blocks} by {two['sharers']} piece {whole} reduce {reduce} two_shot {two_shot} "
        f"{half} pumped {int(two['pumped'])} {pumped_blocks} {of_one} {of_seven} broadcast {broadcast} "
        f"engines {engines} direct {two['direct_blocks'][0]} {two['direct_blocks'][1]} beside {two['beside_engines']} "
        f"chunk {two['engine_chunk']} pace {two['pace_ps']} {eight['pace_ps']}"
    )


def engine_row(gpu: str, kind: str, ranks: int, flags: tuple[int, ...]) -> str:
    """Which engine calls of every size take. Flags: symmetric memory, few multiprocessors, pumps, copy engines."""
    choices = [
        _core.peer_engine(gpu, kind, ranks, size, *map(bool, flags)) for size in (*ENGINE_BYTES, 256 << 20, 1 << 30)
    ]
    letters = "".join(LETTERS[engine].upper() if offers else LETTERS[engine] for engine, offers in choices)
    return f"engine {kind} {ranks} {''.join(map(str, flags))}: {letters}"


@pytest.mark.parametrize("gpu", MEASURED)
def test_choices_on_measured_gpus_stay(gpu: str) -> None:
    found = {cut_row(gpu, ctas, size) for ctas, size in product(CTAS, BYTES)}
    found |= {
        engine_row(gpu, kind, ranks, flags)
        for kind, ranks in product(KINDS, (2, 8))
        for flags in product((0, 1), repeat=4)
    }
    assert sorted(found) == sorted(EXPECTED)


@pytest.mark.parametrize("gpu", ["", "NVIDIA B200", "NVIDIA H100 PCIe", "gfx942"])
def test_no_link_of_an_unknown_gpu_is_held_back(gpu: str) -> None:
    """By the rate of another kind's; all else holds anywhere."""
    cuts, known = (_core.peer_cuts(name, 64, 2, 64 << 20) for name in (gpu, MEASURED[0]))
    assert cuts["pace_ps"] == 0 < known["pace_ps"]
    assert {**cuts, "pace_ps": None} == {**known, "pace_ps": None}


@pytest.mark.parametrize("gpu", [*MEASURED, ""])
@pytest.mark.parametrize("ctas", [1, 7, 64])
@pytest.mark.parametrize("size", [0, 1, 4097, (1 << 30) + 1])
def test_any_message_is_cut_into_pieces(gpu: str, ctas: int, size: int) -> None:
    cuts = _core.peer_cuts(gpu, ctas, 3, size)
    assert 1 <= cuts["sharers"] <= cuts["exchange"][0] <= ctas
    assert all(
        1 <= piece <= longest
        for piece, (_, longest) in zip(cuts["pieces"], (cuts["exchange"], cuts["two_shot"]), strict=True)
    )
