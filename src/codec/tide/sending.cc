#include "codec/tide/sending.h"

#include "base/bytes.h"
#include "device/bench.h"

namespace sluice::tide {
namespace {

// The most that lanes of `count` coordinates can need on the way down, whatever their widths.
std::size_t down_most(std::uint32_t lanes, std::uint32_t blocks, std::uint32_t workers) {
  const Reduction widest{.op = Op::lane_sum, .bits = dither::kWidthMax, .count = lanes};
  // A header of a narrow sum has at most 4 bytes more than the lanes save.
  return down_size_max(widest, workers) + std::size_t{8} * (blocks + Sending::kRounds);
}

}  // namespace

Sending::Sending(Arena& arena, const TideLayout& layout, std::uint32_t workers, const Place& place)
    : place_(place), widths_(arena.host<std::uint8_t>(layout.blocks())) {
  if (place.on_device()) return;
  const std::size_t exact = std::size_t{layout.lanes()} * 4;
  up_ = arena.place<std::byte>(exact);
  down_ =
      arena.place<std::byte>(std::max(down_most(layout.lanes(), layout.blocks(), workers), exact));
  twice_ = arena.host<std::int32_t>(layout.lanes());
}

void Sending::take(std::size_t up, std::size_t down) {
  if (!place_.on_device()) return;
  up_ = place_.bench->room(up, place_.is_shared);
  down_ = place_.bench->room(down, place_.is_shared);
}

void Sending::plan(const TideLayout& layout, const TideSettings& settings, const Chunk& chunk,
                   Workers only) {
  const std::uint32_t workers = chunk.extent.workers;
  const std::uint32_t grain = settings.block;
  const Down down = settings.down_for(chunk.has_feedback(), chunk.place.on_device());
  const std::uint8_t extra = down == Down::round ? settings.extra_for(workers) : std::uint8_t{0};
  std::array<std::uint32_t, 256> lanes{};  // by width
  for (std::uint32_t b = 0; b < layout.whole(); ++b) lanes[widths_[b]] += grain;
  for (std::uint32_t b = layout.whole(); b < layout.blocks(); ++b) {
    lanes[widths_[b]] += layout[b].size;
  }
  std::array<std::uint32_t, kRounds> counts{};
  for (std::uint8_t width = 1; width < kRounds; ++width) counts[index_of(width)] = lanes[width];
  counts[index_of(kExact)] = lanes[kExact];
  std::size_t up_at = 0;
  std::size_t down_at = 0;
  std::uint32_t lane = 0;
  // On a device every round starts where its kernels like it.
  const std::size_t pad = place_.on_device() ? 16 : 1;
  std::size_t up_total = 0;
  std::size_t down_total = 0;
  for (std::size_t i = 0; i < kRounds; ++i) {
    Reduction& what = rounds_[i].what;
    what = {.op = Op::lane_sum,
            .bits = static_cast<std::uint8_t>(i + 1),
            .down = down,
            .extra = extra,
            .count = counts[i],
            .grain = grain};
    if (i + 1 == kRounds) {
      what = {.op = Op::f32_sum, .bits = 32, .count = counts[i], .grain = grain};
    }
    up_total += round_up(up_size(what), pad);
    down_total += round_up(down_size_max(what, workers), pad);
  }
  take(up_total, down_total);
  for (std::size_t i = 0; i < kRounds; ++i) {
    const Reduction what = rounds_[i].what;
    up_of_[i] = up_.subspan(up_at, up_size(what));
    rounds_[i] = {what, up_of_[i], down_.subspan(down_at, down_size_max(what, workers)), only};
    // With the scales of the step before, answers may be looked at again a leg later. A device
    // reads only what lies where it reaches.
    rounds_[i].anywhere = settings.scales == Scales::now && !chunk.place.is_shared;
    first_[i] = lane;
    up_at += round_up(up_size(what), pad);
    down_at += round_up(down_size_max(what, workers), pad);
    if (i + 1 != kRounds) lane += counts[i];
  }
}

void Sending::clear() {
  for (const auto up : up_of_) std::fill(up.begin(), up.end(), std::byte{0});
}

Status Sending::read(std::span<const Answer> answers, std::uint32_t workers) {
  for (std::size_t i = 0; i + 1 < kRounds; ++i) {
    if (rounds_[i].what.count == 0) continue;
    SLUICE_TRY(SumReader(rounds_[i].what, workers, answers[i]).rest(twice_.subspan(first_[i])));
  }
  return ok();
}

}  // namespace sluice::tide
