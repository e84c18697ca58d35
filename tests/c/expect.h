/* SPDX-License-Identifier: Apache-2.0
 * What a rank of a test expects, and how often it was not so. */
#ifndef TESTS_C_EXPECT_H_
#define TESTS_C_EXPECT_H_

#include <stdio.h>

static int failures;
static int rank;
#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: rank %d expected %s\n", __FILE__, __LINE__, rank, #condition); \
      ++failures;                                                                            \
    }                                                                                        \
  } while (0)

#endif
