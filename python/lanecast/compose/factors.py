# SPDX-License-Identifier: Apache-2.0
"""Factors of a number of domains: the levels of a tree over them."""

from __future__ import annotations

Factors = tuple[int, ...]


def prime_factors(number: int) -> Factors:
    """Ascending; none of 1."""
    for factor in range(2, number + 1):
        if number % factor == 0:
            return (factor, *prime_factors(number // factor))
    return ()
