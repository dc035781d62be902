#include "kernels/levels/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::levels {
namespace {

using support::Guarded;
using Table = std::vector<std::uint16_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Table& shipped() {
  static const Table table{0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30};
  return table;
}

template <class Test>
void at_each_level(const Test& test) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    SCOPED_TRACE(name_of(level));
    test();
  }
}

Table uniform_table(unsigned bits) {
  Table table(std::size_t{1} << bits);
  std::iota(table.begin(), table.end(), std::uint16_t{0});
  return table;
}

// 2^bits of the integers 0 … g, both ends among them.
Table random_table(unsigned bits, std::uint32_t g, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 0);
  std::vector<bool> chosen(g + 1);
  chosen[0] = chosen[g] = true;
  std::size_t left = (std::size_t{1} << bits) - 2;
  for (std::uint64_t i = 0; left > 0; ++i) {
    const std::uint32_t level = stream.word(i) % (g + 1);
    left -= chosen[level] ? 0 : 1;
    chosen[level] = true;
  }
  Table table;
  for (std::uint32_t level = 0; level <= g; ++level) {
    if (chosen[level]) table.push_back(static_cast<std::uint16_t>(level));
  }
  return table;
}

// Each way through the kernels, and the borders between them.
std::vector<Table> tables() {
  std::vector<Table> found{shipped()};
  for (unsigned bits = 1; bits <= kBitsMax; ++bits) found.push_back(uniform_table(bits));
  for (const std::uint32_t g : {17u, 31u, 32u, 42u, 63u, 64u, 100u, 4095u}) {
    found.push_back(random_table(4, g, g));
  }
  for (const std::uint32_t g : {2u, 3u, 34u, 4095u}) found.push_back(Table{0, std::uint16_t(g)});
  found.push_back(random_table(5, 60, 1));
  found.push_back(random_table(8, 256, 2));
  found.push_back(random_table(8, 4095, 3));
  return found;
}

std::vector<std::uint32_t> random_words(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint32_t> words(count);
  RandomStream(seed, Purpose::rounding, 0).fill(0, words);
  // The ends of the range, too.
  for (std::size_t i = 0; i < count; i += 17) words[i] = i % 2 == 0 ? 0 : 0xffffffffu;
  return words;
}

// Coordinates inside and a little outside the range of a table when times 1, some on the levels.
std::vector<float> coordinates(std::size_t count, std::uint32_t g, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 1);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float place = (stream.uniform(i) * 1.1f - 0.05f) * static_cast<float>(g);
    values[i] = (i % 5 == 0 ? std::round(place) : place) - static_cast<float>(g) * 0.5f;
  }
  return values;
}

// By another road: float64, rounded to float32 where the specification rounds, and a search.
unsigned reference_code(const Table& table, float rotated, float factor, std::uint32_t word) {
  const double g = table.back();
  const auto product = static_cast<float>(static_cast<double>(rotated) * factor);
  const auto place = static_cast<float>(product + g / 2);
  if (!(place > 0)) return 0;
  const double c = std::min<double>(place, g);
  std::size_t z = 0;
  while (z + 2 < table.size() && table[z + 1] <= c) ++z;
  const double u = std::ldexp(static_cast<double>(word >> 8), -24);
  const auto bar = static_cast<float>(u * (table[z + 1] - table[z]));
  return static_cast<unsigned>(z) + (bar < c - table[z] ? 1 : 0);
}

TEST(Levels, BelowIsTheLargestCodeWhoseLevelIsNotAboveTheCell) {
  for (const Table& table : tables()) {
    const Levels levels = make_levels(table);
    EXPECT_EQ(std::size_t{1} << levels.bits, table.size());
    EXPECT_EQ(levels.g, table.back());
    ASSERT_EQ(levels.below.size(), levels.g);
    for (std::uint32_t k = 0; k < levels.g; ++k) {
      const std::size_t z = levels.below[k];
      ASSERT_LE(z, table.size() - 2);
      ASSERT_LE(table[z], k);
      ASSERT_TRUE(z + 2 == table.size() || table[z + 1] > k);
    }
  }
}

TEST(Levels, CodesAreThoseOfTheReferenceForEveryTable) {
  for (const Table& table : tables()) {
    const Levels levels = make_levels(table);
    SCOPED_TRACE(testing::Message() << levels.bits << " bits to " << levels.g);
    const std::vector<float> rotated = coordinates(3001, levels.g, levels.g);
    const std::vector<std::uint32_t> words = random_words(rotated.size(), 5);
    at_each_level([&] {
      for (const float factor : {1.0f, 0.37f, -1.0f}) {
        std::vector<std::uint8_t> codes(rotated.size());
        quantise(levels, rotated, factor, words, codes);
        for (std::size_t i = 0; i < rotated.size(); ++i) {
          ASSERT_EQ(codes[i], reference_code(table, rotated[i], factor, words[i]))
              << rotated[i] << ' ' << words[i];
        }
      }
    });
  }
}

TEST(Levels, HostileCoordinatesAndFactorsHaveDefinedCodes) {
  const RandomStream stream(6, Purpose::data, 0);
  std::vector<float> rotated(4000);
  for (std::size_t i = 0; i < rotated.size(); ++i) {
    rotated[i] = std::bit_cast<float>(stream.word(i));  // any bit pattern
  }
  const std::vector<std::uint32_t> words = random_words(rotated.size(), 7);
  for (const Table& table : tables()) {
    const Levels levels = make_levels(table);
    for (const float factor : {1.0f, 1e-30f, 1e30f, 0.0f, kInf, -kInf, kNan, 0x1p-149f}) {
      SCOPED_TRACE(factor);
      at_each_level([&] {
        std::vector<std::uint8_t> codes(rotated.size());
        quantise(levels, rotated, factor, words, codes);
        for (std::size_t i = 0; i < rotated.size(); ++i) {
          ASSERT_EQ(codes[i], reference_code(table, rotated[i], factor, words[i])) << rotated[i];
        }
      });
    }
  }
}

TEST(Levels, NanGivesTheFirstCodeAndTheEndsTheirsWhateverTheDraw) {
  for (const Table& table : tables()) {
    const Levels levels = make_levels(table);
    const float half = static_cast<float>(levels.g) / 2;
    const auto last = static_cast<std::uint8_t>(table.size() - 1);
    at_each_level([&] {
      for (const std::uint32_t word : {0u, 1u, 0x80000000u, 0xffffffffu}) {
        const std::vector<std::uint32_t> words(100, word);
        const auto code_of = [&](float coordinate) {
          const std::vector<float> rotated(words.size(), coordinate);
          std::vector<std::uint8_t> codes(words.size(), 99);
          quantise(levels, rotated, 1, words, codes);
          EXPECT_EQ(std::count(codes.begin(), codes.end(), codes[0]), 100);
          return codes[0];
        };
        EXPECT_EQ(code_of(kNan), 0);
        EXPECT_EQ(code_of(-kNan), 0);
        EXPECT_EQ(code_of(-kInf), 0);
        EXPECT_EQ(code_of(-half), 0);
        EXPECT_EQ(code_of(-3e38f), 0);
        EXPECT_EQ(code_of(half), last);
        EXPECT_EQ(code_of(3e38f), last);
        EXPECT_EQ(code_of(kInf), last);
      }
    });
  }
}

TEST(Levels, AveragingOverAGridOfDrawsReproducesEveryCoordinateInRange) {
  constexpr std::size_t kGrid = 1024;
  std::vector<std::uint32_t> words(kGrid);
  for (std::size_t i = 0; i < kGrid; ++i) words[i] = static_cast<std::uint32_t>(i << 22);
  at_each_level([&] {
    for (const Table& table : {shipped(), uniform_table(4), random_table(6, 1000, 4)}) {
      const Levels levels = make_levels(table);
      for (const float coordinate : coordinates(60, levels.g, 8)) {
        const double c = coordinate + levels.g / 2.0;
        if (c < 0 || c > levels.g) continue;
        std::vector<std::uint8_t> codes(kGrid);
        quantise(levels, std::vector<float>(kGrid, coordinate), 1, words, codes);
        double sum = 0;
        double gap = 1;
        for (const std::uint8_t code : codes) sum += table[code];
        for (std::size_t z = 1; z < table.size(); ++z) {
          gap = std::max(gap, static_cast<double>(table[z] - table[z - 1]));
        }
        // The grid tells the fraction to one part of it; float32 adds less than that again.
        EXPECT_NEAR(sum / kGrid, c, 2 * gap / kGrid) << levels.g;
      }
    }
  });
}

TEST(Levels, WordsOfOneHalfRoundToTheNearestLevel) {
  at_each_level([] {
    for (const Table& table : tables()) {
      const Levels levels = make_levels(table);
      const std::vector<float> rotated = coordinates(500, levels.g, 9);
      const std::vector<std::uint32_t> words(rotated.size(), kNearest);
      std::vector<std::uint8_t> codes(rotated.size());
      quantise(levels, rotated, 1, words, codes);
      for (std::size_t i = 0; i < rotated.size(); ++i) {
        const auto place = static_cast<float>(rotated[i] + levels.g / 2.0);
        const double c = std::clamp<double>(place, 0, levels.g);
        for (const std::uint16_t level : table) {
          ASSERT_LE(std::fabs(c - table[codes[i]]), std::fabs(c - level));
        }
      }
    }
  });
}

// thc.md §6: signs, rotation, indices, sums and decoded mean of three workers.
TEST(Levels, TheDeterministicVectorOfThePaperComesOutThroughRotationAndBack) {
  constexpr std::array<std::array<float, 8>, 3> kInputs{{{1, -2, 0.5f, 4, -1.5f, 0.25f, 3, -0.75f},
                                                         {0.5f, 1, -1, 2, 2.5f, -3, 0, 1.25f},
                                                         {-1, 0, 2, -2.5f, 1, 1.5f, -0.5f, 3.5f}}};
  constexpr std::array<std::array<std::uint8_t, 8>, 3> kIndices{
      {{10, 6, 0, 8, 7, 5, 6, 13}, {12, 5, 12, 7, 5, 4, 3, 10}, {4, 15, 11, 4, 11, 7, 6, 5}}};
  constexpr std::array<std::int32_t, 8> kSums{51, 54, 44, 39, 46, 34, 33, 55};
  constexpr std::array<double, 8> kMean{0.137739, -0.275477, 0.482085, 0.895301,
                                        0.688693, -0.413216, 1.033040, 1.446256};
  constexpr double kLargestNorm = 5.755432216610669;
  constexpr double kClamp = 2.1538746941;
  std::array<std::uint32_t, 1> signs{};
  for (std::uint32_t i = 0; i < 8; ++i) {
    signs[0] |= static_cast<std::uint32_t>(mix(42, i) >> 63) << i;
  }
  EXPECT_EQ(signs[0], 0b10100001u);
  const Levels levels = make_levels(shipped());
  at_each_level([&] {
    std::array<std::int32_t, 8> twice_sums{};
    for (std::size_t worker = 0; worker < 3; ++worker) {
      std::array<float, 8> rotated{};
      std::array<std::uint32_t, 8> words{};
      std::array<std::uint8_t, 8> codes{};
      for (std::size_t i = 0; i < 8; ++i) {
        words[i] = static_cast<std::uint32_t>(mix(1000 + worker, i) >> 32);
      }
      hadamard::rotate(kInputs[worker], signs, 0, static_cast<float>(1 / kLargestNorm), rotated);
      quantise(levels, rotated, static_cast<float>(levels.g / (2 * kClamp)), words, codes);
      EXPECT_EQ(codes, kIndices[worker]);
      for (std::size_t i = 0; i < 8; ++i) twice_sums[i] += 2 * levels.table[codes[i]];
    }
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(twice_sums[i], 2 * kSums[i]);
    std::array<float, 8> mean{};
    const double unit = kLargestNorm / 8 * (2 * kClamp / levels.g) / (2 * 3);
    means(twice_sums, 3 * static_cast<std::int32_t>(levels.g), static_cast<float>(unit), mean);
    hadamard::unrotate(mean, signs, 0, mean);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(mean[i], kMean[i], 1e-6);
  });
}

TEST(Levels, CodesEqualTheSpecificationAtEveryLengthAndAlignmentWithinTheirBounds) {
  at_each_level([] {
    for (const Table& table : {shipped(), uniform_table(4), Table{0, 50}, uniform_table(8)}) {
      const Levels levels = make_levels(table);
      for (std::size_t count = 0; count <= 150; ++count) {
        const std::size_t offset = count % 5;
        const std::vector<float> rotated = coordinates(count + offset, levels.g, 10);
        const std::vector<std::uint32_t> words = random_words(count + offset, 11);
        const auto from = std::span(rotated).subspan(offset);
        const auto draws = std::span(words).subspan(offset);
        std::vector<std::uint8_t> expected(count);
        scalar::quantise(levels, from, 1, draws, expected);
        Guarded memory(count, offset);
        auto* const first = static_cast<std::uint8_t*>(static_cast<void*>(memory.bytes().data()));
        const std::span<std::uint8_t> codes(first, count);
        quantise(levels, from, 1, draws, codes);
        ASSERT_TRUE(std::equal(codes.begin(), codes.end(), expected.begin())) << count;
        ASSERT_TRUE(memory.intact());
      }
    }
  });
}

// Fills `count` floats within canaries by `write` and gives them back.
template <class Write>
std::vector<float> written(std::size_t count, std::size_t offset, const Write& write) {
  std::vector<float> memory(16 + offset + count + 16, -7);
  const std::span<float> inner = std::span(memory).subspan(16 + offset, count);
  write(inner);
  EXPECT_EQ(std::count(memory.begin(), memory.begin() + std::ptrdiff_t(16 + offset), -7.0f),
            std::ptrdiff_t(16 + offset));
  EXPECT_EQ(std::count(memory.end() - 16, memory.end(), -7.0f), 16);
  return {inner.begin(), inner.end()};
}

TEST(Levels, ValuesAreTheCentredLevelsTimesTheUnit) {
  at_each_level([] {
    for (const Table& table : tables()) {
      const Levels levels = make_levels(table);
      for (const std::size_t count : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 33u, 300u}) {
        std::vector<std::uint8_t> codes(count);
        // Bits above the table's are there to be ignored.
        for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(i * 7 + 3);
        const std::vector<float> into =
            written(count, count % 3, [&](auto floats) { values(levels, codes, 0.3f, floats); });
        for (std::size_t i = 0; i < count; ++i) {
          const double level = table[codes[i] % table.size()];
          const auto centred = static_cast<float>(level - levels.g / 2.0);  // exact
          ASSERT_EQ(into[i], centred * 0.3f) << i;
        }
      }
    }
  });
}

TEST(Levels, OwnValuesAndMeansOfOneWorkerAgree) {
  const Levels levels = make_levels(shipped());
  std::vector<std::uint8_t> codes(64);
  std::vector<std::int32_t> twice(64);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(i % 16);
    twice[i] = 2 * levels.table[i % 16];
  }
  at_each_level([&] {
    std::vector<float> own(64);
    std::vector<float> mean(64);
    values(levels, codes, 0.25f, own);
    means(twice, static_cast<std::int32_t>(levels.g), 0.125f, mean);
    EXPECT_EQ(own, mean);
  });
}

TEST(Levels, MeansSubtractAsIntegersAndRoundTwice) {
  const RandomStream stream(12, Purpose::data, 0);
  at_each_level([&] {
    for (const std::size_t count : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 33u, 1001u}) {
      std::vector<std::int32_t> twice(count);
      for (std::size_t i = 0; i < count; ++i) twice[i] = std::int32_t(stream.word(i) % (1u << 25));
      for (const std::int32_t centre : {0, 30, 240, (1 << 24) - 1}) {
        const std::vector<float> into =
            written(count, count % 3, [&](auto floats) { means(twice, centre, 1e-3f, floats); });
        for (std::size_t i = 0; i < count; ++i) {
          const auto difference = static_cast<float>(static_cast<double>(twice[i]) - centre);
          ASSERT_EQ(into[i], difference * 1e-3f);
        }
      }
    }
  });
}

TEST(Levels, MeansOfHostileSumsWrap) {
  using Limits = std::numeric_limits<std::int32_t>;
  at_each_level([] {
    const std::vector<std::int32_t> twice(40, Limits::min());
    std::vector<float> into(40);
    means(twice, 1, 1, into);
    for (const float value : into) EXPECT_EQ(value, static_cast<float>(Limits::max()));
  });
}

TEST(LevelsDeathTest, TablesThatAreNoneAndShortSpansAreOurBugs) {
  EXPECT_DEATH(make_levels(Table{0}), "table.size");
  EXPECT_DEATH(make_levels(Table{0, 1, 2}), "table.size");
  EXPECT_DEATH(make_levels(uniform_table(9)), "table.size");
  EXPECT_DEATH(make_levels(Table{1, 2}), "front");
  EXPECT_DEATH(make_levels(Table{0, 2, 2, 3}), "adjacent_find");
  EXPECT_DEATH(make_levels(Table{0, 4096}), "back");
  const Levels levels = make_levels(shipped());
  const std::vector<float> rotated(4);
  const std::vector<std::uint32_t> words(3);
  std::vector<std::uint8_t> codes(4);
  EXPECT_DEATH(quantise(levels, rotated, 1, words, codes), "words.size");
  std::vector<float> into(5);
  EXPECT_DEATH(values(levels, codes, 1, into), "codes.size");
  EXPECT_DEATH(means({}, 1, 1, into), "twice_sums.size");
}

}  // namespace
}  // namespace sluice::levels
