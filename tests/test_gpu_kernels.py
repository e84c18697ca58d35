# SPDX-License-Identifier: Apache-2.0
"""The exchange kernel by itself, with many rounds in few short slots, and under ThreadSanitizer."""

import subprocess

import pytest

import gpu_host_library


@pytest.mark.timeout(400)
def test_exchanges() -> None:
    program = gpu_host_library.program("exchanges")
    done = subprocess.run([str(program), "2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "336 calls\n"), done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_exchanges_have_no_race() -> None:
    program = gpu_host_library.program("exchanges", sanitized=True)
    done = subprocess.run([str(program), "2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "336 calls\n", "")
