# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors over the backend: on GPUs where torch has CUDA, else over a driver that runs kernels on the CPU."""

import signal
from collections.abc import Callable, Iterator

import pytest
import torch

import pretend_cuda_module
import torch_calls
import torch_memory
import torch_on_gpu
import torch_training
import torch_works_watched
from torch_jobs import Job

# With tags of messages, which a GPU's have not; sparse tensors, which go to gloo; and what travels by the CPU.
ELSEWHERE = ("check_messages", "check_receive_from_any", "check_sequence_numbers", "check_sparse_goes_to_gloo",
             "check_objects", "check_sharded_tensors")  # fmt: skip
CALLS = [name for name in vars(torch_calls) if name.startswith("check_") and name not in ELSEWHERE]
# Many calls, each of which takes long where threads stand in for a GPU.
MANY = ("check_all_reduce", "check_average_and_scaled_sum", "check_broadcast_and_reduce", "check_all_gather")
STREAMS = [name for name in vars(torch_on_gpu) if name.startswith("check_")]
FIRST = ("check_first_messages", "check_batch_as_first_call", "check_first_message_that_nobody_answers",
         "check_abort_ends_messages_of_two_ranks")  # fmt: skip
# Refusals are those of peer memory.
WITHIN = ("check_refusals",)
MEMORY = [name for name in vars(torch_memory) if name.startswith("check_")]
WATCHED = [name for name in vars(torch_works_watched) if name.startswith("check_")]
TRAINING = [name for name in vars(torch_training) if name.startswith("check_")]
GPUS = torch.cuda.device_count()
HAS_CUDA = torch.version.cuda is not None
RANKS = max(2, GPUS)
# Two ranks on one GPU show whether results are right.
SHARED = {"LANECAST_ALLOW_SHARED_GPU": "1"} if GPUS < RANKS else {}

pytestmark = [
    pytest.mark.timeout(400),  # the first one builds the driver
    pytest.mark.skipif(HAS_CUDA and GPUS == 0, reason="no GPU here"),
]


@pytest.fixture(scope="module")
def job_on_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Job]]:
    environment = SHARED if HAS_CUDA else pretend_cuda_module.environment(tmp_path_factory.mktemp("kernels"))
    if not HAS_CUDA:
        pretend_cuda_module.library()
    jobs: dict[tuple[int, bool], Job] = {}

    def with_ranks(size: int, apart: bool = False) -> Job:
        if HAS_CUDA and size > RANKS:
            pytest.skip(f"needs {size} GPUs, and {GPUS} are here")
        if (size, apart) not in jobs or jobs[size, apart].broken:
            jobs[size, apart] = Job(size, environment, apart=apart)
        return jobs[size, apart]

    yield with_ranks
    for running in jobs.values():
        running.end()


def calls(many: tuple[str, ...], but: tuple[str, ...] = ()) -> list[object]:
    slow = () if HAS_CUDA else many
    return [pytest.param(case, marks=pytest.mark.long) if case in slow else case for case in CALLS if case not in but]


@pytest.mark.parametrize("size", [2, 3] if HAS_CUDA else [2])
@pytest.mark.parametrize("case", calls(MANY))
def test_call(job_on_gpus: Callable[..., Job], size: int, case: str) -> None:
    job_on_gpus(size).run("gpu_or_pretence", "on_gpu", "torch_calls", case)


@pytest.mark.parametrize("case", STREAMS)
def test_streams_and_ends(job_on_gpus: Callable[..., Job], case: str) -> None:
    job_on_gpus(2).run("torch_on_gpu", case)


@pytest.mark.parametrize("size", [2, 3] if HAS_CUDA else [2])
@pytest.mark.parametrize("case", calls(MANY, WITHIN))
def test_call_between_hosts(job_on_gpus: Callable[..., Job], size: int, case: str) -> None:
    job_on_gpus(size, apart=True).run("gpu_or_pretence", "on_gpu", "torch_calls", case)


@pytest.mark.parametrize("case", [case for case in STREAMS if case not in WITHIN])
def test_streams_and_ends_between_hosts(job_on_gpus: Callable[..., Job], case: str) -> None:
    job_on_gpus(2, apart=True).run("torch_on_gpu", case)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("case", FIRST)
def test_first_messages_of_three_ranks(job_on_gpus: Callable[..., Job], apart: bool, case: str) -> None:
    job_on_gpus(3, apart=apart).run("torch_on_gpu", case)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("case", WATCHED)
def test_watched(job_on_gpus: Callable[..., Job], apart: bool, case: str) -> None:
    job_on_gpus(2, apart=apart).run("gpu_or_pretence", "on_gpu", "torch_works_watched", case)


@pytest.mark.parametrize("apart", [False, True])
def test_killed_peer(job_on_gpus: Callable[..., Job], apart: bool) -> None:
    job = job_on_gpus(2, apart=apart)
    waited, killed = job.answers("torch_on_gpu", "wait_for_one_that_is_killed")
    job.end()
    assert "rank 1" in waited["value"], waited
    assert killed["error"] == f"rank 1 has ended: {-signal.SIGKILL}"


@pytest.mark.parametrize("case", MEMORY)
def test_memory_of_a_group(job_on_gpus: Callable[..., Job], case: str) -> None:
    job_on_gpus(2).run("torch_memory", case)


@pytest.mark.skipif(GPUS == 0, reason="training needs a GPU")
@pytest.mark.parametrize("case", TRAINING)
def test_training_as_on_nccl(job_on_gpus: Callable[..., Job], case: str) -> None:
    job_on_gpus(2).run("gpu_or_pretence", "on_gpu", "torch_training", case)
