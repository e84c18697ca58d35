# SPDX-License-Identifier: Apache-2.0
"""The library itself on simulated machines: built once against SimGrid, run point by point, results kept."""
