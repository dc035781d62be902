#include "kernels/highway.h"

#include <hwy/highway.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sluice {
namespace {

constexpr std::uint32_t bits(auto... index) { return ((std::uint32_t{1} << index) | ...); }

constexpr bool has_all(std::uint32_t word, std::uint32_t wanted) {
  return (word & wanted) == wanted;
}

// Bit numbers are those of Intel's manual, volume 2A, CPUID; the lists are Highway 1.0.3's.
constexpr std::uint32_t kSseEdx = bits(25, 26);  // SSE, SSE2
// SSE3, PCLMULQDQ, SSSE3, SSE4.1, SSE4.2, AES.
constexpr std::uint32_t kSseEcx = bits(0, 1, 9, 19, 20, 25);
constexpr std::uint32_t kOsxsaveEcx = bits(27);
constexpr std::uint32_t kAvxEcx = bits(12, 28, 29);         // FMA, AVX, F16C
constexpr std::uint32_t kLzcntExtended = bits(5);           // Intel's LZCNT, AMD's ABM
constexpr std::uint32_t kAvx2Ebx = bits(3, 5, 8);           // BMI1, AVX2, BMI2
constexpr std::uint32_t kAvx512Ebx = bits(16, 17, 30, 31);  // F, DQ, BW, VL
constexpr std::uint32_t kYmmSaved = bits(1, 2);             // XMM, upper halves of YMM
constexpr std::uint32_t kZmmSaved = bits(5, 6, 7);          // masks, ZMM0-15's upper, ZMM16-31

}  // namespace

#if defined(__x86_64__)

CpuWords read_cpu_words() {
  CpuWords words;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
    words.leaf1_ecx = c;
    words.leaf1_edx = d;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) words.leaf7_ebx = b;
  if (__get_cpuid(0x80000001U, &a, &b, &c, &d) != 0) words.extended1_ecx = c;
  if (has_all(words.leaf1_ecx, kOsxsaveEcx)) {
    // _xgetbv() would need -mxsave for this file.
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    words.xcr0 = a;
  }
  return words;
}

#else

CpuWords read_cpu_words() { return {}; }

#endif

SimdSupport simd_support(const CpuWords& words) {
  SimdSupport support;
  support.avx2 = has_all(words.leaf1_edx, kSseEdx) &&
                 has_all(words.leaf1_ecx, kSseEcx | kAvxEcx | kOsxsaveEcx) &&
                 has_all(words.extended1_ecx, kLzcntExtended) &&
                 has_all(words.leaf7_ebx, kAvx2Ebx) && has_all(words.xcr0, kYmmSaved);
  support.avx512 =
      support.avx2 && has_all(words.leaf7_ebx, kAvx512Ebx) && has_all(words.xcr0, kZmmSaved);
  return support;
}

}  // namespace sluice

// The build renames this namespace (cmake/library.cmake), so a program may also hold libhwy, of any
// version.
namespace hwy {

int64_t SupportedTargets() {
  const sluice::SimdSupport support = sluice::simd_support(sluice::read_cpu_words());
  std::int64_t targets = HWY_SCALAR | HWY_EMU128;
  if (support.avx2) targets |= HWY_AVX2;
  if (support.avx512) targets |= HWY_AVX3;
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
