# SPDX-License-Identifier: Apache-2.0
"""What gpu_hosts.py runs on a machine of so many GPUs, part by part; each step is a program with a time of its own.

The weights are about what steps take in seconds, a dozen of which go to the start of torch and NCCL.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lanecast import _core
from lanecast.bench.on_hosts import Hosts
from timed_steps import Step

ROOT = Path(__file__).parent.parent
LANECAST = (sys.executable, "-m", "lanecast")
REDUCED = "all_gather,reduce_scatter,all_reduce"
ALL = ",".join(_core.KINDS)
# With small models Python is what a step waits for; with this one, in few tokens a step, it is the network.
LARGER, LARGER_TOKENS = "gpt-124m", ("--batch-tokens=16384",)
_OF_SEVERAL = ("test_streams_and_graphs", "test_messages[8]", "test_compositions[8]")
# NVLink's multicast needs a right that machines lent out may not give, and NCCL then fails.
NCCL = {"NCCL_NVLS_ENABLE": "0"}
SOCKETS = {**NCCL, "NCCL_SOCKET_IFNAME": "eth", "NCCL_IB_DISABLE": "1"}  # so that its bytes go through the hosts' NICs


@dataclass(frozen=True)
class Asked:
    """How much of it; sizes as `lanecast bench` takes them."""

    gpus: int
    sizes: str = "1K,4K,16K,64K,256K,1M,4M,16M,64M,256M,1G"
    cluster_sizes: str = "16M,64M,256M"
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    rounds: int = 5
    nics: int = 2
    rate: str = "10gbit"
    gpu_nics: str = "50GBps,12us"  # of each GPU, as lanecast cluster takes them
    model: str = "gpt-25m"
    trials: int = 1  # of ten steps each, of which the last eight count

    @property
    def two_hosts(self) -> Hosts:
        return self.hosts(2, max(1, self.gpus // 2))

    def hosts(self, hosts: int, ranks_per_host: int) -> Hosts:
        return Hosts(hosts, ranks_per_host, self.gpus, self.nics, self.rate)

    def bench(self, backends: str, **options: str) -> tuple[str, ...]:
        """`lanecast bench` on GPUs."""
        given = {"rounds": str(self.rounds), "backends": backends, **options}
        return (
            *LANECAST,
            "bench",
            "--device",
            "cuda",
            *(text for name in given for text in (f"--{name}", given[name])),
        )


def check(asked: Asked) -> Iterator[Step]:
    """Those of the GPUs' tests that see most: collectives, compositions, streams, graphs and messages among all."""
    tests = [f"test_collectives[{asked.gpus}]", *(_OF_SEVERAL * (asked.gpus > 1))]
    # Without the project's settings, which want plugins that a machine of GPUs may lack.
    pytest = (sys.executable, "-m", "pytest", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider", "-q")
    names = (f"{ROOT}/tests/gpu/test_gpus.py::{name}" for name in tests)
    yield Step("tests on the GPUs", (*pytest, *names), 80, {"part": "check"}, NCCL, leaves_rows=False)


def host(asked: Asked) -> Iterator[Step]:
    """All GPUs of one host."""
    backends, ranks = "lanecast,lanecast+symm,nccl", str(asked.gpus)
    for dtype in asked.dtypes:
        command = asked.bench(backends, sizes=asked.sizes, collectives=ALL, dtype=dtype, ranks=ranks)
        yield Step(f"one host, {dtype}", (*command, "--graph"), 130, {"part": "host"}, NCCL)
    largest = asked.sizes.rpartition(",")[2]
    command = asked.bench(backends, sizes=largest, collectives="all_gather", ranks=ranks)
    yield Step("one host, in place", (*command, "--graph", "--in-place"), 30, {"part": "in place"}, NCCL)
    command = asked.bench(f"{backends},torch_one_shot", sizes="64K", collectives="all_reduce", ranks=ranks)
    yield Step("one host, beside torch's kernel", (*command, "--graph"), 30, {"part": "in place"}, NCCL)


def composed(asked: Asked) -> Iterator[Step]:
    """Each collective as a composition, beside the library's own call and NCCL's."""
    command = asked.bench(
        "lanecast,lanecast+composed,nccl", sizes="1M,4M,16M,64M,256M", collectives=ALL, ranks=str(asked.gpus)
    )
    yield Step("one host, composed", (*command, "--graph"), 80, {"part": "composed"}, NCCL)


def memory(asked: Asked) -> Iterator[Step]:
    """Of a communicator on each rank."""
    program = (sys.executable, f"{ROOT}/bench/communicator_memory.py", "--device=cuda", f"--ranks={asked.gpus}")
    if asked.gpus > 1:
        yield Step("memory of a group", program, 60, {"part": "memory"}, NCCL)


def fast(asked: Asked) -> Iterator[Step]:
    """Hosts of this machine's GPUs, each of which has a NIC as fast as clusters have them."""
    shapes = {4: ((2, 2), (4, 1)), 8: ((2, 4), (4, 2))}.get(asked.gpus, ((2, max(1, asked.gpus // 2)),))
    for hosts, each in shapes:
        where = asked.hosts(hosts, each)
        if where.share_gpus:
            continue
        command = asked.bench("lanecast,lanecast+composed", sizes=asked.cluster_sizes, collectives=REDUCED)
        cluster = ("cluster", "run", f"--hosts={hosts}", f"--ranks-per-host={each}", f"--gpu-nics={asked.gpu_nics}")
        name = f"{hosts} hosts of {each}, NICs of {asked.gpu_nics}"
        yield Step(name, (*LANECAST, *cluster, "--", *command), 50, {"part": "fast", "step": name}, NCCL)


def cluster(asked: Asked) -> Iterator[Step]:
    """Emulated hosts with NICs; where they have to share GPUs, only to see that results are right."""
    more = {2: (2, 2), 4: (4, 1)}.get(asked.gpus)  # hosts, ranks of each
    first, *others = asked.dtypes
    todo = [(asked.two_hosts, first), *([(asked.hosts(*more), first)] if more else [])]
    todo += [(asked.two_hosts, dtype) for dtype in others]
    for where, dtype in todo:
        yield _between_hosts(asked, where, dtype)
    if asked.gpus > 1:
        yield _three_levels(asked, first)


def _between_hosts(asked: Asked, where: Hosts, dtype: str, ours: str = "lanecast") -> Step:
    return (_shared_gpus if where.share_gpus else _on_cluster)(asked, where, dtype, ours)


def _three_levels(asked: Asked, dtype: str) -> Step:
    """Hosts of pairs of GPUs, of which NCCL knows nothing; compositions are shaped to all levels, too."""
    pairs = max(1, asked.gpus // 4)
    step = _between_hosts(asked, asked.hosts(2, 2 * pairs), dtype, "lanecast,lanecast+composed")
    topology = f"2x{pairs}x2"
    environment = {**step.environment, "LANECAST_TOPOLOGY": topology}
    return replace(step, name=f"{step.name}, as {topology}", environment=environment)


def _on_cluster(asked: Asked, where: Hosts, dtype: str, ours: str) -> Step:
    command = asked.bench(f"{ours},nccl", sizes=asked.cluster_sizes, collectives=REDUCED, dtype=dtype)
    name = f"{where.hosts} hosts of {where.ranks_per_host}, {dtype}"
    return Step(name, tuple(where.command(command)), 50, {"part": "cluster"}, SOCKETS)


def _shared_gpus(asked: Asked, where: Hosts, dtype: str, ours: str) -> Step:
    # NCCL takes no GPU twice, and what ranks that take turns on one need says nothing of speed.
    size = asked.cluster_sizes.partition(",")[0]
    command = (*asked.bench(ours, sizes=size, collectives=REDUCED, dtype=dtype, rounds="1"), "--shared-gpus")
    name = f"{where.hosts} hosts of {where.ranks_per_host} that share GPUs, {dtype}"
    return Step(name, tuple(where.command(command)), 30, {"part": "shared GPUs"}, SOCKETS)


def training(asked: Asked) -> Iterator[Step]:
    """Steps of a GPT on two hosts; a strategy each, so that one's failure is its own."""
    where = asked.two_hosts
    if where.share_gpus:
        return
    compiled = (sys.executable, "-c", "from lanecast.torch import adapter; adapter.load()")
    yield Step("the adapter for torch", compiled, 40, {"part": "training"}, leaves_rows=False)
    shape = (f"--hosts={where.hosts}", f"--ranks={where.hosts * where.ranks_per_host}")
    network = (f"--nics={asked.nics}", f"--rate={asked.rate}")
    common = (f"--trials={asked.trials}", "--backends=lanecast,nccl", *shape, *network)
    sharded = ["fsdp2", *(["zero3"] if importlib.util.find_spec("deepspeed") else [])]
    trained = [(strategy, asked.model) for strategy in (*sharded, "ddp")] + [(strategy, LARGER) for strategy in sharded]
    for strategy, model in dict.fromkeys(trained):
        what = (f"--strategies={strategy}", f"--model={model}", *LARGER_TOKENS * (model == LARGER))
        tags = {"part": "training", "model": model}
        yield Step(f"training, {strategy} of {model}", (*LANECAST, "bench", "train", *what, *common), 70, tags, SOCKETS)


PARTS: dict[str, Callable[[Asked], Iterator[Step]]] = {
    "check": check, "host": host, "composed": composed, "memory": memory, "fast": fast, "cluster": cluster,
    "training": training,
}  # fmt: skip
