# SPDX-License-Identifier: Apache-2.0
"""What `lanecast tune --device cuda` measures, and that communicators choose by it; no GPU is needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import Tensor, outcomes
from lanecast import Communicator, UsageError, _core
from lanecast.profiles import finding
from lanecast.profiles.gpu_profile import EngineFit, GpuProfile, GpuShape, file_name, is_one, load, save
from lanecast.tune import gpu_tuner
from pipe_jobs import Tell

HERE = Path(__file__).parent
GPU = "GPU on the host"  # as the driver of the tests says
COUNT = 3000

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def profile_for(fastest: str, gpu: str = GPU, ranks: int = 2) -> GpuProfile:
    """By which this engine takes all calls that it can."""
    fits = [
        EngineFit(collective, engine, False, 0, 1e-6 if engine == fastest else 1e-5, 1e-11, 0.01)
        for engine in _core.PEER_ENGINES
        for collective in gpu_tuner.COLLECTIVES_OF.get(engine, _core.KINDS)
    ]
    return GpuProfile(GpuShape(lanecast.__version__, _core.cpu_model(), gpu, ranks), fits, {"when": "now"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "g.json"
    save(profile_for("peer_two_shot"), path)
    return path


def explained(profile: GpuProfile | None, size: int, collective: str = "all_reduce", symmetric: bool = False) -> Any:
    lines = profile.lines() if profile else _core.PeerLines()
    return _core.explain_on_peers(collective, size, 2, symmetric, lines)


def test_what_is_saved_is_loaded(file: Path) -> None:
    assert load(file) == profile_for("peer_two_shot")
    assert is_one(file)


@pytest.mark.parametrize("fastest", _core.PEER_ENGINES)
def test_the_fastest_measured_engine_is_chosen(fastest: str) -> None:
    collective = gpu_tuner.COLLECTIVES_OF.get(fastest, ("all_reduce",))[-1]
    found = explained(profile_for(fastest), 1 << 20, collective, symmetric=True)
    assert (found["algorithm"], found["decided_by"]) == (fastest, "cost model")
    assert "measured on this machine" in found["reason"]
    assert all(each["measured"] for each in found["candidates"])


def test_where_there_is_no_nccl_it_is_left_out() -> None:
    lines = profile_for("nccl").lines()
    found = _core.explain_on_peers("all_reduce", 1 << 20, 2, False, lines, nccl=False)
    assert found["algorithm"] == "peer_kernel"
    assert "nccl" not in [each["algorithm"] for each in found["candidates"]]


def test_sums_of_16_bit_floats_have_lines_of_their_own() -> None:
    profile = profile_for("peer_kernel")
    of_half = [replace(fit, half=True, alpha_s=1e-7 if fit.engine == "nccl" else 1e-5) for fit in profile.fits]
    lines = replace(profile, fits=[*profile.fits, *of_half]).lines()
    taken = [_core.explain_on_peers("all_reduce", 64, 2, False, lines, half)["algorithm"] for half in (False, True)]
    assert taken == ["peer_kernel", "nccl"]


def test_without_a_profile_times_are_assumed() -> None:
    found = explained(None, 1 << 20)
    assert found["algorithm"] == "peer_kernel"
    assert "assumed, as on two H200s; `lanecast tune --device cuda`" in found["reason"]
    assert not any(each["measured"] for each in found["candidates"])


def test_an_engine_that_was_not_measured_is_not_compared_with_those_that_were() -> None:
    profile = profile_for("peer_direct")
    profile = replace(profile, fits=[fit for fit in profile.fits if fit.engine != "peer_direct"])
    names = [each["algorithm"] for each in explained(profile, 1 << 20, symmetric=True)["candidates"]]
    assert sorted(names) == ["copy_engine", "nccl", "peer_kernel", "peer_two_shot"]
    only = replace(profile, fits=[fit for fit in profile.fits if fit.collective == "all_gather"])
    assert not explained(only, 1 << 20)["candidates"][0]["measured"]


def rows_of(times: dict[str, Any]) -> list[dict[str, Any]]:
    """As the benchmark writes them; copy engines by their host, kernels from graphs."""
    return [
        {
            "collective": "all_reduce", "dtype": "float32", "algorithm": engine, "bytes": size, "mode": mode,
            "time_us_rounds": [slower * 1e6 * at(size) * (1 if (mode == "graph") == (engine != "copy_engine") else 9)
                               for slower in (1.3, 1.0, 1.1)],
        }
        for engine, at in times.items() for size in gpu_tuner.SIZES for mode in ("eager", "graph")
    ]  # fmt: skip


def test_fits_follow_the_fastest_rounds_and_their_bends() -> None:
    def bent(size: int) -> float:
        return 1e-5 + size / 100e9 if size <= 1 << 20 else 5e-6 + size / 300e9

    def straight(size: int) -> float:
        return 4e-5 + size / 400e9

    times = {"peer_kernel": bent, "copy_engine": straight}
    fits = gpu_tuner.fits_of(rows_of(times))
    assert [fit.engine for fit in fits] == ["peer_kernel", "peer_kernel", "copy_engine"]
    assert fits[0].alpha_s == pytest.approx(1e-5)
    assert fits[1].from_bytes == pytest.approx(1.41 * (1 << 20), rel=0.01)
    assert 1e-9 / fits[1].beta_s_per_byte == pytest.approx(300)
    assert all(fit.error < 1e-6 for fit in fits)
    profile = GpuProfile(profile_for("").shape, fits)
    for size in (3 << k for k in range(11, 27)):
        best = "copy_engine" if straight(size) < 0.95 * bent(size) else "peer_kernel"  # a few percent say nothing
        found = explained(profile, size)
        assert found["algorithm"] == best, size
        assert found["candidates"][0]["seconds"] == pytest.approx(times[best](size), rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"lanecast_gpu_profile": 2', '"lanecast_gpu_profile": 3', "is stale: .*3, this Lanecast reads 2.*device cuda"),
        ('"gpu": "GPU on the host"', '"gpu": ""', "shape.gpu: names none"),
        ('"ranks": 2', '"ranks": 1', "shape.ranks: 1, expected 2 or more"),
        ('"ranks": 2', '"ranks": 3', r"was measured elsewhere \(ranks: 3, not 2\)"),
        ('"cpu": "', '"cpu": "Old ', r"was measured elsewhere \(cpu: Old .*tune --device cuda"),
        ('"alpha_s": 1e-05', '"alpha_s": -1', r"fits\[0\].alpha_s: -1 is no number of at least 0"),
        ('"engine": "peer_kernel"', '"engine": "warp"', r'fits\[0\].engine: "warp"; known: peer_kernel'),
        ('"engine": "peer_kernel"', '"engine": "peer_two_shot"', "peer_two_shot\" has no such collective"),
        ('"engine": "peer_kernel"', '"engine": "copy_engine"', "fits: all_gather has none of peer_kernel"),
        ('"from_bytes": 0', '"from_bytes": -1', r"fits\[0\].from_bytes: -1 is negative"),
        ('"collective": "all_gather"', '"collective": "gathering"', r'fits\[0\].collective: "gathering"; known'),
        ('"fits"', '"lines"', "lines: unknown; known: .*fits"),
        ('"when": "now"', '"when": 3', "measured.when: 3 is no text"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_with_file_and_field(old: str, new: str, named: str, file: Path) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=f"GPU profile .*g.json: .*{named}"):
        lanecast.run_threads(2, lambda comm: comm.size, profile=str(file))


def test_it_stands_beside_a_profile_and_twice_for_one_kind_is_refused(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    save(profile_for("peer_kernel", gpu="another"), other)
    assert lanecast.run_threads(2, lambda comm: comm.size, profile=f"{file},{other}") == [2, 2]
    save(profile_for("peer_kernel"), other)
    with pytest.raises(UsageError, match=f"other.json: is the second for {GPU} that is named"):
        lanecast.run_threads(2, lambda comm: comm.size, profile=f"{file},{other}")


def summed(comm: Communicator, algorithm: str) -> int:
    array = np.full(COUNT, comm.rank + 1, np.float32)
    comm.all_reduce(Tensor(array, "float32", comm.rank), algorithm=algorithm)
    comm.synchronize()
    return int(array[0])


def by_the_file_of_rank_0(path: str, opened_before: bool, comm: Communicator, tell: Tell) -> tuple[str, str, int]:
    """Rank 0 leaves the choice to its communicator, the other names what its own would choose: else they differ."""
    if opened_before:
        summed(comm, "peer_kernel")
    finding.adopt(comm._core, path if comm.rank == 0 else finding.NONE)
    summed(comm, "peer_kernel")
    before = comm.explain_on_gpu("all_reduce", COUNT).algorithm
    assert before != "copy_engine"  # which needs memory that no call has taken
    summed(comm, "copy_engine")
    why = comm.explain_on_gpu("all_reduce", COUNT)
    return why.algorithm, why.reason, summed(comm, "" if comm.rank == 0 else why.algorithm)


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(
    ("fastest", "opened_before"), [("peer_two_shot", True), ("copy_engine", False), ("peer_kernel", False)]
)
def test_all_ranks_choose_by_the_file_of_rank_0(
    fastest: str, opened_before: bool, kernel_cache: str, tmp_path: Path
) -> None:
    path = tmp_path / "g.json"
    save(profile_for(fastest), path)
    for outcome in outcomes(2, partial(by_the_file_of_rank_0, str(path), opened_before), kernel_cache):
        assert outcome.text == ""
        algorithm, reason, total = outcome.value
        assert (algorithm, total) == (fastest, 3)
        assert "measured on this machine" in reason


def in_a_capture(comm: Communicator, tell: Tell) -> int:
    summed(comm, "peer_kernel")
    gpu_host_library.capture(on=True)
    array = np.full(COUNT, comm.rank + 1, np.float32)
    comm.all_reduce(Tensor(array, "float32", comm.rank))
    gpu_host_library.capture(on=False)
    summed(comm, "peer_kernel")  # behind it on the same stream; what is captured nobody waits for
    return int(array[0])


@pytest.mark.timeout(400)
def test_copy_engines_that_no_call_has_named_are_not_chosen(kernel_cache: str, file: Path) -> None:
    save(profile_for("copy_engine"), file)
    ended = outcomes(2, in_a_capture, kernel_cache, profile=str(file))
    assert [outcome.text or outcome.value for outcome in ended] == [3, 3]


def opened(comm: Communicator, tell: Tell) -> str:
    summed(comm, "peer_kernel")
    return comm.explain_on_gpu("all_reduce", COUNT).reason


@pytest.mark.timeout(400)
def test_a_file_of_another_gpu(kernel_cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lanecast" / "profiles"
    profile = profile_for("copy_engine", gpu="another")
    path = folder / file_name(profile.shape)
    save(profile, path)
    for outcome in outcomes(2, opened, kernel_cache, profile=str(path)):
        assert outcome.error == "UsageError"
        assert f"GPU profile {path}: was measured elsewhere (gpu: another, not {GPU})" in outcome.text
    in_cache = {"variables": {"XDG_CACHE_HOME": str(tmp_path), "LANECAST_PROFILE": ""}}
    for outcome in outcomes(2, opened, kernel_cache, **in_cache):
        assert "assumed" in outcome.value
    right = profile_for("copy_engine")
    save(right, folder / file_name(right.shape))
    for outcome in outcomes(2, opened, kernel_cache, **in_cache):
        assert "measured on this machine" in outcome.value


def kept_by_children(comm: Communicator, tell: Tell) -> list[str]:
    summed(comm, "peer_kernel")
    found = []
    for color in (0, comm.rank):
        child = comm.split(color, comm.rank)
        if child is not None and child.size == comm.size:
            summed(child, "peer_kernel")
            found.append(child.explain_on_gpu("all_reduce", COUNT).reason)
    return found


@pytest.mark.timeout(400)
def test_children_of_as_many_ranks_keep_it(kernel_cache: str, file: Path) -> None:
    for outcome in outcomes(2, kept_by_children, kernel_cache, profile=str(file)):
        assert outcome.text == ""
        assert all("measured on this machine" in reason for reason in outcome.value)
        assert len(outcome.value) == 1


def test_explaining_calls_on_gpus_needs_them() -> None:
    def body(comm: Communicator) -> str:
        with pytest.raises(UsageError) as refused:
            comm.explain_on_gpu("all_reduce", 10)
        return str(refused.value)

    assert "make the communicator with device=N" in lanecast.run_threads(2, body)[0]


@needs_torch
@pytest.mark.timeout(300)
def test_all_of_it_on_a_stand_in(tmp_path: Path) -> None:
    from lanecast.bench.gpu_processes import run_ranks

    path = tmp_path / "g.json"
    sizes = "4096,16384,65536"
    assert run_ranks([sys.executable, str(HERE / "gpu_tune_rank.py"), str(path), sizes], 2) == 0
    profile = load(path)
    assert (profile.shape.gpu, profile.shape.ranks) == (GPU, 2)
    measured = {(fit.collective, fit.engine) for fit in profile.fits}
    assert measured == {
        (collective, engine)
        for engine in _core.PEER_ENGINES
        for collective in gpu_tuner.COLLECTIVES_OF.get(engine, _core.KINDS)
    }
    assert set(profile.measured) > {"when", "torch", "driver"}


def test_the_command_line(file: Path) -> None:
    command = [sys.executable, "-m", "lanecast", "tune"]
    shown = subprocess.run([*command, "--show", str(file)], capture_output=True, text=True, check=True).stdout
    assert f"2 x {GPU}" in shown
    assert "peer_two_shot" in shown
    command += ["--device", "cuda", "--topology", "2"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "topology: is of CPUs" in refused.stderr
