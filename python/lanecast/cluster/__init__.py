# SPDX-License-Identifier: Apache-2.0
"""A cluster of emulated hosts on one Linux machine: namespaces as hosts, veth pairs as NICs, tbf as their rate."""
