/* SPDX-License-Identifier: Apache-2.0
 * Memory that a program maps by itself, as NCCL's allocator and torch's expandable segments do. */
#ifndef TESTS_C_PIECES_H_
#define TESTS_C_PIECES_H_

#include "driver.h"

enum { kPiece = 2 << 20 }; /* bytes */

/* Of two pieces side by side, which other processes may map by files; for as long as the process. */
static Address two_pieces(int ordinal) {
  const struct {
    int type, handle_types, location, device;
    void* windows;
    unsigned char flags[8];
  } kind = {1, 1, 1, ordinal, NULL, {0}}; /* pinned, by POSIX file descriptor, of a device */
  const struct {
    int location, device, flags;
  } access = {1, ordinal, 3}; /* read and written */
  int (*reserve)(Address*, size_t, size_t, Address, unsigned long long);
  int (*create)(unsigned long long*, size_t, const void*, unsigned long long), (*release)(unsigned long long);
  int (*map)(Address, size_t, size_t, unsigned long long, unsigned long long);
  int (*allow)(Address, size_t, const void*, size_t);
  Address begin = 0;
  find("cuMemAddressReserve", &reserve), find("cuMemCreate", &create), find("cuMemRelease", &release);
  find("cuMemMap", &map), find("cuMemSetAccess", &allow);
  int failed = reserve(&begin, 2 * kPiece, 0, 0, 0);
  for (Address at = begin; !failed && at < begin + 2 * kPiece; at += kPiece) {
    unsigned long long physical = 0;
    failed = create(&physical, kPiece, &kind, 0) || map(at, kPiece, 0, physical, 0) || release(physical);
  }
  if (failed || allow(begin, 2 * kPiece, &access, 1)) fprintf(stderr, "no pieces\n"), exit(EXIT_FAILURE);
  return begin;
}

#endif
