#include "round/reduction.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Values = std::initializer_list<std::uint16_t>;

constexpr std::array kOps{Op::lane_sum,  Op::wrap_sum, Op::max,      Op::gather,
                          Op::block_sum, Op::f32_sum,  Op::bf16_sum, Op::f16_sum};

std::vector<std::uint16_t> table_of(unsigned bits, std::uint16_t largest) {
  std::vector<std::uint16_t> table(std::size_t{1} << bits, 0);
  table[table.size() / 2] = largest;
  return table;
}

void expect_accepted(const Reduction& what, std::uint32_t workers) {
  const Status status = check(what, workers);
  EXPECT_TRUE(status.has_value()) << name_of(what.op) << ": " << status.error().what;
}

// The literal must say which rule was broken.
void expect_refused(const Reduction& what, std::uint32_t workers, const std::string& word) {
  const Status status = check(what, workers);
  ASSERT_FALSE(status.has_value()) << name_of(what.op) << ", expected: " << word;
  EXPECT_EQ(status.error().code, Code::invalid_argument);
  EXPECT_NE(std::string(status.error().what).find(word), std::string::npos)
      << status.error().what << " should mention " << word;
}

TEST(ReductionCheck, AcceptsOneToFourThousandNinetySixWorkers) {
  const Reduction what{.op = Op::max, .bits = 8, .count = 10};
  for (const std::uint32_t n : {1u, 2u, 64u, 65u, 4096u}) expect_accepted(what, n);
  for (const std::uint32_t n : {0u, 4097u, ~0u}) expect_refused(what, n, "workers");
}

TEST(ReductionCheck, RefusesUnknownOperationsAndForms) {
  expect_refused({.op = static_cast<Op>(8), .bits = 8, .count = 1}, 2, "unknown");
  expect_refused({.op = static_cast<Op>(255), .bits = 8, .count = 1}, 2, "unknown");
  expect_refused({.op = Op::lane_sum, .bits = 8, .down = static_cast<Down>(3), .count = 1}, 2,
                 "unknown");
}

TEST(ReductionCheck, BoundsTheLanesOfARound) {
  for (const Op op : {Op::lane_sum, Op::max, Op::wrap_sum, Op::gather}) {
    expect_accepted({.op = op, .bits = 8, .count = 0}, 3);
    expect_accepted({.op = op, .bits = 8, .count = 1u << 28}, 3);
    expect_refused({.op = op, .bits = 8, .count = (1u << 28) + 1}, 3, "2^28");
    expect_refused({.op = op, .bits = 8, .count = ~0u}, 3, "2^28");
  }
}

TEST(ReductionCheck, AGrainIsAMultipleOfEightLanes) {
  for (const std::uint32_t grain : {0u, 8u, 16u, 256u, 1u << 28}) {
    expect_accepted({.op = Op::max, .bits = 3, .count = 100, .grain = grain}, 2);
  }
  for (const std::uint32_t grain : {1u, 4u, 7u, 9u, 255u, (1u << 28) + 8}) {
    expect_refused({.op = Op::max, .bits = 3, .count = 100, .grain = grain}, 2, "grain");
  }
}

TEST(ReductionCheck, LaneSumTakesCodesOfOneToEightBits) {
  for (unsigned bits = 0; bits <= 255; ++bits) {
    const Reduction what{.op = Op::lane_sum, .bits = static_cast<std::uint8_t>(bits), .count = 8};
    if (bits >= 1 && bits <= 8) {
      expect_accepted(what, 64);
    } else {
      expect_refused(what, 64, "1 to 8");
    }
  }
}

TEST(ReductionCheck, ATableHasTwoToTheBitsEntries) {
  for (std::uint8_t bits = 1; bits <= 8; ++bits) {
    auto table = table_of(bits, 65535);
    Reduction what{.op = Op::lane_sum, .bits = bits, .count = 8, .table = table};
    expect_accepted(what, 4096);
    what.table = std::span(table).first(table.size() - 1);
    expect_refused(what, 4096, "table");
    table.push_back(0);
    what.table = table;
    expect_refused(what, 4096, "table");
  }
}

TEST(ReductionCheck, ExtraBelongsToTheRoundedFormAndHasABound) {
  Reduction what{.op = Op::lane_sum, .bits = 4, .extra = 1, .count = 64, .grain = 64};
  expect_refused(what, 2, "extra");
  what.down = Down::narrow;
  expect_refused(what, 2, "extra");
  what.down = Down::round;
  expect_accepted(what, 2);
  what.extra = 20;
  expect_accepted(what, 2);
  what.extra = 21;
  expect_refused(what, 2, "24");
  what.extra = 255;
  expect_refused(what, 2, "24");
}

TEST(ReductionCheck, ARoundedGrainMustNotOverflowTheSumOfItsErrors) {
  const auto table = table_of(8, 65535);
  Reduction what{.op = Op::lane_sum, .bits = 8, .down = Down::round, .extra = 0, .table = table};
  what.count = 1u << 28;
  for (const std::uint32_t workers : {1u, 2u, 64u, 1000u, 4096u}) {
    // The largest whole number of 8 lanes below 2^63 / (2·65535·n + 2)².
    const double widest = 2.0 * 65535.0 * workers + 2;
    const double lanes = std::floor(0x1p63 / (widest * widest) / 8) * 8;
    if (lanes >= 0x1p28) continue;
    what.grain = static_cast<std::uint32_t>(lanes);
    ASSERT_GT(what.grain, 0u);
    expect_accepted(what, workers);
    what.grain += 8;
    expect_refused(what, workers, "2^63");
  }
}

TEST(ReductionCheck, TheGrainCountsOnlyAsFarAsThereAreLanes) {
  const auto table = table_of(8, 65535);
  const Reduction what{.op = Op::lane_sum,
                       .bits = 8,
                       .down = Down::round,
                       .count = 8,
                       .grain = 1u << 28,
                       .table = table};
  expect_accepted(what, 4096);
}

TEST(ReductionCheck, IntegersHaveWholeWidths) {
  for (unsigned bits = 0; bits <= 255; ++bits) {
    const auto narrow = static_cast<std::uint8_t>(bits);
    const bool whole = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    const Reduction wrap{.op = Op::wrap_sum, .bits = narrow, .count = 9};
    const Reduction block{.op = Op::block_sum, .bits = narrow, .count = 9, .grain = 8};
    const Reduction max{.op = Op::max, .bits = narrow, .count = 9};
    const Reduction gather{.op = Op::gather, .bits = narrow, .count = 9};
    EXPECT_EQ(check(wrap, 2).has_value(), bits % 8 == 0 && bits >= 8 && bits <= 64) << bits;
    EXPECT_EQ(check(block, 2).has_value(), whole) << bits;
    EXPECT_EQ(check(max, 2).has_value(), bits >= 1 && bits <= 32) << bits;
    EXPECT_EQ(check(gather, 2).has_value(), bits == 8) << bits;
  }
  for (const std::uint8_t bits : {std::uint8_t{12}, std::uint8_t{25}}) {
    expect_refused({.op = Op::wrap_sum, .bits = bits, .count = 9}, 2,
                   "wrap_sum: bits must be a multiple of 8, from 8 to 64");
  }
  expect_refused({.op = Op::max, .bits = 33, .count = 9}, 2, "1 to 32");
  expect_refused({.op = Op::gather, .bits = 1, .count = 9}, 2, "8");
}

TEST(ReductionCheck, BlocksNeedAGrain) {
  expect_refused({.op = Op::block_sum, .bits = 32, .count = 9}, 2, "grain");
}

TEST(ReductionCheck, PositionsInABlockHaveSixteenBits) {
  Reduction what{.op = Op::block_sum, .bits = 8, .count = 1u << 20, .grain = kBlockGrainMax};
  EXPECT_TRUE(check(what, 2).has_value());
  what.grain += 8;
  expect_refused(what, 2, "65528");
}

TEST(ReductionCheck, FloatSumsHaveTheBitsOfTheirFormat) {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    const auto narrow = static_cast<std::uint8_t>(bits);
    EXPECT_EQ(check({.op = Op::f32_sum, .bits = narrow, .count = 3}, 2).has_value(), bits == 32);
    EXPECT_EQ(check({.op = Op::bf16_sum, .bits = narrow, .count = 3}, 2).has_value(), bits == 16);
    EXPECT_EQ(check({.op = Op::f16_sum, .bits = narrow, .count = 3}, 2).has_value(), bits == 16);
  }
}

TEST(ReductionCheck, DownExtraAndTableBelongToLaneSum) {
  const auto table = table_of(8, 5);
  for (const Op op : kOps) {
    if (op == Op::lane_sum) continue;
    Reduction right{.op = op, .bits = 8, .count = 16, .grain = 8};
    if (op == Op::f32_sum) right.bits = 32;
    if (op == Op::bf16_sum || op == Op::f16_sum) right.bits = 16;
    expect_accepted(right, 2);
    for (int field = 0; field < 4; ++field) {
      Reduction wrong = right;
      if (field == 0) wrong.down = Down::narrow;
      if (field == 1) wrong.down = Down::round;
      if (field == 2) wrong.extra = 1;
      if (field == 3) wrong.table = table;
      expect_refused(wrong, 2, "lane_sum");
    }
  }
}

TEST(ReductionSizes, ValueMaxIsTheLargestEntryOrCode) {
  for (std::uint8_t bits = 1; bits <= 8; ++bits) {
    EXPECT_EQ(value_max({.op = Op::lane_sum, .bits = bits}), (1u << bits) - 1);
    for (const std::uint16_t largest : Values{0, 1, 77, 65535}) {
      const auto table = table_of(bits, largest);
      EXPECT_EQ(value_max({.op = Op::lane_sum, .bits = bits, .table = table}), largest);
    }
  }
}

unsigned bits_by_counting(std::uint64_t value) {
  unsigned bits = 0;
  for (; value != 0; value /= 2) ++bits;
  return bits == 0 ? 1 : bits;
}

TEST(ReductionSizes, SumBitsHoldTheSumOfAllWorkersAndNoMore) {
  for (std::uint8_t bits = 1; bits <= 8; ++bits) {
    for (const std::uint16_t largest : Values{0, 1, 2, 255, 256, 30000, 65535}) {
      const auto table = table_of(bits, largest);
      for (const std::uint32_t n : {1u, 2u, 3u, 7u, 8u, 63u, 64u, 65u, 4095u, 4096u}) {
        EXPECT_EQ(sum_bits({.op = Op::lane_sum, .bits = bits}, n),
                  bits_by_counting(((std::uint64_t{1} << bits) - 1) * n));
        EXPECT_EQ(sum_bits({.op = Op::lane_sum, .bits = bits, .table = table}, n),
                  bits_by_counting(std::uint64_t{largest} * n));
      }
    }
  }
  EXPECT_EQ(sum_bits({.op = Op::lane_sum, .bits = 8}, 4096), 20u);
  const auto table = table_of(8, 65535);
  EXPECT_EQ(sum_bits({.op = Op::lane_sum, .bits = 8, .table = table}, 4096), 28u);
}

TEST(ReductionSizes, RoundingAppliesOnlyWhereItSavesBits) {
  Reduction what{.op = Op::lane_sum, .bits = 4, .down = Down::round, .count = 8, .grain = 8};
  for (std::uint32_t n = 1; n <= 4096; n = n * 2 + 1) {
    for (std::uint8_t extra = 0; extra <= 20; ++extra) {
      what.extra = extra;
      what.down = Down::round;
      EXPECT_EQ(is_rounded(what, n), 4u + extra < bits_by_counting(std::uint64_t{15} * n));
      what.down = Down::narrow;
      EXPECT_FALSE(is_rounded(what, n));
    }
  }
}

TEST(ReductionSizes, GrainOfIsAllLanesWithoutGrainAndForLists) {
  EXPECT_EQ(grain_of({.op = Op::max, .count = 100}), 100u);
  EXPECT_EQ(grain_of({.op = Op::max, .count = 100, .grain = 16}), 16u);
  EXPECT_EQ(grain_of({.op = Op::max, .count = 10, .grain = 16}), 10u);
  EXPECT_EQ(grain_of({.op = Op::max, .count = 0, .grain = 16}), 0u);
  EXPECT_EQ(grain_of({.op = Op::gather, .count = 100, .grain = 16}), 100u);
  EXPECT_EQ(grain_of({.op = Op::block_sum, .count = 100, .grain = 16}), 100u);
}

std::size_t bytes(double bits) { return static_cast<std::size_t>(std::ceil(bits / 8)); }

TEST(ReductionSizes, UpIsAllLanesPackedAndListsAtMost) {
  for (const std::uint32_t count : {0u, 1u, 7u, 8u, 9u, 1000u, 1u << 28}) {
    for (std::uint8_t bits = 1; bits <= 32; ++bits) {
      EXPECT_EQ(up_size({.op = Op::max, .bits = bits, .count = count}),
                bytes(static_cast<double>(count) * bits));
    }
    EXPECT_EQ(up_size({.op = Op::wrap_sum, .bits = 64, .count = count}), std::size_t{8} * count);
    EXPECT_EQ(up_size({.op = Op::bf16_sum, .bits = 16, .count = count}), std::size_t{2} * count);
    EXPECT_EQ(up_size({.op = Op::gather, .bits = 8, .count = count}), count);
  }
  EXPECT_EQ(up_size({.op = Op::block_sum, .bits = 32, .count = 100, .grain = 16}),
            4 + 7 * (5 + 16 * 4u));
  EXPECT_EQ(up_size({.op = Op::block_sum, .bits = 8, .count = 0, .grain = 16}), 0u);
}

// Walks the grains one by one, as a writer would.
std::size_t walked_down_size(const Reduction& what, std::uint32_t n) {
  const unsigned full = bits_by_counting(std::uint64_t{value_max(what)} * n);
  const bool rounded = what.down == Down::round && what.bits + what.extra < static_cast<int>(full);
  if (what.down != Down::narrow && !rounded) return bytes(static_cast<double>(what.count) * full);
  const std::uint32_t grain = what.grain == 0 ? what.count : what.grain;
  std::size_t size = 0;
  for (std::uint32_t at = 0; at < what.count; at += grain) {
    const double lanes = std::min(grain, what.count - at);
    size += rounded ? 1 + bytes(lanes * (what.bits + what.extra))
                    : 1 + bytes(full) + bytes(lanes * full);
  }
  return size;
}

TEST(ReductionSizes, DownSizeMaxIsTheSumOverGrains) {
  for (std::uint8_t bits = 1; bits <= 8; ++bits) {
    const auto table = table_of(bits, 999);
    for (const std::uint32_t n : {1u, 2u, 5u, 64u, 4096u}) {
      for (const std::uint32_t count : {0u, 1u, 8u, 9u, 63u, 64u, 65u, 1000u}) {
        for (const std::uint32_t grain : {0u, 8u, 24u, 64u, 1024u}) {
          for (const Down down : {Down::full, Down::narrow, Down::round}) {
            Reduction what{.op = Op::lane_sum, .bits = bits, .down = down, .count = count};
            what.grain = grain;
            EXPECT_EQ(down_size_max(what, n), walked_down_size(what, n));
            what.table = table;
            EXPECT_EQ(down_size_max(what, n), walked_down_size(what, n));
            what.extra = down == Down::round ? 3 : 0;
            EXPECT_EQ(down_size_max(what, n), walked_down_size(what, n));
          }
        }
      }
    }
  }
}

TEST(ReductionSizes, OtherOperationsComeDownAsTheyWentUp) {
  const Reduction wrap{.op = Op::wrap_sum, .bits = 16, .count = 77, .grain = 8};
  EXPECT_EQ(down_size_max(wrap, 4096), 154u);
  const Reduction max{.op = Op::max, .bits = 3, .count = 77};
  EXPECT_EQ(down_size_max(max, 4096), 29u);
  const Reduction blocks{.op = Op::block_sum, .bits = 16, .count = 77, .grain = 8};
  EXPECT_EQ(down_size_max(blocks, 4096), 4 + 10 * (5 + 16u));
  EXPECT_EQ(block_size_max(blocks), 21u);
  EXPECT_EQ(block_count(blocks), 10u);
  const Reduction gather{.op = Op::gather, .bits = 8, .count = 77};
  EXPECT_EQ(down_size_max(gather, 4096), std::size_t{4096} * (8 + 77));
  const Reduction largest{.op = Op::gather, .bits = 8, .count = 1u << 28};
  EXPECT_EQ(down_size_max(largest, 4096), std::size_t{4096} * (8 + (std::size_t{1} << 28)));
}

TEST(ReductionSizes, OnlyListsAndNarrowSumsVaryInSize) {
  for (const Op op : kOps) {
    EXPECT_EQ(is_down_size_fixed({.op = op}), op != Op::gather && op != Op::block_sum);
    EXPECT_EQ(is_list(op), op == Op::gather || op == Op::block_sum);
    EXPECT_EQ(is_float_sum(op), op == Op::f32_sum || op == Op::bf16_sum || op == Op::f16_sum);
  }
  EXPECT_FALSE(is_down_size_fixed({.op = Op::lane_sum, .down = Down::narrow}));
  EXPECT_TRUE(is_down_size_fixed({.op = Op::lane_sum, .down = Down::round}));
  EXPECT_EQ(float_format(Op::f32_sum), floats::Format::f32);
  EXPECT_EQ(float_format(Op::bf16_sum), floats::Format::bf16);
  EXPECT_EQ(float_format(Op::f16_sum), floats::Format::f16);
}

TEST(ReductionNames, EveryOperationAndFormHasItsOwn) {
  std::set<std::string> names;
  for (const Op op : kOps) names.emplace(name_of(op));
  EXPECT_EQ(names.size(), kOps.size());
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name_of(static_cast<Op>(99)), "unknown");
  EXPECT_EQ(name_of(Down::full), "full");
  EXPECT_EQ(name_of(Down::narrow), "narrow");
  EXPECT_EQ(name_of(Down::round), "round");
  EXPECT_EQ(name_of(static_cast<Down>(9)), "unknown");
}

// Reductions that differ from each other in one field at a time, and combinations.
std::vector<Reduction> distinct_reductions(std::span<const std::vector<std::uint16_t>> tables) {
  std::vector<Reduction> all;
  for (const Op op : kOps) {
    for (const int bits : {1, 8, 32}) {
      for (const Down down : {Down::full, Down::narrow, Down::round}) {
        for (const int extra : {0, 1, 8}) {
          for (const std::uint32_t count : {0u, 1u, 8u, 32u}) {
            for (const std::uint32_t grain : {0u, 8u, 32u}) {
              Reduction what{.op = op, .bits = static_cast<std::uint8_t>(bits), .down = down};
              what.extra = static_cast<std::uint8_t>(extra);
              what.count = count;
              what.grain = grain;
              all.push_back(what);
            }
          }
        }
      }
    }
  }
  for (const auto& table : tables) {
    all.push_back({.op = Op::lane_sum, .bits = 1, .count = 8, .grain = 8, .table = table});
  }
  return all;
}

TEST(ReductionDigest, DiffersWheneverAFieldDiffersAndEqualityAgrees) {
  const std::vector<std::vector<std::uint16_t>> tables{{0, 1}, {1, 0}, {0, 0}, {0, 65535}, {1, 1}};
  const auto all = distinct_reductions(tables);
  std::map<std::uint64_t, std::size_t> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [at, fresh] = seen.emplace(digest_of(all[i]), i);
    EXPECT_TRUE(fresh) << i << " has the digest of " << at->second;
    const Reduction copy = all[i];
    EXPECT_TRUE(copy == all[i]);
    EXPECT_EQ(digest_of(copy), digest_of(all[i]));
    EXPECT_FALSE(all[i] == all[(i + 1) % all.size()]);
  }
}

TEST(ReductionDigest, TablesCompareByContents) {
  const std::vector<std::uint16_t> first{3, 5};
  const std::vector<std::uint16_t> second{3, 5};
  const Reduction a{.op = Op::lane_sum, .bits = 1, .count = 8, .table = first};
  const Reduction b{.op = Op::lane_sum, .bits = 1, .count = 8, .table = second};
  EXPECT_TRUE(a == b);
  EXPECT_EQ(digest_of(a), digest_of(b));
  const Reduction none{.op = Op::lane_sum, .bits = 1, .count = 8};
  EXPECT_FALSE(a == none);
}

}  // namespace
}  // namespace sluice
