// The down forms of lane_sum: their writers and the one reader that codecs use for all of them.
//
// Nothing here allocates. The reduction is a lane_sum that has passed check() with this number of
// workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/sums/sums.h"
#include "round/round.h"

namespace sluice {

// Writes sums of lanes that start on a grain, in the reduction's down form. `contributors` is how
// many workers m were counted, and no sum exceeds m·value_max: the caller's promise. `down` does
// not overlap the sums and has room: down_size_max() of these lanes is enough. Returns the bytes
// written. Any thread, never fails.
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint8_t> sums, std::span<std::byte> down);
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint16_t> sums, std::span<std::byte> down);
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint32_t> sums, std::span<std::byte> down);

// Reads an answer grain by grain, whatever its form. The answer has passed check_answer(), but its
// bytes may still be anybody's. Its memory outlives the reader; the reduction need not. For one
// thread. After an error nobody asks it again.
class SumReader {
 public:
  struct Grain {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    Workers from;
  };

  SumReader(const Reduction& what, std::uint32_t workers, const Answer& answer);

  [[nodiscard]] bool done() const { return at_ == count_; }
  // Twice the sum of each lane of the next grain, into the first `count` of `twice`, which has room
  // for them (asserted): grain_of(what) is enough. Twice, because a rounded sum reads back as a
  // half. Not when done() (asserted). Code::malformed where bytes are missing or left over at the
  // end, a header is impossible, or m contributions cannot reach a sum.
  Result<Grain> next(std::span<std::int32_t> twice);
  // All grains that are left, one behind the other, for who need not know whose they are. Room and
  // errors as in next(); none left is no error.
  Status rest(std::span<std::int32_t> twice);

 private:
  enum class Form : std::uint8_t { full, narrow, rounded };

  void begin_part();
  Result<Grain> next(std::uint32_t count, std::span<std::int32_t> twice);
  // Null, or what is wrong.
  const char* read_full(std::span<std::int32_t> twice);
  const char* read_narrow(std::span<std::int32_t> twice);
  const char* read_rounded(std::span<std::int32_t> twice);

  std::span<const std::byte> rest_;
  std::span<const Part> parts_;
  std::uint32_t at_ = 0;
  std::uint32_t count_;
  std::uint32_t grain_;
  std::uint32_t value_max_;
  Form form_;
  sums::Reading full_;      // of exact sums; the limit is that of the part in hand
  std::uint8_t lane_bits_;  // of the rounded form
  sums::Reader read_;
  std::uint32_t part_end_ = 0;
};

}  // namespace sluice
