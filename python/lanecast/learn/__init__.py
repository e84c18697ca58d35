# SPDX-License-Identifier: Apache-2.0
"""Choosing by what whole calls took: a database of times, support vector machines trained on it, files of these."""
