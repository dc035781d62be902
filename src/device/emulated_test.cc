#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "device/device_table.h"

namespace sluice::device {
namespace {

TEST(Emulated, IsOneDeviceOfTheVersionThatCallersKnow) {
  const Table& table = emulated();
  EXPECT_EQ(table.version, kTableVersion);
  EXPECT_STREQ(table.name, "emulated");
  int devices = 0;
  EXPECT_EQ(table.count(&devices), 0);
  EXPECT_EQ(devices, 1);
  EXPECT_EQ(table.open(0), 0);
  EXPECT_EQ(table.use(0), 0);
  EXPECT_NE(table.use(1), 0);
  EXPECT_STREQ(table.describe(table.use(1)), "no such device");
  EXPECT_STREQ(table.describe(0), "no error");
  EXPECT_STREQ(table.describe(99), "no such error");
}

TEST(Emulated, MemoryIsAlignedAsADevicesIs) {
  const Table& table = emulated();
  for (const std::size_t size : {1u, 100u, 4096u}) {
    void* memory = nullptr;
    ASSERT_EQ(table.allocate(&memory, size), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    std::memset(memory, 7, size);
    EXPECT_EQ(table.release(memory), 0);
    ASSERT_EQ(table.allocate_shared(&memory, size), 0);
    std::memset(memory, 7, size);
    EXPECT_EQ(table.release_shared(memory), 0);
  }
}

TEST(Emulated, CopiesAndEventsAreDoneAtOnce) {
  const Table& table = emulated();
  const std::array<int, 3> from{1, 2, 3};
  std::array<int, 3> to{};
  EXPECT_EQ(table.copy(to.data(), from.data(), sizeof from, nullptr), 0);
  EXPECT_EQ(to, from);
  EXPECT_EQ(table.copy(nullptr, nullptr, 0, nullptr), 0);
  Event event = nullptr;
  ASSERT_EQ(table.make_event(&event), 0);
  EXPECT_NE(event, nullptr);
  EXPECT_EQ(table.record(event, nullptr), 0);
  EXPECT_EQ(table.wait(nullptr, event), 0);
  int done = 0;
  EXPECT_EQ(table.query(event, &done), 0);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(table.synchronize(event), 0);
  EXPECT_EQ(table.free_event(event), 0);
}

TEST(Emulated, OneLaunchTakesTilesOfManyItems) {
  const std::array<std::byte, 4> from{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> to{};
  const std::array items{warp::Copy{from.data(), to.data() + 2, 2},
                         warp::Copy{from.data() + 2, to.data(), 2}};
  const std::array tiles{warp::Tile{0, 0}, warp::Tile{1, 0}};
  const Launch launch{Kernel::copy, 0, items.data(), tiles.data(), 2};
  EXPECT_EQ(emulated().launch(&launch, nullptr), 0);
  EXPECT_EQ(to, (std::array<std::byte, 4>{std::byte{3}, std::byte{4}, std::byte{1}, std::byte{2}}));
}

TEST(Emulated, AKernelThatThereIsNotIsAnError) {
  const Launch launch{static_cast<Kernel>(kKernels), 0, nullptr, nullptr, 0};
  EXPECT_STREQ(emulated().describe(emulated().launch(&launch, nullptr)), "no such kernel");
}

}  // namespace
}  // namespace sluice::device
