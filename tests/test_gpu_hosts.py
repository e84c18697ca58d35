# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_hosts.py without a GPU: what it runs, how it shares out its time, and what it makes of rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import lanecast
from lanecast.bench.on_hosts import Hosts, rank_environment
from lanecast.job import detect
from test_cluster import gone

sys.path.append(str(Path(__file__).parent.parent / "bench"))

import gpu_aims
import gpu_hosts
import gpu_report
from gpu_steps import PARTS, Asked
from timed_steps import Outcome, Step, run, shares

MIB = 1 << 20
RUN = {
    "baseline": "nccl", "hosts": 1, "gpus": "4 x GPU", "driver": "1", "cpu": "CPU", "cores": 8, "kernel": "6",
    "load": 0, "ranks_per_host": 4, "shared_gpus": False, "torch": "2", "cuda": "13", "nccl": "2.28", "nics": [],
    "lanecast": "0.1",
    "commit": "abc", "python": "3", "numpy": "2", "command": "bench", "environment": {},
}  # fmt: skip


def row(part: str, backend: str, collective: str, size: int, **more: Any) -> dict[str, Any]:
    times = more.pop("times", [1.0])
    memory = "symmetric" if "symm" in backend else "plain"
    return {
        "part": part, "backend": backend, "collective": collective, "bytes": size, "dtype": "float32", "mode": "eager",
        "memory": memory, "topology": "4", "time_us": sorted(times)[len(times) // 2], "time_us_rounds": times,
        "busbw_GBps": 100.0, "bound_us": None, "wrong": 0, "run": RUN, **more,
    }  # fmt: skip


def beside(part: str, collective: str, size: int, ours: float, theirs: float, **more: Any) -> list[dict[str, Any]]:
    return [
        row(part, "lanecast", collective, size, times=[ours - 1, ours, ours + 2], **more),
        row(part, "nccl", collective, size, times=[theirs] * 3, **more),
    ]


def network_rows(ours: float) -> list[dict[str, Any]]:
    evenly = {"received": 8.0, "sent": 8.0}
    more = {"topology": "2x2", "bound_us": 90.0, "goodput_GBps": 2.4, "nic_bytes": {"eth0": evenly, "eth1": evenly}}
    composed = row("cluster", "lanecast+composed", "all_gather", 16 * MIB, times=[200.0], **more)
    return [*beside("cluster", "all_gather", 16 * MIB, ours, 180, **more), composed]


TRAINED = {
    "part": "training",
    "model": "gpt-2m",
    "strategy": "ddp",
    "step_s": 0.1,
    "step_spread_s": 0.01,
    "loss_first": 5.0,
    "loss_last": 4.0,
}
ROWS = [
    *beside("host", "all_gather", MIB, 10, 20),
    *beside("host", "all_gather", 4 * MIB, 10, 9),
    *beside("host", "all_gather", 1 << 10, 10, 1),  # below the range of sizes that count
    row("in place", "lanecast+symm", "all_gather", 1 << 30, busbw_GBps=386.0),
    row("in place", "lanecast+symm", "all_reduce", 64 << 10, times=[21.0]),
    *network_rows(ours=100),
    TRAINED | {"backend": "lanecast", "tokens_per_s": 90.0, "times_as_fast": 0.9, "loss_apart": 1e-4},
    TRAINED | {"backend": "nccl", "tokens_per_s": 100.0, "times_as_fast": 1.0, "loss_apart": 0.0},
]  # fmt: skip


def test_aims_are_judged() -> None:
    judged = {aim.what: (round(aim.measured, 3), round(aim.missed_by, 3)) for aim in gpu_aims.judged(ROWS)}
    assert judged == {
        "all_gather, float32, eager, plain: x NCCL": (1.342, 0.008),
        "all_gather, float32: least x NCCL (4 MiB, eager, plain)": (0.9, 0.07),
        "all_gather of 1 GiB in place, eager, symmetric: GB/s": (386, 0),
        "all_reduce of 64 KiB, eager, symmetric: µs": (21, 2),
        "all_gather on 2x2, float32: least of the bound (16 MiB)": (0.9, 0),
        "2x2, float32: most by which bytes are uneven over NICs": (0, 0),
        "ddp of gpt-2m: x NCCL's tokens per second": (0.9, 0.1),
        "ddp of gpt-2m: losses apart": (0, 0),
    }


def test_one_nic_in_each_direction_is_uneven() -> None:
    ring = {"eth0": {"received": 16.0, "sent": 0.0}, "eth1": {"received": 0.0, "sent": 16.0}}
    assert gpu_aims.unevenness({"nic_bytes": ring}) == 1


def test_the_page_has_what_was_measured_and_what_went_wrong() -> None:
    done = Outcome(Step("all", ("x",), 1), 12.3, ROWS)
    failed = Outcome(Step("late", ("x",), 1), 60.0, [], "took longer than its 60 s", "its\nits | last words")
    page = gpu_report.markdown([done, failed], "python gpu_hosts.py")
    for line in (
        "`python gpu_hosts.py`",
        "lanecast  0.1 (abc), Python 3, numpy 2",
        "| late | 60 | 0 | took longer than its 60 s: its / last words |",
        "| all_gather, float32: least x NCCL (4 MiB, eager, plain) | 0.900 | ≥ 0.97 | missed by 0.0700 |",
        "| all_gather, plain, eager | **1.34**, at least 0.90 (4 MiB) | 1.35, at least 0.97 |",
        "| all_gather | 1 MiB | 20.0 ± 0 | 10.0 ± 1.50 | 100 | 2.00 |",
        "| all_gather | 16 MiB | 0.0900 | Lanecast | 0.100 ± 0.0015 | 0.90 | 1.80 | 50+50 | 50+50 | 50+50 |",
        "| all_gather | 16 MiB | 0.0900 | Lanecast+composed | 0.200 ± 0 | 0.45 | 0.90 | 50+50 | 50+50 | 50+50 |",
        "| all_gather | 16 MiB | 0.0900 | NCCL | 0.180 ± 0 | 0.50 | 1.00 | 50+50 | 50+50 | 50+50 |",
        "| gpt-2m | ddp | Lanecast | 90 | 0.90 | 100.0 ± 10.0 | 5.000 to 4.000 | 1.0e-04 |",
    ):
        assert line in page.splitlines(), page


def test_a_page_of_compositions_memory_and_fast_nics() -> None:
    rows = [
        *beside("composed", "all_gather", MIB, 10, 20),
        row("composed", "lanecast+composed", "all_gather", MIB, times=[16.0]),
        {"part": "memory", "backend": "lanecast", "process": 2048.0, "shared": 0, "pinned": 1024.0, "device": 0},
        *(row("fast", name, "all_reduce", MIB, step="2 hosts of 4, NICs", run={**RUN, "baseline": "lanecast"})
          for name in ("lanecast", "lanecast+composed")),
    ]  # fmt: skip
    page = gpu_report.markdown([Outcome(Step("all", ("x",), 1), 1.0, rows)], "x").splitlines()
    assert "| all_gather | 1 MiB | 20.0 ± 0 | 10.0 ± 1.50 | 100 | 2.00 | 16.0 ± 0 | 100 | 1.25 |" in page
    assert "| lanecast | 2.00 | 0 | 1.00 | 0 |" in page
    assert "## 2 hosts of 4, NICs" in page


def test_a_page_of_nothing() -> None:
    assert "0 of 0 rows" in gpu_report.markdown([Outcome(Step("check", ("x",), 1), 1.0, [])], "x")
    assert list(gpu_report.draw([], Path("a.png"), Path("b.png"))) == []


def names(gpus: int, *parts: str) -> list[str]:
    return [step.name for step in gpu_hosts.steps(Asked(gpus), parts)]


def test_what_is_run_on_so_many_gpus() -> None:
    two, four = "2 hosts of 2, float32", "2 hosts of 4, float32"
    assert names(4, "cluster") == [two, "4 hosts of 1, float32", "2 hosts of 2, bfloat16", f"{two}, as 2x1x2"]
    assert names(2, "cluster")[1::2] == [f"2 hosts of 2 that share GPUs, float32{how}" for how in ("", ", as 2x1x2")]
    assert names(8, "cluster") == [four, "2 hosts of 4, bfloat16", f"{four}, as 2x2x2"]
    assert names(1, "training", "cluster")[0] == "2 hosts of 1 that share GPUs, float32"
    assert names(2, *reversed(PARTS))[0] == "tests on the GPUs", "in the order of the parts"
    assert names(8, "fast") == ["2 hosts of 4, NICs of 50GBps,12us", "4 hosts of 2, NICs of 50GBps,12us"]
    assert (len(names(4, "fast")), len(names(2, "fast")), names(1, "fast", "memory")) == (2, 1, [])
    with pytest.raises(lanecast.UsageError, match="known: check, host, composed, memory, fast, cluster, training"):
        names(2, "all")


def test_the_tests_that_are_run_are_there() -> None:
    (step,) = gpu_hosts.steps(Asked(2), ["check"])
    text = (Path(__file__).parent / "gpu" / "test_gpus.py").read_text()
    tests = [part.partition("::")[2].partition("[")[0] for part in step.command if "::" in part]
    assert tests
    assert all(f"def {name}(" in text for name in tests)


@pytest.mark.parametrize(
    ("where", "visible", "shared"),
    [(Hosts(2, 2, 4), "0,1 2,3", False), (Hosts(4, 1, 4), "0 1 2 3", False), (Hosts(2, 2, 2), "0,1 0,1", True),
     (Hosts(3, 2, 4), "0,1 2,3 0,1", True), (Hosts(2, 1, 0), "", False)],
)  # fmt: skip
def test_gpus_of_each_host(where: Hosts, visible: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (" ".join(where.visible()), where.share_gpus) == (visible, shared)


def test_gpus_are_those_that_the_caller_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert Hosts(2, 1, 2).visible() == ["5", "7"]


def test_more_ranks_than_a_host_can_have_gpus() -> None:
    with pytest.raises(lanecast.UsageError, match="3 ranks per host, and this machine has 2 GPUs"):
        Hosts(2, 3, 2).visible()


def test_a_rank_is_told_what_torch_wants_to_know() -> None:
    hydra = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    found = detect(hydra)
    assert found is not None
    said = rank_environment(found, ["0,1", "2,3"])
    assert (said["RANK"], said["LOCAL_RANK"], said["WORLD_SIZE"], said["MASTER_ADDR"]) == ("3", "1", "4", "node0")
    assert said["CUDA_VISIBLE_DEVICES"] == "2,3"
    slurm = detect({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
    assert slurm is not None
    with pytest.raises(lanecast.UsageError, match="srun does not say where on its host a rank is"):
        rank_environment(slurm, [])


def program(text: str, weight: float = 1) -> Step:
    return Step("program", (sys.executable, "-c", f"import json, os, sys, time\n{text}"), weight, {"part": "x"})


def test_a_program_that_hangs_keeps_its_rows_and_leaves_nobody(tmp_path: Path) -> None:
    text = """
json.dump([{"a": 1}], open(sys.argv[-1], "w"))
print("so far", flush=True)
child = os.fork() or time.sleep(100)
print(child, flush=True)
time.sleep(100)
"""
    outcome = run(program(text), 30, tmp_path)
    assert outcome.rows == [{"a": 1, "part": "x"}]
    assert outcome.problem == "took longer than its 30 s"
    said, child = outcome.output.split("\n")[:2]
    assert said == "so far"
    assert gone(int(child))


@pytest.mark.parametrize(("left", "rows"), [("[{", 0), ("", 0), ('{"rows": [{"b": 2}]}', 1)])
def test_a_program_that_fails(left: str, rows: int, tmp_path: Path) -> None:
    outcome = run(program(f"open(sys.argv[-1], 'w').write('{left}')\nsys.exit('no GPU')"), 60, tmp_path)
    assert (outcome.problem, outcome.output, len(outcome.rows)) == ("ended with status 1", "no GPU", rows)
    assert json.dumps(outcome.facts())


def test_tests_that_were_all_skipped_are_not_just_done(tmp_path: Path) -> None:
    step = Step("tests", (sys.executable, "-c", "print('...'); print('3 skipped')"), 1, leaves_rows=False)
    assert run(step, 60, tmp_path).summary == "3 skipped"


def test_a_failure_is_named_by_its_error() -> None:
    outcome = Outcome(Step("x", ("x",), 1), 1.0, [], "ended with status 1", "a\nValueError: no\nNIC bytes")
    assert outcome.summary == "ended with status 1: ValueError: no"


def test_time_that_is_left_goes_to_those_behind() -> None:
    steps = [program("", 1), program("", 2), program("", 1)]
    given = [share_s for _, share_s in shares(steps, 40_000)]
    assert given == pytest.approx([10_000, 80_000 / 3, 40_000], abs=500)  # some is gone between them
