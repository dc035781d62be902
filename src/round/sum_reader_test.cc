#include "round/sum_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/level.h"
#include "round/sum_rule_test.h"
#include "tests/support/guarded_bytes.h"

namespace sluice {
namespace {

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
      const Sums sums =
          make_sums(SumsShape::uniform, sizes[i], naive.top_value * counts[i], random);
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
        const Bytes bytes = naive.write(
            make_sums(SumsShape::uniform, 600, naive.top_value * 9, random), back, ties);
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
      Bytes bytes = naive.write(make_sums(SumsShape::uniform, 45, 63, random), back, ties);
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
