# SPDX-License-Identifier: Apache-2.0
"""docs/reference/limits.md is what `lanecast info --limits` prints, and true: every call is made in every place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gpu_host_library
import lanecast
from collective_cases import Call, Case, even
from gpu_stand_in import DeviceCall, Tensor, between_hosts, outcomes
from lanecast import Communicator, _core, limits
from lanecast.cli import app
from lanecast.compose import Composition, forms
from lanecast.limits import CPU, GPUS, HOSTS, Row
from pipe_jobs import Tell

ROOT = Path(__file__).parent.parent
Said = list[str]


def test_the_page_is_what_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["info", "--limits"]).output
    assert (ROOT / "docs/reference/limits.md").read_text() == printed, (
        "lanecast info --limits > docs/reference/limits.md"
    )


def test_limits_in_numbers_are_those_of_the_sources() -> None:
    kernels = ROOT / "src/device/gpu/kernels"
    for file, name, number in (("arguments.h", "kMostRanks", 16), ("message_arguments.h", "kMessages", 128)):
        assert re.search(rf"\b{name} = {number};", (kernels / file).read_text())


def tensor_of(comm: Communicator, place: str, count: int) -> Any:
    array = np.ones(count, np.float32)
    return array if place == CPU else Tensor(array, "float32", comm.rank)


def run(comm: Communicator, place: str, case: Case, *, judged: bool = True) -> None:
    call = (Call if place == CPU else DeviceCall)(comm, case)
    call.start()
    assert not judged or call.finish() == []


def plain(kind: str) -> Case:
    return Case(kind, even(kind, 6, 2), in_place=kind in ("broadcast", "reduce"))


def uneven(kind: str) -> Case:
    own = kind == "all_to_all"
    return Case(kind, (1, 2, 3, 4) if own else (2, 5), own_counts=own)


def overlapping(comm: Communicator, place: str) -> None:
    """What no case has: an all-to-all into its own input."""
    x = tensor_of(comm, place, 4)
    comm.all_to_all_single(x, x)


def in_place(comm: Communicator, place: str, kind: str) -> None:
    if kind == "all_to_all":
        overlapping(comm, place)
    else:
        run(comm, place, Case(kind, even(kind, 6, 2), in_place=True))


def exchange(comm: Communicator, place: str) -> None:
    here, there = tensor_of(comm, place, 3), tensor_of(comm, place, 3)
    messages = [
        lanecast.P2POp(comm.isend, here, 1 - comm.rank),
        lanecast.P2POp(comm.irecv, there, 1 - comm.rank),
    ]
    comm.batch_send_recv(messages)


def persistent(comm: Communicator, place: str, **options: Any) -> None:
    comm.persistent("all_reduce", tensor_of(comm, place, 6), **options).run()


def persistent_uneven(comm: Communicator, place: str) -> None:
    mine, all_of_it = tensor_of(comm, place, 2 + comm.rank), tensor_of(comm, place, 5)
    comm.persistent("all_gather_into_tensor", all_of_it, mine, counts=[2, 3]).run()


def composed(comm: Communicator, place: str, composition: Composition, counts: Any = None) -> None:
    mine = tensor_of(comm, place, counts[comm.rank] if counts else 6)
    whole = tensor_of(comm, place, sum(counts)) if counts else mine
    comm.compile(composition, whole, mine, counts=counts).run()


# By call and property. What is not here cannot be asked for: no argument has it.
PROBES: dict[tuple[str, str], Callable[[Communicator, str], None]] = {
    ("messages", "runs"): exchange,
    ("persistent", "runs"): persistent,
    ("persistent", "counts"): persistent_uneven,
    ("persistent", "in_place"): persistent,
    ("composition", "runs"): partial(composed, composition=forms.all_reduce(2)),
    ("composition", "in_place"): partial(composed, composition=forms.all_reduce(2)),
    ("composition", "counts"): partial(composed, composition=forms.all_gather(2), counts=[2, 3]),
}
for KIND in _core.KINDS:
    PROBES[KIND, "runs"] = partial(run, case=plain(KIND))
    PROBES[KIND, "in_place"] = partial(in_place, kind=KIND)
    if KIND in limits.WITH_COUNTS:
        PROBES[KIND, "counts"] = partial(run, case=uneven(KIND))


def makes(comm: Communicator, place: str, probe: Callable[[Communicator, str], None]) -> bool:
    try:
        probe(comm, place)
        if place != CPU:
            comm.synchronize()
    except lanecast.UsageError:
        return False
    return True


def untrue(comm: Communicator, place: str, reproducible: bool) -> Said:
    """What the table says otherwise than this place does. A reproducible communicator is asked what it makes alone."""
    wrong = []
    for row in limits.rows():
        for name in ("reproducible",) if reproducible else ("runs", "counts", "in_place"):
            probe = PROBES.get((row.call, "runs" if reproducible else name))
            if probe is None or (reproducible and row.call not in (*limits.REDUCING, "persistent", "composition")):
                continue
            if (place in getattr(row, name)) != makes(comm, place, probe):
                wrong.append(f"{place}: {row.call}: {name}")
    return wrong


def to_capture(comm: Communicator, place: str, call: str) -> Callable[[], None]:
    """The call, made once before where it runs: what a first call takes, no capture may take. The stand-in's captures
    have no results."""
    if call == "composition":
        x = tensor_of(comm, place, 6)
        return comm.compile(forms.all_reduce(2), x, x).run
    if call == "messages":
        return partial(exchange, comm, place)
    return partial(run, comm, place, plain(call), judged=False)


def untrue_in_graphs(comm: Communicator, place: str) -> Said:
    wrong = []
    for row in limits.rows():
        if place not in row.runs:
            continue
        call = to_capture(comm, place, row.call)
        call()
        comm.synchronize()
        gpu_host_library.capture(on=True)
        try:
            call()
            captured = True
        except lanecast.UsageError:
            captured = False
        gpu_host_library.capture(on=False)
        comm.synchronize()
        if captured != (place in row.graph):
            wrong.append(f"{place}: {row.call}: graph")
    return wrong


@pytest.mark.parametrize("reproducible", [False, True])
def test_on_cpus(reproducible: bool) -> None:
    said = lanecast.run_threads(
        2, lambda comm: untrue(comm, CPU, reproducible), reproducible=reproducible, timeout_s=60
    )
    assert said == [[], []]


def on_gpus(place: str, reproducible: bool, comm: Communicator, _: Tell) -> Said:
    wrong = untrue(comm, place, reproducible)
    return wrong if reproducible else wrong + untrue_in_graphs(comm, place)


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("place", [GPUS, HOSTS])
def test_on_gpus(place: str, reproducible: bool, kernel_cache: str) -> None:
    where = {"topology": "2"} if place == GPUS else between_hosts("2x1")
    for outcome in outcomes(2, partial(on_gpus, place, reproducible), kernel_cache, reproducible=reproducible, **where):
        assert outcome.text == ""
        assert outcome.value == []


def test_what_has_no_counts_has_no_argument_for_them() -> None:
    for kind in ("all_reduce", "broadcast", "reduce", "barrier"):
        assert "counts" not in inspect.signature(getattr(Communicator, kind)).parameters


def camel(call: str) -> str:
    return "".join(word.capitalize() for word in call.split("_"))


def test_what_is_made_from_c_is_declared() -> None:
    declared = "".join(file.read_text() for file in (ROOT / "include/lanecast").glob("*.h"))
    functions = {
        "messages": ("Batch", "EnqueueBatch"),
        "persistent": ("PersistentInit",),
        "composition": ("Compile", "CompileOnDevice"),
    }
    for row in limits.rows():
        named = functions.get(row.call, (camel(row.call), "Enqueue")[: len(row.c)])
        assert [name for name in named if f" lanecast{name}(" not in declared] == []
        assert len(row.c) >= len(named)


def torch_calls(row: Row) -> list[str]:
    names = {"all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_to_all": "alltoall_base"}
    if row.call == "messages":
        return ["send", "recv"]
    return [names.get(row.call, row.call.replace("_", ""))]


def test_what_torch_has_is_overridden() -> None:
    sources = ROOT / "python/lanecast/torch/csrc"
    adapter = "".join(file.read_text() for file in sources.rglob("*") if file.is_file())
    for row in limits.rows():
        if row.torch:
            assert [name for name in torch_calls(row) if not re.search(rf"\b{name}\(", adapter)] == []
