# SPDX-License-Identifier: Apache-2.0
"""Several processes per GPU: helpers that map a leader's buffers, each of which moves a slice of every part.

A call's plan is the one that a leader alone would run, and a helper's slice is a chunk of it. So what is proven of
chunks holds for helpers. Source: Adams and Bienz, Optimizing Allreduce Operations for Heterogeneous Architectures with
Multiple Processes per GPU.
"""
