/* SPDX-License-Identifier: Apache-2.0
 * What NCCL's own header needs of CUDA's, for tests on machines without CUDA. */
#ifndef TESTS_C_CUDA_CUDA_BF16_H_
#define TESTS_C_CUDA_CUDA_BF16_H_

#endif
