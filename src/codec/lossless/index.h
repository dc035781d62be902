// The index of a chunk: which coordinates any worker has, agreed by *or* or by lists.
//
//   all      every coordinate: nothing to ask
//   bitmap   a bit per coordinate
//   tiers    a bit per granule of 4^k coordinates, then per quarter of those that have any, …
//   rows     a bit per row of the tensor, then nothing (whole rows) or a bit per coordinate of them
//   bloom    a filter with false positives, which decode to zero
//   gather   everybody's positions, Elias–Fano coded; also as the last stage of tiers
//
// One leg per tier. All choices follow from agreed numbers.
//
// A part of an exchange, with its lifetime and its thread; memory is the arena's. Never allocates.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/lossless/cost.h"
#include "kernels/bitmaps/bitmaps.h"
#include "round/round.h"

namespace sluice::lossless {

// Agreed: the same on all workers.
struct IndexPlan {
  IndexKind kind = IndexKind::bitmap;  // not automatic
  std::uint32_t granule = 1;           // tiers: to begin with
  bool lists_allowed = false;          // tiers: may end in a gather
  bool whole_rows = false;             // rows: nothing is asked after them …
  std::uint32_t whole_rows_max = ~0u;  // … unless there are more
  BloomShape bloom = {};               // bloom
  std::uint32_t each_max = 0;          // gather: no worker has more values
  std::uint32_t leg_bytes = 0;
};

class Index {
 public:
  // With `lists` there is memory for everybody's positions, however many they are. Without, a
  // gather is used only where it fits into what a bitmap needs.
  Index(const Extent& extent, std::uint64_t key, Arena& arena, bool lists);

  // `own` are this worker's marks, with words for the chunk, all zero where it is not counted; they
  // stay put until is_complete().
  void begin(const IndexPlan& plan, const Outlook& outlook, bitmaps::Words own);
  // Every coordinate is in the index: complete at once.
  void begin_with_all();

  // The round of the next tier; not when is_complete() (asserted). Points into this, until the next
  // call.
  Round ask(Workers only);
  // Its answer, which has passed check_answer() and lies in the round's `down`. Untrusted: bad
  // lists, and an answer without my own marks though I am `counted`, are Code::malformed.
  Status take(const Answer& answer, bool counted = true);
  [[nodiscard]] bool is_complete() const { return complete_; }

  // A superset of everybody's marks, once is_complete(). A view of the arena's memory.
  [[nodiscard]] bitmaps::Words marks() const { return known_.first(words_); }

 private:
  void ask_granules();
  void ask_rows();
  void ask_bloom();
  Round ask_lists(Workers only);
  Status take_bits(bool counted);
  Status take_lists(const Answer& answer);
  void after_tier();
  [[nodiscard]] bool lists_pay() const;
  void fold_own(std::uint32_t granule, std::span<std::uint64_t> into);
  void widen_known(std::uint32_t from, std::uint32_t to, std::span<std::uint64_t> into);
  [[nodiscard]] std::uint32_t granules(std::uint32_t granule) const;
  [[nodiscard]] std::uint32_t phase() const;
  [[nodiscard]] std::size_t list_size_max(std::uint32_t places) const;

  Extent extent_;
  std::uint64_t key_;
  std::size_t words_;
  std::span<std::uint64_t> known_;  // of the granules that are agreed on
  std::span<std::uint64_t> mask_;   // the bits that are asked for, of the tier's
  std::span<std::uint64_t> up_;
  std::span<std::uint64_t> down_;
  std::span<std::uint64_t> scratch_;
  IndexPlan plan_;
  Outlook outlook_;
  bitmaps::Words own_;
  std::uint32_t granule_ = 0;  // of known_; 0: nothing is known yet
  std::uint32_t asked_granule_ = 1;
  std::uint32_t asked_bits_ = 0;
  bool as_lists_ = false;
  bool complete_ = false;
};

}  // namespace sluice::lossless
