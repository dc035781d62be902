#include "kernels/draws/draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "kernels/level.h"

namespace sluice::draws {
namespace {

constexpr std::uint32_t kCanary = 0xdeadbeef;
constexpr std::size_t kGuard = 16;

template <class Test>
void at_each_level(const Test& test) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    SCOPED_TRACE(name_of(level));
    test();
  }
}

// Fills `count` words `offset` words into guarded memory and expects word() of each, and no more.
void expect_words(const RandomStream& stream, std::uint64_t first, std::size_t count,
                  std::size_t offset) {
  std::vector<std::uint32_t> memory(kGuard + offset + count + kGuard, kCanary);
  const std::span words = std::span(memory).subspan(kGuard + offset, count);
  fill(stream, first, words);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(words[i], stream.word(first + i)) << first << " + " << i << " of " << count;
  }
  ASSERT_EQ(std::count(memory.begin(), memory.end() - static_cast<std::ptrdiff_t>(count + kGuard),
                       kCanary),
            static_cast<std::ptrdiff_t>(kGuard + offset));
  ASSERT_EQ(std::count(memory.end() - kGuard, memory.end(), kCanary),
            static_cast<std::ptrdiff_t>(kGuard));
}

TEST(Draws, FillIsWordOfEachAtEveryFirstAndLength) {
  at_each_level([] {
    const RandomStream stream(chunk_key(9, 8, 7), Purpose::rounding, 5);
    for (std::uint64_t first = 0; first < kRandomBlock + 2; ++first) {
      for (std::size_t count = 0; count < 3 * kRandomBlock + 2; ++count) {
        expect_words(stream, first, count, count % 16);
      }
    }
  });
}

TEST(Draws, FillIsTheSameFromAnyChunking) {
  at_each_level([] {
    const RandomStream stream(chunk_key(1, 2, 3), Purpose::sign, kShared);
    std::vector<std::uint32_t> whole(10'000);
    fill(stream, 77, whole);
    for (const std::size_t chunk : {1u, 7u, 64u, 100u, 4096u}) {
      std::vector<std::uint32_t> pieces(whole.size());
      for (std::size_t at = 0; at < pieces.size(); at += chunk) {
        const std::size_t count = std::min(chunk, pieces.size() - at);
        fill(stream, 77 + at, std::span(pieces).subspan(at, count));
      }
      EXPECT_EQ(pieces, whole) << chunk;
    }
  });
}

TEST(Draws, FillIsDefinedForTheLargestElementsAndWraps) {
  at_each_level([] {
    const RandomStream stream(chunk_key(4, 5, 6), Purpose::dither, 0);
    constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
    for (const std::uint64_t first : {std::uint64_t{1} << 32, (std::uint64_t{1} << 38) - 65,
                                      std::uint64_t{1} << 63, kLast - 300, kLast - 63, kLast}) {
      expect_words(stream, first, 301, 3);
    }
  });
}

TEST(Draws, EveryPurposeAndRankHasItsOwnWords) {
  at_each_level([] {
    for (const Purpose purpose : {Purpose::sign, Purpose::rounding, Purpose::data}) {
      for (const std::uint32_t rank : {0u, 1u, 63u, kShared}) {
        expect_words(RandomStream(chunk_key(1, 1, 1), purpose, rank), 5, 130, 1);
      }
    }
  });
}

// By another road: the arithmetic of base/random.h written out in 64 bits.
TEST(Draws, WordsAreTheDocumentedArithmetic) {
  const std::uint64_t key = chunk_key(42, 1000, 7);
  const RandomStream stream(key, Purpose::rounding, 3);
  const std::uint64_t folded = mix(mix(key, 3), 3);  // Purpose::rounding is 3, and so is the rank
  at_each_level([&] {
    std::vector<std::uint32_t> words(1000);
    fill(stream, 6400, words);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      constexpr std::uint64_t kLow = 0xffffffffu;
      const std::uint64_t block = mix(folded, (6400 + i) / 64);
      std::uint64_t r = (kSpread[i % 64] * ((block >> 32) | 1) + (block & kLow)) & kLow;
      r ^= r / 65536;
      r = (r * 0x7feb352du) & kLow;
      r ^= r / 32768;
      ASSERT_EQ(words[i], r) << i;
    }
  });
}

}  // namespace
}  // namespace sluice::draws
