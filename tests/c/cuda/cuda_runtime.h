/* SPDX-License-Identifier: Apache-2.0
 * What NCCL's own header needs of CUDA's, for tests on machines without CUDA. */
#ifndef TESTS_C_CUDA_CUDA_RUNTIME_H_
#define TESTS_C_CUDA_CUDA_RUNTIME_H_

#define CUDART_VERSION 12000
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

#endif
