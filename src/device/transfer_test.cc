#include "device/transfer.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::device {
namespace {

const Accelerator kHost{&emulated(), 0};

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 % 251);
  return bytes;
}

TEST(Transfer, BytesGoThereAndBackInWhateverNumber) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, (std::size_t{8} << 20) + 5}) {
    const auto bytes = numbered(size);
    const DeviceMemory there(kHost, size);
    const DeviceMemory copy(kHost, size);
    std::vector<std::byte> back(size);
    ASSERT_TRUE(to_device(kHost, bytes, there.as<std::byte>()));
    ASSERT_TRUE(on_device(kHost, there.as<std::byte>(), copy.as<std::byte>(), size));
    ASSERT_TRUE(to_host(kHost, copy.as<std::byte>(), back));
    EXPECT_EQ(back, bytes) << size;
  }
}

TEST(Transfer, ACopyThatTheDeviceRefusesIsAnError) {
  Table table = emulated();
  table.copy = [](void*, const void*, std::size_t, Stream) { return 719; };
  const Accelerator refuses{&table, 0};
  std::byte one{};
  const Status copied = to_device(refuses, {&one, 1}, &one);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().detail, 719);
}

TEST(DeviceMemory, ThatIsRefusedIsBadAlloc) {
  Table table = emulated();
  table.allocate = [](void**, std::size_t) { return 2; };
  const Accelerator refuses{&table, 0};
  EXPECT_THROW(DeviceMemory(refuses, 8), std::bad_alloc);
  EXPECT_NO_THROW(DeviceMemory(refuses, 0));
}

TEST(DeviceMemory, MovesAndIsGivenBackOnce) {
  static int given_back = 0;
  Table table = emulated();
  table.release = [](void* memory) {
    ++given_back;
    return emulated().release(memory);
  };
  const Accelerator on{&table, 0};
  {
    DeviceMemory first(on, 16);
    std::byte* const bytes = first.as<std::byte>();
    DeviceMemory second(std::move(first));
    EXPECT_EQ(second.as<std::byte>(), bytes);
    DeviceMemory third;
    third = std::move(second);
    EXPECT_EQ(third.bytes().size(), 16u);
  }
  EXPECT_EQ(given_back, 1);
}

}  // namespace
}  // namespace sluice::device
