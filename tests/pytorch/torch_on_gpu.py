# SPDX-License-Identifier: Apache-2.0
"""Calls of torch.distributed on CUDA tensors: the functions that the ranks of test_torch_on_gpu.py run, on GPUs, or
where torch has no CUDA on devices that pretend."""

import os
import signal
import threading
import time
from contextlib import nullcontext, suppress
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import WorkResult

import lanecast.torch
import pretend_cuda_module
from gpu_or_pretence import PRETENDS, Held, beside, own_gpu, there, use_own_gpu
from torch_calls import fold, me, ranks, same, size, value

COUNT = 3001
ENDS_BY_S = 60.0


def becomes_complete(work: Any) -> bool:
    end = time.monotonic() + ENDS_BY_S
    while not work.is_completed() and time.monotonic() < end:
        time.sleep(0.001)
    return bool(work.is_completed())


def own(salt: int = 0) -> torch.Tensor:
    return value(me(), (COUNT,), salt=salt)


def total(salt: int = 0) -> torch.Tensor:
    return fold("SUM", [value(r, (COUNT,), salt=salt) for r in ranks()])


def check_call_comes_after_the_callers_stream() -> None:
    """Nothing of it blocks the host, neither the call nor wait(); and what comes after wait() sees the result."""
    for async_op in (False, True):  # the first of each kind waits until the GPU is open, and torch's streams are made
        if work := dist.all_reduce(there(own()), async_op=async_op):
            work.wait()
    for async_op in (False, True):
        x, after = there(torch.zeros(COUNT)), there(torch.zeros(COUNT))
        brought = there(own())
        held = Held()
        x.copy_(brought)
        work = dist.all_reduce(x, async_op=True) if async_op else dist.group.WORLD.allreduce([x], _synchronous())
        assert not work.is_completed()
        work.wait()
        after.copy_(x)
        time.sleep(0.3)  # enough for a call that does not wait
        assert not work.is_completed()
        held.open()
        same(after.cpu(), total())
        assert becomes_complete(work)
        assert work.is_success()


def _synchronous() -> Any:
    options = dist.AllreduceOptions()
    options.asyncOp = False
    return options


def check_asynchronous_call_runs_beside_the_callers_stream() -> None:
    x = there(own())
    work = dist.all_reduce(x, async_op=True)
    held = Held()
    if PRETENDS:  # on a GPU the stream may be free again by now
        assert becomes_complete(work)
    with beside(7):
        work.wait()
        y = x.clone()
        same(y.cpu(), total())
    held.open()


def check_a_watched_call_spoils_no_capture() -> None:
    """Of another thread, in CUDA's global mode; the calls' events are looked at all the while."""
    dist.all_reduce(there(own()))
    x = there(own())
    held = Held()
    work = dist.all_reduce(x, async_op=True)
    result = work.get_future_result()
    with pretend_cuda_module.captured_globally() if PRETENDS else nullcontext():
        time.sleep(0.3)
    held.open()
    assert WorkResult(result.wait()) == WorkResult.SUCCESS
    work.wait()
    same(x.cpu(), total())


def check_callbacks_run_at_once_on_streams_behind_the_call() -> None:
    dist.all_reduce(there(own()))
    x = there(own())
    held = Held()
    work = dist.all_reduce(x, async_op=True)
    seen: list[str] = []

    def copied(future: Any) -> torch.Tensor:
        seen.append("called")
        return future.value()[0].clone()

    child = work.get_future().then(copied)
    assert seen == ["called"]
    assert not work.is_completed()
    held.open()
    same(child.wait().cpu(), total())
    same(work.result()[0].cpu(), total())


def check_tensors_live_until_the_call_is_done() -> None:
    """Dropped by every other rank while its stream is held up, unwaited for: the others get what it brought."""
    brought = there(own())
    held = Held()
    for _ in range(3):
        x = brought.clone()
        work = dist.all_reduce(x, async_op=True)
        if me() % 2 == 0:
            work.wait()
            got = x.clone()
        del x, work  # the memory goes to whoever asks next
        brought.clone().zero_() if not PRETENDS else brought.clone()
    held.open()
    if me() % 2 == 0:
        same(got.cpu(), total())


def check_strides_and_groups() -> None:
    """What is not contiguous is packed behind the caller's stream too; other groups do as this one."""
    wide, brought = there(torch.zeros(6, 8)), there(value(me(), (6, 4)))
    held = Held()
    mine = wide[:, ::2]
    mine.copy_(brought)
    dist.all_reduce(mine, async_op=True).wait()
    got = mine.clone()
    held.open()
    same(got.cpu(), fold("SUM", [value(r, (6, 4)) for r in ranks()]))
    groups = [dist.new_group([0]), dist.new_group(list(ranks()))]
    for group in groups[1 if me() else 0 :]:
        members = dist.get_process_group_ranks(group)
        y = there(own())
        dist.all_reduce(y, group=group)
        same(y.cpu(), fold("SUM", [value(r, (COUNT,)) for r in members]))
        dist.destroy_process_group(group)


def check_groups_beside_a_bound_gpu() -> None:
    """As init_process_group(device_id=…) binds it: torch then has the ranks outside of a new group take part."""
    dist.group.WORLD.bound_device_id = torch.device("cuda", own_gpu())
    alone = [dist.new_group([r]) for r in ranks()][me()]
    dist.group.WORLD.bound_device_id = None
    x = there(own())
    dist.all_reduce(x, group=alone)
    same(x.cpu(), own())
    dist.destroy_process_group(alone)


def check_split() -> None:
    members = [r for r in ranks() if r % 2 == me() % 2]
    half = dist.group.WORLD.split_group(members, group_name=f"half {me() % 2}")
    x = there(own())
    half.allreduce([x]).wait()
    same(x.cpu(), fold("SUM", [value(r, (COUNT,)) for r in members]))
    half.shutdown()


def check_split_by_torch() -> None:
    """As device meshes make their groups beside a default group with a bound GPU: of a copy of its options."""
    world, cuda = dist.group.WORLD, torch.device("cuda")
    world.bound_device_id = torch.device("cuda", own_gpu())
    # Where the device pretends, torch sees no accelerator.
    with (patch.object(torch.accelerator, "is_available", lambda: True),
          patch.object(torch.accelerator, "current_accelerator", lambda *_: cuda)):  # fmt: skip
        alone = dist.split_group(split_ranks=[[r] for r in ranks()], timeout=timedelta(seconds=50))
        first = dist.split_group(split_ranks=[[0]])
    world.bound_device_id = None
    assert (first is None) == (me() != 0)
    assert dist.get_backend(alone) == dist.get_backend()
    options = alone._get_backend(cuda).options
    assert (options.timeout, options.job_ranks) == (timedelta(seconds=50), [me()])
    x = there(own())
    dist.all_reduce(x, group=alone)
    same(x.cpu(), own())
    for group in (alone, first):
        if group is not None:
            dist.destroy_process_group(group)


def check_opened_beforehand() -> None:
    """As init_process_group(device_id=…) does it: groups may then make their first calls in any order."""
    groups = [dist.new_group(), dist.new_group()]
    for group in groups:
        group._get_backend(torch.device("cuda")).eager_connect_single_device(torch.device("cuda", own_gpu()))
    tensors = [there(own(salt)) for salt in range(2)]
    order = (0, 1) if me() % 2 else (1, 0)
    works = [dist.all_reduce(tensors[k], group=groups[k], async_op=True) for k in order]
    for work in works:
        work.wait()
    for salt, tensor in enumerate(tensors):
        same(tensor.cpu(), total(salt))


def check_barrier() -> None:
    """Of a GPU: the host waits for what its stream holds."""
    use_own_gpu()
    options = dist.BarrierOptions()
    options.device_ids = [own_gpu()]
    x, held = there(own()), Held()
    work = dist.group.WORLD.allreduce([x], _synchronous())
    opener = threading.Timer(0.2, held.open)
    opener.start()
    dist.group.WORLD.barrier(options).wait()
    assert work.is_completed()
    opener.join()
    dist.barrier()


def check_barrier_in_the_place_of_gloo() -> None:
    """It meets on the CPU, as gloo does, whatever device the program names: accelerate names one for each rank."""
    use_own_gpu()
    place = lanecast.torch.Options()
    place.name = "gloo"
    group = dist.new_group(pg_options=place)
    options = dist.BarrierOptions()
    options.device_ids = [120]
    group.barrier(options).wait()


def refused(words: list[str], call: Any) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def check_refusals() -> None:
    """Of what lies in several places, with rank and argument; and the group goes on."""
    dist.all_reduce(there(own()))
    here, rank = f"cuda:{own_gpu()}", f"rank {me()}"
    parts = [there(torch.zeros(2)) for _ in ranks()]
    group = dist.group.WORLD
    backend = group._get_backend(torch.device("cuda"))
    refused([rank, "inputs[0] is on cpu", f"outputs[0] on {here}"],
            lambda: backend.allgather([parts], [torch.zeros(2)]))  # fmt: skip
    refused([rank, "inputs[0] is on " + here, "outputs[0] on cpu"],
            lambda: backend.reduce_scatter([torch.zeros(2)], [parts]))  # fmt: skip
    if PRETENDS:
        pretend_cuda_module.load().set_device((me() + 1) % 4)
        elsewhere = pretend_cuda_module.load().to_device(torch.zeros(2))
        pretend_cuda_module.load().set_device(me())
        refused([rank, "uses GPU"], lambda: dist.all_reduce(elsewhere))
    if size() > 1:
        refused(["source rank"], lambda: dist.recv(parts[0]))
        refused(["in one group"], lambda: dist.group.WORLD.send([parts[0]], me(), 0))
    x = there(own())
    dist.all_reduce(x)
    same(x.cpu(), total())


def check_a_peer_that_does_not_call() -> None:
    """A group of its own, with a short timeout: the error is raised by who waits on the host, and by later calls."""
    group = dist.new_group(timeout=timedelta(seconds=3))
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()  # see check_abort
    if me() == 0 and size() > 1:
        work = dist.all_reduce(x, group=group, async_op=True)
        work.wait()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            work.wait(timedelta(seconds=ENDS_BY_S))
        assert not work.is_success()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            dist.all_reduce(x, group=group)
    dist.barrier()
    if size() > 1:
        group._get_backend(torch.device("cuda")).abort()


def ends_soon(group: Any, call: Any) -> None:
    """One that rank 0 makes alone, in a group with a long timeout."""
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()  # see check_abort
    if me() == 0 and size() > 1:
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            call(x).wait(timedelta(seconds=ENDS_BY_S))
    dist.barrier()
    if size() > 1:
        group._get_backend(torch.device("cuda")).abort()


def within(seconds: float) -> Any:
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=seconds)
    return options


def check_timeout_of_a_call() -> None:
    group = dist.new_group()
    ends_soon(group, lambda x: group.allreduce([x], within(2)))


def check_timeout_that_is_set() -> None:
    group = dist.new_group()
    ends_soon(group, lambda x: (group.set_timeout(timedelta(seconds=2)), group.allreduce([x]))[1])


def check_timeout_of_a_split() -> None:
    half = dist.group.WORLD.split_group(list(ranks()), timeout=timedelta(seconds=2), group_name="as large")
    x = there(own())
    half.allreduce([x]).wait()
    x.cpu()
    if me() == 0 and size() > 1:
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            half.allreduce([x]).wait(timedelta(seconds=ENDS_BY_S))
    dist.barrier()
    if size() > 1:
        half._get_backend(torch.device("cuda")).abort()


def check_timeout_of_a_call_is_no_others() -> None:
    """An asynchronous call of the CPU with one of its own, then a GPU's for which a rank comes later than that."""
    group = dist.new_group()
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()
    group.allreduce([own()], within(1)).wait()
    if me() > 0:
        time.sleep(3)
    y = there(own())
    dist.all_reduce(y, group=group)
    same(y.cpu(), total())
    dist.destroy_process_group(group)


def wait_for_one_that_is_killed() -> str:
    """What rank 0 hears of it."""
    group = dist.new_group(timeout=timedelta(seconds=10))
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()
    if me() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_reduce(x, group=group, async_op=True).wait(timedelta(seconds=ENDS_BY_S))
    return str(caught.value)


def _call_until_heard(x: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Between hosts the word of an abort comes by the network, and a call may have been enqueued before."""
    for _ in range(100 if "LANECAST_HOST" in os.environ else 1):
        dist.all_reduce(x, group=group)
        time.sleep(0.02)


def check_abort() -> None:
    """Ends a call that waits on the device."""
    group = dist.new_group()
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()  # else this call might be aborted as well, and the peer wait in it for as long as its group allows
    backend = group._get_backend(torch.device("cuda"))
    if me() == 0 and size() > 1:
        work = dist.all_reduce(x, group=group, async_op=True)
        backend.abort()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait(timedelta(seconds=ENDS_BY_S))
    dist.barrier()
    if me() > 0:
        with pytest.raises(dist.DistBackendError, match="rank 0: this communicator was aborted"):
            _call_until_heard(x, group)


def check_abort_ends_the_calls_of_the_peers() -> None:
    """Also one for which only the device is waited for."""
    group = dist.new_group(timeout=timedelta(seconds=2 * ENDS_BY_S))
    x = there(own())
    dist.all_reduce(x, group=group)
    x.cpu()
    begin = time.monotonic()
    if size() > 1 and me() == 0:
        time.sleep(0.5)
        group._get_backend(torch.device("cuda")).abort()
    elif size() > 1:
        work = dist.all_reduce(x, group=group, async_op=True)
        with suppress(dist.DistBackendError):  # of a machine so slow that the other has come so far
            work.wait()
        x.cpu()
        assert time.monotonic() - begin < ENDS_BY_S
        aborted = "rank 0: this communicator was aborted"
        with pytest.raises(dist.DistBackendError, match=aborted):
            work.wait(timedelta(seconds=ENDS_BY_S))
        with pytest.raises(dist.DistBackendError, match=f"has failed.*{aborted}"):
            dist.all_reduce(x, group=group)
    dist.barrier()


def _pairs(group: Any) -> int:
    return int(group._get_backend(torch.device("cuda")).pairs)


def check_first_messages() -> None:
    """Before a group's GPU is open a message needs its own two ranks alone, and theirs go on so; a batch may have both
    kinds."""
    if size() == 1:
        return
    group = dist.new_group()
    got, last = there(torch.empty(COUNT)), size() - 1
    for salt in range(2):
        if me() == last:
            dist.send(there(own(salt)), 0, group=group)
        elif me() == 0:
            assert dist.recv(got, last, group=group) == last
            same(got.cpu(), value(last, (COUNT,), salt=salt))
    of_two = int(size() > 2 and me() in (0, last))  # of two ranks all have come
    assert _pairs(group) == of_two
    x = there(own())
    dist.all_reduce(x, group=group)
    same(x.cpu(), total())
    after, before = (me() + 1) % size(), (me() - 1) % size()
    for salt in range(2):
        batch = [dist.P2POp(dist.isend, there(own(salt)), after, group), dist.P2POp(dist.irecv, got, before, group)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        same(got.cpu(), value(before, (COUNT,), salt=salt))
    if me() == 0:
        dist.send(there(own(3)), last, group=group)
    elif me() == last:
        dist.recv(got, 0, group=group)
        same(got.cpu(), value(0, (COUNT,), salt=3))
    assert _pairs(group) == of_two
    group._wait_for_pending_works()
    dist.destroy_process_group(group)


def check_batch_as_first_call() -> None:
    """All ranks come to it, as torch asks of programs, so it opens the group's GPU."""
    if size() == 1:
        return
    group = dist.new_group()
    got, after, before = there(torch.empty(COUNT)), (me() + 1) % size(), (me() - 1) % size()
    batch = [dist.P2POp(dist.irecv, got, before, group), dist.P2POp(dist.isend, there(own()), after, group)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    same(got.cpu(), value(before, (COUNT,)))
    assert _pairs(group) == 0
    dist.destroy_process_group(group)


def check_first_message_that_nobody_answers() -> None:
    """The error says which ranks of the group it means."""
    if size() < 3:
        return
    group = dist.new_group()
    if me() == 1:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2), group)
        with pytest.raises(dist.DistBackendError, match=r"rank 0 of 2 waited.*its ranks 0 and 1 are ranks 1 and 2"):
            dist.send(there(own()), 2, group=group)
    dist.barrier()


def check_abort_ends_messages_of_two_ranks() -> None:
    if size() < 3:
        return
    group = dist.new_group()
    got = there(torch.empty(COUNT))
    if me() == 1:
        dist.send(there(own()), 2, group=group)
    elif me() == 2:
        dist.recv(got, 1, group=group)
        waiting = dist.irecv(got, 1, group=group)
    dist.barrier()
    if me() == 1:
        group._get_backend(torch.device("cuda")).abort()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            dist.send(there(own()), 2, group=group)
    elif me() == 2:
        with pytest.raises(dist.DistBackendError, match="aborted"):
            waiting.wait(timedelta(seconds=ENDS_BY_S))
        assert group._get_backend(torch.device("cuda")).get_error().name == "COMM_ERROR"
    dist.barrier()


def check_messages() -> None:
    """Alone; several at once, of which some are not contiguous, and to oneself; and receives before any send."""
    if size() == 1:
        return
    dist.all_reduce(there(own()))
    after, before = (me() + 1) % size(), (me() - 1) % size()
    sent, got = there(own()), there(torch.empty(COUNT))
    if me() == 0:
        dist.send(sent, 1)
    if me() == 1:
        assert dist.recv(got, 0) == 0
        same(got.cpu(), value(0, (COUNT,)))
    apart, mine = there(torch.zeros(COUNT, 2)), there(torch.empty(COUNT))
    both, empty = there(torch.stack([own(), own(1)], 1)), there(torch.zeros(0))
    batch = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, apart[:, 1], before),
             dist.P2POp(dist.isend, empty, after), dist.P2POp(dist.irecv, empty, before),
             dist.P2POp(dist.irecv, got, before), dist.P2POp(dist.isend, both[:, 1], after)]  # fmt: skip
    for started in dist.batch_isend_irecv(batch):
        started.wait()
    same(apart[:, 1].cpu(), value(before, (COUNT,)))
    same(apart[:, 0].cpu(), torch.zeros(COUNT))
    same(got.cpu(), value(before, (COUNT,), salt=1))
    with dist._coalescing_manager(device=sent.device, async_ops=True) as coalesced:
        dist.group.WORLD.send([sent], me(), 0)
        dist.group.WORLD.recv([mine], me(), 0)
    coalesced.wait()
    same(mine.cpu(), own())
    for _ in range(3):
        receive = dist.irecv(got, before)
        send = dist.isend(sent, after)
        receive.wait()
        doubled = got * 2
        send.wait()
        same(doubled.cpu(), 2 * value(before, (COUNT,)))
        assert becomes_complete(send)
        assert becomes_complete(receive)
