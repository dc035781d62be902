// The first leg of an exchange: a few bytes from which everybody makes the same choice of how to go
// on.
//
// Up to 64 coordinates at hashed places, one bit each, estimate the union of all supports whatever
// their pattern. Beside them travel the largest number of values and of rows that any worker has,
// as size codes, and the sum of all numbers of values. At most 14 bytes: where the chunk turns out
// dense, that is all that was spent.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "codec/chunk.h"
#include "codec/lossless/cost.h"
#include "codec/lossless/own.h"
#include "round/round.h"

namespace sluice::lossless {

// What everybody knows after it.
struct Prospect {
  Outlook outlook;
  bool is_empty = false;         // nobody has anything
  bool is_sparse = false;        // an index is sure to pay, or as good as sure
  std::uint32_t values_max = 0;  // no worker has more
  bool whole_rows = false;       // the largest worker's rows are all but full
};

// A part of an exchange, with its lifetime and its thread. Never allocates or fails. Its rounds
// point into the object itself, which therefore stays put until they are answered. The chunk has
// coordinates.
class SupportSample {
 public:
  static constexpr std::size_t kRounds = 3;

  SupportSample(const Extent& extent, std::uint64_t key) : extent_(extent), key_(key) {}

  std::array<Round, kRounds> ask(const Own& own, Workers only);
  // The answers have passed check_answer(); any bytes are safe. The second and third count only
  // where the same workers were counted in them as in the first.
  [[nodiscard]] Prospect take(std::span<const Answer> answers) const;

 private:
  [[nodiscard]] std::uint32_t samples() const;
  [[nodiscard]] std::uint32_t sample_at(std::uint32_t sample) const;

  Extent extent_;
  std::uint64_t key_;
  std::array<std::byte, 8> samples_up_{};
  std::array<std::byte, 8> samples_down_{};
  std::array<std::byte, 2> codes_up_{};  // of values, of rows
  std::array<std::byte, 2> codes_down_{};
  std::array<std::byte, 4> total_up_{};
  std::array<std::byte, 4> total_down_{};
};

// Whether a tensor has rows that an index can name one by one.
bool has_rows(const Extent& extent);

}  // namespace sluice::lossless
