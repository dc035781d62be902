#include "codec/tide/allotting.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice::tide {

// What all blocks add to is added up here: one place in memory, block after block, would be slow.
void count_blocks(const TideLayout& layout, std::uint32_t first, std::uint32_t last,
                  std::span<const Code12> codes, Counts counts) {
  std::uint64_t real = 0;
  for (std::uint32_t b = first; b < last; ++b) {
    const TideLayout::Block block = layout[b];
    if (is_scale(codes[b])) counts[place_in_counts(codes[b])] += block.size;
    real += block.count;
  }
  counts[kCodes] += real;
  counts[kCodes + 1] += last - first;
}

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
  if (known) return by_model(codes, widths);
  for (Share share = share_from(0); share.first < share.last; share = share_from(share.last)) {
    by_share(share, codes, widths);
  }
}

// The blocks of the share that begins with this one; none behind the last.
Allotting::Share Allotting::share_from(std::uint32_t first) const {
  const std::uint32_t blocks = layout_.blocks();
  if (first == blocks || chunk_.share == 0) return {first, blocks};
  const std::uint64_t end = std::uint64_t{layout_[first].first} + chunk_.share;
  if (end >= chunk_.extent.count) return {first, blocks};
  return {first, static_cast<std::uint32_t>(end / settings_.block)};
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
  const std::int32_t waterline = allotment.waterline;
  const std::uint32_t blocks = layout_.blocks();
  for (std::uint32_t b = 0; b < blocks; ++b) {
    // Where everybody has a turn in every step, or nobody, there is nothing to look up.
    const bool turn =
        turns > 1 ? has_turn(hash_at(layout_[b].first), chunk_.step, turns) : turns == 1;
    widths[b] = static_cast<std::uint8_t>(width_at(codes[b], waterline, turn));
    if (!raises_at(codes[b], waterline, turn)) continue;
    const std::uint64_t element = chunk_.extent.offset + layout_[b].first;
    if (draws.word(element / kBlockLeast) < share) ++widths[b];
  }
}

// The budget is this share's alone; what is left over goes to the first blocks it fits.
void Allotting::by_share(Share share, std::span<const Code12> codes,
                         std::span<std::uint8_t> widths) {
  std::fill(counts_.begin(), counts_.end(), std::uint64_t{0});
  std::fill(turn_counts_.begin(), turn_counts_.end(), std::uint64_t{0});
  count_blocks(layout_, share.first, share.last, codes, counts_);
  sum_from_above(counts_, counts_);
  const std::uint64_t most = budget(settings_.bits, counts_[kCodes], counts_[kCodes + 1]);
  const auto turns = widths;  // until they are widths
  mark_turns(share, codes, live_lanes(counts_), most, turns);
  for (std::uint32_t b = share.first; b < share.last; ++b) {
    if (turns[b] != 0) count_block(turn_counts_, codes[b], layout_[b].size, layout_[b].count);
  }
  sum_from_above(turn_counts_, turn_counts_);
  Allotment allotment = find_waterline(counts_, most, {turn_counts_});
  for (std::uint32_t b = share.first; b < share.last; ++b) {
    const bool turn = turns[b] != 0;
    widths[b] = static_cast<std::uint8_t>(width_at(codes[b], allotment.waterline, turn));
    if (!raises_at(codes[b], allotment.waterline, turn)) continue;
    if (layout_[b].size > allotment.left) continue;
    allotment.left -= layout_[b].size;
    ++widths[b];
  }
}

// All live blocks where the budget can pay for them, else one class of them after the other.
void Allotting::mark_turns(Share share, std::span<const Code12> codes, std::uint64_t live,
                           std::uint64_t most, std::span<std::uint8_t> turns) {
  std::fill(turns.begin() + share.first, turns.begin() + share.last, std::uint8_t{0});
  if (!settings_.floor || most == 0) return;
  if (live <= most) {
    mark_class(share, codes, live, 0, turns);
    return;
  }
  // A block beyond the budget by itself pays with steps in which it is nobody's turn.
  const std::uint64_t slots =
      std::max(mark_class(share, codes, most, 0, {}), divide_up(live, most));
  const std::uint64_t hash = hash_at(layout_[share.first].first);
  mark_class(share, codes, most, (hash + chunk_.step) % slots, turns);
}

// Live blocks in order, as many to a class as `most` lanes allow; a block beyond that is a class by
// itself. Two classes in a row have more than `most`, so there are at most ⌈2·live/most⌉. Marks
// those of class `number`, unless there is nothing to mark in, and says how many classes there are.
std::uint64_t Allotting::mark_class(Share share, std::span<const Code12> codes, std::uint64_t most,
                                    std::uint64_t number, std::span<std::uint8_t> turns) const {
  std::uint64_t current = 0;
  std::uint64_t lanes = 0;
  for (std::uint32_t b = share.first; b < share.last; ++b) {
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
