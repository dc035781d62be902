#include "device/slabs.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::device {
namespace {

const Accelerator kHost{&emulated(), 0};

TEST(Slabs, PiecesDoNotOverlapAndAreAligned) {
  Slabs<SharedMemory> slabs(kHost);
  bool grew = false;
  const auto first = slabs.take(3, grew);
  const auto second = slabs.take(5, grew);
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(second.size(), 5u);
  EXPECT_EQ(second.data() - first.data(), static_cast<std::ptrdiff_t>(kSlabAlignment));
  EXPECT_TRUE(grew);
}

TEST(Slabs, ASecondWaveOfTheSameSizeTakesNoMemory) {
  Slabs<DeviceMemory> slabs(kHost);
  bool grew = false;
  const std::byte* const first = slabs.take(10, grew).data();
  static_cast<void>(slabs.take(kSlabLeast, grew));
  slabs.reset();
  grew = false;
  EXPECT_EQ(slabs.take(10, grew).data(), first);
  static_cast<void>(slabs.take(kSlabLeast, grew));
  EXPECT_FALSE(grew);
}

TEST(Slabs, WhatDoesNotFitIsInASlabOfItsOwn) {
  Slabs<SharedMemory> slabs(kHost);
  bool grew = false;
  const auto small = slabs.take(1, grew);
  grew = false;
  const auto large = slabs.take(3 * kSlabLeast, grew);
  EXPECT_TRUE(grew);
  EXPECT_EQ(large.size(), 3 * kSlabLeast);
  std::memset(large.data(), 7, large.size());
  std::memset(small.data(), 8, small.size());
  EXPECT_EQ(large[0], std::byte{7});
}

TEST(Slabs, WhatWasReservedIsNotTakenLater) {
  Slabs<SharedMemory> slabs(kHost);
  bool grew = false;
  for (const std::size_t size : {2 * kSlabLeast, 9 * kSlabLeast, kSlabLeast}) {
    slabs.reserve(size);  // Less than there is: nothing.
    EXPECT_EQ(slabs.take(size, grew).size(), size);
    slabs.reset();
    EXPECT_FALSE(grew);
  }
  EXPECT_EQ(slabs.take(9 * kSlabLeast, grew).size(), 9 * kSlabLeast);
  EXPECT_FALSE(grew);
  slabs.take(1, grew);
  EXPECT_TRUE(grew);
}

}  // namespace
}  // namespace sluice::device
