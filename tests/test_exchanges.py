# SPDX-License-Identifier: Apache-2.0
"""Where long messages are announced a receive waits for the send of its exchange: seen in when ranks post both."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lanecast import Communicator, traces
from pipe_jobs import PipeJob, Tell

CHUNKS, CALLS = 6, 4


def all_reduces(comm: Communicator, _: Tell, *, algorithm: str, folder: Path) -> int:
    wrong = 0
    for call in range(CALLS):
        numbers = np.arange(7001, dtype=np.int64) * (comm.rank + 1) + call
        comm.all_reduce(numbers, algorithm=algorithm, chunks=CHUNKS)
        size = comm.size
        wrong += int((numbers != np.arange(7001, dtype=np.int64) * (size * (size + 1) // 2) + size * call).sum())
    comm.write_trace(folder)
    return wrong


def early_receives(folder: Path) -> tuple[int, int]:
    """Of the messages that come: how many were posted before the one of the same exchange that goes, and all."""
    (job,) = traces.read(folder)
    early = exchanged = 0
    for trace in job.ranks.values():
        posted: dict[tuple[int, int, int], dict[bool, list[int]]] = {}
        for message in sorted(trace.messages, key=lambda message: message["index"]):
            at = posted.setdefault((message["sequence"], message["chunk"], message["peer"]), {True: [], False: []})
            at[message["step"] == "send"].append(message["begin_ns"])
        for both in posted.values():
            for sent, received in zip(both[True], both[False], strict=False):
                exchanged += 1
                early += received < sent
    return early, exchanged


@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "direct"])
def test_a_receive_is_posted_behind_the_send_of_its_exchange(algorithm: str, tmp_path: Path) -> None:
    body = partial(all_reduces, algorithm=algorithm, folder=tmp_path)
    job = PipeJob(2, body, hosts="ab", trace_steps=True, timeout_s=60.0)
    assert [job.outcome(rank).value for rank in range(2)] == [0, 0]
    job.end()
    early, exchanged = early_receives(tmp_path)
    assert exchanged == 2 * CALLS * CHUNKS * 2, "each of two ranks sends and receives twice in a chunk"
    assert early == 0
