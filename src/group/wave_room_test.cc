#include "group/wave_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "catalog/codecs.h"
#include "device/bench.h"
#include "group/flight.h"

namespace sluice {
namespace {

const device::Accelerator kOn{&device::emulated(), 0};

class WaveRoomTest : public ::testing::Test {
 protected:
  WaveRoomTest() : bench_(kOn, nullptr) {
    GroupOptions options;
    options.workers = 3;
    options.accelerator = &kOn;
    memory_ = std::move(*Memory::make(options));
  }
  void add(std::string_view spec, std::vector<std::uint64_t> counts) {
    NamedCodec named = std::move(*make_codec(spec));
    const auto choice =
        memory_->offer(named.spec, std::shared_ptr<const Codec>(std::move(named.codec)));
    std::vector<Tensor> tensors;
    for (const std::uint64_t count : counts) tensors.push_back({++id_, 1, count});
    ASSERT_TRUE(choice && memory_->add(tensors, *choice));
  }
  [[nodiscard]] WaveRoom room(std::uint64_t coordinates) const {
    return wave_room(*memory_, coordinates, place_);
  }

  device::Bench bench_;
  Place place_{&bench_, false};
  std::unique_ptr<Memory> memory_;
  std::uint64_t id_ = 0;
};

struct Piece {
  std::size_t tensor;
  std::uint64_t at;
  std::uint32_t count;
};

TEST_F(WaveRoomTest, NoChoiceOfChunksNeedsMore) {
  add("tide:bits=4", {5, 300, 70'000, 3u << 20, (1u << 20) + 77, 12});
  add("f32", {1, 64, 4096, 2'000'000});
  add("tide:bits=8,scales=previous,block=64", {900, 1u << 20, 400'000});
  std::vector<Piece> all;
  for (std::size_t i = 0; i < memory_->tensors().size(); ++i) {
    const std::uint64_t count = memory_->tensors()[i].count();
    const std::uint64_t whole = memory_->chunk_count(i);
    for (std::uint64_t at = 0; at < count; at += whole) {
      all.push_back({i, at, static_cast<std::uint32_t>(std::min(whole, count - at))});
    }
  }
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t coordinates = 1 + random() % (5u << 20);
    const WaveRoom room = this->room(coordinates);
    std::shuffle(all.begin(), all.end(), random);
    WaveRoom wave;
    std::uint64_t held = 0;
    for (const Piece& piece : all) {
      if (held != 0 && held + piece.count > coordinates) continue;
      held += piece.count;
      const Codec& codec = memory_->codec(memory_->choice(piece.tensor));
      const Extent extent{memory_->tensors()[piece.tensor], piece.at, piece.count, 0, 3};
      FlightSize size;
      size.cover(codec, extent, memory_->kind(piece.tensor), place_);
      const DeviceNeeds needs = codec.device_needs(extent, false);
      wave.host += round_up(size.host, kAlignment);
      wave.place += round_up(size.place, kAlignment);
      wave.bench += needs.room;
      wave.table += needs.table;
      wave.up += needs.up;
      wave.down += needs.down;
      wave.host_lanes += needs.host_lanes;
    }
    EXPECT_LE(wave.host, room.host) << coordinates;
    EXPECT_LE(wave.place, room.place) << coordinates;
    EXPECT_LE(wave.bench, room.bench) << coordinates;
    EXPECT_LE(wave.table, room.table) << coordinates;
    EXPECT_LE(wave.up, room.up) << coordinates;
    EXPECT_LE(wave.down, room.down) << coordinates;
    EXPECT_LE(wave.host_lanes, room.host_lanes) << coordinates;
  }
}

TEST_F(WaveRoomTest, OfAModelThatIsSmallerThanAWaveIsThatOfAllOfIt) {
  add("f32", {1000, 2000});
  const WaveRoom room = this->room(1u << 23);
  EXPECT_EQ(room.up, 12'000u);
  EXPECT_EQ(room.down, 12'000u);
  EXPECT_GE(room.place, 24'000u);
  EXPECT_LE(room.place, 24'000u + 4 * kAlignment);
  EXPECT_EQ(room.bench, 0u);
}

TEST_F(WaveRoomTest, OfAWaveThatIsSmallerThanAChunkIsThatOfTheChunk) {
  add("bf16", {1u << 20, 500});
  EXPECT_EQ(room(1).up, 2u << 20);
  EXPECT_EQ(room(1u << 20).up, 2u << 20);
}

TEST_F(WaveRoomTest, HasTheLargestShareOfAnyCodec) {
  EXPECT_EQ(room(100).down_share, 0.5);
  add("f32", {1000});
  EXPECT_EQ(room(100).down_share, 0.5);
  add("tide:bits=4", {1000});
  EXPECT_GT(room(100).down_share, 0.6);
}

}  // namespace
}  // namespace sluice
