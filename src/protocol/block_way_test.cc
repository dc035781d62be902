#include "protocol/block_way.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/random.h"
#include "round/block_sum.h"

namespace sluice::protocol {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Reduction kSmall{.op = Op::block_sum, .bits = 16, .count = 800, .grain = 8};
constexpr Reduction kLarge{.op = Op::block_sum, .bits = 32, .count = 4000, .grain = 1000};
constexpr std::size_t kPayload = 1024;

Bytes list_of(const Reduction& what, std::initializer_list<std::uint32_t> numbers) {
  Bytes bytes(up_size(what));
  std::size_t used = kBlockListHeader;
  store_le(std::span(bytes), 0, static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint32_t number : numbers) {
    Bytes integers(std::size_t{what.grain} * what.bits / 8);
    for (std::size_t i = 0; i < 5; ++i) integers[i] = static_cast<std::byte>(mix(number, i) | 1);
    used += write_block(what, number, integers, std::span(bytes).subspan(used));
  }
  bytes.resize(used);
  return bytes;
}

void unite(BlockWay& way, std::initializer_list<std::uint32_t> numbers) {
  for (const std::uint32_t number : numbers) {
    way.united()[number / 8] |= static_cast<std::byte>(1u << number % 8);
  }
}

TEST(BlockWay, SaysWhichBlocksThereAre) {
  const Bytes up = list_of(kSmall, {0, 9, 99});
  BlockWay way;
  way.begin(kSmall, up, true, kPayload);
  EXPECT_TRUE((way.presence() == Reduction{.op = Op::max, .bits = 1, .count = 100}));
  ASSERT_EQ(way.present().size(), 13u);
  EXPECT_EQ(way.present()[0], std::byte{1});
  EXPECT_EQ(way.present()[1], std::byte{2});
  EXPECT_EQ(way.present()[12], std::byte{8});
}

TEST(BlockWay, FusesAsManyBlocksOfTheUnionAsFit) {
  const Bytes up = list_of(kSmall, {70, 99});
  BlockWay way;
  way.begin(kSmall, up, true, kPayload);
  for (std::uint32_t number = 1; number < 100; ++number) unite(way, {number});
  ASSERT_TRUE(way.plan());
  const auto fused =
      static_cast<std::uint32_t>((kPayload - kBlockListHeader) / block_size_max(kSmall));
  ASSERT_EQ(way.pieces(), divide_up(99u, fused));
  for (std::uint32_t piece = 0; piece < way.pieces(); ++piece) {
    EXPECT_LE(up_size(way.what_of(piece)), kPayload);
  }
  EXPECT_EQ(way.what_of(way.pieces() - 1).count, 8 * (99 - fused * (way.pieces() - 1)));
  EXPECT_TRUE(way.up_of(0).empty()) << "nothing for the first";
  BlockReader blocks(way.what_of(69 / fused), way.up_of(69 / fused));
  EXPECT_EQ((*blocks.next())->number, 69 % fused) << "numbered by its place in the piece";
}

TEST(BlockWay, AnEmptyUnionIsAnEmptyList) {
  const Bytes up = list_of(kSmall, {});
  BlockWay way;
  way.begin(kSmall, up, true, kPayload);
  ASSERT_TRUE(way.plan());
  EXPECT_EQ(way.pieces(), 0u);
  Bytes down(down_size_max(kSmall, 2), std::byte{0xee});
  EXPECT_EQ(way.finish(down), kBlockListHeader);
  EXPECT_EQ(load_le<std::uint32_t>(down), 0u);
}

TEST(BlockWay, BlocksLargerThanAFrameAreCutAndPutTogether) {
  const Bytes up = list_of(kLarge, {1, 3});
  BlockWay way;
  way.begin(kLarge, up, true, kPayload);
  unite(way, {1, 3});
  ASSERT_TRUE(way.plan());
  ASSERT_EQ(way.pieces(), 10u);
  Bytes down(down_size_max(kLarge, 1));
  for (std::uint32_t piece = way.pieces(); piece-- > 0;) {
    ASSERT_FALSE(way.up_of(piece).empty()) << "zeros, too: somebody has to send them";
    EXPECT_LE(way.up_of(piece).size(), kPayload);
    EXPECT_EQ(way.what_of(piece).count % 8, 0u);
    ASSERT_TRUE(way.accept(piece, way.up_of(piece), down));
  }
  down.resize(way.finish(down));
  EXPECT_EQ(down, up) << "of one worker the sum is what it sent";
}

TEST(BlockWay, AUnionWithoutItsOwnBlocksIsMalformed) {
  const Bytes up = list_of(kSmall, {5, 6});
  for (const bool is_counted : {true, false}) {
    BlockWay way;
    way.begin(kSmall, up, is_counted, kPayload);
    unite(way, {5, 7});
    EXPECT_EQ(way.plan().has_value(), !is_counted) << "who is not counted loses nothing";
    if (is_counted) continue;
    EXPECT_TRUE(way.up_of(0).empty());
  }
}

TEST(BlockWay, AnswersWithoutABlockOfTheUnionAreMalformed) {
  for (const Reduction& what : {kSmall, kLarge}) {
    const Bytes up = list_of(what, {1, 3});
    BlockWay way;
    way.begin(what, up, true, kPayload);
    unite(way, {1, 3});
    ASSERT_TRUE(way.plan());
    Bytes down(down_size_max(what, 2));
    const Bytes good(way.up_of(0).begin(), way.up_of(0).end());
    Bytes longer = good;
    longer.push_back(std::byte{0});
    Bytes fewer = good;
    store_le(std::span(fewer), 0, load_le<std::uint32_t>(good) - 1);
    const Bytes empty(kBlockListHeader);
    for (const Bytes& bad : {Bytes{}, empty, longer, fewer, Bytes(good.begin(), good.end() - 1)}) {
      const Status accepted = way.accept(0, bad, down);
      ASSERT_FALSE(accepted);
      EXPECT_EQ(accepted.error().code, Code::malformed);
    }
    EXPECT_TRUE(way.accept(0, good, down));
  }
}

}  // namespace
}  // namespace sluice::protocol
