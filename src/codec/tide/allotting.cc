#include "codec/tide/allotting.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice::tide {

Allotting::Allotting(const Chunk& chunk, const TideLayout& layout, const TideSettings& settings,
                     Arena& arena)
    : chunk_(chunk),
      layout_(layout),
      settings_(settings),
      counts_(arena.host<std::uint64_t>(kCountWords)),
      turn_counts_(arena.host<std::uint64_t>(kCountWords)) {}

// Names a place of the tensor, whatever the step and the seed: turns must come round.
std::uint64_t Allotting::hash_at(std::uint32_t first) const {
  constexpr std::uint64_t kTurns = 0x7475726e73;
  return mix(mix(kTurns, chunk_.extent.tensor.id), chunk_.extent.offset + first);
}

void Allotting::allot(std::span<const Code12> codes, std::span<std::uint8_t> widths) {
  const auto model = chunk_.model;
  const bool known = !model.empty() && load_le<std::uint64_t>(model, 8 * (kCodes + 1)) != 0;
  known ? by_model(codes, widths) : by_chunk(codes, widths);
}

// The waterline that would have met the budget on the whole model's last step.
void Allotting::by_model(std::span<const Code12> codes, std::span<std::uint8_t> widths) const {
  std::array<std::uint64_t, kCountWords> summed;
  for (std::size_t i = 0; i < kCountWords; ++i) {
    summed[i] = load_le<std::uint64_t>(chunk_.model, 8 * i);
  }
  const std::uint64_t most = budget(settings_.bits, summed[kCodes], summed[kCodes + 1]);
  const std::uint64_t live = live_lanes(summed);
  const std::uint64_t turns = settings_.floor ? turns_for(live, most) : 0;
  const Floor floor = turns == 0 ? Floor{} : Floor{summed, turns};
  const Allotment allotment =
      find_waterline(summed, most_beside_turns(live, most, turns, settings_.block), floor);
  const std::uint64_t share = raised_share(allotment, settings_.block);
  const RandomStream draws(chunk_.key, Purpose::selection, kShared);
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const bool turn = has_turn(hash_at(layout_[b].first), chunk_.step, turns);
    widths[b] = static_cast<std::uint8_t>(width_at(codes[b], allotment.waterline, turn));
    if (width_at(codes[b], allotment.waterline - 1, turn) == widths[b]) continue;
    const std::uint64_t element = chunk_.extent.offset + layout_[b].first;
    if (draws.word(element / kBlockLeast) < share) ++widths[b];
  }
}

// The budget is this chunk's alone; what is left over goes to the first blocks it fits.
void Allotting::by_chunk(std::span<const Code12> codes, std::span<std::uint8_t> widths) {
  std::fill(counts_.begin(), counts_.end(), std::uint64_t{0});
  std::fill(turn_counts_.begin(), turn_counts_.end(), std::uint64_t{0});
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    count_block(counts_, codes[b], layout_[b].size, layout_[b].count);
  }
  sum_from_above(counts_, counts_);
  const std::uint64_t most = budget(settings_.bits, counts_[kCodes], counts_[kCodes + 1]);
  const auto turns = widths;  // until they are widths
  mark_turns(codes, live_lanes(counts_), most, turns);
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    if (turns[b] != 0) count_block(turn_counts_, codes[b], layout_[b].size, layout_[b].count);
  }
  sum_from_above(turn_counts_, turn_counts_);
  Allotment allotment = find_waterline(counts_, most, {turn_counts_});
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    const bool turn = turns[b] != 0;
    widths[b] = static_cast<std::uint8_t>(width_at(codes[b], allotment.waterline, turn));
    if (width_at(codes[b], allotment.waterline - 1, turn) == widths[b]) continue;
    if (layout_[b].size > allotment.left) continue;
    allotment.left -= layout_[b].size;
    ++widths[b];
  }
}

// All live blocks where the budget can pay for them, else one class of them after the other.
void Allotting::mark_turns(std::span<const Code12> codes, std::uint64_t live, std::uint64_t most,
                           std::span<std::uint8_t> turns) {
  std::fill(turns.begin(), turns.end(), std::uint8_t{0});
  if (!settings_.floor || most == 0) return;
  if (live <= most) {
    mark_class(codes, live, 0, turns);
    return;
  }
  // A block beyond the budget by itself pays with steps in which it is nobody's turn.
  const std::uint64_t slots = std::max(mark_class(codes, most, 0, {}), divide_up(live, most));
  mark_class(codes, most, (hash_at(0) + chunk_.step) % slots, turns);
}

// Live blocks in order, as many to a class as `most` lanes allow; a block beyond that is a class by
// itself. Two classes in a row have more than `most`, so there are at most ⌈2·live/most⌉. Marks
// those of class `number`, unless there is nothing to mark in, and says how many classes there are.
std::uint64_t Allotting::mark_class(std::span<const Code12> codes, std::uint64_t most,
                                    std::uint64_t number, std::span<std::uint8_t> turns) const {
  std::uint64_t current = 0;
  std::uint64_t lanes = 0;
  for (std::uint32_t b = 0; b < layout_.blocks(); ++b) {
    if (!is_scale(codes[b])) continue;
    if (lanes != 0 && lanes + layout_[b].size > most) {
      ++current;
      lanes = 0;
    }
    lanes += layout_[b].size;
    if (!turns.empty() && current == number) turns[b] = 1;
  }
  return current + 1;
}

}  // namespace sluice::tide
