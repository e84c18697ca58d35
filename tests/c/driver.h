/* SPDX-License-Identifier: Apache-2.0
 * CUDA's driver, as a program that has no header of CUDA reaches it. */
#ifndef TESTS_C_DRIVER_H_
#define TESTS_C_DRIVER_H_

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;
typedef struct CUstream_st* Stream;

static void* driver;
/* POSIX makes a function of what dlsym returns; C99 has no cast for it. */
static void find(const char* name, void* function) {
  void* const found = dlsym(driver, name);
  if (!found) fprintf(stderr, "the driver has no %s\n", name), exit(EXIT_FAILURE);
  memcpy(function, &found, sizeof found);
}
static int (*mem_alloc)(Address*, size_t), (*mem_free)(Address);
static int (*stream_create)(Stream*, unsigned, int), (*stream_destroy)(Stream), (*drain)(Stream);
static int (*to_device)(Address, const void*, size_t, Stream), (*to_host)(void*, Address, size_t, Stream);

static void open_driver(int ordinal) {
  const char* named = getenv("LANECAST_CUDA_LIBRARY");
  int (*init)(unsigned), (*retain)(void**, int), (*push)(void*);
  void* context;
  driver = dlopen(named ? named : "libcuda.so.1", RTLD_NOW);
  if (!driver) fprintf(stderr, "%s\n", dlerror()), exit(EXIT_FAILURE);
  find("cuInit", &init), find("cuDevicePrimaryCtxRetain", &retain), find("cuCtxPushCurrent_v2", &push);
  find("cuMemAlloc_v2", &mem_alloc), find("cuMemFree_v2", &mem_free);
  find("cuStreamCreateWithPriority", &stream_create), find("cuStreamDestroy_v2", &stream_destroy);
  find("cuStreamSynchronize", &drain);
  find("cuMemcpyHtoDAsync_v2", &to_device), find("cuMemcpyDtoHAsync_v2", &to_host);
  if (init(0) || retain(&context, ordinal) || push(context)) fprintf(stderr, "no GPU\n"), exit(EXIT_FAILURE);
}

#endif
