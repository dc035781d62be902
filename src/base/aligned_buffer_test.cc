#include "base/aligned_buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// The sanitizers' allocators end the process instead of refusing, and may touch what they give.
#if defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

TEST(AlignedBuffer, IsAlignedZeroedAndOfTheSizeAskedFor) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                                 std::size_t{65}, std::size_t{100000}, std::size_t{200001}}) {
    const AlignedBuffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    ASSERT_NE(buffer.bytes().data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % kAlignment, 0u);
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

// More than the allocator ever keeps for itself, so that it asks the kernel.
TEST(AlignedBuffer, ALargeOneTakesMemoryWhereItIsTouched) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator";
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  AlignedBuffer buffer(kSize);
  void* inside = buffer.bytes().data();
  std::size_t room = kSize;
  ASSERT_NE(std::align(page, page, inside, room), nullptr);
  std::vector<unsigned char> resident(room / page);
  ASSERT_EQ(mincore(inside, resident.size() * page, resident.data()), 0);
  const auto touched =
      std::count_if(resident.begin(), resident.end(), [](auto one) { return (one & 1) != 0; });
  EXPECT_LT(static_cast<std::size_t>(touched), resident.size() / 100);
}

TEST(AlignedBuffer, SizesThatCannotBeAreRefused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator";
  for (const std::size_t size : {std::numeric_limits<std::size_t>::max(),
                                 std::numeric_limits<std::size_t>::max() - kAlignment,
                                 std::numeric_limits<std::size_t>::max() / 2}) {
    EXPECT_THROW(AlignedBuffer{size}, std::bad_alloc);
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
