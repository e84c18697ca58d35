# SPDX-License-Identifier: Apache-2.0
"""What ranks have called, as they wrote it down: read, compared, summed up and drawn."""

from lanecast.traces.read import CommunicatorTrace, RankTrace, read
from lanecast.traces.report import report
from lanecast.traces.write import write_on_signal

__all__ = ["CommunicatorTrace", "RankTrace", "read", "report", "write_on_signal"]
