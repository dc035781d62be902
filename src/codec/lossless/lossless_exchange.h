// One chunk's trip through the lossless codec.
//
//   sample    how many values there are, roughly                    14 bytes at most
//   index    where they are (several legs for an index in tiers), and the blocks' ranges
//   values   integers of the widths the ranges ask for, or float32; or a sketch of them
//   stuck    keys that a sketch did not give back
//   windows, lists   only where values did not fit
//
// Where the last step's range and number of keys are known, a sketch can go with the index: one
// leg in all. If they do not fit any more, or not the same workers were counted in all its rounds,
// the values travel again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/exchange.h"
#include "codec/lossless/exceptions.h"
#include "codec/lossless/index.h"
#include "codec/lossless/lossless_settings.h"
#include "codec/lossless/own.h"
#include "codec/lossless/sketched.h"
#include "codec/lossless/support_sample.h"
#include "codec/lossless/values.h"

namespace sluice::lossless {

// What a chunk remembers of the last step; agreed.
struct Remembered {
  std::uint32_t keys = 0;  // plus 1; 0: nothing is remembered
  fixedpoint::Range range;
};
inline constexpr std::size_t kRememberedSize = 8;  // in the state, per kBlockMin coordinates

class LosslessExchange final : public Exchange {
 public:
  // For Arena::make(): takes memory, touches none. Copies chunk and settings.
  LosslessExchange(const Chunk& chunk, Arena& arena, const LosslessSettings& settings);

  Result<Leg> next(std::span<const Answer> answers) override;

 private:
  enum class At : std::uint8_t {
    start,
    together,
    sample,
    index,
    ranges,
    values,
    sketch,
    stuck,
    windows,
    lists
  };

  Result<Leg> go_on(std::span<const Answer> answers);
  Result<Leg> begin();
  Result<Leg> ask_together();
  Result<Leg> after_together(std::span<const Answer> answers);
  Result<Leg> ask_sample();
  Result<Leg> after_sample(std::span<const Answer> answers);
  Result<Leg> ask_index(bool with_ranges);
  Result<Leg> after_index(std::span<const Answer> answers);
  Result<Leg> ask_ranges();
  Result<Leg> ask_values();
  Result<Leg> take_sketch();
  Result<Leg> after_values(std::span<const std::byte> misfits);
  Result<Leg> ask_lists();
  Result<Leg> finish();

  void tell();
  void remember();
  void count_in(Workers counted);
  [[nodiscard]] bool sketch_pays() const;
  [[nodiscard]] fixedpoint::Format assumed_format() const;
  [[nodiscard]] std::uint32_t assumed_rows() const;
  [[nodiscard]] bool sketch_fits(std::span<const Answer> answers) const;
  Round ask_misfits(std::size_t misfits, bool unfit, Workers only);
  [[nodiscard]] IndexPlan plan_index(const Prospect& prospect) const;
  Result<Leg> ask_these(At at, std::size_t rounds, Count bytes);
  void count(Count what, std::uint64_t by) { counts_[static_cast<std::size_t>(what)] += by; }

  Chunk chunk_;
  LosslessSettings settings_;
  Own own_;
  SupportSample sample_;
  Index index_;
  Values values_;
  Sketched sketched_;
  Exceptions exceptions_;
  std::span<std::uint64_t> words_;
  Remembered remembered_;
  std::array<std::byte, 8> misfits_up_{};  // how many, and whether a sketch cannot be used
  std::array<std::byte, 8> misfits_down_{};
  Workers only_ = {};
  std::uint32_t contributors_ = 1;
  bool counted_ = true;
  bool as_sketch_ = false;
  bool with_sketch_ = false;  // the first leg had one
  bool is_empty_ = false;
  bool has_exceptions_ = false;
  At at_ = At::start;
  std::span<const Round> asked_;
  std::array<Round, kWidths + 2> rounds_{};
  std::array<std::uint64_t, kCountNames.size()> counts_{};
};

}  // namespace sluice::lossless
