# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench --protocol hiccl`: compositions measured as in HiCCL's paper. Source: HiCCL, section VI."""
