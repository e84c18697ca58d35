# SPDX-License-Identifier: Apache-2.0
"""Where a rank's own share is sent from, and in which slices it is copied: seen in what ranks do for their steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, traces
from pipe_jobs import PipeJob, Tell

KIB, MIB = 1 << 10, 1 << 20


def all_gathers(comm: Communicator, _: Tell, *, share: int, algorithm: str, folder: Path, in_place: bool) -> None:
    everything = np.empty((comm.size, share), np.uint8)
    mine = everything[comm.rank] if in_place else np.empty(share, np.uint8)
    mine[:] = np.arange(share, dtype=np.uint64) % 251 + comm.rank
    comm.all_gather_into_tensor(everything.reshape(-1), mine, algorithm=algorithm, chunks=1)
    for rank in range(comm.size):
        assert np.array_equal(everything[rank], (np.arange(share, dtype=np.uint64) % 251 + rank).astype(np.uint8))
    comm.write_trace(folder)


def own_copies(
    share: int, folder: Path, *, ranks: int = 2, algorithm: str = "ring", in_place: bool = False, **options: Any
) -> list[list[dict[str, Any]]]:
    """Of each rank, the slices of its own share's copy in one all-gather among processes."""
    body = partial(all_gathers, share=share, algorithm=algorithm, folder=folder, in_place=in_place)
    job = PipeJob(ranks, body, trace_steps=True, timeout_s=60.0, **options)
    for rank in range(ranks):
        assert job.outcome(rank).error == "", job.outcome(rank)
    job.end()
    (trace,) = traces.read(folder)
    return [[work for work in rank.works if work["step"] == "copy"] for rank in trace.ranks.values()]


FROM_OUTPUT = {
    "least": (2 * MIB, {}),
    "most": (8 * MIB - 1, {}),
    "a ring of three": (2 * MIB, {"ranks": 3}),
}
FROM_INPUT = {
    "shorter": (2 * MIB - 1, {}),
    "longer": (8 * MIB, {}),
    "two receivers": (2 * MIB, {"ranks": 3, "algorithm": "direct"}),
    "a peer that cannot read it": (2 * MIB, {"hosts": "ab"}),
}


@pytest.mark.parametrize(("share", "options"), FROM_OUTPUT.values(), ids=FROM_OUTPUT)
def test_what_one_receiver_may_read_is_copied_first_and_sent_from_the_output(
    share: int, options: dict[str, Any], tmp_path: Path
) -> None:
    for copies in own_copies(share, tmp_path, **options):
        assert sum(copy["bytes"] for copy in copies) == share
        assert {copy["index"] for copy in copies} == {0}


@pytest.mark.parametrize(("share", "options"), FROM_INPUT.values(), ids=FROM_INPUT)
def test_else_it_is_sent_from_the_input_and_copied_last(share: int, options: dict[str, Any], tmp_path: Path) -> None:
    for copies in own_copies(share, tmp_path, **options):
        assert sum(copy["bytes"] for copy in copies) == share
        assert 0 not in {copy["index"] for copy in copies}


def test_in_place_there_is_nothing_to_copy(tmp_path: Path) -> None:
    assert own_copies(2 * MIB, tmp_path, in_place=True) == [[], []]


def test_threads_read_no_other_process(tmp_path: Path) -> None:
    """Over loopback a send says nothing of its reader."""

    def body(comm: Communicator) -> None:
        all_gathers(comm, print, share=2 * MIB, algorithm="ring", folder=tmp_path, in_place=False)

    lanecast.run_threads(2, body, trace_steps=True, timeout_s=60.0)
    (trace,) = traces.read(tmp_path)
    assert all(work["index"] > 0 for rank in trace.ranks.values() for work in rank.works)


SHARE = 1536 * KIB
SLICES = {
    "": [MIB, 512 * KIB],  # no wire: messages of one host wait for a core, not for this one's slices
    "aaa": [MIB, 512 * KIB],
    "aab": [128 * KIB] * 12,  # ranks with neighbours as well
    "abc": [128 * KIB] * 12,
}


@pytest.mark.parametrize(("hosts", "slices"), SLICES.items())
def test_copies_are_cut_finely_where_any_message_crosses_a_wire(hosts: str, slices: list[int], tmp_path: Path) -> None:
    """No step waits for this copy, which messages over wires are not to wait for either."""
    for copies in own_copies(SHARE, tmp_path, ranks=3, algorithm="direct", hosts=hosts):
        assert [copy["bytes"] for copy in copies] == slices
