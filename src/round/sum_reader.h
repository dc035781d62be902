// The down forms of lane_sum: their writers and the one reader that codecs use for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/sums/sums.h"
#include "round/round.h"

namespace sluice {

// Writes the sums of `lanes` lanes, starting on a grain, in the reduction's down form; m is how
// many workers were counted. Returns the bytes written. Exact sums are at most m·value_max.
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint8_t> sums, std::span<std::byte> down);
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint16_t> sums, std::span<std::byte> down);
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint32_t> sums, std::span<std::byte> down);

// Reads an answer grain by grain, whatever its form. The answer has passed check_answer and lives
// as long as the reader.
class SumReader {
 public:
  struct Grain {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    Workers from;
  };

  SumReader(const Reduction& what, std::uint32_t workers, const Answer& answer);

  [[nodiscard]] bool done() const { return at_ == count_; }
  // Twice the sum of each lane of the next grain, into the first `count` of `twice`, which holds
  // at least grain_of(what). Twice, because a rounded sum reads back as a half. After the last
  // grain all bytes must be used up. A sum that m contributions cannot reach is malformed.
  Result<Grain> next(std::span<std::int32_t> twice);
  // All grains that are left, one behind the other, for who need not know whose they are.
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
