# SPDX-License-Identifier: Apache-2.0
"""The measuring library: collectives timed and checked, on CPUs and on GPUs, beside other libraries' own.

`lanecast bench`, `lanecast demo` and `lanecast tune`, the scripts in the folder bench and the tests come in here. The
room knows communicators and what starts them; it knows no command line, and nothing in it imports `lanecast.cli`.

Begin with `measure`: a contender is a call on the buffers of a `payload`, and rounds run each contender once. Where
buffers lie and which clock counts it leaves to two interfaces, `Memory` (buffers, filled and compared) in `memory` and
`Device` (now, elapsed, done) in `device`; `ranks` and `gpu_ranks` bring the processes together, and `backends` has one
call of each library. `runner` leads from `settings` to rows, `protocol` says what is measured in which order, and
`options` reads names and sizes. `machine` describes where a figure comes from, `network` and `cores` what else moved
meanwhile; `tables`, `summary` and `plots` show rows. `hiccl` is the protocol of that paper, `training` that of steps.
"""
