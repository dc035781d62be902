#include "round/sum_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice {
namespace {

using Widths = std::initializer_list<std::uint8_t>;
using Values = std::initializer_list<std::uint16_t>;
using Bytes = std::vector<std::byte>;
using Sums = std::vector<std::uint32_t>;

// ---- The rule of reduction.h, written a second time: 64 bits, bit by bit, division for shifts.

class Bits {
 public:
  void put(std::uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bits_.push_back(((value >> i) & 1) != 0);
  }
  void pad() { bits_.resize((bits_.size() + 7) / 8 * 8); }
  [[nodiscard]] Bytes bytes() const {
    Bytes out((bits_.size() + 7) / 8);
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      if (bits_[i]) out[i / 8] |= static_cast<std::byte>(1u << (i % 8));
    }
    return out;
  }

 private:
  std::vector<bool> bits_;
};

unsigned width_of(std::int64_t value) {
  unsigned width = 0;
  for (; value > 0; value /= 2) ++width;
  return width;
}

std::int64_t power(unsigned exponent) { return std::int64_t{1} << exponent; }

std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((-value + by - 1) / by);
}

struct Naive {
  Naive(const Reduction& reduction, std::uint32_t n, std::uint32_t m)
      : what(reduction), contributors(m) {
    top_value = what.table.empty() ? (1 << what.bits) - 1
                                   : *std::max_element(what.table.begin(), what.table.end());
    full_bits = std::max(1u, width_of(top_value * n));
    lane_bits = static_cast<unsigned>(what.bits + what.extra);
    rounded = what.down == Down::round && lane_bits < full_bits;
  }

  [[nodiscard]] std::int64_t centre() const { return (top_value * contributors + 1) / 2; }
  [[nodiscard]] std::int64_t lane(std::int64_t sum, unsigned shift) const {
    const std::int64_t cell = floor_divide(sum - centre(), power(shift)) + power(lane_bits - 1);
    return std::clamp<std::int64_t>(cell, 0, power(lane_bits) - 1);
  }
  [[nodiscard]] std::int64_t twice(std::int64_t code, unsigned shift) const {
    return 2 * centre() + (code - power(lane_bits - 1)) * power(shift + 1) + power(shift) - 1;
  }
  [[nodiscard]] std::int64_t error(std::span<const std::uint32_t> grain, unsigned shift) const {
    std::int64_t sum = 0;
    for (const std::int64_t value : grain) {
      const std::int64_t off = 2 * value - twice(lane(value, shift), shift);
      sum += off * off;
    }
    return sum;
  }
  // The smallest shift of the least error; counts how often others were as good.
  [[nodiscard]] unsigned shift(std::span<const std::uint32_t> grain, int& ties) const {
    const unsigned widest = std::max(1u, width_of(top_value * contributors));
    const unsigned last = widest > lane_bits ? widest - lane_bits : 0;
    unsigned best = 0;
    for (unsigned s = 1; s <= last; ++s) {
      if (error(grain, s) == error(grain, best)) ++ties;
      if (error(grain, s) < error(grain, best)) best = s;
    }
    return best;
  }

  // The answer's bytes and what they must read back as.
  Bytes write(const Sums& sums, std::vector<std::int32_t>& read_back, int& ties) const {
    Bits out;
    const std::size_t grain = what.grain == 0 ? sums.size() : what.grain;
    read_back.clear();
    for (std::size_t at = 0; at < sums.size(); at += grain) {
      const auto lanes = std::span(sums).subspan(at, std::min(grain, sums.size() - at));
      if (rounded) {
        const unsigned s = shift(lanes, ties);
        out.put(s, 8);
        for (const std::int64_t sum : lanes) {
          out.put(static_cast<std::uint64_t>(lane(sum, s)), lane_bits);
          read_back.push_back(static_cast<std::int32_t>(twice(lane(sum, s), s)));
        }
      } else {
        const std::uint32_t low = *std::min_element(lanes.begin(), lanes.end());
        const std::uint32_t high = *std::max_element(lanes.begin(), lanes.end());
        const bool narrow = what.down == Down::narrow;
        const unsigned width = narrow ? width_of(high - low) : full_bits;
        if (narrow) {
          out.put(width, 8);
          out.put(low, (full_bits + 7) / 8 * 8);
        }
        for (const std::uint32_t sum : lanes) out.put(narrow ? sum - low : sum, width);
        for (const std::uint32_t sum : lanes) read_back.push_back(static_cast<int>(2 * sum));
      }
      out.pad();
    }
    return out.bytes();
  }

  Reduction what;
  std::int64_t contributors;
  std::int64_t top_value = 0;
  unsigned full_bits = 0;
  unsigned lane_bits = 0;
  bool rounded = false;
};

// ---- The code under test.

template <class T>
Bytes written(const Reduction& what, std::uint32_t n, std::uint32_t m, const Sums& sums) {
  const std::vector<T> typed(sums.begin(), sums.end());
  Bytes down(down_size_max(what, n) + 16, std::byte{0xa5});
  const std::size_t used = write_sums(what, n, m, std::span<const T>(typed), down);
  EXPECT_LE(used, down_size_max(what, n));
  for (std::size_t i = down_size_max(what, n); i < down.size(); ++i) {
    EXPECT_EQ(down[i], std::byte{0xa5}) << "written beyond the promised size";
  }
  down.resize(used);
  return down;
}

WorkerSet first_ranks(std::uint32_t n, std::uint32_t m) {
  WorkerSet set(n);
  for (std::uint32_t rank = 0; rank < m; ++rank) set.insert(rank);
  return set;
}

Result<std::vector<std::int32_t>> read_all(const Reduction& what, std::uint32_t n,
                                           std::span<const std::byte> down,
                                           std::span<const Part> parts) {
  SumReader reader(what, n, {down, parts});
  std::vector<std::int32_t> all(what.count);
  std::vector<std::int32_t> grain_sums(std::max(1u, grain_of(what)));
  std::uint32_t at = 0;
  while (!reader.done()) {
    SLUICE_TRY_ASSIGN(const SumReader::Grain grain, reader.next(grain_sums));
    EXPECT_EQ(grain.first, at);
    EXPECT_GT(grain.count, 0u);
    std::copy_n(grain_sums.begin(), grain.count, all.begin() + at);
    at += grain.count;
  }
  EXPECT_EQ(at, what.count);
  return all;
}

Result<std::vector<std::int32_t>> read_all(const Reduction& what, std::uint32_t n, std::uint32_t m,
                                           std::span<const std::byte> down) {
  const WorkerSet from = first_ranks(n, m);
  const std::vector<Part> parts{{0, what.count, from.view()}};
  return read_all(what, n, down, parts);
}

enum class Shape { uniform, centred, constant, edges };

Sums make_sums(Shape shape, std::uint32_t count, std::int64_t top, std::mt19937& random) {
  Sums sums(count);
  std::uniform_int_distribution<std::int64_t> any(0, top);
  std::normal_distribution<double> bell(0.5 * static_cast<double>(top),
                                        0.05 * static_cast<double>(top));
  const auto same = static_cast<std::uint32_t>(any(random));
  for (std::uint32_t& sum : sums) {
    switch (shape) {
      case Shape::uniform: sum = static_cast<std::uint32_t>(any(random)); break;
      case Shape::centred:
        sum = static_cast<std::uint32_t>(std::clamp(bell(random), 0.0, static_cast<double>(top)));
        break;
      case Shape::constant: sum = same; break;
      case Shape::edges: sum = random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(top); break;
    }
  }
  return sums;
}

std::string label(const Reduction& what, std::uint32_t n, std::uint32_t m) {
  return std::string(name_of(what.down)) + " bits " + std::to_string(what.bits) + "+" +
         std::to_string(what.extra) + " count " + std::to_string(what.count) + " grain " +
         std::to_string(what.grain) + " n " + std::to_string(n) + " m " + std::to_string(m) +
         (what.table.empty() ? "" : " table");
}

// Bytes and read-back of one case against the rule; returns how many ties there were.
int expect_rule(const Reduction& what, std::uint32_t n, std::uint32_t m, std::mt19937& random) {
  int ties = 0;
  const Naive naive(what, n, m);
  for (const Shape shape : {Shape::uniform, Shape::centred, Shape::constant, Shape::edges}) {
    const Sums sums = make_sums(shape, what.count, naive.top_value * m, random);
    std::vector<std::int32_t> wanted_back;
    const Bytes wanted = naive.write(sums, wanted_back, ties);
    EXPECT_EQ(written<std::uint32_t>(what, n, m, sums), wanted) << label(what, n, m);
    if (naive.full_bits <= 16) {
      EXPECT_EQ(written<std::uint16_t>(what, n, m, sums), wanted) << label(what, n, m);
    }
    if (naive.full_bits <= 8) {
      EXPECT_EQ(written<std::uint8_t>(what, n, m, sums), wanted) << label(what, n, m);
    }
    const auto back = read_all(what, n, m, wanted);
    EXPECT_TRUE(back.has_value()) << label(what, n, m) << ": " << back.error().what;
    if (!back) continue;
    EXPECT_EQ(*back, wanted_back) << label(what, n, m);
  }
  return ties;
}

std::vector<std::uint16_t> bent_table(unsigned bits, std::uint16_t largest) {
  std::vector<std::uint16_t> table(std::size_t{1} << bits);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] =
        static_cast<std::uint16_t>(largest * i * i / ((table.size() - 1) * (table.size() - 1)));
  }
  return table;
}

TEST(Sums, FullAndNarrowFollowTheRuleForEveryWidthAndContributorCount) {
  std::mt19937 random(1);
  for (const Down down : {Down::full, Down::narrow}) {
    for (std::uint8_t bits = 1; bits <= 8; ++bits) {
      for (const std::uint32_t n : {1u, 2u, 3u, 8u, 65u}) {
        for (std::uint32_t m = 1; m <= n; m += n > 8 ? 21 : 1) {
          for (const std::uint32_t grain : {0u, 8u, 40u}) {
            Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = 85};
            what.grain = grain;
            expect_rule(what, n, m, random);
          }
        }
      }
    }
  }
}

TEST(Sums, RoundedFollowsTheRuleForEveryContributorCount) {
  std::mt19937 random(2);
  int ties = 0;
  for (const std::uint32_t n : {1u, 2u, 3u, 5u, 8u, 16u, 64u}) {
    for (std::uint32_t m = 1; m <= n; ++m) {
      for (const std::uint8_t bits : Widths{1, 2, 4, 8}) {
        for (std::uint8_t extra = 0; extra <= 4; extra = static_cast<std::uint8_t>(extra + 2)) {
          Reduction what{.op = Op::lane_sum, .bits = bits, .down = Down::round, .count = 100};
          what.extra = extra;
          what.grain = 32;
          ties += expect_rule(what, n, m, random);
        }
      }
    }
  }
  EXPECT_GT(ties, 100) << "ties decide which shift is written, so the cases must contain some";
}

TEST(Sums, RoundedFollowsTheRuleForSeveralGrainsAndShortEnds) {
  std::mt19937 random(3);
  for (const std::uint32_t grain : {0u, 8u, 16u, 64u, 512u, 1024u, 2048u}) {
    for (const std::uint32_t count : {1u, 7u, 8u, 9u, 63u, 513u, 1025u, 2049u}) {
      for (const std::uint8_t extra : Widths{0, 3}) {
        Reduction what{.op = Op::lane_sum, .bits = 4, .down = Down::round, .count = count};
        what.extra = extra;
        what.grain = grain;
        expect_rule(what, 64, 61, random);
      }
    }
  }
}

TEST(Sums, TablesFollowTheRuleUpToTheWidestSums) {
  std::mt19937 random(4);
  for (const std::uint16_t largest : Values{1, 30, 999, 65535}) {
    for (const std::uint8_t bits : Widths{1, 4, 8}) {
      const auto table = bent_table(bits, largest);
      for (const std::uint32_t n : {1u, 7u, 4096u}) {
        for (const std::uint32_t m : {1u, (n + 1) / 2, n}) {
          for (const Down down : {Down::full, Down::narrow, Down::round}) {
            Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = 30};
            what.grain = 16;
            what.table = table;
            ASSERT_TRUE(check(what, n).has_value());
            expect_rule(what, n, m, random);
          }
        }
      }
    }
  }
}

TEST(Sums, EveryLevelFollowsTheRuleForEveryWidthUpToTheMostWorkers) {
  std::mt19937 random(9);
  const std::vector<std::uint32_t> grains{8, 16, 40, 64, 256, 264, 512, 1024};
  std::size_t turn = 0;
  for (const Level level : available_levels()) {
    SCOPED_TRACE(name_of(level));
    const ScopedLevel scoped(level);
    for (std::uint8_t bits = 1; bits <= 8; ++bits) {
      for (std::uint8_t extra = 0; extra <= 5; ++extra) {
        for (const std::uint32_t n : {1u, 4u, 30u, 300u, 4096u}) {
          Reduction what{.op = Op::lane_sum, .bits = bits};
          what.down = extra == 5 ? Down::full : extra == 4 ? Down::narrow : Down::round;
          what.extra = what.down == Down::round ? extra : 0;
          what.grain = grains[++turn % grains.size()];
          what.count = what.grain + 8 * (n % 3) + 3;
          expect_rule(what, n, 1 + static_cast<std::uint32_t>(random()) % n, random);
          expect_rule(what, n, n, random);
        }
      }
    }
  }
}

TEST(Sums, ATableOfZerosHasSumsOfOneBit) {
  const std::vector<std::uint16_t> zeros{0, 0};
  std::mt19937 random(5);
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    const Reduction what{
        .op = Op::lane_sum, .bits = 1, .down = down, .count = 20, .grain = 8, .table = zeros};
    expect_rule(what, 4096, 4096, random);
  }
}

TEST(Sums, RoundedIsFullWhereTheLanesAreWideEnough) {
  const Sums sums{0, 15, 30, 44, 45};
  const Reduction full{.op = Op::lane_sum, .bits = 4, .count = 5};
  Reduction round = full;
  round.down = Down::round;
  for (const std::uint8_t extra : Widths{2, 3, 20}) {
    round.extra = extra;
    EXPECT_EQ(written<std::uint8_t>(round, 3, 3, sums), written<std::uint8_t>(full, 3, 3, sums));
  }
  round.extra = 1;
  EXPECT_EQ(written<std::uint8_t>(round, 3, 3, sums).size(), 1 + 4u);
}

TEST(Sums, NarrowBytesAreThoseDoneByHand) {
  // Four workers of 8 bits: sums of up to 1020 need 10 bits, so the minimum takes two bytes.
  const Reduction what{
      .op = Op::lane_sum, .bits = 8, .down = Down::narrow, .count = 10, .grain = 8};
  const Sums sums{600, 601, 602, 603, 604, 605, 606, 607, 1020, 1020};
  const Bytes wanted{std::byte{3},    std::byte{0x58}, std::byte{0x02},
                     std::byte{0x88}, std::byte{0xc6}, std::byte{0xfa},
                     std::byte{0},    std::byte{0xfc}, std::byte{0x03}};
  EXPECT_EQ(written<std::uint16_t>(what, 4, 4, sums), wanted);
}

TEST(Sums, RoundedBytesAreThoseDoneByHand) {
  // Four workers of 2 bits, b = 2: centre (12 + 1) >> 1 = 6. Around it shift 0 keeps 4 … 7 exactly.
  Reduction what{.op = Op::lane_sum, .bits = 2, .down = Down::round, .count = 8, .grain = 8};
  EXPECT_EQ(written<std::uint8_t>(what, 4, 4, {4, 5, 6, 7, 4, 5, 6, 7}),
            (Bytes{std::byte{0}, std::byte{0xe4}, std::byte{0xe4}}));
  // At the edges shift 2 wins: cells of 4 from 6 − 8, read back as −1, 7, 15, 23 halves.
  const Bytes edges = written<std::uint8_t>(what, 4, 4, {0, 0, 0, 12, 12, 12, 0, 12});
  EXPECT_EQ(edges, (Bytes{std::byte{2}, std::byte{0xc0}, std::byte{0xcf}}));
  EXPECT_EQ(*read_all(what, 4, 4, edges),
            (std::vector<std::int32_t>{-1, -1, -1, 23, 23, 23, -1, 23}));
}

TEST(SumReader, TakesContributorsFromThePartsOfTheAnswer) {
  std::mt19937 random(6);
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    Reduction what{.op = Op::lane_sum, .bits = 4, .down = down, .count = 90, .grain = 16};
    const std::vector<std::uint32_t> counts{1, 40, 64};
    const std::vector<std::uint32_t> sizes{32, 16, 42};
    std::vector<WorkerSet> sets;
    for (const std::uint32_t m : counts) sets.push_back(first_ranks(64, m));
    std::vector<Part> parts;
    Bytes down_bytes;
    std::vector<std::int32_t> wanted;
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Naive naive(what, 64, counts[i]);
      const Sums sums = make_sums(Shape::uniform, sizes[i], naive.top_value * counts[i], random);
      std::vector<std::int32_t> back;
      int ties = 0;
      const Bytes bytes = naive.write(sums, back, ties);
      EXPECT_EQ(written<std::uint16_t>(what, 64, counts[i], sums), bytes);
      down_bytes.insert(down_bytes.end(), bytes.begin(), bytes.end());
      wanted.insert(wanted.end(), back.begin(), back.end());
      parts.push_back({first, sizes[i], sets[i].view()});
      first += sizes[i];
    }
    const auto got = read_all(what, 64, down_bytes, parts);
    ASSERT_TRUE(got.has_value()) << got.error().what;
    EXPECT_EQ(*got, wanted) << name_of(down);
  }
}

TEST(SumReader, GrainsCarryTheContributorsOfTheirPart) {
  const Reduction what{.op = Op::lane_sum, .bits = 8, .count = 20, .grain = 8};
  const WorkerSet few = first_ranks(3, 1);
  const WorkerSet many = first_ranks(3, 3);
  const std::vector<Part> parts{{0, 8, few.view()}, {8, 12, many.view()}};
  const Bytes down(25);  // 20 sums of 10 bits
  SumReader reader(what, 3, {down, parts});
  std::vector<std::int32_t> twice(8);
  EXPECT_EQ(reader.next(twice)->from, few.view());
  EXPECT_EQ(reader.next(twice)->from, many.view());
  const auto last = reader.next(twice);
  EXPECT_EQ(last->first, 16u);
  EXPECT_EQ(last->count, 4u);
  EXPECT_TRUE(reader.done());
}

TEST(SumReader, ReadsNoFurtherThanTheAnswerAndWritesNoFurtherThanTheGrain) {
  std::mt19937 random(10);
  for (const Level level : available_levels()) {
    SCOPED_TRACE(name_of(level));
    const ScopedLevel scoped(level);
    for (const Down down : {Down::full, Down::narrow, Down::round}) {
      for (const std::uint8_t bits : Widths{1, 3, 4, 8}) {
        Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = 600, .grain = 256};
        int ties = 0;
        std::vector<std::int32_t> back;
        const Naive naive(what, 9, 9);
        const Bytes bytes =
            naive.write(make_sums(Shape::uniform, 600, naive.top_value * 9, random), back, ties);
        const WorkerSet from = WorkerSet::all(9);
        const std::vector<Part> parts{{0, 600, from.view()}};
        SumReader reader(what, 9, {bytes, parts});
        support::Guarded last(256 * sizeof(std::int32_t), 0);
        const std::span<std::int32_t> twice(
            static_cast<std::int32_t*>(static_cast<void*>(last.bytes().data())), 256);
        while (!reader.done()) {
          std::fill(twice.begin(), twice.end(), -77);
          const auto grain = reader.next(twice);
          ASSERT_TRUE(grain.has_value());
          EXPECT_TRUE(
              std::equal(twice.begin(), twice.begin() + grain->count, back.begin() + grain->first));
          EXPECT_EQ(std::count(twice.begin() + grain->count, twice.end(), -77), 256 - grain->count);
          EXPECT_TRUE(last.intact());
        }
      }
    }
  }
}

TEST(SumReader, ARoundOfNoLanesIsDoneAtOnce) {
  const Reduction what{.op = Op::lane_sum, .bits = 8, .count = 0, .grain = 8};
  EXPECT_TRUE(SumReader(what, 3, Answer{}).done());
}

TEST(SumReader, EveryTruncationAndEveryExtraByteIsMalformed) {
  std::mt19937 random(7);
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    for (const std::uint32_t grain : {0u, 8u, 32u}) {
      Reduction what{.op = Op::lane_sum, .bits = 3, .down = down, .count = 45, .grain = grain};
      const Naive naive(what, 9, 9);
      std::vector<std::int32_t> back;
      int ties = 0;
      Bytes bytes = naive.write(make_sums(Shape::uniform, 45, 63, random), back, ties);
      for (std::size_t size = 0; size < bytes.size(); ++size) {
        const auto got = read_all(what, 9, 9, std::span(bytes).first(size));
        ASSERT_FALSE(got.has_value()) << label(what, 9, 9) << " cut to " << size;
        EXPECT_EQ(got.error().code, Code::malformed);
      }
      bytes.push_back(std::byte{0});
      const auto longer = read_all(what, 9, 9, bytes);
      ASSERT_FALSE(longer.has_value());
      EXPECT_EQ(longer.error().code, Code::malformed);
    }
  }
}

void expect_malformed(const Reduction& what, std::uint32_t n, std::uint32_t m, const Bytes& down,
                      const std::string& word) {
  const auto got = read_all(what, n, m, down);
  ASSERT_FALSE(got.has_value()) << label(what, n, m) << ", expected: " << word;
  EXPECT_EQ(got.error().code, Code::malformed);
  EXPECT_NE(std::string(got.error().what).find(word), std::string::npos) << got.error().what;
}

TEST(SumReader, FullSumsBeyondWhatTheContributorsReachAreMalformed) {
  const Reduction what{.op = Op::lane_sum, .bits = 4, .count = 9, .grain = 8};
  for (std::uint32_t m = 1; m <= 5; ++m) {
    for (std::size_t lane = 0; lane < 9; ++lane) {
      Sums sums(9, 15 * m);
      EXPECT_TRUE(read_all(what, 5, m, written<std::uint8_t>(what, 5, m, sums)).has_value());
      if (m == 5) continue;
      sums[lane] = 15 * m + 1;
      expect_malformed(what, 5, m, written<std::uint8_t>(what, 5, m, sums), "beyond");
    }
  }
}

TEST(SumReader, NarrowHeadersOutOfRangeAreMalformed) {
  const Reduction what{.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 8};
  // Five workers: sums of up to 75 in 7 bits, three of them counted: up to 45.
  EXPECT_TRUE(read_all(what, 5, 3, Bytes{std::byte{0}, std::byte{45}}).has_value());
  expect_malformed(what, 5, 3, {std::byte{0}, std::byte{46}}, "header");
  expect_malformed(what, 5, 3, {std::byte{0}, std::byte{255}}, "header");
  Bytes wide(2 + 8);
  wide[0] = std::byte{8};
  expect_malformed(what, 5, 3, wide, "header");
  wide[0] = std::byte{255};
  wide.resize(2 + 255);
  expect_malformed(what, 5, 3, wide, "header");
  // Minimum 40 and a lane of 6 above it is one too many.
  Bytes above{std::byte{3}, std::byte{40}, std::byte{5}, std::byte{0}, std::byte{0}};
  EXPECT_TRUE(read_all(what, 5, 3, above).has_value());
  above[2] = std::byte{6};
  expect_malformed(what, 5, 3, above, "beyond");
}

TEST(SumReader, RoundedShiftsOutOfRangeAreMalformed) {
  Reduction what{.op = Op::lane_sum, .bits = 2, .down = Down::round, .count = 8};
  Bytes down{std::byte{0}, std::byte{0}, std::byte{0}};
  for (std::uint32_t m = 1; m <= 64; ++m) {
    const unsigned widest = width_of(3 * std::int64_t{m});
    for (unsigned shift = 0; shift < 256; ++shift) {
      down[0] = static_cast<std::byte>(shift);
      const bool right = shift == 0 || shift + 2 <= widest;
      EXPECT_EQ(read_all(what, 64, m, down).has_value(), right) << m << " " << shift;
    }
  }
  down[0] = std::byte{31};
  expect_malformed(what, 64, 64, down, "shift");
}

TEST(SumReader, ArbitraryBytesAreRefusedOrStayWithinReach) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 70);
    const auto m = static_cast<std::uint32_t>(1 + random() % n);
    Reduction what{.op = Op::lane_sum};
    what.bits = static_cast<std::uint8_t>(1 + random() % 8);
    what.down = static_cast<Down>(random() % 3);
    what.extra = what.down == Down::round ? static_cast<std::uint8_t>(random() % 5) : 0;
    what.count = static_cast<std::uint32_t>(1 + random() % 40);
    what.grain = static_cast<std::uint32_t>(random() % 4 * 8);
    Bytes down(is_down_size_fixed(what) ? down_size_max(what, n) : random() % 64);
    for (std::byte& byte : down) byte = static_cast<std::byte>(random() % (trial % 2 ? 256 : 4));
    const auto got = read_all(what, n, m, down);
    if (!got) {
      EXPECT_EQ(got.error().code, Code::malformed);
      continue;
    }
    // A rounded value lies within half a cell of the widest shift beyond the exact range.
    const std::int64_t top = std::int64_t{value_max(what)} * m;
    const std::int64_t slack =
        what.down == Down::round ? 2 * power(what.bits + what.extra) + 2 * top : 0;
    for (const std::int64_t twice : *got) {
      EXPECT_GE(twice, -slack);
      EXPECT_LE(twice, 2 * top + slack);
    }
  }
}

}  // namespace
}  // namespace sluice
