# SPDX-License-Identifier: Apache-2.0
"""How ranks come together: under an MPI launcher, from a given all-gather, or as threads."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any, TypeVar

from lanecast import _core, job, machines, nics, topologies
from lanecast.communicator import Communicator
from lanecast.emulation import take_part_in_emulation
from lanecast.gpu_libraries import with_gpu
from lanecast.helpers import joining, starting
from lanecast.helpers.crew import Crew
from lanecast.helpers.leading import Leader
from lanecast.mpi_library import find_mpi
from lanecast.profiles import finding, surprises

T = TypeVar("T")

_TOPOLOGY = "LANECAST_TOPOLOGY"
_PROCESSES, _SHARED_CORES = "LANECAST_PROCESSES_PER_GPU", "LANECAST_ALLOW_SHARED_CORES"
_MOST_PROCESSES = 64
_GRACE_S = 5.0  # for started calls that nobody has waited for when the process ends
_STARTS_WITHIN_S = 60.0  # an MPI whose ranks all come


@functools.cache
def progress_thread() -> _core.ProgressThread:
    """The one thread that moves asynchronous calls of all communicators; it starts with the first such call."""
    thread = _core.make_progress_thread()
    atexit.register(thread.stop, _GRACE_S)
    return thread


@contextmanager
def _missing_ranks_told(found: job.Job | None) -> Iterator[None]:
    """MPI starts when all ranks have come, and waits for them in a call that nothing ends: say so if it takes long."""
    whose = "this rank" if found is None or found.rank is None else f"rank {found.rank}"
    said = (
        f"lanecast: {whose} has waited {_STARTS_WITHIN_S:g} s for MPI to start, which waits for all ranks of the job: "
        "has each of them called lanecast.init() or MPI_Init?"
    )
    timer = threading.Timer(_STARTS_WITHIN_S, print, [said], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@functools.cache
def mpi() -> _core.Mpi:
    """The MPI library of this process, started if it was not; it ends with the process if we started it."""
    library = find_mpi()
    library.check_parent(0)
    found = job.detect()
    if found is not None and found.obstacle() and not library.initialized:
        raise _core.UsageError(found.obstacle())
    with _missing_ranks_told(found):
        library.init()
    atexit.register(library.finalize)
    atexit.register(progress_thread().stop, _GRACE_S)  # runs first: the thread must not call an MPI that has ended
    return library


def init(**options: Any) -> Communicator:
    """Make the communicator of all ranks of this job; of one rank where no launcher has started any others.

    options, also settable as LANECAST_… in the environment:
      topology: "2x4" (2 nodes of 4), "2x2x2", "3+2+4", with ":cyclic" for ranks dealt out; "layout.toml", a file that
        says where each rank sits, see docs/guide/first-machine.md; "machine:frontier" and the like, see
        docs/reference/machines.md; or a Topology. Default: the hosts that the ranks run on.
      transports: "shm", or one name per level, outermost first: "mpi,shm". Default: the fastest that reaches each peer.
      algorithm, chunks: for every call, algorithm of the collectives that have it. Default: chosen per call.
      reproducible: every sum has the same bits, whatever the algorithm, chunks, topology and transports: floats are
        reduced once, in rank order, which moves more bytes; see docs/explanation/reproducible.md. Default: False.
      profile: what `lanecast tune` and `lanecast learn train` have written: a file, two with a comma between them, a
        folder, "machine:frontier" for what was learned from simulating it, or "none"; rank 0's counts. Default: what
        lies in the user's cache for this machine and these ranks.
      timeout_s: seconds without progress after which a call gives up. Default: 300.
      check_calls: compare what the ranks call? Default: True. Equal on all ranks.
      trace_dir: where each rank writes its last calls when it fails or ends; see `lanecast trace`. Default: nowhere.
      trace_steps: keep each message, reduction, copy and wait with its step, chunk and times as well? Default: False.
      device (code only): the ordinal of this rank's GPU, opened at once. Default: that of the first call with a GPU's
        tensors, which then comes together with the other ranks.
      max_ctas: multiprocessors of the GPU that a call may take. Default: up to 64.
      gpu_messages: between hosts, "staged" in the hosts' memory, or "direct" on the GPUs, whatever library moves them.
        Default: the latter where that calls no driver and nothing speaks against it: docs/reference/gpu.md. Equal
        on all ranks.
      links: of hosts, "measure", times them now where no profile knows them; "assume", or a latency and a rank's rate,
        "12us,50GBps": see docs/reference/tuning.md. Default: measure. Equal on all ranks.
      allow_shared_gpu: may ranks share a GPU? To try things out. Default: False.
      window, chunks_in_flight (code only): steps that the executor looks ahead in a chunk, and chunks that it moves at
        a time, up to 1,024; each takes scratch memory of its own. Defaults: 256, 4.
      processes_per_gpu: this rank's process and so many less one beside it, its helpers, each of which moves a slice of
        the all-reduces, all-gathers and reduce-scatters of the CPU's memory where that is faster. Under an MPI's
        launcher the helpers are ranks that it has started, and init() does not return in them; else they are started
        here: docs/explanation/processes-per-gpu.md. Default: 1. Equal on all ranks.
      allow_shared_cores: may helpers share cores with each other and their leaders? To try things out. Default: False.
      gpu_library_folders, kernel_cache (code only): where the GPU's libraries are looked for beside the loader's path,
        and where compiled kernels are kept. Defaults: PyPI's nvidia packages, the user's cache.
    Collective. Raises UsageError for options that do not fit, and under a launcher by which no MPI finds the other
    ranks; TransportError where no transport can be opened.
    """
    take_part_in_emulation()
    found = job.detect()
    alone = found is not None and found.size == 1 and not found.starts_mpi
    if alone or not job.under_launcher():
        return from_all_gather(0, 1, lambda mine: mine, **options)
    processes, shared_cores = _processes(options, _teams()[0].processes if _teams() else 1)
    size = functools.cache(lambda: (found.size if found is not None else None) or _core.mpi_world(mpi())[1])
    options = _placed(options, lambda: size() // processes)
    if processes > 1:
        return _led(size(), processes, shared_cores, options)
    profile = options.pop("profile", None)
    return _tuned(_of_all_ranks(options), profile)


@functools.cache
def _teams() -> list[joining.Team]:
    """The one of this process, once it leads helpers that the launcher has started."""
    return []


def _of_all_ranks(options: dict[str, Any]) -> _core.Communicator:
    return _core.Communicator.from_mpi(mpi(), 0, progress_thread(), options)


def _led(size: int, processes: int, shared_cores: bool, options: dict[str, Any]) -> Communicator:
    """The leaders' communicator under an MPI's launcher."""
    teams = _teams()
    if not teams:
        teams.append(joining.form(_of_all_ranks, size, processes, shared_cores=shared_cores))
    if teams[0].processes != processes:
        raise _core.UsageError(
            f"processes_per_gpu={processes}: this job's ranks were dealt out with {teams[0].processes} when the first "
            "communicator was made, and stay so"
        )
    profile = options.pop("profile", None)
    core, members = teams[0].make(options)
    shared_gpu = bool(options.get("allow_shared_gpu"))
    return _tuned(core, profile, lambda core: Leader(core, Crew(core, members, shared_gpu=shared_gpu)))


def _processes(options: dict[str, Any], usual: int = 1) -> tuple[int, bool]:
    """What was asked for, which the core knows nothing of."""
    given, text = options.pop("processes_per_gpu", None), os.environ.get(_PROCESSES, "")
    shared = options.pop("allow_shared_cores", None)
    if shared is None:
        shared = os.environ.get(_SHARED_CORES, "") in {"1", "true"}
    if given is None and text:
        given = int(text) if text.isdecimal() else text
    processes = usual if given is None else _whole("init", "processes_per_gpu", given)
    if not 1 <= processes <= _MOST_PROCESSES:
        raise _core.UsageError(f"processes_per_gpu={processes}: expected 1 to {_MOST_PROCESSES}")
    return processes, bool(shared)


def _placed(options: dict[str, Any], size: Callable[[], int]) -> dict[str, Any]:
    """The options with the topology of a file or a described machine for so many ranks, and what a GPU takes."""
    given = options.get("topology")
    text = given or os.environ.get(_TOPOLOGY, "")
    if not isinstance(text, str) or not (topologies.is_file(text) or text.startswith(machines.PREFIX)):
        return with_gpu(options)
    try:
        return with_gpu({**options, "topology": topologies.parse(machines.topology_text(text, size()), size())})
    except _core.UsageError as error:
        raise error if given else _core.UsageError(f"{_TOPOLOGY}: {error}") from None


def _whole(function: str, name: str, number: Any) -> int:
    try:
        found = index(number)
    except TypeError:
        found = None
    if found is None or not -(1 << 31) <= found < 1 << 31:
        raise _core.UsageError(f"{function}: {name}={number!r}, expected a whole number of 32 bits")
    return found


def _tuned(
    core: _core.Communicator,
    profile: str | Path | None,
    made: Callable[[_core.Communicator], Communicator] = Communicator,
) -> Communicator:
    if core.size > 1:
        finding.adopt(core, profile)
    comm = made(core)
    surprises.watch(comm, core)
    return comm


def from_mpi(comm: Any, **options: Any) -> Communicator:
    """Make a communicator of the ranks of `comm`, an mpi4py communicator; messages never mix with the caller's.

    options: as for init(). Collective over `comm`. Raises UsageError for an intercommunicator (give comm.Merge()),
    COMM_NULL, one that has been freed, and after MPI has ended.
    """
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm):
        raise _core.UsageError(f"from_mpi: comm is a {type(comm).__name__}, expected an mpi4py communicator")
    take_part_in_emulation()
    address = MPI._addressof(comm)
    find_mpi().check_parent(address)
    if _processes(options)[0] > 1:
        raise _core.UsageError(
            "from_mpi: processes_per_gpu: helpers are ranks of the whole job, which lanecast.init() deals out; use that"
        )
    options = _placed(options, comm.Get_size)
    profile = options.pop("profile", None)
    return _tuned(_core.Communicator.from_mpi(mpi(), address, progress_thread(), options), profile)


def from_all_gather(rank: int, size: int, all_gather: Callable[[bytes], bytes], **options: Any) -> Communicator:
    """Make a communicator from nothing but an all-gather of short byte strings, such as a launcher's store offers.

    all_gather(mine) gets equally many bytes on each rank and returns those of all ranks, in rank order. It is called
    only while this communicator is made. options: as for init(). Collective.
    """
    rank, size = _whole("from_all_gather", "rank", rank), _whole("from_all_gather", "size", size)
    if not callable(all_gather):
        raise _core.UsageError(f"from_all_gather: all_gather is a {type(all_gather).__name__}, expected a function")
    take_part_in_emulation()
    nics.pin()
    processes, shared_cores = _processes(options)
    options = _placed(options, lambda: size)
    profile = options.pop("profile", None)
    core = _core.Communicator.from_all_gather(rank, size, all_gather, progress_thread(), options)
    if processes == 1:
        return _tuned(core, profile)
    return _tuned(
        core, profile, lambda core: Leader(core, starting.start(core, processes, options, shared_cores=shared_cores))
    )


def run_threads(size: int, function: Callable[[Communicator], T], **options: Any) -> list[T]:
    """Run function(comm) on `size` ranks that are threads of this process, and return what each rank returned.

    For trying things out and for tests: the same plans and executor as between processes. options: as for init().
    Raises the error of the rank that failed first, the others' as notes.
    """
    size = _whole("run_threads", "size", size)
    options = _placed(options, lambda: size)
    profile = options.pop("profile", None)
    world = _core.make_world(size)
    results: list[Any] = [None] * size
    errors: dict[int, BaseException] = {}

    def rank_main(rank: int) -> None:
        core = None
        try:
            core = _core.Communicator.from_threads(world, rank, progress_thread(), options)
            results[rank] = function(_tuned(core, profile))
        except BaseException as error:
            errors[rank] = error
            if core is not None:
                core.abort(f"its function raised {type(error).__name__}: {error}")

    threads = [threading.Thread(target=rank_main, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        first, *others = errors  # in the order in which they failed
        for rank in others:
            errors[first].add_note(f"rank {rank}: {type(errors[rank]).__name__}: {errors[rank]}")
        raise errors[first]
    return results
