# SPDX-License-Identifier: Apache-2.0
"""Ranks that run one function after another, as processes of a group; this file is also what those processes run."""

import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

TIMEOUT_S = 100.0
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}  # torch takes what it finds for such tensors, asked or not


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_environment(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun sets, one thread for each rank, and the Python stack of a rank that crashes."""
    group = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {
        **os.environ,
        **{name: str(value) for name, value in group.items()},
        "OMP_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",
    }


class Job:
    """`size` processes in a group with the backend lanecast. environment: of all ranks, beside their own. apart: as if
    so many ranks were on each host; 0: all are on this one."""

    def __init__(self, size: int, environment: dict[str, str] | None = None, *, apart: int = 0) -> None:
        def of_rank(rank: int) -> dict[str, str]:
            host = {"LANECAST_HOST": f"host{rank // apart}"} if apart else {}
            return {**rank_environment(rank, size, port), **(environment or {}), **host}

        port = free_port()
        self.broken = False
        self.ranks = [
            subprocess.Popen(
                [sys.executable, __file__], env=of_rank(rank), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for rank in range(size)
        ]  # fmt: skip

    def run(self, module: str, function: str, *arguments: Any) -> list[Any]:
        """Call module.function(*arguments) on each rank; what they return. Fails with the ranks' tracebacks."""
        answers = self.answers(module, function, *arguments)
        errors = [f"rank {number}: {each['error']}" for number, each in enumerate(answers) if each.get("error")]
        if errors:
            self.end()
            raise AssertionError("\n".join(errors))
        self.broken = False
        return [each["value"] for each in answers]

    def answers(self, module: str, function: str, *arguments: Any) -> list[dict[str, Any]]:
        """The same, with the value of each rank or its error."""
        request = json.dumps([module, function, arguments])
        answers = []
        self.broken = True
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(request + "\n")
            rank.stdin.flush()
        for number, rank in enumerate(self.ranks):
            assert rank.stdout is not None
            line = rank.stdout.readline()
            answers.append(json.loads(line) if line else {"error": f"rank {number} has ended: {rank.wait()}"})
        return answers

    def end(self) -> None:
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(20)
            except subprocess.TimeoutExpired:
                rank.kill()


def serve() -> None:
    """A rank: functions named on standard input, their results on standard output."""
    import torch.distributed as dist

    import lanecast.torch
    import pretend_cuda_module

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the functions print is no answer
    sys.path.insert(0, str(Path(__file__).parent))
    options = None
    if "LANECAST_ALLOW_SHARED_GPU" in os.environ:
        os.environ["NCCL_HOSTID"] = os.environ["RANK"]  # NCCL refuses a GPU that two ranks of one host share
    if pretend_cuda_module.KERNELS in os.environ:
        pretend_cuda_module.load()
        options = lanecast.torch.Options()
        options.kernel_cache = os.environ[pretend_cuda_module.KERNELS]
    dist.init_process_group("lanecast", timeout=timedelta(seconds=TIMEOUT_S), pg_options=options)
    for line in sys.stdin:
        module, function, arguments = json.loads(line)
        try:
            value = getattr(importlib.import_module(module), function)(*arguments)
            answer = {"value": value}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    serve()
