#include "codec/tide/tide_needs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "codec/tide/sending.h"
#include "device/bench.h"

namespace sluice::tide {
namespace {

const device::Accelerator kOn{&device::emulated(), 0};

// What a sending of these widths takes.
struct Taken {
  std::size_t up = 0;
  std::size_t down = 0;
  double down_share = 0;
};

class TideNeeds : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  [[nodiscard]] Extent extent(std::uint32_t count) const {
    return {{1, 1, count}, 0, count, 0, GetParam()};
  }
  Taken taken(const TideSettings& settings, std::uint32_t count, bool keeps,
              const std::vector<std::uint8_t>& widths) {
    device::Bench bench(kOn, nullptr);
    EXPECT_TRUE(bench.reserve(0) && bench.begin());
    Chunk chunk;
    float residual = 0;
    chunk.extent = extent(count);
    chunk.place = {&bench, false};
    chunk.there.residual = keeps ? &residual : nullptr;
    const TideLayout layout(count, settings.block);
    std::vector<std::byte> memory(2 * layout.blocks() + 4 * kAlignment);
    const auto first = round_up(reinterpret_cast<std::uintptr_t>(memory.data()), kAlignment);
    Arena arena({reinterpret_cast<std::byte*>(first), memory.size() - kAlignment}, {});
    Sending sending(arena, layout, GetParam(), chunk.place);
    std::copy(widths.begin(), widths.end(), sending.widths().begin());
    sending.plan(layout, settings, chunk, {});
    Taken all{sending.memory_up().size(), sending.memory_down().size()};
    for (const Round& round : sending.rounds()) {
      const auto down = static_cast<double>(round.down.size());
      const double both = static_cast<double>(round.up.size()) + down;
      if (both != 0) all.down_share = std::max(all.down_share, down / both);
    }
    return all;
  }
};

// Widths at random, in all mixtures, whose mean is what there is room for or a little less.
TEST_P(TideNeeds, HoldAnyWidthsOfAsManyBits) {
  std::mt19937 random(7);
  for (const bool keeps : {false, true}) {
    for (const double bits : {1.0, 2.0, 4.0, 6.0, 8.0}) {
      TideSettings settings;
      settings.bits = bits;
      for (const std::uint32_t count : {40u, 300u, 10'000u, 70'001u}) {
        const TideLayout layout(count, settings.block);
        auto left = static_cast<std::int64_t>(settings.room_bits() * layout.lanes());
        std::vector<std::uint8_t> widths(layout.blocks());
        const auto most = static_cast<std::uint8_t>(1 + random() % 8);
        for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
          const std::int64_t size = layout[b].size;
          const auto width = std::min<std::int64_t>(left / size, 1 + random() % most);
          widths[b] = static_cast<std::uint8_t>(width);
          left -= width * size;
        }
        const DeviceNeeds needs = device_needs(settings, extent(count), keeps);
        const Taken all = taken(settings, count, keeps, widths);
        EXPECT_LE(all.up, needs.up) << bits << " " << count;
        EXPECT_LE(all.down, needs.down) << bits << " " << count;
        // A header weighs more for a tail of 16 lanes, which matters where there is little else.
        const double tails = count < 1000 ? 0.05 : 1e-3;
        EXPECT_LE(all.down_share, needs.down_share + tails) << bits << " " << count;
        EXPECT_LE(all.up + all.down, needs.room);
      }
    }
  }
}

TEST_P(TideNeeds, AreWhatEightBitsTakeAndNotMore) {
  constexpr std::uint32_t kCount = 1u << 20;
  TideSettings settings;
  settings.bits = 8;
  for (const bool keeps : {false, true}) {
    const DeviceNeeds needs = device_needs(settings, extent(kCount), keeps);
    const Taken all = taken(settings, kCount, keeps, std::vector<std::uint8_t>(kCount / 256, 8));
    EXPECT_LE(needs.up, all.up + 200);
    EXPECT_LE(needs.down, all.down + 200);
    EXPECT_LE(needs.room, all.up + all.down + 1000);
    EXPECT_EQ(needs.host_lanes, kCount / 256);
  }
}

TEST_P(TideNeeds, OfTheStepBeforesScalesAreMoreBySomeBlocksThatAreSentAgain) {
  TideSettings now;
  TideSettings before = now;
  before.scales = Scales::previous;
  const DeviceNeeds one = device_needs(now, extent(1u << 20), true);
  const DeviceNeeds two = device_needs(before, extent(1u << 20), true);
  EXPECT_EQ(one.up, two.up);
  EXPECT_GT(two.room, one.room + one.room / 9);
  EXPECT_LT(two.room, one.room + one.room / 7);
  EXPECT_GT(two.table, one.table + 2 * 4096 * sizeof(warp::TideBlock));
}

TEST_P(TideNeeds, OfATinyTensorAreFloats) {
  const DeviceNeeds needs = device_needs({}, extent(kExactBelow - 1), true);
  EXPECT_EQ(needs.up, 4 * (kExactBelow - 1));
  EXPECT_EQ(needs.down, needs.up);
  EXPECT_GE(needs.room, 2 * needs.up);
}

INSTANTIATE_TEST_SUITE_P(Workers, TideNeeds, ::testing::Values(1u, 2u, 3u, 5u, 8u, 64u, 4096u));

}  // namespace
}  // namespace sluice::tide
