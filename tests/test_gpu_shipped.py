# SPDX-License-Identifier: Apache-2.0
"""What was learned of calls on GPUs and comes with the library: borders in the core, of cards that were measured."""

from __future__ import annotations

import importlib.util
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lanecast
from gpu_stand_in import MULTICAST, outcomes, tensor
from lanecast import Communicator, _core
from lanecast.profiles.gpu_profile import EngineFit, GpuProfile, GpuShape
from lanecast.profiles.gpu_profile import save as save_profile
from lanecast.profiles.model import load, save
from pipe_jobs import Tell
from test_gpu_learn import constant_model
from test_gpu_tune import profile_for

ROOT = Path(__file__).parent.parent
H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
MIB = 1 << 20
SHIPPED = "learned from times of whole calls, as they come with Lanecast for such GPUs; the cost model "
MANY_BLOCKS = {"LANECAST_MAX_CTAS": "64"}  # few have not been measured
PLAIN = ("float32", False, False)  # type, captured, symmetric


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("learned_borders", ROOT / "tools" / "learned_borders.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def explained(collective: str, size: int, ranks: int, how: tuple[str, bool, bool] = PLAIN, **more: Any) -> Any:
    gpu, nccl = more.get("gpu", H200), more.get("nccl", True)
    dtype, captured, symmetric = how
    lines = _core.PeerLines(gpu, ranks)
    return _core.explain_on_peers(collective, size, ranks, symmetric, lines, dtype == "bfloat16", nccl, captured)


def test_the_core_has_the_borders_of_the_files_that_ship() -> None:
    assert (ROOT / "src/select/gpu_kinds/hopper_learned.h").read_text() == tool().header()


def test_the_files_say_where_they_were_measured_and_are_small() -> None:
    paths = sorted(tool().FOLDER.glob("*.json"))
    assert [path.stem for path in paths] == ["h200-x2", "h200-x4"]
    for path, ranks in zip(paths, (2, 4), strict=True):
        found = load(path)
        assert (found.scope.gpu, found.scope.origin) == (H200, "measured")
        assert "NCCL_NVLS_ENABLE=0" in found.about["times with"]
        assert {count for each in found.collectives for count in each.ranks} == {ranks}
        assert not any(each.times for each in found.collectives)
        assert path.stat().st_size < 110_000


def test_tuning_one_collective_leaves_what_was_learned_of_others() -> None:
    fits = [EngineFit("all_reduce", engine, False, 0, 1e-6, 1e-11, 0.01) for engine in ("peer_kernel", "peer_two_shot")]
    tuned = GpuProfile(GpuShape(lanecast.__version__, _core.cpu_model(), H200, 2), fits, {"when": "now"}).lines()
    for collective in _core.KINDS:
        of_tuned, shipped = (
            _core.explain_on_peers(collective, MIB, 2, False, lines) for lines in (tuned, _core.PeerLines(H200, 2))
        )
        assert SHIPPED in shipped["reason"]
        if collective == "all_reduce":
            assert "measured on this machine" in of_tuned["reason"]
        else:
            assert of_tuned == shipped


SIZES = (1024, 6144, 49_152, MIB, 3 * MIB, 16 * MIB, 100 * MIB, 256 * MIB, 1024 * MIB)


@pytest.mark.parametrize("ranks", [2, 4])
def test_calls_take_what_the_machines_of_the_files_say(ranks: int) -> None:
    """Beside copy engines, which explain_on_peers() allows; but for a 256th of a doubling beside a border."""
    found = load(tool().FOLDER / f"h200-x{ranks}.json").collectives
    beside_engines = [each for each in found if "copy_engine" in each.calls]
    assert {each.collective for each in beside_engines} == set(_core.KINDS)
    for each, size in product(beside_engines, SIZES):
        svm = each.learned().svm
        captured, symmetric = (word in each.calls for word in ("captured", "symmetric"))
        near = {each.algorithms[svm.vote(_core.features_of(int(size * d), ranks, ranks))] for d in (0.994, 1, 1.006)}
        dtype = "bfloat16" if "half" in each.calls else "float32"
        taken = explained(each.collective, size, ranks, (dtype, captured, symmetric))
        assert taken["algorithm"] in near, (each.collective, each.calls, size)
        assert taken["decided_by"] == "learned"


@pytest.mark.parametrize(
    ("collective", "mib", "captured", "taken"),
    [
        ("reduce", 1, False, "peer_kernel"),
        ("reduce", 4, False, "nccl"),
        ("reduce", 16, False, "nccl"),
        ("reduce", 64, False, "nccl"),
        ("reduce", 256, False, "nccl"),
        ("reduce", 16, True, "peer_two_shot"),  # behind the barrier of a graph NCCL takes longer
        ("reduce", 256, True, "nccl"),
        ("reduce", 1024, True, "nccl"),
        ("gather", 32, False, "peer_kernel"),
        ("gather", 256, False, "nccl"),
        ("all_reduce", 64, False, "peer_two_shot"),
        ("all_reduce", 1024, False, "nccl"),
        ("all_reduce", 1024, True, "nccl"),
        ("broadcast", 64, False, "peer_chain"),
        ("all_gather", 1024, False, "peer_kernel"),
    ],
)  # fmt: skip
def test_four_h200s_take_nccl_where_it_was_faster(collective: str, mib: int, captured: bool, taken: str) -> None:
    found = explained(collective, mib * MIB, 4, ("float32", captured, False))
    assert (found["algorithm"], found["decided_by"]) == (taken, "learned")
    assert found["reason"].startswith(SHIPPED)
    assert not any(each["measured"] for each in found["candidates"])  # times of other machines are none of here


@pytest.mark.parametrize(
    ("size", "ranks", "more"),
    [
        (900, 4, {}),
        (1_200_000_000, 4, {}),
        (256 * MIB, 3, {}),
        (256 * MIB, 8, {}),
        (256 * MIB, 4, {"gpu": H100}),
        (256 * MIB, 4, {"gpu": "NVIDIA B200"}),
        (256 * MIB, 4, {"gpu": ""}),
        (256 * MIB, 4, {"nccl": False}),  # the table of reduces has it
    ],
)
def test_what_was_not_measured_goes_by_the_cost_model(size: int, ranks: int, more: dict[str, Any]) -> None:
    assert explained("reduce", size, ranks, **more)["decided_by"] == "cost model"


def told(collective: str, count: int, comm: Communicator, _: Tell) -> tuple[float, str, str, str]:
    """What a short call gives, and what one of this kind and length would take."""
    x = tensor(comm, 1000)
    comm.all_reduce(x)
    comm.synchronize()
    found = comm.explain_on_gpu(collective, count)
    return float(x.array[0]), found.algorithm, found.decided_by, found.reason


def on_h200(size: int, what: tuple[str, int], kernel_cache: str, **options: Any) -> tuple[str, str, str]:
    """Algorithm, who decided and why, the same on all ranks."""
    variables = {"GPU_HOST_NAME": H200, **MANY_BLOCKS, **options.pop("variables", {})}
    ended = outcomes(size, partial(told, *what), kernel_cache, variables=variables, **options)
    assert [outcome.text for outcome in ended] == [""] * size
    (total, *found), *others = {outcome.value for outcome in ended}
    assert (total, others) == (size, [])
    algorithm, decided_by, reason = found
    return algorithm, decided_by, reason


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(
    ("size", "count", "taken", "by"),
    [
        (2, 1000, "peer_kernel", "learned"),
        (3, 1000, "peer_kernel", "cost model"),
        (4, 1000, "peer_kernel", "learned"),
        (4, MIB, "nccl", "learned"),
    ],
)
def test_jobs_use_it_without_any_file(size: int, count: int, taken: str, by: str, kernel_cache: str) -> None:
    algorithm, decided_by, reason = on_h200(size, ("reduce", count), kernel_cache)
    assert (algorithm, decided_by, reason.startswith(SHIPPED)) == (taken, by, by == "learned")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", [{"reproducible": True}, {"algorithm": "peers"}])
def test_what_is_promised_or_pinned_stays(options: dict[str, Any], kernel_cache: str) -> None:
    taken, *_ = on_h200(4, ("reduce", MIB), kernel_cache, **options)
    assert taken.startswith("peer_")


@pytest.mark.timeout(400)
def test_files_go_before_it(kernel_cache: str, tmp_path: Path) -> None:
    what = ("all_reduce", 1000)
    save_profile(profile_for("peer_two_shot", gpu=H200), tmp_path / "g.json")
    taken, decided_by, reason = on_h200(2, what, kernel_cache, profile=str(tmp_path / "g.json"))
    assert (taken, decided_by) == ("peer_two_shot", "cost model")
    assert "measured on this machine" in reason
    save(constant_model("peer_two_shot", "peer_kernel", gpu=H200), tmp_path / "m.json")
    few = {"LANECAST_MAX_CTAS": "3"}  # as in that model
    taken, decided_by, reason = on_h200(2, what, kernel_cache, profile=str(tmp_path / "m.json"), variables=few)
    assert (taken, decided_by, reason.startswith(SHIPPED)) == ("peer_two_shot", "learned", False)


@pytest.mark.timeout(400)
def test_where_nccl_may_take_multicast_trials_decide(kernel_cache: str) -> None:
    taken, decided_by, reason = on_h200(4, ("reduce", MIB), kernel_cache, variables=MULTICAST)
    assert taken.startswith("peer_"), "until a trial has found NCCL faster"
    assert (decided_by, reason.startswith(SHIPPED)) == ("cost model", False)
