#include "codec/tide/sending.h"

namespace sluice::tide {
namespace {

// The most that lanes of `count` coordinates can need on the way down, whatever their widths.
std::size_t down_most(std::uint32_t lanes, std::uint32_t blocks, std::uint32_t workers) {
  const Reduction widest{.op = Op::lane_sum, .bits = dither::kWidthMax, .count = lanes};
  // A header of a narrow sum has at most 4 bytes more than the lanes save.
  return down_size_max(widest, workers) + std::size_t{8} * (blocks + Sending::kRounds);
}

}  // namespace

Sending::Sending(Arena& arena, const TideLayout& layout, std::uint32_t workers, bool exact)
    : widths_(arena.host<std::uint8_t>(layout.blocks())),
      up_(arena.place<std::byte>(std::size_t{layout.lanes()} * (exact ? 4 : 1))),
      down_(arena.place<std::byte>(
          std::max(down_most(layout.lanes(), layout.blocks(), workers),
                   exact ? std::size_t{layout.lanes()} * 4 : std::size_t{0}))),
      twice_(arena.host<std::int32_t>(layout.lanes())) {}

void Sending::plan(const TideLayout& layout, const TideSettings& settings, const Chunk& chunk,
                   Workers only) {
  const std::uint32_t workers = chunk.extent.workers;
  const std::uint32_t grain = settings.block;
  const Down down = settings.down_for(chunk.has_feedback());
  const std::uint8_t extra = down == Down::round ? settings.extra_for(workers) : std::uint8_t{0};
  std::array<std::uint32_t, kRounds> counts{};
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    if (widths_[b] != 0) counts[index_of(widths_[b])] += layout[b].size;
  }
  std::size_t up_at = 0;
  std::size_t down_at = 0;
  std::uint32_t lane = 0;
  for (std::size_t i = 0; i < kRounds; ++i) {
    Reduction what{.op = Op::lane_sum,
                   .bits = static_cast<std::uint8_t>(i + 1),
                   .down = down,
                   .extra = extra,
                   .count = counts[i],
                   .grain = grain};
    if (i + 1 == kRounds)
      what = {.op = Op::f32_sum, .bits = 32, .count = counts[i], .grain = grain};
    up_of_[i] = up_.subspan(up_at, up_size(what));
    rounds_[i] = {what, up_of_[i], down_.subspan(down_at, down_size_max(what, workers)), only};
    // With the scales of the step before, answers may be looked at again a step later.
    rounds_[i].anywhere = settings.scales == Scales::now;
    first_[i] = lane;
    up_at += up_size(what);
    down_at += down_size_max(what, workers);
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
