# SPDX-License-Identifier: Apache-2.0
"""What ends badly, and what each rank has to hear of it: the ranks of test_torch_ends.py run `main(name)`."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def raised(function: Callable[[], Any], kind: type[BaseException], *words: str) -> None:
    with pytest.raises(kind) as caught:
        function()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def wrong_tensors() -> None:
    """Refused before anything moves, so that the group goes on."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    meta = torch.ones(3, device="meta")
    raised(lambda: backend.allreduce([meta]), ValueError, "on meta", "CPU")
    expanded = torch.ones(1).expand(4)
    raised(lambda: dist.all_reduce(expanded), ValueError, "share memory", "contiguous()")
    sparse = torch.eye(3).to_sparse()
    raised(lambda: backend.send([sparse], 1 - dist.get_rank(), 0), ValueError, "Sparse", "dense")
    raised(lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), ValueError, "bitwise", "Float")
    raised(lambda: dist.all_reduce(torch.ones(3, dtype=torch.uint16), dist.ReduceOp.AVG), ValueError, "avg")
    raised(lambda: dist.all_reduce(torch.ones(3) > 0, dist.ReduceOp.AVG), ValueError, "Bool", "by AVG", "Tensor.to()")
    group = dist.group.WORLD
    outputs = [torch.ones(2), torch.ones(2, dtype=torch.int32)]
    raised(lambda: group.allgather([outputs], [torch.ones(2)]).wait(), ValueError, "types")
    raised(lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(3)), ValueError, "2")
    raised(lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), ValueError, "divide equally")
    raised(lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1, 1], [1, 2]), ValueError, "Split sizes")
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x[0] == dist.get_world_size()


def different_calls() -> None:
    """Named by rank, on both ranks, long before the timeout."""
    x = torch.ones(3 + dist.get_rank())
    raised(lambda: dist.all_reduce(x), dist.DistBackendError, "rank 1 calls all_reduce of 4 float32")
    raised(lambda: dist.all_reduce(torch.ones(1)), dist.DistBackendError, "has failed")


def splits_on_one_rank() -> None:
    """Named on both ranks; equal splits in numbers go together with any others."""
    x, out = torch.arange(4.0) + 10 * dist.get_rank(), torch.empty(4)
    dist.all_to_all_single(out, x, [2, 2], [2, 2] if dist.get_rank() == 0 else None)
    assert out.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][dist.get_rank()]
    splits = [2, 2] if dist.get_rank() == 0 else None
    both = ("rank 0 calls all_to_all of own counts", "rank 1 calls all_to_all of 2 float32")
    raised(lambda: dist.all_to_all_single(out, x, splits, splits), dist.DistBackendError, *both)


def late_rank() -> None:
    """A timeout of the call itself, far below the group's."""
    if dist.get_rank() == 0:
        work = dist.group.WORLD.barrier(timeout=timedelta(seconds=1))
        raised(work.wait, dist.DistBackendError, "rank 1")
        assert not work.is_success()
    else:
        time.sleep(3)


def work_timeout() -> None:
    """Waiting no longer is not giving up."""
    x = torch.ones(2)
    if dist.get_rank() == 0:
        work = dist.all_reduce(x, async_op=True)
        words: tuple[str, ...] = ("rank 0 waited 200 ms for rank 1 in ", "all_reduce", "timed out")
        raised(lambda: work.wait(timedelta(milliseconds=200)), dist.DistBackendError, *words)
        behind = dist.all_reduce(torch.ones(2), async_op=True)
        words = ("rank 0 waited 1 ms for the call before it, which waits for rank 1 in ", "timed out")
        raised(lambda: behind.wait(timedelta(milliseconds=1)), dist.DistBackendError, *words)
        work_of_message = dist.irecv(torch.ones(1), 1)
        words = ("rank 0 waited 200 ms for rank 1 in recv of 4 bytes from rank 1", "timed out")
        raised(lambda: work_of_message.wait(timedelta(milliseconds=200)), dist.DistBackendError, *words)
        from_any = dist.irecv(torch.ones(1), tag=9)
        raised(lambda: from_any.wait(timedelta(milliseconds=200)), dist.DistBackendError, "from any rank", "timed out")
        dist.barrier(async_op=True)
        dist.send(torch.ones(1), 1)
        work.wait()
        behind.wait()
        work_of_message.wait()
        from_any.wait()
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(x)
        dist.all_reduce(torch.ones(2))
        dist.send(torch.ones(1), 0)
        dist.send(torch.ones(1), 0, tag=9)
        dist.barrier(async_op=True)
    assert x.tolist() == [2, 2]


def aborted_by_the_first(way: str) -> None:
    """In a group beside WORLD, while the other rank waits in a call, blocking or started, or between its calls."""
    group = dist.new_group(timeout=timedelta(seconds=100))

    def call() -> None:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=way == "started")
        if work is not None:
            work.wait()

    if way == "between" and dist.get_rank() == 1:
        dist.barrier()
        time.sleep(0.1)
    if dist.get_rank() == 0:
        time.sleep(0.0 if way == "between" else 0.5)
        group._get_backend(torch.device("cpu")).abort()
    raised(call, dist.DistBackendError, "rank 0: this communicator was aborted")  # at the deadline it would be another
    raised(call, dist.DistBackendError, "has failed", "rank 0: this communicator was aborted")
    if way != "between" or dist.get_rank() == 0:
        dist.barrier()


def abort() -> None:
    """Of one rank ends the calls of the other; other groups go on."""
    for way in ("blocking", "started", "between"):
        aborted_by_the_first(way)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2, 2]


def nobody_comes_to_gloo() -> None:
    """A backend for what Lanecast is not built for that could not be made is none: the group ends as any other."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        for _ in range(2):
            raised(lambda: dist.all_reduce(torch.eye(3).to_sparse(), group=group), RuntimeError, "timeout")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group(group)
    dist.destroy_process_group()


def abort_while_gloo_is_awaited() -> None:
    """A backend that waits for its peers holds up nobody who ends the group."""
    group = dist.new_group(timeout=timedelta(seconds=10))
    if dist.get_rank() == 1:
        return end_after_the_first()

    def call() -> None:
        raised(lambda: dist.all_reduce(torch.eye(3).to_sparse(), group=group), RuntimeError)

    waiting = threading.Thread(target=call)
    waiting.start()
    time.sleep(0.5)
    group._get_backend(torch.device("cpu")).abort()
    assert waiting.is_alive()
    raised(lambda: dist.all_reduce(torch.eye(3).to_sparse(), group=group), dist.DistBackendError, "aborted")
    waiting.join()
    return None


def thread_names() -> list[str]:
    """Without those of CUDA, which torch opens to see whether a barrier is to be on a GPU."""
    names = ((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir())
    return sorted(name for name in names if not name.startswith("cuda"))


def blocking_without_threads() -> None:
    """Calls that their caller waits for need nobody else to move them."""
    x, whole = torch.ones(2), torch.empty(4)
    before = thread_names()
    dist.all_reduce(x)
    dist.all_gather_into_tensor(whole, x)
    dist.all_reduce(x[::2], dist.ReduceOp.AVG)
    dist.barrier()
    assert thread_names() == before, (thread_names(), before)
    assert whole.tolist() == [2, 2, 2, 2]


def threads_take_no_signals() -> None:
    """Those of the library: a program that blocks a signal in its own threads, to take it in sigwait(), would end."""
    before = set(Path("/proc/self/task").iterdir())
    dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
    started = set(Path("/proc/self/task").iterdir()) - before
    assert started
    for thread in started:
        blocked = int((thread / "status").read_text().split("SigBlk:")[1].split()[0], 16)
        assert all(blocked >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1))


def message_beside_blocking() -> None:
    """A blocking call keeps no other thread of its rank from the message without which its peer does not come."""
    x = torch.ones(2)
    if dist.get_rank() == 0:
        waiting = threading.Thread(target=lambda: dist.all_reduce(x))
        waiting.start()
        time.sleep(0.3)
        dist.send(torch.full((1,), 7.0), 1)
        waiting.join()
    else:
        got = torch.empty(1)
        dist.recv(got, 0)
        assert got.item() == 7
        dist.all_reduce(x)
    assert x.tolist() == [2, 2]


def shutdown_while_blocked() -> None:
    """Ends the call of another thread, which would wait for longer, and the process lives on."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 1:
        time.sleep(4)
        return
    patient = dist.AllreduceOptions()
    patient.timeout, patient.asyncOp = timedelta(seconds=100), False
    heard: list[BaseException] = []

    def blocked() -> None:
        try:
            group.allreduce([torch.ones(1)], patient)
        except dist.DistBackendError as error:
            heard.append(error)

    call = threading.Thread(target=blocked)
    call.start()
    time.sleep(0.3)
    group._get_backend(torch.device("cpu")).shutdown()
    call.join()
    assert "shut down" in str(heard[0])


def killed_in_backward() -> None:
    """The others hear of it within the timeout, by the gradient that will not come."""

    class Dies(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
            if dist.get_rank() == 1 and step == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return gradient

    torch.manual_seed(0)
    first, last = torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([first, last])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return last(Dies.apply(first(x)))

    model = DistributedDataParallel(Model(), bucket_cap_mb=0.1)
    for step in range(3):
        if step < 2:
            model(torch.ones(4, 300)).sum().backward()
        else:
            raised(lambda: model(torch.ones(4, 300)).sum().backward(), RuntimeError, "rank 1")


def shrunk_when_a_rank_is_killed() -> None:
    """The default group of all that are left, and what it is for: the calls go on."""
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(2)
    raised(lambda: dist.all_reduce(x), dist.DistBackendError, "rank 1")
    dist.distributed_c10d.shrink_group([1])
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "lanecast")
    y = torch.ones(2)
    dist.all_reduce(y)
    assert y.tolist() == [1, 1]


def forked() -> None:
    """A child is refused what its parent has made, makes a group of its own, and ends; the parent goes on."""
    x = torch.ones(2)
    dist.all_reduce(x, async_op=True).wait()
    # Not of rank 0: the server of torch's store, which that one holds, does not survive being let go of by a child.
    child = os.fork() if dist.get_rank() == 1 else -1
    if child == 0:
        raised(lambda: dist.all_reduce(x), dist.DistBackendError, "forked", str(os.getppid()), "spawn")
        dist.destroy_process_group()
        dist.init_process_group("lanecast", store=dist.HashStore(), rank=0, world_size=1)
        assert dist.all_reduce(x, async_op=True).get_future().wait()[0].tolist() == [2, 2]
        sys.exit(7)
    if child > 0:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    dist.all_reduce(x)
    assert x.tolist() == [4, 4]


def process_ends_with_works() -> None:
    """A program that neither waits nor destroys its group ends, and soon."""
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1000), async_op=True)


def end_after_the_first() -> None:
    """So that no call of rank 0 ends because this rank does. torch's store is rank 0's, and ends with it."""
    with pytest.raises(dist.DistError):
        dist.group.WORLD.get_group_store().wait(["never"], timedelta(seconds=90))


heard: list[BaseException] = []


def call_in_vain(group: Any, way: str) -> None:
    try:
        if work := dist.all_reduce(torch.ones(2), group=group, async_op=way == "started"):
            work.wait()
    except dist.DistBackendError as error:
        heard.append(error)


in_vain = threading.Thread(target=call_in_vain, args=(None, "blocking"), daemon=True)


def process_ends_beside_daemon_threads() -> None:
    """None of them comes back to torch, which would end the process by SIGABRT where Python ends the thread."""
    for way in ["blocking", "started"] * 3:
        group = dist.new_group()
        if dist.get_rank() == 0:
            threading.Thread(target=call_in_vain, args=(group, way), daemon=True).start()
    if dist.get_rank() == 1:
        end_after_the_first()
    time.sleep(0.3)


def daemon_thread_is_joined() -> None:
    """At the end of the process, by what was registered before the group was made and so runs when that is closed."""
    if dist.get_rank() == 0:
        in_vain.start()
        time.sleep(0.3)
    else:
        end_after_the_first()


def join_in_vain() -> None:
    if dist.get_rank() == 0:
        in_vain.join()
        if "shut down while calls were under way" not in str(heard):
            os._exit(1)


def main(name: str) -> None:
    if name == "daemon_thread_is_joined":
        atexit.register(join_in_vain)
    dist.init_process_group("lanecast", timeout=timedelta(seconds=20))
    globals()[name]()
    if name in ("wrong_tensors", "work_timeout", "forked"):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
