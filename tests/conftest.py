# SPDX-License-Identifier: Apache-2.0
"""Settings every test shares."""

import faulthandler
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

import gpu_host_library
from lanecast.scale import build
from lanecast.scale.build import Simulator

# Containers run the tests as root, which Open MPI refuses unless it is told twice.
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

# Those of the torch.distributed backend run where torch is: `make test-torch`.
collect_ignore = [] if importlib.util.find_spec("torch") else ["pytorch"]

# What a user has tuned on this machine must not change what the tests see.
os.environ.setdefault("LANECAST_PROFILE", "none")

# Ranks share few cores here, so an example's duration says nothing; the same examples on every run, more on request.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


LATER_S = 60.0  # the end from outside comes behind the one that is a Python signal


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test with a longer time of its own has it also before pytest ends the run: see faulthandler_timeout."""
    mark = item.get_closest_marker("timeout")
    usual_s = float(item.config.getini("faulthandler_timeout") or 0)
    if mark is None or not mark.args or usual_s == 0 or mark.args[0] + LATER_S <= usual_s:
        return
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(mark.args[0] + LATER_S, exit=True, file=stderr)


@pytest.fixture(autouse=True)
def _folder_of_open_mpi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its launcher names its folder after its process, and does not start where a killed one left that name."""
    with tempfile.TemporaryDirectory(prefix="prte-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("PRTE_MCA_prte_tmpdir_base", folder)
        yield


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in which the kernels of a GPU are compiled once; their driver is there before the test begins."""
    gpu_host_library.library()
    return str(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def simulator() -> Simulator:
    """Compiled into the user's cache, once."""
    if build.find_simgrid() is None:
        pytest.skip("no SimGrid here: apt-get install --no-install-recommends libsimgrid-dev")
    return build.simulator(print)


@pytest.fixture
def own_results(simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read that another build has simulated; the simulator is there before."""
    assert simulator.program.exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
