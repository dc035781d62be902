#include "kernels/quantiser/quantiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::quantiser {
namespace {

using support::Guarded;
using Table = std::vector<std::uint16_t>;
using Codes = std::vector<std::uint8_t>;
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

// 4 bits, small steps and one long one to the last code, of such a length that the float32 nearest
// to its line's start would lead beyond it.
std::vector<Table> tables_with_a_line_that_rounds_up() {
  std::vector<Table> found;
  for (const auto& [g, gap] : {std::pair{157, 15}, std::pair{299, 30}}) {
    Table table = uniform_table(4);
    table[14] = static_cast<std::uint16_t>(g - gap);
    table[15] = static_cast<std::uint16_t>(g);
    found.push_back(table);
  }
  return found;
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
  for (const Table& table : tables_with_a_line_that_rounds_up()) found.push_back(table);
  return found;
}

Draws draws_of(std::uint32_t seed, std::uint16_t shift = 0) {
  return {.stream = RandomStream(seed, Purpose::rounding, 0), .shift = shift};
}

std::uint32_t draw_of(const Draws& draws, std::uint64_t element) {
  if (draws.nearest) return 0x8000;
  const std::uint32_t word = draws.stream.word(element / 2);
  return ((word >> (element % 2 * 16)) + draws.shift) % 65536;
}

// Such that an element's draw is the one that is wanted.
Draws draws_for(std::uint64_t element, std::uint32_t wanted) {
  Draws draws = draws_of(77);
  draws.shift = static_cast<std::uint16_t>(wanted - draw_of(draws, element));
  return draws;
}

// Through the bytes, at the level in force.
Codes encoded(const Quantiser& quantiser, const Draws& draws, std::uint64_t element,
              std::span<const float> rotated, float factor) {
  std::vector<std::byte> packed(bytes_for_bits(rotated.size() * quantiser.bits));
  const Encoding one{element, rotated, factor, 0};
  encode(quantiser, draws, {&one, 1}, packed);
  Codes codes(rotated.size());
  lanes::scalar::unpack(packed, quantiser.bits, std::span<std::uint8_t>(codes));
  return codes;
}

// Coordinates inside and a little outside the range of a table when times 1, some on the borders.
std::vector<float> coordinates(std::size_t count, std::uint32_t g, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 1);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float place = (stream.uniform(i) * 1.1f - 0.05f) * static_cast<float>(g);
    values[i] = (i % 5 == 0 ? std::round(place) : place) - static_cast<float>(g) * 0.5f;
  }
  return values;
}

// By another road: float64 and a search. The place among the codes is known to a few of the draw's
// units, so where it is that close to a tie either code will do.
void expect_reference(const Quantiser& quantiser, float rotated, float factor, std::uint32_t draw,
                      unsigned code) {
  const Table& table = quantiser.table;
  const double half = quantiser.g / 2.0;
  const double c = std::clamp(static_cast<double>(rotated) * factor, -half, half) + half;
  std::size_t z = 0;
  while (z + 2 < table.size() && table[z + 1] <= c) ++z;
  const double place = static_cast<double>(z) + (c - table[z]) / (table[z + 1] - table[z]);
  // c itself is a float32: its last place, in codes, where gaps may be 1.
  const double slack = (quantiser.bits == 8 ? 3 : 1.5) * 0x1p-16 + quantiser.g * 0x1p-23;
  const double sum = place + draw * 0x1p-16;
  const auto last = static_cast<double>(table.size() - 1);
  EXPECT_GE(code, std::clamp(std::floor(sum - slack), 0.0, last)) << rotated << ' ' << draw;
  EXPECT_LE(code, std::clamp(std::floor(sum + slack), 0.0, last)) << rotated << ' ' << draw;
}

TEST(Quantiser, LinesLeadFromLevelToLevelAndNotBeyondTheLast) {
  for (const Table& table : tables()) {
    const Quantiser quantiser = make_quantiser(table);
    EXPECT_EQ(std::size_t{1} << quantiser.bits, table.size());
    EXPECT_EQ(quantiser.g, table.back());
    const double unit = quantiser.bits == 8 ? 0x1p-15 : 0x1p-16;
    std::size_t z = 0;
    for (std::uint32_t k = 0; k <= quantiser.g; ++k) {
      while (z + 2 < table.size() && table[z + 1] <= k) ++z;
      const auto at = [&](std::uint32_t c) {
        return std::fma(static_cast<float>(c), quantiser.slopes[k], quantiser.offsets[k]) -
               quantiser.base;
      };
      ASSERT_NEAR(at(table[z]), static_cast<double>(z), unit) << k;
      ASSERT_NEAR(at(table[z + 1]), static_cast<double>(z + 1), unit) << k;
      ASSERT_GE(at(k), 0) << k;
      if (z + 2 == table.size()) {
        ASSERT_LE(at(quantiser.g), static_cast<float>(z + 1)) << k;
      }
    }
  }
}

TEST(Quantiser, TheLimitIsTheLargestFloatWithinHalfTheGrid) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const std::uint32_t g : {1u, 2u, 15u, 30u, 255u, 4095u}) {
    for (const float factor : {1.0f, 0.37f, 3e-20f, 7e18f, 0x1p-149f, kMax}) {
      const float limit = limit_of(g, factor);
      const float half = static_cast<float>(g) / 2;
      EXPECT_GE(std::fma(-limit, factor, half), 0);
      EXPECT_LE(std::fma(limit, factor, half), static_cast<float>(g));
      if (limit < kMax) {
        EXPECT_LT(std::fma(-std::nextafter(limit, kInf), factor, half), 0);
      }
    }
  }
}

TEST(Quantiser, CodesAreThoseOfTheReferenceForEveryTable) {
  for (const Table& table : tables()) {
    const Quantiser quantiser = make_quantiser(table);
    SCOPED_TRACE(testing::Message() << quantiser.bits << " bits to " << quantiser.g);
    const std::vector<float> rotated = coordinates(3008, quantiser.g, quantiser.g);
    const Draws draws = draws_of(5, 12345);
    for (const float factor : {1.0f, 0.37f}) {
      Codes expected(rotated.size());
      scalar::quantise(quantiser, draws, 640, rotated, factor, expected);
      for (std::size_t i = 0; i < rotated.size(); ++i) {
        expect_reference(quantiser, rotated[i], factor, draw_of(draws, 640 + i), expected[i]);
      }
      at_each_level([&] { EXPECT_EQ(encoded(quantiser, draws, 640, rotated, factor), expected); });
    }
  }
}

TEST(Quantiser, HostileCoordinatesAndFactorsHaveTheCodesOfTheSpecification) {
  const RandomStream stream(6, Purpose::data, 0);
  std::vector<float> rotated(4032);
  for (std::size_t i = 0; i < rotated.size(); ++i) {
    rotated[i] = std::bit_cast<float>(stream.word(i));  // any bit pattern
  }
  const Draws draws = draws_of(7);
  for (const Table& table : tables()) {
    const Quantiser quantiser = make_quantiser(table);
    for (const float factor : {1.0f, 1e-30f, 1e30f, 0x1p-149f, std::numeric_limits<float>::max()}) {
      SCOPED_TRACE(factor);
      Codes expected(rotated.size());
      scalar::quantise(quantiser, draws, 0, rotated, factor, expected);
      at_each_level([&] {
        const Codes codes = encoded(quantiser, draws, 0, rotated, factor);
        for (std::size_t i = 0; i < rotated.size(); ++i) {
          if (std::isnan(rotated[i]) || std::isnan(rotated[i ^ 1])) continue;
          ASSERT_EQ(codes[i], expected[i]) << rotated[i];
        }
      });
    }
  }
}

TEST(Quantiser, TheEndsHaveTheirCodesWhateverTheDraw) {
  std::vector<Table> all = tables_with_a_line_that_rounds_up();
  all.insert(all.end(), {shipped(), uniform_table(1), uniform_table(8), Table{0, 4095}});
  for (const Table& table : all) {
    const Quantiser quantiser = make_quantiser(table);
    const auto last = static_cast<std::uint8_t>(table.size() - 1);
    const float half = static_cast<float>(quantiser.g) / 2;
    at_each_level([&] {
      for (const std::uint32_t draw : {0u, 1u, 0x8000u, 0xffffu}) {
        for (const float end : {half, 3e38f, kInf}) {
          const std::vector<float> rotated{end, -end};
          EXPECT_EQ(encoded(quantiser, draws_for(6, draw), 6, rotated, 1)[0], last);
          EXPECT_EQ(encoded(quantiser, draws_for(7, draw), 6, rotated, 1)[1], 0);
        }
      }
    });
  }
}

// Every draw there is, once: the average is the coordinate's place but for its rounding.
TEST(Quantiser, AveragingOverAllDrawsReproducesEveryCoordinateInRange) {
  for (const Table& table : {shipped(), uniform_table(4), random_table(6, 1000, 4)}) {
    const Quantiser quantiser = make_quantiser(table);
    for (const float coordinate : coordinates(12, quantiser.g, 8)) {
      const double c = coordinate + quantiser.g / 2.0;
      if (c < 0 || c > quantiser.g) continue;
      double sum = 0;
      double gap = 1;
      for (std::uint32_t shift = 0; shift < 65536; ++shift) {
        std::uint8_t code = 0;
        scalar::quantise(quantiser, draws_of(9, static_cast<std::uint16_t>(shift)), 3,
                         {&coordinate, 1}, 1, {&code, 1});
        sum += table[code];
      }
      for (std::size_t z = 1; z < table.size(); ++z) {
        gap = std::max(gap, static_cast<double>(table[z] - table[z - 1]));
      }
      // Half a unit from the offset, half from the place; c is a float32.
      EXPECT_NEAR(sum / 65536, c, gap * 0x1p-16 + quantiser.g * 0x1p-23) << quantiser.g;
    }
  }
}

TEST(Quantiser, DrawsOfOneHalfRoundToTheNearestLevel) {
  Draws draws = draws_of(1);
  draws.nearest = true;
  at_each_level([&] {
    for (const Table& table : tables()) {
      const Quantiser quantiser = make_quantiser(table);
      const std::vector<float> rotated = coordinates(512, quantiser.g, 9);
      const Codes codes = encoded(quantiser, draws, 0, rotated, 1);
      for (std::size_t i = 0; i < rotated.size(); ++i) {
        const double c =
            std::clamp(rotated[i] + quantiser.g / 2.0, 0.0, static_cast<double>(quantiser.g));
        for (const std::uint16_t level : table) {
          ASSERT_LE(std::fabs(c - table[codes[i]]), std::fabs(c - level) * (1 + 1e-3) + 1e-3);
        }
      }
    }
  });
}

// thc.md §6: signs, rotation, indices, sums and decoded mean of three workers.
TEST(Quantiser, TheDeterministicVectorOfThePaperComesOutThroughRotationAndBack) {
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
  const Quantiser quantiser = make_quantiser(shipped());
  at_each_level([&] {
    std::array<std::int32_t, 8> twice_sums{};
    for (std::size_t worker = 0; worker < 3; ++worker) {
      std::array<float, 8> rotated{};
      std::array<std::uint8_t, 8> codes{};
      hadamard::rotate(kInputs[worker], signs, 0, static_cast<float>(1 / kLargestNorm), rotated);
      for (std::size_t i = 0; i < 8; ++i) {
        // A code goes up where the study's uniform number is below a share; here where one less it
        // is at least the rest, so that the upper 16 bits' complement decides the same.
        const auto draw = static_cast<std::uint32_t>(~mix(1000 + worker, i) >> 48);
        codes[i] = encoded(quantiser, draws_for(i, draw), i, std::span(rotated).subspan(i, 1),
                           static_cast<float>(quantiser.g / (2 * kClamp)))[0];
      }
      EXPECT_EQ(codes, kIndices[worker]);
      for (std::size_t i = 0; i < 8; ++i) twice_sums[i] += 2 * quantiser.table[codes[i]];
    }
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(twice_sums[i], 2 * kSums[i]);
    std::array<float, 8> mean{};
    const double unit = kLargestNorm / 8 * (2 * kClamp / quantiser.g) / (2 * 3);
    means(twice_sums, 3 * static_cast<std::int32_t>(quantiser.g), static_cast<float>(unit), mean);
    hadamard::unrotate(mean, signs, 0, mean);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(mean[i], kMean[i], 1e-6);
  });
}

TEST(Quantiser, BytesEqualTheSpecificationAtEverySizeElementAndLaneWithinTheirBounds) {
  const std::size_t counts[] = {1, 2, 4, 7, 8, 16, 32, 64, 128, 192, 256, 1024, 1088, 4096};
  at_each_level([&] {
    for (const Table& table : {shipped(), uniform_table(4), Table{0, 50}, uniform_table(8)}) {
      const Quantiser quantiser = make_quantiser(table);
      for (const std::size_t count : counts) {
        for (const std::uint64_t element : {0u, 1u, 32u, 64u, 128u, 1000u}) {
          const std::vector<float> rotated = coordinates(count + 3, quantiser.g, 10);
          const std::size_t lane = count < 8 ? 3 : 24;
          const Encoding one{element, std::span(rotated).subspan(count % 4, count), 1.1f, lane};
          const std::size_t size = bytes_for_bits((lane + count) * quantiser.bits);
          std::vector<std::byte> expected(size);
          scalar::encode(quantiser, draws_of(11, 7), {&one, 1}, expected);
          Guarded memory(std::vector<std::byte>(size), count % 5);
          encode(quantiser, draws_of(11, 7), {&one, 1}, memory.bytes());
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), memory.bytes().begin()))
              << count << " from " << element;
          ASSERT_TRUE(memory.intact());
        }
      }
    }
  });
}

TEST(Quantiser, SeveralBlocksAreEachTheirOwn) {
  const Quantiser quantiser = make_quantiser(shipped());
  const std::vector<float> rotated = coordinates(1024 + 512 + 64, quantiser.g, 13);
  const auto part = [&](std::size_t at, std::size_t n) {
    return std::span(rotated).subspan(at, n);
  };
  const std::array<Encoding, 4> blocks{{{4096, part(0, 1024), 1, 0},
                                        {8192, part(1024, 512), 0.5f, 1024},
                                        {8704, part(1536, 64), 2, 1536},
                                        {8768, part(1600, 0), 2, 1600}}};
  at_each_level([&] {
    std::vector<std::byte> packed(800);
    encode(quantiser, draws_of(14), blocks, packed);
    for (const Encoding& one : blocks) {
      Codes codes(one.rotated.size());
      lanes::unpack(std::span(packed).subspan(one.lane / 2), 4, std::span<std::uint8_t>(codes));
      EXPECT_EQ(codes, encoded(quantiser, draws_of(14), one.element, one.rotated, one.factor));
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

TEST(Quantiser, ValuesAreTheCentredLevelsTimesTheUnit) {
  at_each_level([] {
    for (const Table& table : tables()) {
      const Quantiser quantiser = make_quantiser(table);
      for (const std::size_t count : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 33u, 300u}) {
        std::vector<std::uint8_t> codes(count);
        // Bits above the table's are there to be ignored.
        for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(i * 7 + 3);
        const std::vector<float> into =
            written(count, count % 3, [&](auto floats) { values(quantiser, codes, 0.3f, floats); });
        for (std::size_t i = 0; i < count; ++i) {
          const double level = table[codes[i] % table.size()];
          const auto centred = static_cast<float>(level - quantiser.g / 2.0);  // exact
          ASSERT_EQ(into[i], centred * 0.3f) << i;
        }
      }
    }
  });
}

TEST(Quantiser, OwnValuesAndMeansOfOneWorkerAgree) {
  const Quantiser quantiser = make_quantiser(shipped());
  std::vector<std::uint8_t> codes(64);
  std::vector<std::int32_t> twice(64);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(i % 16);
    twice[i] = 2 * quantiser.table[i % 16];
  }
  at_each_level([&] {
    std::vector<float> own(64);
    std::vector<float> mean(64);
    values(quantiser, codes, 0.25f, own);
    means(twice, static_cast<std::int32_t>(quantiser.g), 0.125f, mean);
    EXPECT_EQ(own, mean);
  });
}

TEST(Quantiser, MeansSubtractAsIntegersAndRoundTwice) {
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

TEST(Quantiser, MeansOfHostileSumsWrap) {
  using Limits = std::numeric_limits<std::int32_t>;
  at_each_level([] {
    const std::vector<std::int32_t> twice(40, Limits::min());
    std::vector<float> into(40);
    means(twice, 1, 1, into);
    for (const float value : into) EXPECT_EQ(value, static_cast<float>(Limits::max()));
  });
}

TEST(LevelsDeathTest, TablesThatAreNoneAndShortSpansAreOurBugs) {
  EXPECT_DEATH(make_quantiser(Table{0}), "table.size");
  EXPECT_DEATH(make_quantiser(Table{0, 1, 2}), "table.size");
  EXPECT_DEATH(make_quantiser(uniform_table(9)), "table.size");
  EXPECT_DEATH(make_quantiser(Table{1, 2}), "front");
  EXPECT_DEATH(make_quantiser(Table{0, 2, 2, 3}), "adjacent_find");
  EXPECT_DEATH(make_quantiser(Table{0, 4096}), "back");
  const Quantiser quantiser = make_quantiser(shipped());
  const std::vector<float> rotated(8);
  std::vector<std::uint8_t> codes(4);
  std::vector<std::byte> packed(4);
  const auto encode_one = [&](const Encoding& one) {
    encode(quantiser, draws_of(1), {&one, 1}, packed);
  };
  EXPECT_DEATH(encode_one({0, rotated, 1, 8}), "packed.size");
  EXPECT_DEATH(encode_one({0, rotated, 1, 1}), "lane");
  EXPECT_DEATH(encode_one({0, rotated, 0, 0}), "factor");
  EXPECT_DEATH(encode_one({0, rotated, kNan, 0}), "factor");
  EXPECT_DEATH(encode_one({0, rotated, kInf, 0}), "factor");
  EXPECT_DEATH(scalar::quantise(quantiser, draws_of(1), 0, rotated, 1, codes), "codes.size");
  std::vector<float> into(5);
  EXPECT_DEATH(values(quantiser, codes, 1, into), "codes.size");
  EXPECT_DEATH(means({}, 1, 1, into), "twice_sums.size");
}

}  // namespace
}  // namespace sluice::quantiser
