// What a port over a device takes ahead of time: counted where it is taken, by the device's table
// and by the collectives.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sluice/device.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "abi/guest_test.h"
#include "abi/port_handle.h"
#include "round/reduction.h"

namespace sluice::abi {
namespace {

using Buffer = Collectives::Buffer;

// The emulated device; it counts the bytes that are taken and not given back.
struct Spy {
  static inline std::map<void*, std::size_t> taken;
  static inline device::Table table = [] {
    device::Table made = device::emulated();
    made.allocate = made.allocate_shared = [](void** memory, std::size_t size) {
      const int error = device::emulated().allocate(memory, size);
      if (error == 0) taken[*memory] = size;
      return error;
    };
    made.release = made.release_shared = [](void* memory) {
      taken.erase(memory);
      return device::emulated().release(memory);
    };
    return made;
  }();
  static std::size_t bytes() {
    std::size_t sum = 0;
    for (const auto& [memory, size] : taken) sum += size;
    return sum;
  }
};

// Buffers of collectives: their sizes alone.
struct Sizes {
  FusedRoom of{};

  sluice_collectives calls() {
    return {sizeof(sluice_collectives), this, &reserve, nullptr, nullptr, nullptr};
  }
  static void* reserve(void* context, std::uint32_t buffer, std::uint64_t bytes) {
    static std::int32_t nobody_looks = 0;
    std::size_t& one = static_cast<Sizes*>(context)->of[buffer];
    one = std::max<std::size_t>(one, bytes);
    return &nobody_looks;
  }
  [[nodiscard]] std::size_t at(Buffer buffer) const { return of[static_cast<std::size_t>(buffer)]; }
  // As sluice.torch takes them: what may share memory does, and beside NCCL what is the host's is
  // there twice.
  [[nodiscard]] std::size_t bytes(bool carries) const {
    const std::size_t arriving = std::max(at(Buffer::received), at(Buffer::gathered));
    const std::size_t host = at(Buffer::send) + arriving + at(Buffer::answer);
    if (!carries) return host;
    return 2 * host + std::max(at(Buffer::device_send), at(Buffer::device_answer)) +
           std::max(at(Buffer::device_received), at(Buffer::device_gathered));
  }
};

constexpr std::uint64_t kWave = 1u << 23;
constexpr std::uint64_t kCount = kWave + kWave / 2;
constexpr double kWaveBytes = kWave;  // of a byte a coordinate

std::shared_ptr<WorkerHandle> worker_of(std::uint32_t workers, const char* feedback,
                                        std::uint64_t count = kCount) {
  auto made = std::make_shared<WorkerHandle>();
  made->device = std::make_shared<const device::Accelerator>(device::Accelerator{&Spy::table, 0});
  GroupOptions options;
  options.workers = workers;
  options.feedback = feedback;
  options.accelerator = made->device.get();
  made->memory = std::move(*Memory::make(options));
  const Tensor tensor{1, count / 1024, 1024};
  EXPECT_TRUE(made->memory->add({&tensor, 1}, Memory::kExact, Memory::Keeps::all));
  return made;
}

void choose(WorkerHandle& worker, std::string_view spec) {
  NamedCodec named = std::move(*make_codec(spec));
  const auto choice =
      worker.memory->offer(named.spec, std::shared_ptr<const Codec>(std::move(named.codec)));
  const std::uint32_t tensor = 0;
  ASSERT_TRUE(choice && worker.memory->choose({&tensor, 1}, *choice));
}

// Of a wave, in bytes of a coordinate.
struct Wire {
  double up = 0;
  double down = 0;
};

// As if all blocks had so many bits; scales are among them.
Wire wire_of(unsigned bits, std::uint32_t workers, bool keeps) {
  Reduction what{.op = Op::lane_sum, .bits = static_cast<std::uint8_t>(bits), .grain = 256};
  what.count = 1u << 20;
  if (!keeps) {
    const auto half = static_cast<std::uint8_t>((std::bit_width(workers) - 1) / 2);
    what.down = Down::round;
    what.extra = std::max<std::uint8_t>(1, half);
  }
  const double lanes = what.count;
  return {static_cast<double>(up_size(what)) / lanes,
          static_cast<double>(down_size_max(what, workers)) / lanes};
}

// By bits: what there is room for.
constexpr std::array<double, 9> kRoomBits{0, 2, 3.25, 4.5, 5.75, 6.75, 7.75, 8, 8};

// A port's memory, in bytes of a coordinate: each part by itself, so that none can grow unseen
// under the bound of all.
struct Wanted {
  Wanted(unsigned bits, std::uint32_t workers, bool keeps) : workers(workers) {
    const Wire widest = wire_of(8, workers, keeps);
    const Wire narrowest = wire_of(1, workers, keeps);
    up = kRoomBits[bits] / 8;
    both = 2 * up + widest.down - widest.up;
    share = narrowest.down / (narrowest.up + narrowest.down);
  }
  void expect_buffers(const Sizes& sizes, bool carries) const {
    const auto first = static_cast<unsigned>(carries ? Buffer::device_send : Buffer::send);
    // Scales are on the host. They go beside the codes where these are there, too.
    const double scales = carries ? 0 : 8.0 / 256;
    const auto expect = [&](unsigned buffer, double bytes, std::uint32_t ranks) {
      const auto size = static_cast<double>(sizes.of[buffer]);
      EXPECT_GE(size, bytes * kWaveBytes) << buffer;
      const double most = 1.01 * bytes + scales * ranks / workers;
      EXPECT_LE(size, most * kWaveBytes + 4096 * ranks) << buffer;
    };
    expect(first, up, workers);
    expect(first + 1, both / 2, workers);
    expect(first + 2, share * both / workers, 1);
    expect(first + 3, share * both, workers);
    if (!carries || workers < 4) return;
    const double lanes = kWaveBytes / 256;
    EXPECT_GE(sizes.at(Buffer::send), 4 * lanes);
    EXPECT_LE(sizes.at(Buffer::send), 4 * lanes + 4096);
  }
  // Codes and sums, tables on both sides, and what the host looks at.
  void expect_taken(double bytes, bool has_before) const {
    const double rooms = has_before ? both * 9 / 8 : both;
    EXPECT_GE(bytes, rooms);
    EXPECT_LE(bytes, 1.01 * rooms + (has_before ? 0.29 : 0.14));
  }

  std::uint32_t workers;
  double up = 0;
  double both = 0;
  double share = 0;
};

class Room : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void expect(const std::shared_ptr<WorkerHandle>& worker, unsigned bits, bool has_before,
              bool carries) {
    const bool keeps = worker->memory->kind(0).kind != nullptr;
    choose(*worker, fmt::format("tide:bits={},scales={}", bits, has_before ? "previous" : "now"));
    Sizes sizes;
    const std::size_t before = Spy::bytes();
    PortEnd end(worker, sizes.calls(), nullptr, carries, kWave, std::chrono::seconds(1));
    ASSERT_TRUE(end.reserve());
    const double taken = static_cast<double>(Spy::bytes() - before) / kWaveBytes;
    const double all = taken + static_cast<double>(sizes.bytes(carries)) / kWaveBytes;
    const Wire wire = wire_of(bits, GetParam(), keeps);
    const double bound = 3 * (wire.up + wire.down) + 1;
    const auto where = fmt::format(
        "{} workers, bits={}, before {}, feedback {}, carries {}: {:.2f}"
        " bytes of {:.2f}",
        GetParam(), bits, has_before, keeps, carries, all, bound);
    SCOPED_TRACE(where);
    if (GetParam() == 4 && keeps && !has_before) GTEST_LOG_(INFO) << where;  // for docs/gpu.md
    EXPECT_LE(all, bound);
    const Wanted wanted(bits, GetParam(), keeps);
    wanted.expect_buffers(sizes, carries);
    wanted.expect_taken(taken, has_before);
  }
};

TEST_P(Room, IsWithinThreeTimesTheWireBytesAndAByte) {
  for (const char* feedback : {"none", "ef"}) {
    const auto worker = worker_of(GetParam(), feedback);
    for (unsigned bits = 1; bits <= 8; ++bits) {
      for (const bool has_before : {false, true}) {
        expect(worker, bits, has_before, false);
        expect(worker, bits, has_before, true);
      }
    }
  }
}

// Full waves of as many bits as there are; of one worker, whose collectives are copies.
class FullWave : public ::testing::Test {
 protected:
  FullWave() : values_(kChunk), means_(kChunk), guest_(copies_, 1) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : values_) value = normal(random);
  }
  // Steps of a port that is reserved for waves of so many coordinates; gives what it says.
  sluice_device_counts run(std::string_view spec, bool carries, std::uint64_t wave) {
    const auto worker = worker_of(1, "ef", kChunk);
    choose(*worker, spec);
    PortEnd end(worker, guest_.calls(), nullptr, carries, wave, std::chrono::seconds(60));
    EXPECT_TRUE(end.reserve());
    const std::size_t before = Spy::bytes();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const BucketEntry entry{0, values_, means_};
      const Verdict done = end.run({.step = step, .on_device = true}, {&entry, 1});
      EXPECT_TRUE(done.has_value()) << done.error().message;
      worker->memory->end_step();
    }
    grown_bytes_ = Spy::bytes() - before;
    return end.device_counts();
  }

  static constexpr std::size_t kChunk = 1u << 20;
  std::vector<float> values_;
  std::vector<float> means_;
  Copies copies_;
  Guest guest_;
  std::size_t grown_bytes_ = 0;
};

TEST_F(FullWave, TakesNoMemoryThatWasNotReserved) {
  for (const bool carries : {false, true}) {
    for (const char* spec : {"tide:bits=8,block=64", "tide:bits=8,scales=previous", "f32"}) {
      const sluice_device_counts counts = run(spec, carries, kChunk);
      EXPECT_EQ(counts.waves, 3u);
      EXPECT_EQ(counts.grown, 0u) << spec << carries;
      EXPECT_EQ(grown_bytes_, 0u) << spec << carries;
    }
  }
}

TEST_F(FullWave, WithMoreThanWasReservedIsCounted) {
  // A bucket by itself is one wave, however large; here of many chunks.
  const auto worker = worker_of(1, "none", 4 * kChunk);
  for (const char* spec : {"tide:bits=8", "f32"}) {
    choose(*worker, spec);
    PortEnd end(worker, guest_.calls(), nullptr, true, 1, std::chrono::seconds(60));
    ASSERT_TRUE(end.reserve());
    std::vector<float> floats(4 * kChunk);
    const BucketEntry entry{0, floats, floats};
    ASSERT_TRUE(end.run({.on_device = true}, {&entry, 1}));
    EXPECT_GT(end.device_counts().grown, 0u) << spec;
  }
}

TEST_F(FullWave, OfACodecThatCameLaterTakesNoneOnceItIsReservedAgain) {
  const auto worker = worker_of(1, "none", kChunk);
  choose(*worker, "tide:bits=1");
  PortEnd end(worker, guest_.calls(), nullptr, true, kChunk, std::chrono::seconds(60));
  ASSERT_TRUE(end.reserve());
  const BucketEntry entry{0, values_, means_};
  std::uint64_t step = 0;
  for (const char* spec : {"tide:bits=1", "tide:bits=8", "tide:bits=8,block=64", "f32"}) {
    choose(*worker, spec);
    ASSERT_TRUE(end.reserve());
    const std::size_t before = Spy::bytes();
    ASSERT_TRUE(end.run({.step = step++, .on_device = true}, {&entry, 1}));
    EXPECT_EQ(Spy::bytes(), before) << spec;
    EXPECT_EQ(end.device_counts().grown, 0u) << spec;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Room, ::testing::Values(2u, 3u, 4u, 5u, 8u, 16u, 64u));

}  // namespace
}  // namespace sluice::abi
