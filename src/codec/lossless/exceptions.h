// Values that do not fit their block's integers: Inf, NaN, and what lies too far below the block's
// largest. They travel one by one and join the sums before the one rounding.
//
// First each worker says how many it has in each window of 64 coordinates. Then the windows that
// have any are gathered, as many in a leg as memory bounds. So a window's sums are complete when
// its lists are there, however many exceptions a chunk has.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/lossless/own.h"
#include "codec/lossless/values.h"
#include "round/round.h"

namespace sluice::lossless {

// A part of an exchange, with its lifetime and its thread; memory is the arena's. Never allocates.
// Rounds point into it and live until the next ask. Answers have passed check_answer() and lie in
// the rounds' `down`. What they say is untrusted, and Code::malformed is the only error. `own` and
// `values` are the same in all calls, with formats that are agreed on. First ask_windows() and
// take_windows(), then ask_lists() and take_lists() in turn.
class Exceptions {
 public:
  Exceptions(const Extent& extent, Arena& arena);

  // How many this worker has in each window.
  Round ask_windows(const Own& own, const Values& values, Workers only);
  // A worker that is `counted` finds its own among the agreed ones.
  Status take_windows(const Answer& answer, bool counted);

  // The lists of the next windows; none when all are there. No more than kLegRoundsMax.
  std::span<const Round> ask_lists(const Own& own, const Values& values, Workers only);
  // Joins them with the sums of the agreed coordinates, which are there and marked in `marks`. The
  // divisor is the number of contributors. Keeps the means; writes none.
  Status take_lists(std::span<const Answer> answers, const Values& values, bitmaps::Words marks,
                    std::uint32_t divisor);

  // Writes the means of the coordinates that have exceptions, when all lists are there; after
  // Values::decode(), which knows nothing of them.
  void overwrite(std::span<float> mean) const;

 private:
  [[nodiscard]] std::uint32_t windows() const;
  std::size_t write_list(const Own& own, const Values& values, std::uint32_t window,
                         std::span<std::byte> to) const;
  Status join(const Answer& answer, const Round& round, std::uint32_t window, const Values& values,
              bitmaps::Words marks, std::uint32_t divisor);

  Extent extent_;
  std::uint32_t lists_max_;  // of a leg
  std::span<std::byte> counts_up_;
  std::span<std::byte> counts_down_;
  std::span<std::uint32_t> before_;  // by window: this worker's values in front of it
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<std::uint32_t> asked_;  // windows of this leg
  std::span<Round> rounds_;
  std::span<std::uint64_t> touched_;
  std::span<float> means_;
  std::uint32_t next_ = 0;
  std::size_t used_ = 0;
};

}  // namespace sluice::lossless
