# SPDX-License-Identifier: Apache-2.0
"""torch's own DistributedTest, from its wheel, on a backend of choice.

outside_suite.py BACKEND RANKS PATTERNS [NOT]: runs the tests that fit one of PATTERNS and none of NOT; its last line is
a JSON object of test names by outcome. The suite names the backends that have a feature; Lanecast is put wherever it
names gloo. The ranks are forked, so that no test waits for an import of torch.
"""

import faulthandler
import fnmatch
import json
import os
import sys
import tempfile
import unittest
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

MODULE = "torch.testing._internal.distributed.distributed_test"
CHANGES = {
    'BACKEND = os.environ["BACKEND"]': 'BACKEND = SameAsGloo(os.environ["BACKEND"])',
    "if not check(dist.Backend(BACKEND)):": "if not check(dist.Backend.GLOO):",
}


class SameAsGloo(str):
    """A backend's name that passes for gloo's in every comparison and set, and is itself in lower()."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("gloo")


class Loader:
    """Loads the suite with another name for what it reads from the environment."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, _: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        source = self.loader.get_source(MODULE)
        for line, instead in CHANGES.items():
            assert source.count(line) == 1, line
            source = source.replace(line, instead)
        module.SameAsGloo = SameAsGloo
        exec(compile(source, module.__file__, "exec"), module.__dict__)


class Finder:
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        spec.loader = Loader(spec.loader)  # type: ignore[assignment]
        return spec


def fits(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns.split(","))


def suite(patterns: str, left_out: str) -> unittest.TestSuite:
    import torch.multiprocessing
    from torch.testing._internal.distributed import distributed_test

    class OnForkedRanks(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    names = unittest.defaultTestLoader.getTestCaseNames(OnForkedRanks)
    chosen = [name for name in names if fits(name, patterns) and not fits(name, left_out)]
    return unittest.TestSuite(OnForkedRanks(name) for name in chosen)


class Outcomes(unittest.TextTestResult):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed.append(name_of(test))


def name_of(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2]


def main(backend: str, ranks: str, patterns: str, left_out: str = "") -> None:
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_dir").mkdir()
        (Path(folder) / "barrier").mkdir()
        os.environ.update(BACKEND=backend, WORLD_SIZE=ranks, TEMP_DIR=folder, INIT_METHOD=f"file://{folder}/store")
        sys.meta_path.insert(0, Finder())
        if backend == "lanecast":
            from lanecast.torch import adapter

            adapter.load()
        runner = unittest.TextTestRunner(stream=sys.stderr, verbosity=2, resultclass=Outcomes)
        result: Any = runner.run(suite(patterns, left_out))
    failed = [name_of(test) for test, _ in [*result.failures, *result.errors]]
    skipped = [name_of(test) for test, _ in result.skipped]
    print(json.dumps({"passed": result.passed, "skipped": skipped, "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
