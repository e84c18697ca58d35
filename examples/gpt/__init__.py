# SPDX-License-Identifier: Apache-2.0
"""The parts of train_gpt.py."""
