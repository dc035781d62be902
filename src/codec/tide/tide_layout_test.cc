#include "codec/tide/tide_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::tide {
namespace {

constexpr std::array<std::uint32_t, 5> kBlockSizes{64, 128, 256, 512, 1024};

// Sizes of the blocks of `count` coordinates, once more from the README's sentence.
std::vector<std::uint32_t> sizes_of(std::uint32_t count, std::uint32_t block) {
  std::vector<std::uint32_t> sizes(count / block, block);
  std::uint32_t left = count % block;
  for (std::uint32_t size = block / 2; size >= 16; size /= 2) {
    if (left >= size) {
      sizes.push_back(size);
      left -= size;
    }
  }
  if (left > 0) sizes.push_back(16);
  return sizes;
}

void expect_blocks(const TideLayout& layout, std::uint32_t count, std::uint32_t block) {
  const auto sizes = sizes_of(count, block);
  ASSERT_EQ(layout.blocks(), sizes.size());
  ASSERT_EQ(layout.whole(), count / block);
  std::uint32_t at = 0;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    const TideLayout::Block one = layout[b];
    ASSERT_EQ(one.first, at) << "each starts where the one before ends";
    ASSERT_EQ(one.size, sizes[b]);
    ASSERT_EQ(one.first % one.size, 0u) << "on a multiple of its own size";
    const bool last = b + 1 == layout.blocks();
    ASSERT_TRUE(one.count == one.size || (last && one.size == 16 && one.count > 0)) << b;
    ASSERT_LE(one.count, one.size);
    at += one.count;
    if (last) {
      ASSERT_EQ(layout.lanes(), one.first + one.size);
    }
  }
  ASSERT_EQ(at, count) << "all coordinates, once";
  if (count == 0) {
    ASSERT_EQ(layout.lanes(), 0u);
  }
}

TEST(TideLayout, BlocksCoverEveryCoordinateOnceInOrderAndOnlyTheLastIsPadded) {
  for (const std::uint32_t block : kBlockSizes) {
    for (std::uint32_t count = 0; count <= 3000; ++count) {
      SCOPED_TRACE(::testing::Message() << count << " coordinates, blocks of " << block);
      expect_blocks(TideLayout(count, block), count, block);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TideLayout, TheReadmesExample) {
  const TideLayout layout(200, 256);
  ASSERT_EQ(layout.blocks(), 3u);
  EXPECT_EQ(layout[0].size, 128u);
  EXPECT_EQ(layout[1].size, 64u);
  EXPECT_EQ(layout[2].size, 16u);
  EXPECT_EQ(layout[2].count, 8u);
  EXPECT_EQ(layout.lanes(), 208u);
}

TEST(TideLayout, TheLargestChunkHasNoTail) {
  const TideLayout layout(1u << 26, 64);
  EXPECT_EQ(layout.blocks(), 1u << 20);
  EXPECT_EQ(layout.lanes(), 1u << 26);
  EXPECT_EQ(layout[(1u << 20) - 1].first, (1u << 26) - 64);
}

}  // namespace
}  // namespace sluice::tide
