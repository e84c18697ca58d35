# SPDX-License-Identifier: Apache-2.0
"""What a piece of work costs, whatever else this process has done and does."""

import gc
import time
from collections.abc import Callable


def processor_s(work: Callable[[], object]) -> float:
    """Seconds of this thread, since others may be moving calls.

    Garbage is not collected meanwhile, or all that earlier tests left behind would be walked through.
    """
    gc.disable()
    try:
        begin = time.thread_time()
        work()
        return time.thread_time() - begin
    finally:
        gc.enable()
