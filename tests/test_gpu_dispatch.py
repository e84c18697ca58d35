# SPDX-License-Identifier: Apache-2.0
"""NCCL beside Lanecast's own kernels: what was measured decides, and trials in a job where nothing was; without a GPU,
over a library that passes for NCCL.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import MULTICAST, Tensor, between_hosts, outcomes, tensor
from lanecast import Communicator, _core
from lanecast.profiles.gpu_profile import save
from pipe_jobs import Tell, stays_until
from test_gpu_tune import profile_for

H100 = "NVIDIA H100 80GB HBM3"
MIB = 1 << 20
TRIAL = 8  # calls of a size
pytestmark = pytest.mark.timeout(400)  # the first one builds the driver


@pytest.mark.parametrize(
    ("ranks", "collective", "mib", "taken"),
    [
        (4, "broadcast", 4, "peer_two_shot"),
        (4, "broadcast", 64, "peer_chain"),
        (4, "reduce", 1, "peer_kernel"),
        (4, "reduce", 4, "peer_two_shot"),
        (4, "reduce", 16, "nccl"),
        (4, "reduce", 64, "nccl"),
        (4, "all_reduce", 256, "peer_two_shot"),
        (4, "all_gather", 1024, "peer_kernel"),
        (2, "broadcast", 64, "peer_kernel"),
        (2, "broadcast", 256, "nccl"),
    ],
)
def test_where_nccl_was_ahead_it_is_taken(ranks: int, collective: str, mib: int, taken: str) -> None:
    found = _core.explain_on_peers(collective, mib * MIB, ranks, False, _core.PeerLines(H100))
    assert found["algorithm"] == taken
    (nccl,) = (each for each in found["candidates"] if each["algorithm"] == "nccl")
    assert nccl["basis"] == "beside our own, as timed on as many such GPUs without multicast"
    assert nccl["basis"] in found["text"]


def by_default(comm: Communicator, _: Tell) -> list[float]:
    x, largest = tensor(comm, 1000), np.full(100_000, 0x7C, np.uint8)  # 384 as float8_e4m3: two of them leave the range
    comm.all_reduce(x)
    comm.all_reduce(Tensor(largest, "float8_e4m3fn", comm.rank), op="avg")
    comm.synchronize()
    return [x.array.min(), x.array.max(), largest.min(), largest.max()]


@pytest.mark.parametrize(("size", "topology"), [(3, "1x3"), (2, "2x1"), (3, "3x1")])
def test_an_algorithm_for_the_hosts_memory_is_not_for_calls_on_gpus(
    size: int, topology: str, kernel_cache: str
) -> None:
    for ended in outcomes(size, by_default, kernel_cache, algorithm="mpi", **between_hosts(topology)):
        assert (ended.text, ended.value) == ("", [size, size, 0x7C, 0x7C])


def test_in_a_graph_and_for_16_bit_sums_it_has_figures_of_its_own() -> None:
    def taken(collective: str, mib: int, ranks: int = 4, **of: bool) -> str:
        return str(
            _core.explain_on_peers(collective, mib * MIB, ranks, False, _core.PeerLines(H100), **of)["algorithm"]
        )

    by_two = partial(taken, "broadcast", ranks=2)
    assert (by_two(256), by_two(256, captured=True)) == ("nccl", "peer_kernel")
    assert by_two(1024, captured=True) == "nccl"
    assert (taken("all_reduce", 1024), taken("all_reduce", 1024, half=True)) == ("peer_two_shot", "nccl")
    assert taken("all_reduce", 1024, ranks=2, half=True) != "nccl"


@pytest.mark.parametrize(("gpu", "ranks"), [(H100, 3), ("", 4), ("NVIDIA B200", 4)])
def test_where_nobody_has_timed_it_our_own_are_taken(gpu: str, ranks: int) -> None:
    found = _core.explain_on_peers("broadcast", 1 << 30, ranks, False, _core.PeerLines(gpu))
    assert found["algorithm"] == "peer_chain"
    said = f"not timed among {ranks} such GPUs; `lanecast tune --device cuda` does"
    assert found["left_out"]["nccl"] == said
    assert said in found["text"]


def test_every_engine_has_a_time_or_a_reason() -> None:
    for collective in _core.KINDS:
        found = _core.explain_on_peers(collective, MIB, 4, False, _core.PeerLines(H100), nccl=False)
        named = {each["algorithm"] for each in found["candidates"]} | set(found["left_out"])
        assert named | {"nccl"} == set(_core.PEER_ENGINES)


def results(comm: Communicator, calls: int, **options: Any) -> list[float]:
    found = []
    for _ in range(calls):
        x = tensor(comm, 1000)
        comm.all_reduce(x, **options)
        comm.synchronize()
        found.append(float(x.array.sum()) / 1000)
    return found


def tries(nccl_us: float, comm: Communicator, _: Tell) -> dict[str, Any]:
    gpu_host_library.costs(100, nccl_us)
    results(comm, 1, algorithm="peers")  # opens the GPU
    before = comm.explain_on_gpu("all_reduce", 1000)
    sums = results(comm, TRIAL + 1)
    opened = gpu_host_library.nccl_calls()
    sums += results(comm, 2)
    later = comm.explain_on_gpu("all_reduce", 1000)
    other = comm.explain_on_gpu("all_reduce", 100_000)
    return {
        "before": (before.algorithm, before.left_out.get("nccl", "")),
        "sums": set(sums),
        "more": gpu_host_library.nccl_calls() - opened,
        "later": later.algorithm,
        "seconds": {each.algorithm: each.seconds for each in later.candidates if each.basis},
        "other": other.algorithm,
    }


@pytest.mark.parametrize(("nccl_us", "faster"), [(40, "nccl"), (400, "peer_kernel")])
def test_with_multicast_the_first_calls_of_a_size_try_both(nccl_us: float, faster: str, kernel_cache: str) -> None:
    found = outcomes(3, partial(tries, nccl_us), kernel_cache, variables=MULTICAST)
    for outcome in found:
        assert outcome.text == ""
        said = "it may take multicast, so the first calls of this size try it"
        assert outcome.value["before"] == ("peer_kernel", said)
        assert outcome.value["sums"] == {3.0}
        assert outcome.value["more"] == (2 if faster == "nccl" else 0)
        assert outcome.value["later"] == faster
        assert outcome.value["seconds"] == pytest.approx({"peer_kernel": 1e-4, "nccl": nccl_us * 1e-6})
        assert outcome.value["other"] == "peer_kernel", "each size by itself"


def tries_nothing(options: dict[str, Any], comm: Communicator, _: Tell) -> int:
    results(comm, TRIAL + 1, **options)
    return gpu_host_library.nccl_calls()


@pytest.mark.parametrize(
    ("size", "variables", "options"),
    [
        (3, {}, {}),
        (2, MULTICAST, {}),
        (3, {**MULTICAST, "NCCL_NVLS_ENABLE": "0"}, {}),
        (3, MULTICAST, {"reproducible": True}),
        (3, MULTICAST, {"algorithm": "peers"}),
        (3, MULTICAST, {"algorithm": "peer_kernel"}),
    ],
)
def test_else_no_call_tries_it(
    size: int, variables: dict[str, str], options: dict[str, Any], kernel_cache: str
) -> None:
    for outcome in outcomes(size, partial(tries_nothing, options), kernel_cache, variables=variables):
        assert (outcome.text, outcome.value) == ("", 0)


def by_profile(comm: Communicator, _: Tell) -> dict[str, Any]:
    before = gpu_host_library.nccl_calls()
    sums = results(comm, 3)
    calls = gpu_host_library.nccl_calls() - before
    own = results(comm, 1, algorithm="peers")
    return {
        "sums": set(sums + own),
        "calls": calls,
        "taken": comm.explain_on_gpu("all_reduce", 1000).algorithm,
        "pinned": gpu_host_library.nccl_calls() - before - calls,
    }


@pytest.mark.parametrize("size", [2, 3])
def test_a_profile_that_says_so_has_nccl_taken(size: int, kernel_cache: str, tmp_path: Path) -> None:
    save(profile_for("nccl", ranks=size), tmp_path / "g.json")
    connecting = 24  # eight collectives of three lengths
    for outcome in outcomes(size, by_profile, kernel_cache, profile=str(tmp_path / "g.json")):
        assert outcome.text == ""
        assert outcome.value == {"sums": {float(size)}, "calls": connecting + 3, "taken": "nccl", "pinned": 0}


def one_has_none(comm: Communicator, _: Tell) -> tuple[str, str]:
    found = comm.explain_on_gpu("all_reduce", 1000)
    results(comm, 1)
    return found.algorithm, found.left_out["nccl"]


def without_on_rank_1(missing: Path, comm: Communicator, tell: Tell) -> tuple[str, str]:
    import os

    if comm.rank == 1:
        os.environ["LANECAST_NCCL_LIBRARY"] = str(missing)
    results(comm, 1)
    return one_has_none(comm, tell)


def test_where_one_rank_has_none_nobody_takes_it(kernel_cache: str, tmp_path: Path) -> None:
    save(profile_for("nccl"), tmp_path / "g.json")
    body = partial(without_on_rank_1, tmp_path / "none.so")
    for outcome in outcomes(2, body, kernel_cache, profile=str(tmp_path / "g.json")):
        assert outcome.text == ""
        algorithm, why = outcome.value
        assert algorithm == "peer_kernel"
        assert why.startswith("rank 1: ")
        assert "NCCL_LIBRARY names no usable library" in why


def captured(comm: Communicator, _: Tell) -> list[Any]:
    x = tensor(comm, 8)
    comm.all_reduce(x, algorithm="peers")  # opens the GPU
    gpu_host_library.capture(on=True)
    before = gpu_host_library.nccl_calls()
    comm.all_reduce(x)  # nothing has opened NCCL: our own
    unopened = gpu_host_library.nccl_calls() - before
    with pytest.raises(lanecast.UsageError, match="no CUDA graph can capture a communicator's first call by NCCL"):
        comm.all_reduce(x, algorithm="nccl")
    gpu_host_library.capture(on=False)
    comm.all_reduce(x)
    comm.synchronize()
    gpu_host_library.capture(on=True)
    before = gpu_host_library.nccl_calls()
    comm.all_reduce(x)
    comm.all_reduce(x, algorithm="nccl")
    opened = gpu_host_library.nccl_calls() - before
    gpu_host_library.capture(on=False)
    comm.synchronize()
    return [unopened, opened]


def test_a_graph_captures_it_once_it_is_open(kernel_cache: str, tmp_path: Path) -> None:
    profile = profile_for("nccl")  # by so much the faster one that the barrier in front of it does not count
    fits = [fit if fit.engine == "nccl" else replace(fit, alpha_s=1e-3) for fit in profile.fits]
    save(replace(profile, fits=fits), tmp_path / "g.json")
    for outcome in outcomes(2, captured, kernel_cache, profile=str(tmp_path / "g.json")):
        assert (outcome.text, outcome.value) == ("", [0, 2])


def replay_is_late(ended: Path, comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    comm.all_reduce(x, algorithm="nccl")
    comm.synchronize()
    if comm.rank == 1:
        stays_until(ended)
    gpu_host_library.capture(on=True)
    comm.all_reduce(x, algorithm="nccl")
    gpu_host_library.capture(on=False)
    try:
        comm.all_reduce(x, algorithm="peers")
        comm.synchronize()
    finally:
        ended.touch()


def test_who_does_not_come_to_a_captured_one_is_named(kernel_cache: str, tmp_path: Path) -> None:
    """By our kernel in front of it: the stand-in runs at once what a graph would replay."""
    waited, _ = outcomes(2, partial(replay_is_late, tmp_path / "ended"), kernel_cache, timeout_s=10)
    assert waited.error == "TimeoutError"
    assert (
        "rank 0 waited for rank 1 in all_reduce of 8 float32, sum, by nccl in 1 chunk on GPUs, in a barrier"
        in waited.text
    )
