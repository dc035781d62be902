#include "carrier/fused_room.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "carrier/fusion.h"
#include "device/bench.h"
#include "round/reduction.h"

namespace sluice {
namespace {

using Buffer = Collectives::Buffer;

const device::Accelerator kOn{&device::emulated(), 0};

std::size_t at(const FusedRoom& room, Buffer buffer) {
  return room[static_cast<std::size_t>(buffer)];
}

// A leg of sums of codes in chunks, with what it has in bytes.
struct Leg {
  std::vector<Round> rounds;
  LegBytes bytes;
};

Leg leg_of(std::uint32_t seed, std::uint32_t workers, std::size_t chunks) {
  static std::vector<std::byte> memory(1u << 20);  // nobody looks at it
  std::mt19937 random(seed);
  Leg leg;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::uint8_t width = 1; width <= 8; ++width) {
      const std::uint32_t grains = random() % 5 == 0 ? random() % 60 : random() % 3;
      if (grains == 0) continue;
      const Reduction what{.op = Op::lane_sum, .bits = width, .count = 256 * grains, .grain = 256};
      const std::size_t up = up_size(what);
      const std::size_t down = down_size_max(what, workers);
      leg.rounds.push_back({what, {memory.data(), up}, {memory.data(), down}});
      leg.bytes.up += up + 16;
      leg.bytes.down += down + 16;
      const double share = static_cast<double>(down) / static_cast<double>(up + down);
      leg.bytes.down_share = std::max(leg.bytes.down_share, share);
    }
  }
  return leg;
}

// Of any rank, whatever it looks after.
TEST(FusedRoom, HoldsAnyCutOfALegOnADevice) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const Leg leg = leg_of(seed, workers, 1 + seed % 7);
      if (leg.rounds.empty()) continue;
      const FusedRoom room = fused_room(leg.bytes, workers, true);
      for (std::uint32_t rank = 0; rank < workers; ++rank) {
        device::Bench bench(kOn, nullptr);
        Fusion fusion(rank, workers);
        fusion.use_device(bench);
        std::uint64_t sequence = 0;
        for (std::size_t first = 0; first < leg.rounds.size(); first += 8) {
          const auto some = std::span(leg.rounds).subspan(first);
          ASSERT_TRUE(fusion.post({.sequence = sequence++}, {&bench, false},
                                  some.first(std::min<std::size_t>(8, some.size()))));
        }
        ASSERT_TRUE(fusion.seal());
        const auto sum = [](std::span<const std::uint64_t> sizes) {
          return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
        };
        const auto sizes = fusion.answer_sizes();
        const std::uint64_t answer = *std::max_element(sizes.begin(), sizes.end());
        EXPECT_LE(sum(fusion.send_sizes()), at(room, Buffer::device_send));
        EXPECT_LE(sum(fusion.receive_sizes()), at(room, Buffer::device_received));
        EXPECT_LE(answer, at(room, Buffer::device_answer)) << workers << " " << seed;
        EXPECT_LE(answer * workers, at(room, Buffer::device_gathered)) << workers << " " << seed;
      }
    }
  }
}

TEST(FusedRoom, OfTheHostHoldsAnAllReduceOfLanes) {
  const FusedRoom room =
      fused_room({.up = 1u << 20, .down = 1u << 21, .host_lanes = 1u << 19}, 4, true);
  EXPECT_GE(at(room, Buffer::send), (4u << 19) + 60);
  EXPECT_LE(at(room, Buffer::send), (4u << 19) + 1000);
  // What is small goes to everybody whole.
  EXPECT_GE(at(room, Buffer::received), 4 * 64 + 4 * ((64u << 10) / 3));
  EXPECT_LE(at(room, Buffer::received), 4 * 64 + 4 * ((64u << 10) / 3) + 1000);
}

TEST(FusedRoom, WithoutADeviceToCarryAllIsTheHosts) {
  const LegBytes legs{.up = 1u << 20, .down = 1u << 21, .down_share = 0.75, .host_lanes = 100};
  const FusedRoom room = fused_room(legs, 4, false);
  const FusedRoom carried = fused_room(legs, 4, true);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(room[i], carried[4 + i]);
    EXPECT_LE(room[i], carried[4 + i] + 1000);
    EXPECT_EQ(room[4 + i], 0u);
  }
}

}  // namespace
}  // namespace sluice
