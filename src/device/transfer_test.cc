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

// A device that has streams, and knows what was done on which.
struct Streams {
  static inline char made = 0;  // the stream that is given out
  static inline int alive = 0;
  static inline int on_others = 0;
  static inline int refusal = 0;

  static int note(Stream stream) {
    on_others += stream == &made ? 0 : 1;
    return 0;
  }
  static Table table() {
    Table made_of = emulated();
    made_of.make_stream = [](Stream* stream) {
      if (refusal != 0) return refusal;
      *stream = &made;
      ++alive;
      return 0;
    };
    made_of.free_stream = [](Stream stream) {
      --alive;
      return note(stream);
    };
    made_of.copy = [](void* to, const void* from, std::size_t size, Stream stream) {
      note(stream);
      return emulated().copy(to, from, size, stream);
    };
    made_of.record = [](Event, Stream stream) { return note(stream); };
    return made_of;
  }
  Streams() { alive = on_others = refusal = 0; }
};

// The default stream waits for work of others, which may wait for a collective that never ends.
TEST(Transfer, RunsOnAStreamOfItsOwn) {
  const Streams fresh;
  const Table table = Streams::table();
  const Accelerator on{&table, 0};
  const auto bytes = numbered(100);
  const DeviceMemory there(on, bytes.size());
  const DeviceMemory copy(on, bytes.size());
  std::vector<std::byte> back(bytes.size());
  ASSERT_TRUE(to_device(on, bytes, there.as<std::byte>()));
  ASSERT_TRUE(on_device(on, there.as<std::byte>(), copy.as<std::byte>(), bytes.size()));
  ASSERT_TRUE(to_host(on, copy.as<std::byte>(), back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(Streams::on_others, 0);
  EXPECT_EQ(Streams::alive, 0);
}

TEST(Transfer, ADeviceWithoutAnotherStreamIsAnError) {
  const Streams fresh;
  Streams::refusal = 2;
  const Table table = Streams::table();
  const Accelerator on{&table, 0};
  std::byte one{};
  EXPECT_EQ(to_device(on, {&one, 1}, &one).error().detail, 2);
  EXPECT_EQ(Streams::alive, 0);
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
