// What the processor and the operating system let Highway's kernels use.
//
// Sluice takes Highway's headers but not its library: highway.cc defines the two functions that its
// run-time dispatch calls, with the same requirements per target.
//
// Any thread may call; nothing allocates or fails.
#pragma once

#include <cstdint>

namespace sluice {

// The words of CPUID and XGETBV that decide; 0 where the processor has no such leaf.
struct CpuWords {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf1_edx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t extended1_ecx = 0;  // leaf 0x80000001
  std::uint32_t xcr0 = 0;           // the registers the operating system saves; 0 without OSXSAVE
};

struct SimdSupport {
  bool avx2 = false;    // Highway's AVX2: with FMA, F16C, BMI1, BMI2, LZCNT, AES, PCLMUL
  bool avx512 = false;  // Highway's AVX3: that and AVX-512 F, VL, DQ, BW
  bool operator==(const SimdSupport&) const = default;
};

// All words 0 on a processor that is not x86-64. Slow on a virtual machine, where CPUID is
// emulated: ask once.
CpuWords read_cpu_words();

// What these words allow; pure, so tests ask about processors that are not here.
SimdSupport simd_support(const CpuWords& words);

}  // namespace sluice
