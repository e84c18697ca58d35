# SPDX-License-Identifier: Apache-2.0
"""The library itself on simulated machines: built once against SimGrid's SMPI, run point by point, results kept."""
