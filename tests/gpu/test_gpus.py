# SPDX-License-Identifier: Apache-2.0
"""The library on this machine's GPUs: `make test-gpu`. Each test is one launch of many checks that have names.

On a machine with one GPU two ranks share it: what it shows is whether results are right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lanecast.bench.gpu_processes import run_ranks
from lanecast.profiles import gpu_profile

HERE = Path(__file__).parent
KILLED = 128 + 9


def gpus() -> int:
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count())


GPUS = gpus()
needs_gpu = pytest.mark.skipif(GPUS == 0, reason="no GPU here, or no torch that finds one")
RANKS = max(2, GPUS)
SIZES = sorted({1, 2, RANKS} | {3} & set(range(GPUS + 1)))

pytestmark = [needs_gpu, pytest.mark.timeout(170)]


def launched(folder: Path, ranks: int, sections: list[str], **environment: str) -> tuple[int, list[str]]:
    """Exit status, and what is wrong on any rank."""
    program = [sys.executable, str(HERE / "gpu_rank.py"), str(folder), *sections, *["shared"] * (ranks > GPUS)]
    status = run_ranks(program, ranks, environment, grace_s=60.0)
    wrong: list[str] = []
    for file in sorted(folder.glob("*.json")):
        found = json.loads(file.read_text())
        slowest = sorted(found["done"].items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest)
        print(f"rank {file.stem}: {len(found['done'])} checks; slowest: {shown}")
        for name, times in found["left_out"].items():
            print(f"rank {file.stem}: {times} times left out: {name}")
        wrong += [f"{name}: {line}" for name, lines in found["wrong"].items() for line in lines]
    return status, wrong


def expect_all_right(folder: Path, ranks: int, sections: list[str], **environment: str) -> None:
    status, wrong = launched(folder, ranks, sections, **environment)
    assert wrong == []
    assert status == 0
    assert len(list(folder.glob("*.json"))) == ranks


def expect_all_right_on_emulated_hosts(folder: Path, section: str) -> None:
    """NCCL takes two ranks on one GPU where they are on two hosts."""
    command = [sys.executable, "-m", "lanecast", "cluster", "run", "--hosts", "2", "--rate", "10gbit", "--"]
    program = [*command, sys.executable, str(HERE / "gpu_rank.py"), str(folder), section, "shared"]
    done = subprocess.run(program, env={**os.environ, "NCCL_SOCKET_IFNAME": "eth"}, check=False)
    wrong = [
        line
        for file in folder.glob("*.json")
        for lines in json.loads(file.read_text())["wrong"].values()
        for line in lines
    ]
    assert (done.returncode, wrong, len(list(folder.glob("*.json")))) == (0, [], 2)


@pytest.mark.parametrize("ranks", SIZES)
def test_collectives(ranks: int, tmp_path: Path) -> None:
    expect_all_right(tmp_path, ranks, ["grid", "large", "codes"])


@pytest.mark.parametrize("ctas", ["64", "24"])
def test_long_sums(ctas: str, tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["sums", "codes"], LANECAST_MAX_CTAS=ctas)


def test_streams_and_graphs(tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["streams", "graphs", "symmetric", "windows"])


def test_streams_and_graphs_with_one_queue(tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["streams", "graphs"], CUDA_DEVICE_MAX_CONNECTIONS="1")


def test_registered_memory_with_one_queue(tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["windows"], CUDA_DEVICE_MAX_CONNECTIONS="1")


def test_expandable_segments(tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["streams", "windows"], PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


@pytest.mark.parametrize("queues", ["1", "8"])
def test_messages(queues: str, tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["messages"], CUDA_DEVICE_MAX_CONNECTIONS=queues)


@pytest.mark.parametrize("sections", ["grid", "streams graphs", "messages", "compositions"])
def test_between_hosts(sections: str, tmp_path: Path) -> None:
    """Two hosts of half of the GPUs each, with an emulated NIC for each GPU.

    Sums of 16-bit codes are left out: what two hosts add is rounded in between, so their bits are others.
    """
    half = RANKS // 2
    expect_all_right(tmp_path, 2 * half, sections.split(), LANECAST_GPU_NICS=f"50GBps,12us,{half}")


@pytest.mark.parametrize("queues", ["1", "8"])
def test_compositions(queues: str, tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["compositions"], CUDA_DEVICE_MAX_CONNECTIONS=queues)


def test_nccl(tmp_path: Path) -> None:
    if GPUS >= RANKS:
        expect_all_right(tmp_path, RANKS, ["nccl"])
    else:
        expect_all_right_on_emulated_hosts(tmp_path, "nccl")


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_tuning(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    command = [sys.executable, "-m", "lanecast", "tune", "--device", "cuda", "--collectives", "all_reduce"]
    subprocess.run([*command, "--output", str(file)], check=True, timeout=120)
    measured = gpu_profile.load(file)
    assert {"peer_kernel", "peer_two_shot", "copy_engine", "peer_direct"} <= {fit.engine for fit in measured.fits}
    files = []
    for engine in ("peer_kernel", "peer_two_shot", "copy_engine", "peer_direct"):
        longer = {engine: 0.0, "peer_kernel": 0.5 * (engine != "peer_kernel")}  # which plain tensors fall back to
        fits = [replace(fit, alpha_s=fit.alpha_s + longer.get(fit.engine, 1.0)) for fit in measured.fits]
        gpu_profile.save(replace(measured, fits=fits), tmp_path / f"{engine}.json")
        files.append(f"{tmp_path / engine}.json={engine}")
    assert run_ranks([sys.executable, str(HERE / "tuned.py"), *files], GPUS) == 0


def test_faults(tmp_path: Path) -> None:
    expect_all_right(tmp_path, RANKS, ["faults"])


def test_a_killed_peer(tmp_path: Path) -> None:
    status, wrong = launched(tmp_path, RANKS, ["killed"])
    assert wrong == []
    assert status == KILLED
    assert len(list(tmp_path.glob("*.json"))) == RANKS - 1
