# SPDX-License-Identifier: Apache-2.0
"""Collectives as HiCCL composes them, on the buffers of a payload."""

from __future__ import annotations

from typing import Any

from lanecast.bench.cases import ROOT
from lanecast.bench.payload import Payload
from lanecast.communicator import Communicator
from lanecast.compose import CompiledCall, forms

# A single-step all-reduce moves p times what it has to, so the paper measures the one of two steps.
FORMS = {**forms.SINGLE_STEP, "all_reduce": forms.MULTI_STEP["all_reduce_by_all_gather"]}


def compiled(comm: Communicator, payload: Payload, **knobs: Any) -> CompiledCall:
    """The collective of the payload's case; knobs: those of Communicator.compile()."""
    case = payload.case
    form = FORMS[case.collective]
    composition = form(case.ranks, op=case.op) if case.reduces else form(case.ranks)
    only_gets = case.collective == "broadcast" and case.rank != ROOT
    return comm.compile(
        composition, payload.output, None if only_gets else payload.input, counts=case.count, dtype=case.dtype, **knobs
    )
