#include "round/combine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "round/block_sum.h"
#include "round/sum_reader.h"
#include "round/tile.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;
using Widths = std::initializer_list<std::uint8_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

// ---- Oracles: one lane at a time, bit by bit.

std::uint64_t bits_at(std::span<const std::byte> bytes, std::uint64_t first, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t at = first + i;
    const auto byte = std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(at / 8)]);
    value |= (byte >> (at % 8) & 1) << i;
  }
  return value;
}

void put_bits(Bytes& bytes, std::uint64_t first, unsigned count, std::uint64_t value) {
  for (unsigned i = 0; i < count; ++i) {
    if ((value >> i & 1) == 0) continue;
    bytes[static_cast<std::size_t>((first + i) / 8)] |=
        static_cast<std::byte>(1u << ((first + i) % 8));
  }
}

Bytes packed(std::span<const std::uint64_t> lanes, unsigned bits) {
  Bytes bytes((lanes.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < lanes.size(); ++i) put_bits(bytes, i * bits, bits, lanes[i]);
  return bytes;
}

std::vector<std::uint64_t> reduced_lanes(const Reduction& what, std::uint32_t first,
                                         std::uint32_t count, const std::vector<Bytes>& ups) {
  std::vector<std::uint64_t> lanes(count, 0);
  const std::uint64_t mask =
      what.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << what.bits) - 1;
  for (const Bytes& up : ups) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t lane = bits_at(up, std::uint64_t{first + i} * what.bits, what.bits);
      if (what.op == Op::max) lanes[i] = std::max(lanes[i], lane);
      if (what.op == Op::wrap_sum) lanes[i] = (lanes[i] + lane) & mask;
      if (what.op == Op::lane_sum) lanes[i] += what.table.empty() ? lane : what.table[lane];
    }
  }
  return lanes;
}

// ---- The code under test.

std::vector<Contribution> contributions_of(const std::vector<Bytes>& ups) {
  std::vector<Contribution> all;
  for (std::size_t i = 0; i < ups.size(); ++i) {
    all.push_back({static_cast<std::uint32_t>(i), ups[i]});
  }
  return all;
}

Bytes combined(const Reduction& what, std::uint32_t n, std::uint32_t first, std::uint32_t count,
               const std::vector<Contribution>& contributions) {
  for (const Contribution& one : contributions) {
    const Status right = check_up(what, one.up);
    EXPECT_TRUE(right.has_value()) << right.error().what;
  }
  AlignedBuffer scratch(scratch_size(what));
  Bytes down(down_size_max(what, n) + 1, std::byte{0xa5});
  const std::size_t used = combine(what, n, first, count, contributions, scratch.bytes(),
                                   std::span(down).first(down.size() - 1));
  EXPECT_EQ(down.back(), std::byte{0xa5});
  down.resize(used);
  return down;
}

std::vector<Bytes> random_ups(const Reduction& what, std::uint32_t workers, std::mt19937& random) {
  std::vector<Bytes> ups(workers, Bytes(up_size(what)));
  for (Bytes& up : ups) {
    for (std::byte& byte : up) byte = static_cast<std::byte>(random());
  }
  return ups;
}

std::string label(const Reduction& what, std::uint32_t n) {
  return std::string(name_of(what.op)) + "{" + std::to_string(what.bits) + "} " +
         std::string(name_of(what.down)) + " of " + std::to_string(what.count) + ", grain " +
         std::to_string(what.grain) + ", " + std::to_string(n) + " workers";
}

constexpr std::initializer_list<std::uint32_t> kCounts{1, 7, 8, 9, 64, 1000, 4096, 4097, 9000};

TEST(Combine, WrapSumIsTheSumModuloTheWidth) {
  std::mt19937 random(1);
  for (const std::uint8_t bits : Widths{8, 16, 24, 32, 40, 48, 56, 64}) {
    for (const std::uint32_t count : kCounts) {
      for (const std::uint32_t n : {1u, 2u, 5u}) {
        const Reduction what{.op = Op::wrap_sum, .bits = bits, .count = count, .grain = 8};
        const auto ups = random_ups(what, n, random);
        EXPECT_EQ(combined(what, n, 0, count, contributions_of(ups)),
                  packed(reduced_lanes(what, 0, count, ups), bits))
            << label(what, n);
      }
    }
  }
}

TEST(Combine, MaxIsTheLargestLaneAndClearsUnusedBits) {
  std::mt19937 random(2);
  for (std::uint8_t bits = 1; bits <= 32; ++bits) {
    for (const std::uint32_t count : {1u, 7u, 8u, 9u, 4097u}) {
      for (const std::uint32_t n : {1u, 2u, 5u}) {
        const Reduction what{.op = Op::max, .bits = bits, .count = count};
        const auto ups = random_ups(what, n, random);  // also the unused bits of the last byte
        EXPECT_EQ(combined(what, n, 0, count, contributions_of(ups)),
                  packed(reduced_lanes(what, 0, count, ups), bits))
            << label(what, n);
      }
    }
  }
}

TEST(Combine, FullLaneSumIsTheSumOfCodesOrOfTheirTableEntries) {
  std::mt19937 random(3);
  for (std::uint8_t bits = 1; bits <= 8; ++bits) {
    std::vector<std::uint16_t> table(std::size_t{1} << bits);
    for (std::uint16_t& entry : table) entry = static_cast<std::uint16_t>(random());
    for (const std::uint32_t count : {1u, 9u, 1000u, 4097u}) {
      for (const std::uint32_t n : {1u, 3u, 70u}) {
        Reduction what{.op = Op::lane_sum, .bits = bits, .count = count, .grain = 16};
        const auto ups = random_ups(what, n, random);
        EXPECT_EQ(combined(what, n, 0, count, contributions_of(ups)),
                  packed(reduced_lanes(what, 0, count, ups), sum_bits(what, n)))
            << label(what, n);
        what.table = table;
        EXPECT_EQ(combined(what, n, 0, count, contributions_of(ups)),
                  packed(reduced_lanes(what, 0, count, ups), sum_bits(what, n)))
            << label(what, n) << " table";
      }
    }
  }
}

TEST(Combine, LaneSumAnswersInItsDownForm) {
  std::mt19937 random(4);
  for (const Down down : {Down::narrow, Down::round}) {
    for (const std::uint32_t grain : {0u, 8u, 1000u, 4096u, 5000u}) {
      for (const std::uint32_t count : kCounts) {
        for (const std::uint32_t n : {3u, 70u}) {
          Reduction what{.op = Op::lane_sum, .bits = 4, .down = down, .count = count};
          what.grain = grain;
          const auto ups = random_ups(what, n, random);
          const auto lanes = reduced_lanes(what, 0, count, ups);
          const std::vector<std::uint32_t> sums(lanes.begin(), lanes.end());
          Bytes wanted(down_size_max(what, n));
          wanted.resize(write_sums(what, n, n, std::span<const std::uint32_t>(sums), wanted));
          EXPECT_EQ(combined(what, n, 0, count, contributions_of(ups)), wanted) << label(what, n);
        }
      }
    }
  }
}

TEST(Combine, FourThousandWorkersFitTheirAccumulators) {
  const std::vector<std::uint16_t> table{0, 65535};
  for (const bool with_table : {false, true}) {
    Reduction what{.op = Op::lane_sum, .bits = 1, .count = 8};
    if (with_table) what.table = table;
    const Bytes ones{std::byte{0xff}};
    std::vector<Contribution> all;
    for (std::uint32_t rank = 0; rank < 4096; ++rank) all.push_back({rank, ones});
    const std::uint64_t top = std::uint64_t{4096} * (with_table ? 65535 : 1);
    EXPECT_EQ(combined(what, 4096, 0, 8, all),
              packed(std::vector<std::uint64_t>(8, top), sum_bits(what, 4096)));
  }
}

TEST(Combine, PartsLaidEndToEndAreTheAnswer) {
  std::mt19937 random(5);
  const std::vector<Reduction> all{
      {.op = Op::lane_sum, .bits = 3, .count = 205, .grain = 16},
      {.op = Op::lane_sum, .bits = 3, .down = Down::narrow, .count = 205, .grain = 16},
      {.op = Op::lane_sum, .bits = 3, .down = Down::round, .extra = 1, .count = 205, .grain = 16},
      {.op = Op::max, .bits = 5, .count = 205, .grain = 16},
      {.op = Op::wrap_sum, .bits = 16, .count = 205, .grain = 16},
      {.op = Op::wrap_sum, .bits = 40, .count = 205, .grain = 16},
      {.op = Op::bf16_sum, .bits = 16, .count = 205, .grain = 16},
  };
  for (const Reduction& what : all) {
    const auto ups = random_ups(what, 9, random);
    const auto whole = combined(what, 9, 0, 205, contributions_of(ups));
    Bytes parts;
    for (std::uint32_t first = 0; first < 205;) {
      const auto count = std::min<std::uint32_t>(16 * (1 + first / 48), 205 - first);
      const Bytes part = combined(what, 9, first, count, contributions_of(ups));
      parts.insert(parts.end(), part.begin(), part.end());
      first += count;
    }
    EXPECT_EQ(parts, whole) << label(what, 9);
  }
}

TEST(Combine, APartOfFewerContributorsHasTheirSumsOnly) {
  std::mt19937 random(6);
  const Reduction what{.op = Op::lane_sum, .bits = 4, .count = 64, .grain = 16};
  const auto ups = random_ups(what, 9, random);
  const std::vector<Contribution> some{{2, ups[2]}, {7, ups[7]}};
  EXPECT_EQ(combined(what, 9, 16, 32, some),
            packed(reduced_lanes(what, 16, 32, {ups[2], ups[7]}), 8));
}

TEST(Combine, IntegersComeOutTheSameInAnyOrder) {
  std::mt19937 random(7);
  const std::vector<Reduction> all{
      {.op = Op::lane_sum, .bits = 4, .count = 100, .grain = 16},
      {.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 100, .grain = 16},
      {.op = Op::lane_sum, .bits = 4, .down = Down::round, .count = 100, .grain = 16},
      {.op = Op::max, .bits = 7, .count = 100},
      {.op = Op::wrap_sum, .bits = 32, .count = 100},
      {.op = Op::wrap_sum, .bits = 24, .count = 100},
  };
  for (const Reduction& what : all) {
    const auto ups = random_ups(what, 12, random);
    auto order = contributions_of(ups);
    const Bytes first = combined(what, 12, 0, 100, order);
    for (int trial = 0; trial < 10; ++trial) {
      std::shuffle(order.begin(), order.end(), random);
      EXPECT_EQ(combined(what, 12, 0, 100, order), first) << label(what, 12);
    }
  }
}

// ---- Float sums.

Bytes f32_bytes(const std::vector<float>& values) {
  Bytes bytes(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) store_le(std::span(bytes), i * 4, values[i]);
  return bytes;
}

std::uint32_t word(std::span<const std::byte> bytes, std::size_t index) {
  return load_le<std::uint32_t>(bytes, index * 4);
}

TEST(CombineFloats, SumsInRankOrderInFloat32) {
  // In rank order 2^24 swallows each 1; in any other order it would not.
  std::vector<Bytes> ups{f32_bytes({0x1p24f, 1.0f}), f32_bytes({1.0f, 1.0f}),
                         f32_bytes({1.0f, 0x1p24f})};
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = 2};
  EXPECT_EQ(combined(what, 3, 0, 2, contributions_of(ups)), f32_bytes({0x1p24f, 0x1p24f + 2}));
}

TEST(CombineFloats, MatchesAPlainLoopOverRanks) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0, 100);
  for (const std::uint32_t count : {1u, 7u, 100u, 2047u, 2048u, 2049u, 5000u}) {
    const Reduction what{.op = Op::f32_sum, .bits = 32, .count = count, .grain = 8};
    std::vector<std::vector<float>> values(6, std::vector<float>(count));
    std::vector<Bytes> ups;
    for (auto& one : values) {
      for (float& value : one) value = normal(random);
      ups.push_back(f32_bytes(one));
    }
    std::vector<float> sums = values[0];
    for (std::size_t rank = 1; rank < values.size(); ++rank) {
      for (std::uint32_t i = 0; i < count; ++i) sums[i] += values[rank][i];
    }
    EXPECT_EQ(combined(what, 6, 0, count, contributions_of(ups)), f32_bytes(sums)) << count;
  }
}

TEST(CombineFloats, KeepsMinusZeroInfinityAndMakesNanCanonical) {
  const float nan = std::bit_cast<float>(0xffc12345u);
  const float signalling = std::bit_cast<float>(0x7f800001u);
  const std::vector<Bytes> ups{
      f32_bytes({-0.0f, -0.0f, 0.0f, kInf, kInf, nan, 1.0f, -kInf, 3e38f}),
      f32_bytes({-0.0f, 0.0f, -0.0f, 1.0f, -kInf, 1.0f, signalling, -kInf, 3e38f}),
  };
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = 9};
  const Bytes down = combined(what, 2, 0, 9, contributions_of(ups));
  const std::vector<std::uint32_t> wanted{0x80000000, 0x00000000, 0x00000000,
                                          0x7f800000, 0x7fc00000, 0x7fc00000,
                                          0x7fc00000, 0xff800000, 0x7f800000};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(word(down, i), wanted[i]) << i;
}

TEST(CombineFloats, ASingleWorkersNanIsCanonicalToo) {
  const std::vector<Bytes> ups{f32_bytes({std::bit_cast<float>(0xffffffffu), -0.0f})};
  const Reduction what{.op = Op::f32_sum, .bits = 32, .count = 2};
  const Bytes down = combined(what, 1, 0, 2, contributions_of(ups));
  EXPECT_EQ(word(down, 0), 0x7fc00000u);
  EXPECT_EQ(word(down, 1), 0x80000000u);
}

Bytes u16_bytes(const std::vector<std::uint16_t>& values) {
  Bytes bytes(values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) store_le(std::span(bytes), i * 2, values[i]);
  return bytes;
}

TEST(CombineFloats, SixteenBitFormatsAreRoundedOnceAfterTheSum) {
  // bfloat16: 256 + 1 + 1 = 258 is even and fits 8 bits; rounding after each step would stay at
  // 256.
  const std::vector<Bytes> brain{u16_bytes({0x4380}), u16_bytes({0x3f80}), u16_bytes({0x3f80})};
  EXPECT_EQ(
      combined({.op = Op::bf16_sum, .bits = 16, .count = 1}, 3, 0, 1, contributions_of(brain)),
      u16_bytes({0x4381}));
  // float16: 2048 + 1 + 1 = 2050, likewise; 65504 + 65504 overflows to infinity.
  const std::vector<Bytes> half{u16_bytes({0x6800, 0x7bff}), u16_bytes({0x3c00, 0x7bff}),
                                u16_bytes({0x3c00, 0x0000})};
  EXPECT_EQ(combined({.op = Op::f16_sum, .bits = 16, .count = 2}, 3, 0, 2, contributions_of(half)),
            u16_bytes({0x6801, 0x7c00}));
}

// ---- Lists.

constexpr Reduction kBlocks{.op = Op::block_sum, .bits = 16, .count = 77, .grain = 8};

Bytes blocks(const std::map<std::uint32_t, std::vector<std::uint16_t>>& list) {
  Bytes bytes(kBlockListHeader + list.size() * block_size_max(kBlocks));
  store_le(std::span(bytes), 0, static_cast<std::uint32_t>(list.size()));
  std::size_t used = kBlockListHeader;
  for (const auto& [number, integers] : list) {
    used += write_block(kBlocks, number, u16_bytes(integers), std::span(bytes).subspan(used));
  }
  bytes.resize(used);
  return bytes;
}

TEST(CombineLists, BlocksAreTheUnionWithSumsModuloTheWidth) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Bytes> ups;
    std::map<std::uint32_t, std::vector<std::uint16_t>> wanted;
    for (int rank = 0; rank < 5; ++rank) {
      std::map<std::uint32_t, std::vector<std::uint16_t>> mine;
      for (std::uint32_t number = 0; number < 10; ++number) {
        if (random() % 3 != 0) continue;
        auto& sums = wanted.try_emplace(number, std::vector<std::uint16_t>(8)).first->second;
        auto& block = mine[number];
        for (std::size_t i = 0; i < 8; ++i) {
          block.push_back(static_cast<std::uint16_t>(random() % 3 == 0 ? random() : 0));
          sums[i] = static_cast<std::uint16_t>(sums[i] + block[i]);
        }
      }
      ups.push_back(blocks(mine));
    }
    auto order = contributions_of(ups);
    EXPECT_EQ(combined(kBlocks, 5, 0, 77, order), blocks(wanted));
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_EQ(combined(kBlocks, 5, 0, 77, order), blocks(wanted)) << "any order";
  }
}

TEST(CombineLists, NoBlocksFromAnybodyAreAListOfNone) {
  const Bytes none = blocks({});
  EXPECT_EQ(combined(kBlocks, 3, 0, 77, contributions_of({none, none, none})), none);
}

TEST(CombineLists, ABlockWhoseSumsAreZeroStaysInTheList) {
  const Bytes plus = blocks({{3, {0, 5, 0, 0, 0, 0, 0, 9}}});
  const Bytes minus = blocks({{3, {0, 65531, 0, 0, 0, 0, 0, 65527}}});
  const Bytes sum = combined(kBlocks, 2, 0, 77, contributions_of({plus, minus}));
  EXPECT_EQ(sum, blocks({{3, std::vector<std::uint16_t>(8)}}));
  EXPECT_EQ(sum.size(), kBlockListHeader + kBlockHeader + 1) << "a bitmap of none";
}

TEST(CombineLists, GatherKeepsEveryMessageWithItsRank) {
  const Reduction what{.op = Op::gather, .bits = 8, .count = 3};
  const std::vector<Bytes> ups{{std::byte{7}}, {}, {std::byte{1}, std::byte{2}, std::byte{3}}};
  const std::vector<Contribution> all{{2, ups[0]}, {5, ups[1]}, {300, ups[2]}};
  const std::vector<int> wanted{2, 0, 0, 0,  1, 0, 0, 0, 7, 5, 0, 0, 0, 0,
                                0, 0, 0, 44, 1, 0, 0, 3, 0, 0, 0, 1, 2, 3};
  const Bytes got = combined(what, 301, 0, 3, all);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(got[i]), wanted[i]) << i;
  }
}

// ---- What may enter.

void expect_refused(const Reduction& what, std::size_t size) {
  const Status status = check_up(what, Bytes(size));
  ASSERT_FALSE(status.has_value()) << label(what, 1) << " " << size;
  EXPECT_EQ(status.error().code, Code::malformed);
}

TEST(CheckUp, WantsExactlyTheSizeOfTheLanes) {
  const Reduction what{.op = Op::max, .bits = 3, .count = 9};
  EXPECT_TRUE(check_up(what, Bytes(4)).has_value());
  for (const std::size_t size : {0u, 3u, 5u, 100u}) expect_refused(what, size);
  const Reduction floats{.op = Op::f16_sum, .bits = 16, .count = 9};
  EXPECT_TRUE(check_up(floats, Bytes(18)).has_value());
  expect_refused(floats, 17);
}

TEST(CheckUp, TakesMessagesUpToTheStatedSize) {
  const Reduction what{.op = Op::gather, .bits = 8, .count = 9};
  for (std::size_t size = 0; size <= 9; ++size) {
    EXPECT_TRUE(check_up(what, Bytes(size)).has_value());
  }
  expect_refused(what, 10);
}

TEST(CheckUp, RefusesBlocksThatAreCutOffOrOutOfOrder) {
  const Reduction& what = kBlocks;
  const std::vector<std::uint16_t> zeros(8);
  EXPECT_TRUE(check_up(what, blocks({})).has_value());
  EXPECT_TRUE(check_up(what, blocks({{0, zeros}, {9, zeros}})).has_value());
  EXPECT_FALSE(check_up(what, blocks({{0, zeros}, {10, zeros}})).has_value());
  const Bytes two = blocks({{0, zeros}, {9, zeros}});
  for (std::size_t size = 0; size < two.size(); ++size) {
    EXPECT_FALSE(check_up(what, std::span(two).first(size)).has_value()) << size;
  }
  Bytes twice = blocks({{0, zeros}, {9, zeros}});
  store_le(std::span(twice), 4 + 7, std::uint32_t{0});
  EXPECT_FALSE(check_up(what, twice).has_value()) << "block 0 twice";
  expect_refused(what, up_size(what) + 1);
}

TEST(Tiles, AreWholeGrainsThatStartOnAByte) {
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    for (const std::uint32_t grain : {8u, 24u, 1000u, 4096u, 4104u, 100000u}) {
      const Reduction what{
          .op = Op::lane_sum, .bits = 4, .down = down, .count = 1u << 20, .grain = grain};
      const std::uint32_t tile = tile_lanes(what);
      EXPECT_EQ(tile % 8, 0u);
      EXPECT_TRUE(down == Down::full || tile % grain == 0) << grain;
      EXPECT_TRUE(tile <= kLaneTile || tile == grain) << grain;
      EXPECT_GE(scratch_size(what), std::size_t{8} * tile);
    }
  }
}

}  // namespace
}  // namespace sluice
