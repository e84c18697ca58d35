# SPDX-License-Identifier: Apache-2.0
"""The kernels that wait for other ranks by themselves, with many rounds in few short slots; and ThreadSanitizer."""

import subprocess

import pytest

import gpu_host_library

# How often; what it says.
PROGRAMS = {
    "exchanges": ("1", "992 calls\n"), "messages": ("2", "192 messages\n"), "carried": ("2", "48 messages\n"),
    "joined": ("3", "240 launches\n"),
}  # fmt: skip


@pytest.mark.slow  # its kernels are compiled for a minute
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", PROGRAMS)
def test_protocol(name: str) -> None:
    program, (times, says) = gpu_host_library.program(name), PROGRAMS[name]
    done = subprocess.run([str(program), times], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, says), done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROGRAMS)
def test_protocol_has_no_race(name: str) -> None:
    program, (times, says) = gpu_host_library.program(name, sanitized=True), PROGRAMS[name]
    done = subprocess.run([str(program), times], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, says, "")
