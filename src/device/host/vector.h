// SPDX-License-Identifier: Apache-2.0
// SIMD vectors as wide as the instruction set this file is compiled for, by the compiler's vector extension.
//
// Everything that the variants include lives in an unnamed namespace and calls no inline function of the standard
// library: the linker would keep one copy of it for the whole program, perhaps the one with AVX-512 instructions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lanecast::host {
namespace {

#if defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));  // `using` takes no attribute that depends on a template
};

template <class T, int bytes = kVectorBytes>
using Vector = VectorOf<T, bytes>::type;

/// Any alignment, and no aliasing rule broken: buffers are bytes to us.
template <class V>
V load(const std::byte* from) {
  V vector;
  __builtin_memcpy(&vector, from, sizeof(V));
  return vector;
}

template <class V>
void store(std::byte* to, V vector) {
  __builtin_memcpy(to, &vector, sizeof(V));
}

}  // namespace
}  // namespace lanecast::host
