# SPDX-License-Identifier: Apache-2.0
"""Measuring a machine once, so that later calls are chosen by what was measured: `lanecast tune`.

The command and `lanecast learn measure` come in here. Begin with `tuner`, which leads from a communicator to a profile:
`measure` times algorithms level by level, among the `groups` that meet at each, `fit` makes lines of the times, and
`gain` says what they are worth. `gpu_tuner` does it for what moves calls among the GPUs of a host. `tables` and
`gpu_tables` show the outcome. The files themselves are of `lanecast.profiles`.
"""
