#include "base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice {
namespace {

TEST(AlignedBuffer, IsAlignedZeroedAndOfTheSizeAskedFor) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                                 std::size_t{65}, std::size_t{100000}}) {
    const AlignedBuffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    ASSERT_NE(buffer.bytes().data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % kAlignment, 0u);
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(AlignedBuffer, MovesItsBytes) {
  AlignedBuffer one(8);
  one.bytes()[7] = std::byte{5};
  const std::byte* const at = one.bytes().data();
  const AlignedBuffer other = std::move(one);
  EXPECT_EQ(other.bytes().data(), at);
  EXPECT_EQ(other.bytes()[7], std::byte{5});
}

}  // namespace
}  // namespace sluice
