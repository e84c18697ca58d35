# SPDX-License-Identifier: Apache-2.0
"""Measuring as the paper on several processes per GPU does."""
