/* SPDX-License-Identifier: Apache-2.0
 * A rank of a test that makes calls on its GPU, and the numbers that its buffers hold. */
#ifndef TESTS_C_RANK_ON_GPU_H_
#define TESTS_C_RANK_ON_GPU_H_

#include <lanecast/lanecast.h>
#include <stdint.h>
#include <stdio.h>

#include "driver.h"
#include "expect.h"

static int size;
static lanecastComm_t comm;
#define SUCCEEDS(call) succeeds((call), #call, __LINE__)
static void succeeds(lanecastResult_t result, const char* call, int line) {
  if (result == lanecastSuccess) return;
  fprintf(stderr, "%d: %s: %s: %s\n", line, call, lanecastGetErrorString(result), lanecastGetLastError(comm));
  ++failures;
}

/* Unique per rank and element, and small enough for exact sums. */
static int32_t value(int r, size_t i) { return 1000003 * (r + 1) + (int32_t)i; }
static int32_t sum_at(size_t i) { return 1000003 * (size * (size + 1) / 2) + size * (int32_t)i; }

static void* pointer(Address at) { return (void*)(uintptr_t)at; }

#endif
