#include "carrier/fused_room.h"

#include <algorithm>
#include <cmath>

#include "carrier/fused_bytes.h"

namespace sluice {
namespace {

using Buffer = Collectives::Buffer;

constexpr std::size_t kWholeMax = std::size_t{64} << 10;  // FusedPort's
// A border of shards is moved to a unit: of up to 1024 lanes, up and down; with pads and a header.
constexpr std::size_t kUnit = 4096;
constexpr std::size_t kOwnLanes = 16;  // and one more, of an all-reduce

// One leg's buffers, be they the host's or a device's.
struct Sizes {
  std::size_t send = 0;
  std::size_t received = 0;
  std::size_t answer = 0;
  std::size_t gathered = 0;
};

std::size_t part_of(double share, std::size_t bytes) {
  return static_cast<std::size_t>(std::ceil(share * static_cast<double>(bytes)));
}

// Shards have as many bytes each, up and down together. A sum is no smaller than a code, so what
// comes in is half of them at most; of what goes out it is down_share.
Sizes cut(std::size_t up, std::size_t down, double down_share, std::uint32_t workers) {
  const std::size_t units = workers * kUnit;
  const std::size_t gathered = part_of(down_share, up + down) + units;
  return {.send = up + units,
          .received = part_of(0.5, up + down) + units,
          .answer = gathered / workers,
          .gathered = gathered};
}

// A leg that goes to everybody whole.
Sizes whole(std::size_t up, double down_share, std::uint32_t workers) {
  const std::size_t most = std::min(up, kWholeMax / std::max(1u, workers - 1));
  const std::size_t sent = workers * (fused::kHeader + most);
  return {.send = sent,
          .received = sent,
          .answer = fused::kAnswerHeader + part_of(down_share / (1 - down_share), most),
          .gathered = 0};
}

}  // namespace

FusedRoom fused_room(const LegBytes& legs, std::uint32_t workers, bool carries) {
  FusedRoom room{};
  const auto cover = [&room](Buffer first, const Sizes& sizes) {
    const std::array all{sizes.send, sizes.received, sizes.answer, sizes.gathered};
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t& one = room[static_cast<std::size_t>(first) + i];
      one = std::max(one, all[i]);
    }
  };
  const std::size_t lanes = sizeof(std::int32_t) * legs.host_lanes;
  const std::size_t up = lanes + (carries ? 0 : legs.up);
  cover(Buffer::send, {.send = lanes + sizeof(std::int32_t) * kOwnLanes});
  cover(Buffer::send, whole(up, legs.down_share, workers));
  if (carries) {
    cover(Buffer::device_send, cut(legs.up, legs.down, legs.down_share, workers));
  } else {
    cover(Buffer::send, cut(up, lanes + legs.down, legs.down_share, workers));
  }
  return room;
}

}  // namespace sluice
