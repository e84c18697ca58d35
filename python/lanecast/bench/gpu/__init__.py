# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench --device cuda`: collectives on GPUs, timed by the device's own clock, beside NCCL's and torch's."""
