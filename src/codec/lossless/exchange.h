// One chunk's trip through the lossless codec.
//
//   probe    how many values there are, roughly                    14 bytes at most
//   index    where they are (several steps for an index in levels), and the blocks' ranges
//   values   integers of the widths the ranges ask for, or float32; or a sketch of them
//   stuck    keys that a sketch did not give back
//   windows, lists   only where values did not fit
//
// Where the last step's range and number of keys are known, a sketch can go with the index: one
// step in all. If they do not fit any more, or not the same workers were counted in all its rounds,
// the values travel again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/exchange.h"
#include "codec/lossless/exceptions.h"
#include "codec/lossless/index.h"
#include "codec/lossless/own.h"
#include "codec/lossless/probe.h"
#include "codec/lossless/settings.h"
#include "codec/lossless/sketched.h"
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
  LosslessExchange(const Chunk& chunk, Arena& arena, const Settings& settings);

  Result<Step> next(std::span<const Answer> answers) override;

 private:
  enum class At : std::uint8_t {
    start,
    together,
    probe,
    index,
    ranges,
    values,
    sketch,
    stuck,
    windows,
    lists
  };

  Result<Step> go_on(std::span<const Answer> answers);
  Result<Step> begin();
  Result<Step> ask_together();
  Result<Step> after_together(std::span<const Answer> answers);
  Result<Step> ask_probe();
  Result<Step> after_probe(std::span<const Answer> answers);
  Result<Step> ask_index(bool with_ranges);
  Result<Step> after_index(std::span<const Answer> answers);
  Result<Step> ask_ranges();
  Result<Step> ask_values();
  Result<Step> take_sketch();
  Result<Step> after_values(std::span<const std::byte> misfits);
  Result<Step> ask_lists();
  Result<Step> finish();

  void tell();
  void remember();
  void count_in(Workers counted);
  [[nodiscard]] bool sketch_pays() const;
  [[nodiscard]] fixedpoint::Format assumed_format() const;
  [[nodiscard]] std::uint32_t assumed_rows() const;
  [[nodiscard]] bool sketch_fits(std::span<const Answer> answers) const;
  Round ask_misfits(std::size_t misfits, bool unfit, Workers only);
  [[nodiscard]] IndexPlan plan_index(const Prospect& prospect) const;
  Result<Step> ask_these(At at, std::size_t rounds, Count bytes);
  void count(Count what, std::uint64_t by) { counts_[static_cast<std::size_t>(what)] += by; }

  Chunk chunk_;
  Settings settings_;
  Own own_;
  Probe probe_;
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
  bool with_sketch_ = false;  // the first step had one
  bool is_empty_ = false;
  bool has_exceptions_ = false;
  At at_ = At::start;
  std::span<const Round> asked_;
  std::array<Round, kWidths + 2> rounds_{};
  std::array<std::uint64_t, kCountNames.size()> counts_{};
};

}  // namespace sluice::lossless
