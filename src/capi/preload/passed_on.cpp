// SPDX-License-Identifier: Apache-2.0
// Functions that go to NCCL as they come. Each is a jump to wherever its entry points, so it needs no signature and
// costs a nanosecond; the first call finds the function. On x86-64.
#include "capi/preload/real_nccl.h"

namespace lanecast::preload {

struct PassedOn {
  const void* target;  // read by the jump; first the code that finds it
  const char* name;
};

}  // namespace lanecast::preload

/// Two threads may find the same at once.
extern "C" __attribute__((visibility("hidden"), used)) const void* lanecast_find_passed_on(
    lanecast::preload::PassedOn* entry) {
  const void* const found = lanecast::preload::real_function(entry->name);
  // Release: pairs with nothing but the order of a thread's own loads; whoever reads the old value finds it again.
  __atomic_store_n(&entry->target, found, __ATOMIC_RELEASE);
  return found;
}

// r11 is nobody's across a call, and has the entry. No function of NCCL takes floating-point numbers in registers.
asm(R"(
.text
.type lanecast_bind_passed_on, @function
lanecast_bind_passed_on:
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %rax
  movq %r11, %rdi
  call lanecast_find_passed_on
  movq %rax, %r11
  popq %rax
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  jmp *%r11
.size lanecast_bind_passed_on, . - lanecast_bind_passed_on
)");

#define PASSED_ON(name)                    \
  asm(".text\n"                            \
      ".globl " #name                      \
      "\n"                                 \
      ".type " #name ", @function\n" #name \
      ":\n"                                \
      "  leaq .Lentry_" #name              \
      "(%rip), %r11\n"                     \
      "  jmp *(%r11)\n"                    \
      ".size " #name ", . - " #name        \
      "\n"                                 \
      ".section .rodata\n"                 \
      ".Lname_" #name ": .asciz \"" #name  \
      "\"\n"                               \
      ".data\n"                            \
      ".balign 16\n"                       \
      ".Lentry_" #name                     \
      ":\n"                                \
      "  .quad lanecast_bind_passed_on\n"  \
      "  .quad .Lname_" #name              \
      "\n"                                 \
      ".text\n");
#include "capi/preload/passed_on.def"
#undef PASSED_ON
