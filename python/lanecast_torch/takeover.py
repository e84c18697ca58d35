# SPDX-License-Identifier: Apache-2.0
"""LANECAST_TORCH=1: groups that ask for nccl, gloo or nothing are made by Lanecast, in programs that do not know it.

Every such name stays what it was: dist.get_backend() and all others that programs compare. Whether Lanecast is taken
is found out with the default group, by all of its ranks together, since groups of two backends would wait for each
other. Where one rank cannot, all of them go on with torch's own.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lanecast_torch import NAME, VARIABLE
from lanecast_torch.agreement import Refused, agree

OLDEST_TORCH = (2, 11)
VALUES = "the values are 0 and 1"
_TAKEN = {("cpu", "gloo"), ("cuda", "gloo"), ("cuda", "nccl")}
_ARGUMENTS = {"backend", "backend_options", "global_ranks_in_group", "group_rank"}


def replace() -> None:
    """What makes torch's groups, once."""
    from torch.distributed import distributed_c10d

    torchs = distributed_c10d._new_process_group_helper
    if hasattr(torchs, "lanecasts"):
        return
    takeover = _Takeover(torchs, inspect.signature(torchs))

    @functools.wraps(torchs)
    def _new_process_group_helper(*args: Any, **kwargs: Any) -> Any:
        call = takeover.signature.bind(*args, **kwargs)
        call.apply_defaults()
        return takeover.make(call)

    _new_process_group_helper.lanecasts = takeover  # type: ignore[attr-defined]
    distributed_c10d._new_process_group_helper = _new_process_group_helper


@dataclass
class _Takeover:
    """Of the groups of this process."""

    torchs: Callable[..., Any]
    signature: inspect.Signature
    active: bool = False  # as long as the default group is Lanecast's
    told: set[str] = field(default_factory=set)

    def make(self, call: inspect.BoundArguments) -> Any:
        from torch.distributed import is_initialized

        given = call.arguments
        if reason := self._unfit():
            self._tell(given.get("group_rank", 0), _without_effect(reason))
            return self.torchs(*call.args, **call.kwargs)
        wanted = _with_lanecast(given["backend"])
        # The default group has no ranks of another, nor have those that programs make of the ranks of several jobs.
        of_all, is_default = not given["global_ranks_in_group"], not is_initialized()
        if wanted and of_all:
            taken, made = self._decide(call, wanted)
        elif wanted and self.active:
            taken, made = True, self._in_place(call, wanted, together=False)
        else:
            taken, made = NAME in str(given["backend"]), self.torchs(*call.args, **call.kwargs)
        if is_default:
            self.active = taken
        return made

    def _unfit(self) -> str:
        """Why no process of this job can do what the variable says; empty: nothing is known that is in the way."""
        import torch

        version = torch.__version__
        if _value() != "1":
            return VALUES
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TORCH:
            return f"torch {version} is older than {'.'.join(map(str, OLDEST_TORCH))}"
        if not self.signature.parameters.keys() >= _ARGUMENTS:
            return f"torch {version} makes groups in another way than this Lanecast knows"
        return ""

    def _decide(self, call: inspect.BoundArguments, wanted: str) -> tuple[bool, Any]:
        rank = call.arguments["group_rank"]
        try:
            made = self._in_place(call, wanted, together=True)
        except Refused as refused:
            self._tell(rank, _without_effect(str(refused)))
            return False, self.torchs(*call.args, **call.kwargs)
        asked = call.arguments["backend"]
        names = "no backend" if asked == "undefined" else asked
        self._tell(rank, f"the groups of this job, which asks for {names}, are Lanecast's; {VARIABLE}=0 goes back")
        return True, made

    def _in_place(self, call: inspect.BoundArguments, wanted: str, *, together: bool) -> Any:
        """A group of Lanecast that goes by the names that were asked for."""
        from torch.distributed import distributed_c10d as c10d

        asked = call.arguments["backend"]
        config = c10d.BackendConfig(c10d.Backend(asked))
        name = "nccl" if "nccl" in config.get_device_backend_map().values() else "gloo"
        taken = call.signature.bind(*call.args, **call.kwargs)
        place = InPlace(name, call.arguments["backend_options"], together)
        taken.arguments.update(backend=wanted, backend_options=place)
        group, store = self.torchs(*taken.args, **taken.kwargs)
        if group in c10d._world.pg_map:
            _name(group, wanted, c10d.Backend.backend_type_map[name])
            c10d._world.pg_map[group] = (asked, c10d._world.pg_map[group][1])
            c10d._world.pg_backend_config[group] = str(config)
        return group, store

    def _tell(self, rank: int, line: str) -> None:
        if rank == 0 and line not in self.told:
            self.told.add(line)
            print(f"lanecast: {line}", file=sys.stderr, flush=True)


@dataclass
class InPlace:
    """Instead of the options that a program gives to the backend that it asks for."""

    name: str
    of_program: Any
    together: bool  # the ranks find out whether all of them can

    def make_in_place(self, given: Any) -> Any:
        """Raises Refused, on all ranks, where one of them cannot make the group."""
        if not self.together:
            return self._made(given)
        agree(given, "can take Lanecast", _adapter)
        return agree(given, "has made the group", functools.partial(self._made, given))

    def _made(self, given: Any) -> Any:
        from lanecast.torch import adapter, groups

        kind = adapter.load().Options
        options = self.of_program if isinstance(self.of_program, kind) else kind()
        options.name = self.name
        return groups.make(given, options)


def _adapter() -> None:
    from lanecast.torch import adapter

    adapter.load()


def _value() -> str:
    return os.environ.get(VARIABLE, "")


def _without_effect(reason: str) -> str:
    return f"{VARIABLE}={_value()} has no effect, and groups keep the backends of torch: {reason}"


def _with_lanecast(asked: str) -> str:
    """What makes such a group by Lanecast; empty: nothing of it is Lanecast's to take."""
    from torch.distributed import distributed_c10d as c10d

    if c10d._use_torchcomms_enabled():  # makes every group, whatever its name
        return ""
    if not any(name in str(asked).lower() for name in ("gloo", "nccl", "undefined")):
        return ""
    devices = c10d.BackendConfig(c10d.Backend(asked)).get_device_backend_map()
    if "nccl" in devices.values() and not c10d.is_nccl_available():  # torch says so
        return ""
    names = {device: NAME if (device, name) in _TAKEN else name for device, name in devices.items()}
    return ",".join(f"{device}:{name}" for device, name in names.items()) if names != devices else ""


def _name(group: Any, wanted: str, kind: Any) -> None:
    """Have torch's C++ take the backend for one of this kind: it has names and numbers for those it knows alone."""
    names = dict(pair.split(":") for pair in wanted.split(","))
    for device in group._device_types:
        if names[device.type] == NAME:  # which may be wrapped, by torch's checks of calls
            group._register_backend(device, kind, group._get_backend(device))
    group._set_default_backend(kind)
