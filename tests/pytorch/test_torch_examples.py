# SPDX-License-Identifier: Apache-2.0
"""examples/train_gpt.py trains, alike on Lanecast and on gloo, and writes what it has found."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lanecast.bench import training
from torch_jobs import free_port

ROOT = Path(__file__).parent.parent.parent


def train(folder: Path, *options: str) -> dict[str, Any]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    job = subprocess.Popen(
        [*launcher, str(ROOT / "examples/train_gpt.py"), "--trials=1", "--out", str(folder), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if "--backend=gloo" in options:
        # Such a process may abort at its very end ("terminate called without an active exception"), or hang.
        training.wait_for(job, folder / "report.json")
    else:
        assert job.wait() == 0
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", pytest.param("zero3", marks=pytest.mark.long)])
def test_same_losses_as_on_gloo(strategy: str, tmp_path: Path) -> None:
    small = (f"--strategy={strategy}", f"--corpus={__file__}", "--micro-batch=1", "--batch-tokens=512")
    ours = train(tmp_path / "ours", *small, f"--profile={tmp_path / 'trace.json.gz'}")
    theirs = train(tmp_path / "theirs", *small, "--backend=gloo")
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-3)
    assert ours["messages"] == theirs["messages"]
    assert {path.name for path in (tmp_path / "ours").iterdir()} == {"report.json", "loss.png", "messages.png"}
    assert 0 <= ours["beside_s"] <= ours["communication_s"] < ours["profiled_step_s"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "start it by torchrun"),
        (("--trials=0",), "argument --trials: 0 is not at least 1"),
        (("--micro-batch=-1",), "argument --micro-batch: -1 is not at least 1"),
        (("--out", __file__), "argument --out: [Errno 17] File exists"),
        (("--profile", str(ROOT)), "argument --profile: "),
    ],
)
def test_refused_before_it_trains(options: tuple[str, ...], words: str) -> None:
    command = [sys.executable, str(ROOT / "examples/train_gpt.py"), *options]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert words in refused.stderr


def test_share_of_communication_beside_computation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two steps, by GPUs' kernels where a trace has some, and by calls where it has none."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    overlap = importlib.import_module("gpt.overlap")

    def found(*events: tuple[str, str, float, float]) -> tuple[float, float]:
        file = tmp_path / "trace.json"
        listed = [{"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur} for cat, name, ts, dur in events]
        file.write_text(json.dumps({"traceEvents": [*listed, {"ph": "M", "name": "lanecast_"}]}))
        shares = overlap.measured(file, steps=2)
        return round(shares["communication_s"] * 2e6), round(shares["beside_s"] * 2e6)

    operators = [("cpu_op", "aten::mm", 0.0, 50.0), ("user_annotation", "lanecast:all_reduce", 40.0, 100.0)]
    assert found(*operators) == (100, 10)
    assert found(
        *operators,
        ("kernel", "lanecast_reduce", 1000, 100), ("kernel", "ncclDevKernel_AllGather", 1050, 100),
        ("kernel", "gemm", 1100, 30), ("kernel", "gemm", 1120, 20), ("gpu_memcpy", "Memcpy DtoD", 1000, 500),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 2000, 8),
    ) == (158, 40)  # fmt: skip


def test_backends_side_by_side(tmp_path: Path) -> None:
    small = ("--trials=1", "--batch-tokens=512", "--micro-batch=1", "--strategies=ddp")
    command = [sys.executable, "-m", "lanecast", "bench", "train", *small, "--backends=lanecast:ring,gloo"]
    file = tmp_path / "rows.json"
    subprocess.run([*command, "--json", str(file)], check=True, timeout=240)
    ours, theirs = json.loads(file.read_text())["rows"]
    assert (ours["backend"], theirs["backend"], theirs["times_as_fast"]) == ("lanecast:ring", "gloo", 1.0)
    assert ours["loss_last"] < ours["loss_first"]


def test_bench_train_knows_what_the_program_takes() -> None:
    """It says so where there is no torch for the program to say it."""
    command = [sys.executable, str(ROOT / "examples/train_gpt.py"), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for names in (training.MODELS, training.STRATEGIES):
        assert f"{{{','.join(names)}}}" in shown
