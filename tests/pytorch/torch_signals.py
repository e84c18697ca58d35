# SPDX-License-Identifier: Apache-2.0
"""Two ranks of which rank 1 waits for rank 0 in vain: see test_torch_signals.py, which says when and sends signals.

Each reads names of ways to wait from its standard input. Rank 1 waits by them and says what it meets; rank 0 comes to
none of them, and when it is told so does what lets both go on.
"""

import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

PATIENT = timedelta(seconds=100)


def say(*words: object) -> None:
    print(*words, flush=True)


def group_of_two() -> Any:
    return dist.new_group(timeout=PATIENT)


def other_store() -> dist.Store:
    return dist.PrefixStore("apart", dist.distributed_c10d._get_default_store())


def destroy_with_call(group: Any) -> None:
    dist.all_reduce(torch.ones(1), group=group, async_op=True)
    dist.destroy_process_group(group)


def make(_: Any) -> None:
    dist.new_group(timeout=PATIENT)


def first_group(_: Any) -> None:
    """What init_process_group does for its backend, of which a process can have one only."""
    from torch._C._distributed_c10d import _DistributedBackendOptions

    from lanecast.torch import groups

    options = _DistributedBackendOptions()
    options.store, options.group_rank, options.group_size, options.timeout = other_store(), dist.get_rank(), 2, PATIENT
    groups.make(options, None)


def backend_of(group: Any) -> Any:
    return group._get_backend(torch.device("cpu"))


def receive_twice(group: Any) -> None:
    receives = [dist.P2POp(dist.irecv, torch.ones(1), 0, group) for _ in range(2)]
    for work in dist.batch_isend_irecv(receives):
        work.wait()


def wait_for_pending(group: Any) -> None:
    dist.all_reduce(torch.ones(1), group=group, async_op=True)
    group._wait_for_pending_works()


WAYS: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda group: dist.all_reduce(torch.ones(5), group=group),
    "barrier": dist.barrier,
    "recv": lambda group: dist.recv(torch.ones(5), 0, group),
    "recv from any": lambda group: dist.recv(torch.ones(5), group=group),
    "wait": lambda group: dist.all_reduce(torch.ones(5), group=group, async_op=True).wait(),
    "wait with a timeout": lambda group: dist.all_reduce(torch.ones(5), group=group, async_op=True).wait(PATIENT),
    "batch": receive_twice,
    "functional": lambda group: functional.all_reduce(torch.ones(5), "sum", group).sum().item(),
    "monitored_barrier": dist.monitored_barrier,
    "pending works": wait_for_pending,
    "split": lambda group: group.split_group([0, 1], PATIENT),
    "destroy": destroy_with_call,
    "new_group": make,
    "first group": first_group,
}
# Whose call rank 0 makes afterwards, and hears who is gone and why.
HEARD_BY_PEER = ("all_reduce", "barrier", "split", "new_group", "first group")


def wait_in_vain(way: str, group: Any) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: say("heard"))
    say("waiting")
    try:
        WAYS[way](group)
        say("ended")
    except KeyboardInterrupt:
        say("interrupted")


def come_after_all(way: str, group: Any) -> None:
    if way in HEARD_BY_PEER:
        try:
            WAYS[way](group)
            say("not told")
        except dist.DistBackendError as error:
            say("told", str(error).replace("\n", " "))


def end(group: Any) -> None:
    backend_of(group).abort()
    if group in dist.distributed_c10d._world.pg_map:
        dist.destroy_process_group(group)


def handler_ends_all() -> None:
    """A handler as many have it: it gives the groups back and ends the process, whatever the process waits in."""

    def handler(*_: object) -> None:
        dist.destroy_process_group()
        say("destroyed")
        sys.exit(7)

    signal.signal(signal.SIGTERM, handler)
    say("waiting")
    dist.all_reduce(torch.ones(3))


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore Ctrl-C
    dist.init_process_group("lanecast", timeout=PATIENT)
    for line in sys.stdin:
        way = line.strip()
        if way == "handler ends all":
            return handler_ends_all()
        group = group_of_two()
        if dist.get_rank() == 1:
            wait_in_vain(way, group)
            sys.stdin.readline()
        else:
            say("away")
            sys.stdin.readline()
            come_after_all(way, group)
        end(group)
        say("done")
    return None


if __name__ == "__main__":
    main()
