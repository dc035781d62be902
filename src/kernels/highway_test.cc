#include "kernels/highway.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "kernels/level.h"

namespace sluice {
namespace {

constexpr std::uint32_t kOsxsave = std::uint32_t{1} << 27;

// Flags of the first processor as the kernel reports them; empty where there is no such file.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

bool has_all(const std::set<std::string>& flags, std::initializer_list<const char*> wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const char* flag) { return flags.contains(flag); });
}

// A processor with exactly what the AVX-512 kernels need.
CpuWords full_words() {
  CpuWords words;
  words.leaf1_edx = 0x06000000;
  words.leaf1_ecx = 0x3a181203;
  words.extended1_ecx = 0x00000020;
  words.leaf7_ebx = 0xc0030128;
  words.xcr0 = 0xe6;
  return words;
}

constexpr std::array kWords{&CpuWords::leaf1_ecx, &CpuWords::leaf1_edx, &CpuWords::leaf7_ebx,
                            &CpuWords::extended1_ecx, &CpuWords::xcr0};

TEST(Highway, AgreesWithTheFlagsTheKernelReports) {
  const std::set<std::string> flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  // The kernel drops a flag whose registers it does not save.
  const bool avx2 = has_all(flags, {"sse", "sse2", "pni", "ssse3", "sse4_1", "sse4_2", "pclmulqdq",
                                    "aes", "avx", "avx2", "fma", "f16c", "abm", "bmi1", "bmi2"});
  const bool avx512 = avx2 && has_all(flags, {"avx512f", "avx512vl", "avx512dq", "avx512bw"});
  EXPECT_EQ(simd_support(read_cpu_words()), (SimdSupport{avx2, avx512}));
  EXPECT_EQ(available_levels().size(), std::size_t{1} + (avx2 ? 1 : 0) + (avx512 ? 1 : 0));
}

TEST(Highway, NoWordsAreNoSupport) { EXPECT_EQ(simd_support(CpuWords{}), SimdSupport{}); }

TEST(Highway, AllWordsAreFullSupport) {
  CpuWords words;
  for (const auto word : kWords) words.*word = ~std::uint32_t{0};
  EXPECT_EQ(simd_support(words), (SimdSupport{true, true}));
}

TEST(Highway, ExactlyTheNeededBitsAreFullSupport) {
  EXPECT_EQ(simd_support(full_words()), (SimdSupport{true, true}));
}

TEST(Highway, EachNeededBitIsNeeded) {
  for (const auto word : kWords) {
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      CpuWords words = full_words();
      const std::uint32_t mask = std::uint32_t{1} << bit;
      if ((words.*word & mask) == 0) continue;
      words.*word &= ~mask;
      EXPECT_FALSE(simd_support(words).avx512) << "bit " << bit;
    }
  }
}

TEST(Highway, BitsOfAvx512AreNotNeededForAvx2) {
  for (const std::uint32_t bit : {16U, 17U, 30U, 31U}) {
    CpuWords words = full_words();
    words.leaf7_ebx &= ~(std::uint32_t{1} << bit);
    EXPECT_EQ(simd_support(words), (SimdSupport{true, false})) << "bit " << bit;
  }
  for (const std::uint32_t bit : {5U, 6U, 7U}) {
    CpuWords words = full_words();
    words.xcr0 &= ~(std::uint32_t{1} << bit);
    EXPECT_EQ(simd_support(words), (SimdSupport{true, false})) << "xcr0 bit " << bit;
  }
}

TEST(Highway, RegistersTheSystemDoesNotSaveAreNotUsed) {
  for (const std::uint32_t xcr0 : {0x0U, 0x1U, 0x2U, 0x3U, 0x4U, 0xe0U}) {
    CpuWords words = full_words();
    words.xcr0 = xcr0;
    EXPECT_EQ(simd_support(words), SimdSupport{}) << "xcr0 " << xcr0;
  }
}

TEST(Highway, WithoutOsxsaveNothingIsUsed) {
  CpuWords words = full_words();
  words.leaf1_ecx &= ~kOsxsave;
  EXPECT_EQ(simd_support(words), SimdSupport{});
}

TEST(Highway, XcrIsReadOnlyWhereItExists) {
  const CpuWords words = read_cpu_words();
  EXPECT_EQ(words.xcr0 != 0, (words.leaf1_ecx & kOsxsave) != 0);
}

}  // namespace
}  // namespace sluice
