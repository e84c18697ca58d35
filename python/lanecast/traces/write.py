# SPDX-License-Identifier: Apache-2.0
"""Traces of a program that runs, or hangs."""

from __future__ import annotations

import os
import signal
import sys

from lanecast._core import Error
from lanecast.communicator import live_communicators


def write_on_signal(directory: str | os.PathLike[str], signum: int = signal.SIGUSR1) -> None:
    """Let every communicator of this process write its trace to `directory` when signal `signum` comes.

    Nothing is done in the signal's own context: Python runs the handler in the main thread, between two of its steps
    or, in a call that waits, within some 20 ms. To be called in the main thread, as signal.signal() must be.
    """

    def handler(*_: object) -> None:
        for communicator in live_communicators():
            try:
                communicator.write_trace(directory)
            except Error as error:  # the program that was asked goes on
                print(f"lanecast: {error}", file=sys.stderr)

    signal.signal(signum, handler)
